"""Keys of JSON documents that several verbs have in common: added now and then, never renamed."""

from __future__ import annotations

VERSION_SHAPE = (
    "version", "time", "operation", "inserted", "updated", "deleted", "fragments_added", "fragments_removed", "once",
    "message", "op", "shards",
)  # fmt: skip
WRITE_SHAPE = ("uri", "changed", *VERSION_SHAPE)
COLUMNS_SHAPE = ("uri", "version", "key", "columns")
