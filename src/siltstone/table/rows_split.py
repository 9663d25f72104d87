"""How many bytes rows have once they are decoded, and where to cut them.

What must hold:
- No piece has more than ``CHUNK_BYTES`` or ``ROWS_PER_CHUNK``, whatever a batch grows to when it is decoded; only a
  single row may be larger, and none of its values is over ``VALUE_BYTES_MAX``.
- Arrays that come here are valid: offsets and indices are followed without another look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from siltstone.errors import LimitExceededError
from siltstone.table.types import is_bytes, is_list, is_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.table.rows_match import Slot

ROWS_PER_CHUNK = 131_072
CHUNK_BYTES = 64 * 1024 * 1024
VALUE_BYTES_MAX = 64 * 1024 * 1024

Sizes: TypeAlias = NDArray[np.int64]
_VIEW_INTS = 4  # a view has 16 bytes, of which the first four are the length


def pieces(table: pa.Table, slots: tuple[Slot, ...], *, first: int, more: int) -> Iterator[pa.Table]:
    """A valid table of at most ``ROWS_PER_CHUNK`` rows in pieces.

    ``slots`` are those of its columns, ``first`` is the number of its first row, and each row gets ``more`` bytes.
    """
    ends = np.cumsum(_row_bytes(table, slots, first=first) + more)
    begin = 0
    while begin < table.num_rows:
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + CHUNK_BYTES, side="right")), begin + 1)
        yield table.slice(begin, end - begin)
        begin = end


def default_bytes(slots: Sequence[Slot]) -> int:
    """The bytes that a row gets from defaults."""
    return sum(len(str(slot.default).encode()) for slot in slots)


def value_bytes(array: pa.Array) -> Sizes:
    """The bytes of each value, decoded; null has those of an empty one."""
    kind = array.type
    if kinds.is_dictionary(kind):
        return _take(value_bytes(array.dictionary), array.indices)
    if kinds.is_string_view(kind) or kinds.is_binary_view(kind):
        return _view_bytes(array)
    if is_text(kind) or is_bytes(kind):
        return _integers(pc.binary_length(array))
    if kinds.is_struct(kind):
        return sum((value_bytes(child) for child in array.flatten()), start=np.zeros(len(array), np.int64))
    if kinds.is_map(kind):
        array = as_list(array)
    if is_list(array.type) or kinds.is_fixed_size_list(array.type):
        return _list_bytes(array)
    width = 0 if kinds.is_null(kind) else kind.bit_width
    return np.full(len(array), max(width // 8, 1), np.int64)


def as_list(array: pa.MapArray) -> pa.ListArray:
    """A map as a list of its entries, with nothing copied."""
    entry = pa.struct([array.type.key_field.with_name("key"), array.type.item_field.with_name("value")])
    return array.cast(pa.list_(pa.field("entries", entry, nullable=False)))


def lengths(array: pa.Array) -> Sizes:
    """How many values each list has; null has none."""
    return _integers(pc.list_value_length(array))


def _row_bytes(table: pa.Table, slots: tuple[Slot, ...], *, first: int) -> Sizes:
    total = np.zeros(table.num_rows, np.int64)
    for slot, column in zip(slots, table.columns, strict=True):
        if kinds.is_primitive(column.type):
            total += max(column.type.bit_width // 8, 1)
            continue
        sizes = np.concatenate([value_bytes(chunk) for chunk in column.chunks])
        if sizes.max() > VALUE_BYTES_MAX:
            row = int(np.argmax(sizes > VALUE_BYTES_MAX))
            raise LimitExceededError(
                f"column {slot.label} has a value of {sizes[row]} bytes in row {first + row}, counting from 0, "
                f"over the limit of {VALUE_BYTES_MAX}",
                hint="split it over rows, or store it as an object of its own and its name here",
                column=slot.path,
                row=first + row,
            )
        total += sizes
    return total


def _list_bytes(array: pa.Array) -> Sizes:
    ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), value_bytes(array.flatten())]))
    offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), lengths(array)]))
    return np.diff(ends[offsets]) + 1


def _view_bytes(array: pa.Array) -> Sizes:
    if not len(array):
        return np.zeros(0, np.int64)
    count = (array.offset + len(array)) * _VIEW_INTS  # the buffer may be longer
    sizes = np.frombuffer(array.buffers()[1], np.int32, count)[::_VIEW_INTS][array.offset :].astype(np.int64)
    if array.null_count:
        sizes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return sizes


def _take(sizes: Sizes, indices: pa.Array) -> Sizes:
    if not len(sizes):
        return np.zeros(len(indices), np.int64)
    taken = sizes[pc.fill_null(indices, 0).to_numpy(zero_copy_only=False)]
    if indices.null_count:
        taken[indices.is_null().to_numpy(zero_copy_only=False)] = 0
    return taken


def _integers(array: pa.Array) -> Sizes:
    filled = pc.fill_null(array, 0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)
