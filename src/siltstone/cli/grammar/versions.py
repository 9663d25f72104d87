"""``log``, ``tag``, ``restore`` and ``compact`` as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.grammar.shapes import (
    VERSION_SHAPE,
    WRITE_SHAPE,
)
from siltstone.cli.options import add_group, add_table, add_verb, whole_number

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

LIMIT_DEFAULT = 20
_UNTAGGED = ("uri", "tag", *VERSION_SHAPE)
_TAGGED = (*_UNTAGGED, "tagged")
COMPACTED = (
    "uri", "version", "versions", "rows", "fragments_before", "fragments_after", "bytes_before", "bytes_after",
    "indexes",
)  # fmt: skip
_LOG = """\
Newest first: when each version was made, by which operation, what it did to rows, the shards that it merged, made or
let go, the indexes that it made, optimized or dropped, its tags, the id that it was made once with, and its message.

Examples:
  siltstone log reviews
  siltstone log s3://bucket/reviews@v1 --limit 100 --json
"""
_TAG = """\
A tag is a name for a version: TABLE@tag reads it. Without a verb a tag is created.

Examples:
  siltstone tag reviews v1
  siltstone tag list reviews
  siltstone tag delete reviews v1
"""
_TAG_CREATE = """\
A tag that is there moves.

Examples:
  siltstone tag create reviews v1
  siltstone tag create reviews before-import --version 3
"""
_TAG_LIST = """\
Example:
  siltstone tag list reviews --json
"""
_TAG_DELETE = """\
The version stays.

Example:
  siltstone tag delete reviews v1
"""
_RESTORE = """\
Makes a new version with the rows and columns of an earlier one, named by its number, a tag or a checkpoint. What came
between stays in the history. A checkpoint that has rows in shards alone is more than a version: clone it.

Examples:
  siltstone restore reviews@3
  siltstone restore s3://bucket/reviews@v1
"""
_COMPACT = """\
Rewrites small and half-deleted fragments into fewer ones, clustered by key. Rows stay as they are, and writers go on
meanwhile; what they delete is carried over. Says how many rows text indexes have not taken in by then.

Example:
  siltstone compact s3://bucket/reviews
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on versions."""
    parser = add_verb(
        verbs,
        "log",
        "versions.run_log",
        says="List the versions of a table.",
        teaches=_LOG,
        shape=("uri", "version", "versions"),
    )
    add_table(parser, reads=True)
    parser.add_argument("--limit", type=whole_number, default=LIMIT_DEFAULT, metavar="N", help="default: %(default)s")
    _add_tags(verbs)

    parser = add_verb(
        verbs,
        "restore",
        "versions.run_restore",
        says="Bring an earlier version back.",
        teaches=_RESTORE,
        shape=WRITE_SHAPE,
    )
    add_table(parser, reads=True)

    parser = add_verb(
        verbs,
        "compact",
        "versions.run_compact",
        says="Rewrite a table into fewer files.",
        teaches=_COMPACT,
        shape=COMPACTED,
    )
    add_table(parser)


def _add_tags(verbs: Verbs) -> None:
    group = add_group(
        verbs,
        "tag",
        says="Name versions of a table.",
        teaches=_TAG,
        inside=("create", "list", "delete"),
        default="create",
    )
    parser = add_verb(
        group, "create", "versions.run_tag", says="Give a version a name.", teaches=_TAG_CREATE, shape=_TAGGED
    )
    add_table(parser)
    parser.add_argument("name", metavar="NAME", help="letters, digits and _ . - and not digits alone")
    parser.add_argument("--version", type=whole_number, metavar="N", help="default: the newest")
    parser = add_verb(
        group,
        "list",
        "versions.run_tag_list",
        says="List the tags of a table.",
        teaches=_TAG_LIST,
        shape=("uri", "version", "tags"),
    )
    add_table(parser, reads=True)
    parser = add_verb(
        group, "delete", "versions.run_tag_delete", says="Remove a tag.", teaches=_TAG_DELETE, shape=_UNTAGGED
    )
    add_table(parser)
    parser.add_argument("name", metavar="NAME", help="the tag")
