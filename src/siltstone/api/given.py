"""Stores that are given beside a table's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.shard.wal_store import is_alike, open_wal
from siltstone.store.base import Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from siltstone.shard.wal_store import OtherWal


def given_wal(
    wal: str | Path | Store | None,
    wal_options: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
    store: Store,
    *,
    sync: bool,
) -> OtherWal | None:
    """The WAL store that was given, if one was."""
    if wal is None:
        if wal_options is not None:
            raise InvalidInputError("wal_options= is given without wal=", hint="name the store with wal=")
        return None
    if wal_options is None and not isinstance(wal, Store) and is_alike(wal, store):
        wal_options = storage_options
    other = open_wal(wal, wal_options, sync=sync)
    if other.store.location == store.location:
        raise InvalidInputError(
            f"the WAL store {other.uri} is the table's own place", hint="leave wal= out, or name another place"
        )
    return other
