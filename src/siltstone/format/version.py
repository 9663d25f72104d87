"""The body of a table's entry: what a version changes, as JSON, or as JSON and columns.

What must hold:
- Fragments that come as columns mean what the same ones in ``add``, with their vectors in ``mask``, would: whoever
  wants to see the change as one record gets that (``spelled_out``).
- They are part of the entry, and are checked as strictly as its records are: there is no version without them.
- An entry that has them says so in ``requires``: a reader that knows nothing of columns refuses it, and shows no
  smaller table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import CorruptionError
from siltstone.format.arrow import UNREADABLE, read_batch, write_batch
from siltstone.format.packed import has_more, pack_json, pack_with, unpack_with
from siltstone.format.records import COLUMNS, decode_json, too_large
from siltstone.format.rollup import (
    FRAGMENT_COLUMNS,
    HIGH,
    LOW,
    NULLS,
    check_columns,
    check_values,
    from_columns,
)
from siltstone.format.table import Body, decode_body, decode_change, json_of_body

if TYPE_CHECKING:
    from siltstone.format.table import Change, Repeated

COLUMNS_FROM = 64  # fewer fragments are named in JSON, which later entries of the block may repeat
ROWS_MAX = 2**31 - 1
_STATISTIC = re.compile(rf"({LOW}|{HIGH}|{NULLS})\.([1-9][0-9]{{0,9}})")
_KINDS = {
    LOW: (pa.int64(), pa.float64(), pa.string()),
    HIGH: (pa.int64(), pa.float64(), pa.string()),
    NULLS: (pa.int64(),),
}


class Held(NamedTuple):
    """What a body holds."""

    body: Body
    columns: pa.Table | None


def encode_version(
    change: bytes, *, prev: str = "", before: tuple[Repeated, ...] = (), columns: pa.Table | None = None
) -> bytes:
    """The body of an entry. What it repeats has no columns."""
    plain = json_of_body(change, prev=prev, before=before)
    return pack_json(plain) if columns is None else pack_with(plain, *write_batch(columns))


def requires(columns: pa.Table | None) -> tuple[str, ...]:
    """What an entry with such a body needs of a reader."""
    return () if columns is None else (COLUMNS,)


def decode_version(data: bytes, *, name: str) -> Held:
    """What a body holds; the changes inside are decoded by whoever needs them."""
    if not has_more(data):
        return Held(decode_body(data, name=name), None)
    plain, more = unpack_with(data, name=name)
    return Held(decode_json(plain, Body, name), _read_columns(more, name=name))


def whole_change(data: bytes, *, name: str) -> Change:
    """All that a body says of its own version, as one record."""
    held = decode_version(data, name=name)
    return spelled_out(decode_change(held.body.change, name=name), held.columns)


def spelled_out(change: Change, columns: pa.Table | None) -> Change:
    """A change that names all fragments that it brings."""
    if columns is None:
        return change
    lives = from_columns(columns)
    vectors = {live.fragment.name: live.vector for live in lives if live.vector is not None}
    vectors = {name: vector for name, vector in vectors.items() if name not in change.unmask}
    return msgspec.structs.replace(
        change, add=(*change.add, *(live.fragment for live in lives)), mask=vectors | change.mask
    )


def as_held(change: Change, columns: pa.Table | None) -> tuple[Change, pa.Table | None]:
    """A change as it stands in an entry: a few fragments need no columns, and so no reader that knows of them."""
    if columns is None or columns.num_rows >= COLUMNS_FROM:
        return change, columns
    return spelled_out(change, columns), None


def _read_columns(data: pa.Buffer, *, name: str) -> pa.Table:
    if data.address % 8:
        data = pa.py_buffer(data.to_pybytes())
    try:
        table = pa.Table.from_batches([read_batch(data)])
        names = table.column_names  # which Arrow decodes only now
    except UNREADABLE as error:
        raise CorruptionError(f"the columns of {name} can't be read: {error}", object=name) from error
    except MemoryError as error:
        raise too_large(name) from error
    if len(set(names)) != len(names):
        raise CorruptionError(f"{name} has a column twice", object=name)
    check_columns(table, FRAGMENT_COLUMNS, name=name)
    check_values(table, name=name)
    if pc.count_distinct(table.column("name")).as_py() != table.num_rows:
        raise CorruptionError(f"{name} names a fragment twice", object=name)
    rows = table.column("rows")
    least_most = pc.min_max(rows).as_py()
    if rows and not 1 <= least_most["min"] <= least_most["max"] <= ROWS_MAX:
        raise CorruptionError(f"{name} has fragments of so many rows: {least_most}", object=name)
    known = [one for one in names if one in FRAGMENT_COLUMNS.names or _is_statistic(table, one, name)]
    return table.select(known)


def _is_statistic(table: pa.Table, column: str, name: str) -> bool:
    """Whether a column has statistics; others are passed over, as fields are that nobody knows."""
    found = _STATISTIC.fullmatch(column)
    if found is None or int(found[2]) > ROWS_MAX:
        return False
    values = table.column(column)
    if values.type not in _KINDS[found[1]]:
        raise CorruptionError(f"{name} has statistics of type {values.type}", object=name)
    if found[1] == NULLS and not pc.all(pc.greater_equal(values, 0), min_count=0).as_py():
        raise CorruptionError(f"{name} has statistics that can't be", object=name)
    return True
