"""The peers, and siltstone beside them, behind the few calls that the table benchmarks compare.

What must hold: each is called the way its own users are told to, in whichever of its ways was the fastest here.
Lance and Delta never sync a file, so siltstone is compared with ``sync=False`` and shown with syncing, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import deltalake
import lance
from table_rows import SCHEMA

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from siltstone.log.open import Guard
    from siltstone.store.meter import MeteredStore

SILTSTONE = "siltstone"
LANCE = "lance"
DELTA = "delta"


class Place(NamedTuple):
    """Where a table is, in whose format, and how it is opened."""

    kind: str
    uri: str
    key: str | None = None
    sync: bool = False
    storage_options: dict[str, str] | None = None


def create(place: Place) -> None:
    """Make an empty table."""
    if place.kind == SILTSTONE:
        guard: Guard = "auto" if place.storage_options is None else "receipt"
        ss.create(store_of(place), schema=SCHEMA, key=place.key, guard=guard).close()
    elif place.kind == LANCE:
        lance.write_dataset(SCHEMA.empty_table(), place.uri, storage_options=place.storage_options)
    else:
        deltalake.write_deltalake(place.uri, SCHEMA.empty_table())


def store_of(place: Place) -> MeteredStore:
    """The store of a table of siltstone's, which counts the requests that a handle on it makes."""
    return ss.open_store(place.uri, place.storage_options, sync=place.sync)


def open_table(place: Place) -> Any:
    """A handle of a table of siltstone's."""
    return ss.open(store_of(place))


class Appender:
    """What appends rows to a table, keeps what a handle keeps between two appends, and counts siltstone's requests."""

    def __init__(self, place: Place) -> None:
        self._store: MeteredStore | None = None
        self.append: Callable[[pa.Table], object]
        if place.kind == SILTSTONE:
            self._store = store_of(place)
            self.append = ss.open(self._store).append
        elif place.kind == LANCE:
            self.append = partial(
                lance.write_dataset, uri=place.uri, mode="append", storage_options=place.storage_options
            )
        else:
            self.append = partial(deltalake.write_deltalake, deltalake.DeltaTable(place.uri), mode="append")

    def requests(self) -> int:
        """How many were made so far."""
        return self._store.usage().total if self._store is not None else 0


def count_rows(place: Place) -> int:
    """How many rows a fresh reader finds."""
    if place.kind == SILTSTONE:
        with open_table(place) as table:
            return table.scan().count()  # type: ignore[no-any-return]
    if place.kind == LANCE:
        return lance.dataset(place.uri, storage_options=place.storage_options).count_rows()
    return deltalake.DeltaTable(place.uri).count()


def lance_upsert(dataset: Any, rows: pa.Table) -> None:
    """Replace rows by key, insert the others."""
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
