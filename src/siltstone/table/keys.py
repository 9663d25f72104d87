"""Keys of rows, compared a column at a time.

What must hold:
- Two keys of a table are equal exactly where their values in ``key_array`` are; a composite key's order there
  says nothing.
- A key with a null in any part is null.
- No call looks at rows one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SHOWN_MOST = 5
_TEXT_MOST = 60
_OFFSETS_MAX = 2**31 - 1


def key_array(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """One array of the keys: the column itself, or for a composite key the bytes of all its parts.

    A part of any length is written behind its length, so that ("a", "bc") and ("ab", "c") differ.
    """
    columns = [_combined(table.column(name)) for name in names]
    if len(columns) == 1:
        return columns[0]
    parts: list[pa.Array] = []
    for column in columns:
        if _has_any_length(column.type):
            lengths = pc.binary_length(column)
            parts.append(_as_bytes(lengths.cast(pa.int64())))
            parts.append(column.cast(pa.large_binary()))
        else:
            parts.append(_as_bytes(column))
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def sort_order(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64] | None:
    """The order that sorts rows by their key; None where they are sorted already."""
    columns = [_combined(table.column(name)) for name in names]
    if _ascends(columns):
        return None
    if len(columns) == 1 and (plain := as_integers(columns[0])) is not None:
        return np.argsort(plain).astype(np.int64, copy=False)  # several times as fast as Arrow's
    keys = pa.table(dict(zip(map(str, range(len(columns))), columns, strict=True)))
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return _numbers(order)


def check_batch_keys(keys: pa.Array, *, columns: Sequence[str]) -> None:
    """Check that every row has a key.

    Raises:
        InvalidInputError: one has none; the message names its row.
    """
    if not keys.null_count:
        return
    row = pc.index(keys.is_null(), value=True).as_py()
    more = f", as have {keys.null_count - 1} more rows" if keys.null_count > 1 else ""
    raise InvalidInputError(
        f"row {row} has null in its key ({', '.join(map(shown, columns))}){more}",
        hint="fill the key in, or leave such rows out",
        row=row,
    )


def duplicates(keys: pa.Array) -> NDArray[np.int64]:
    """The rows whose key occurs in an earlier row too."""
    if _all_differ(keys):
        return np.empty(0, np.int64)
    codes = _codes(keys)
    # Codes are given in the order of first occurrence, so a first one is above all before it.
    before = np.maximum.accumulate(codes[:-1])
    return np.flatnonzero(codes[1:] <= before).astype(np.int64, copy=False) + 1


def last_of_each(keys: pa.Array) -> NDArray[np.int64]:
    """The rows, ascending, that hold the last one of each key."""
    rows = np.arange(len(keys), dtype=np.int64)
    if _all_differ(keys):
        return rows
    codes = _codes(keys)
    last = np.empty(int(codes.max()) + 1, np.int64)
    last[codes] = rows  # of several, the last one stays
    last.sort()
    return last


def match(keys: pa.Array, against: pa.Array) -> NDArray[np.int64]:
    """For each of ``against``, the place in ``keys`` of the equal one, or -1. ``keys`` has each key once."""
    if against.type != keys.type:
        against = against.cast(keys.type)
    if not len(keys) or not len(against):
        return np.full(len(against), -1, np.int64)
    plain, wanted = as_integers(keys), as_integers(against)
    if plain is not None and wanted is not None and _ascends([keys]):
        return _search(plain, wanted)
    if len(against) >= len(keys):
        return _or_minus_one(pc.index_in(against, value_set=keys, skip_nulls=True))
    # A table of the fewer ones fits into a cache; looking up the many in it is cheap.
    encoded = against.dictionary_encode()
    place = pc.index_in(keys, value_set=encoded.dictionary, skip_nulls=True)
    found = np.full(len(encoded.dictionary) + 1, -1, np.int64)  # the last one is for nulls
    found[place.drop_null().to_numpy()] = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    return found[_or_minus_one(encoded.indices)]


def show_keys(keys: pa.Array | pa.Table, numbers: Sequence[int] | NDArray[np.int64], most: int = SHOWN_MOST) -> str:
    """The keys of some rows for a message, escaped and cut; a table shows composite keys as people know them."""
    rows = pa.array([int(number) for number in numbers[:most]], pa.int64())
    columns = keys.columns if isinstance(keys, pa.Table) else [keys]
    parts = [_readable(column.take(rows)) for column in columns]
    values = list(zip(*parts, strict=True)) if len(parts) > 1 else parts[0]
    texts = [text if len(text) <= _TEXT_MOST else text[:_TEXT_MOST] + "..." for text in map(ascii, values)]
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return ", ".join(texts) + more


def _readable(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as Python shows them; it knows no nanoseconds, so times are texts."""
    if not kinds.is_temporal(values.type):
        return list(values.to_pylist())
    try:
        return list(values.cast(pa.string()).to_pylist())
    except pa.ArrowException:  # this machine does not know the time zone
        return list(values.cast(pa.int64()).to_pylist())


def as_integers(values: pa.Array) -> NDArray[Any] | None:
    """The numbers behind integers, dates and times without nulls, as they are stored; None for others."""
    kind = values.type
    if values.null_count or not (kinds.is_integer(kind) or kinds.is_temporal(kind)):
        return None
    if kinds.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    plain: NDArray[Any] = values.to_numpy()
    return plain


def _combined(column: pa.ChunkedArray) -> pa.Array:
    kind = column.type
    if _has_any_length(kind) and column.nbytes > _OFFSETS_MAX:
        column = column.cast(pa.large_string() if kinds.is_string(kind) else pa.large_binary())
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _has_any_length(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_large_string(kind) or kinds.is_large_binary(kind)
    )


def _as_bytes(values: pa.Array) -> pa.Array:
    """The stored bytes of values of a fixed width."""
    return values.view(pa.binary(values.type.bit_width // 8)).cast(pa.large_binary())


def _ascends(columns: Sequence[pa.Array]) -> bool:
    """Whether rows are in the order of these columns; equal neighbours are."""
    rows = len(columns[0])
    if rows < 2:
        return True
    later = columns[-1]
    good = pc.less_equal(later[:-1], later[1:])
    for column in reversed(columns[:-1]):
        before, after = column[:-1], column[1:]
        good = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), good))
    return bool(pc.all(good, skip_nulls=False).as_py())


def _all_differ(keys: pa.Array) -> bool:
    """Whether no key occurs twice, where that is cheap to see; False where it is not."""
    if len(keys) < 2 or pc.all(pc.less(keys[:-1], keys[1:]), skip_nulls=False).as_py():
        return True
    plain = as_integers(keys)
    if plain is None:
        return False
    ordered = np.sort(plain)
    return bool((ordered[1:] != ordered[:-1]).all())


def _codes(keys: pa.Array) -> NDArray[np.int32]:
    codes: NDArray[np.int32] = keys.dictionary_encode(null_encoding="encode").indices.to_numpy()
    return codes


def _search(ordered: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    order = np.argsort(wanted)  # neighbours look at the same part of memory
    asked = wanted[order]
    place = np.searchsorted(ordered, asked)
    place[place == len(ordered)] = 0
    found = np.empty(len(wanted), np.int64)
    found[order] = np.where(ordered[place] == asked, place, -1)
    return found


def _or_minus_one(numbers: pa.Array) -> NDArray[np.int64]:
    return _numbers(pc.fill_null(numbers, -1) if numbers.null_count else numbers)


def _numbers(numbers: pa.Array) -> NDArray[np.int64]:
    plain: NDArray[Any] = numbers.to_numpy()
    return plain.astype(np.int64, copy=False)
