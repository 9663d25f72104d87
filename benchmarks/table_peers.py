"""The peers, and siltstone beside them, behind the few calls that the table benchmarks compare.

What must hold: each is called the way its own users are told to, in whichever of its ways was the fastest here.
Lance and Delta never sync a file, so siltstone is compared with ``sync=False`` and shown with syncing, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import deltalake
import lance
from table_rows import SCHEMA

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

SILTSTONE = "siltstone"
LANCE = "lance"
DELTA = "delta"


class Place(NamedTuple):
    """Where a table is, in whose format, and how it is opened."""

    kind: str
    uri: str
    key: str | None = None
    sync: bool = False
    storage_options: Mapping[str, str] | None = None


def create(place: Place) -> None:
    """Make an empty table."""
    if place.kind == SILTSTONE:
        options: dict[str, Any] = {} if place.storage_options is None else {"guard": "receipt"}
        with ss.create(place.uri, schema=SCHEMA, key=place.key, **_opening(place), **options):
            pass
    elif place.kind == LANCE:
        lance.write_dataset(SCHEMA.empty_table(), place.uri, storage_options=place.storage_options)
    else:
        deltalake.write_deltalake(place.uri, SCHEMA.empty_table())


def open_table(place: Place) -> Any:
    """A handle of a table of siltstone's."""
    return ss.open(place.uri, **_opening(place))


def _opening(place: Place) -> dict[str, Any]:
    if place.storage_options is not None:
        return {"storage_options": place.storage_options}
    return {"sync": place.sync}


def appender(place: Place) -> Callable[[pa.Table], object]:
    """What appends rows to a table and keeps what a handle keeps between two appends."""
    if place.kind == SILTSTONE:
        return open_table(place).append  # type: ignore[no-any-return]
    if place.kind == LANCE:
        return lambda rows: lance.write_dataset(rows, place.uri, mode="append", storage_options=place.storage_options)
    table = deltalake.DeltaTable(place.uri)
    return lambda rows: deltalake.write_deltalake(table, rows, mode="append")


def count_rows(place: Place) -> int:
    """How many rows a fresh reader finds."""
    if place.kind == SILTSTONE:
        with open_table(place) as table:
            return table.scan().count()  # type: ignore[no-any-return]
    if place.kind == LANCE:
        return lance.dataset(place.uri, storage_options=place.storage_options).count_rows()  # type: ignore[no-any-return]
    return deltalake.DeltaTable(place.uri).count()


def lance_upsert(dataset: Any, rows: pa.Table) -> None:
    """Replace rows by key, insert the others."""
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
