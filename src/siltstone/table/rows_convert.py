"""Valid Arrow arrays to arrays of exactly a table's types.

What must hold:
- Nothing is followed before it was validated: offsets, indices and UTF-8 of what a user hands in may be broken.
- A value becomes exactly itself, bit for bit for floats, or its row is refused.
- A part that is never null holds no null, also not below a null parent: Parquet has no way to write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError, SchemaMismatchError
from siltstone.table.rows_match import is_any_list
from siltstone.table.rows_split import as_list, lengths
from siltstone.table.types import is_nested, is_text, shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.table.rows_match import Slot

_PER_SECOND = {"s": 1, "ms": 1_000}
_SECONDS_MAX = (2**63 - 1) // 1_000_000  # a column in s or ms can be widened to us, so values stay below this


class RefusedValueError(Exception):
    """A value can't be stored. ``index`` counts in the array at hand, and is turned into a row on the way out."""

    def __init__(self, index: int, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.index = index
        self.problem = problem
        self.hint = hint


def refused(error: RefusedValueError, slot: Slot, *, first: int) -> SchemaMismatchError:
    """The error a user sees; ``first`` is the number of the array's first row."""
    row = first + error.index
    return SchemaMismatchError(
        f"column {slot.label}, row {row} (counting from 0): {error.problem}", hint=error.hint, column=slot.path, row=row
    )


def check_valid(column: pa.ChunkedArray, slot: Slot, *, first: int, rows_known: bool) -> None:
    """Check offsets, indices, UTF-8 and ranges of what came from outside."""
    for chunk in column.chunks:
        try:
            chunk.validate(full=True)
        except (pa.ArrowException, ValueError, IndexError) as error:
            row = first + first_failing(chunk, lambda part: part.validate(full=True)) if rows_known else None
            where = "" if row is None else f", row {row} (counting from 0)"
            what = "not valid UTF-8" if "UTF8" in str(error) and is_text(slot.kind) else "not a valid Arrow array"
            raise InvalidInputError(
                f"column {slot.label}{where} is {what}: {shown(str(error))[1:-1]}",
                hint="build it with pyarrow.array; bytes that are not text belong into a binary column",
                column=slot.path,
                row=row,
            ) from error
        first += len(chunk)


def is_sliceable(kind: pa.DataType) -> bool:
    """Whether validating a slice looks at nothing but the slice: not so where there are parts or a dictionary."""
    return not is_nested(kind) and not kinds.is_dictionary(kind)


def convert(column: pa.ChunkedArray, slot: Slot, *, first: int) -> pa.Array:
    """A valid column as one array of exactly the slot's type.

    Raises:
        SchemaMismatchError: a value does not fit; it names the row.
    """
    chunks = column.chunks
    if len(chunks) > 1 and not _has_dictionary(column.type):
        # Dictionaries are joined once they are decoded: together they may have more entries than an index can count.
        chunks = [pa.concat_arrays(chunks)]
    made = []
    for chunk in chunks:
        try:
            made.append(_part(chunk, slot))
        except RefusedValueError as error:
            raise refused(error, slot, first=first) from error.__cause__
        first += len(chunk)
    return made[0] if len(made) == 1 else pa.concat_arrays(made)


def first_failing(array: Any, check: Callable[[Any], object]) -> int:
    """Where the first value lies that ``check`` fails on; it is known to fail on the whole."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(array[low:middle])
        except (pa.ArrowException, ValueError, TypeError, IndexError, OverflowError):
            high = middle
        else:
            low = middle
    return low


def cast_plain(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of one plain type as those of another, each exactly or refused."""
    try:
        return array.cast(kind, safe=True)
    except pa.ArrowInvalid as error:
        index = first_failing(array, lambda part: part.cast(kind, safe=True))
        problem = f"{shown_value(array, index)} is no {shown_type(kind)} without a change"
        raise RefusedValueError(index, problem, "round or drop it before, or widen the column") from error


def shown_value(array: pa.Array, index: int) -> str:
    """A value as a message shows it."""
    try:
        return shown(str(array[index].as_py()))[1:-1]
    except (ValueError, OverflowError):  # a date that Python does not know
        return f"the {shown_type(array.type)}"


def _convert(array: pa.Array, slot: Slot) -> pa.Array:
    if slot.same and array.type.equals(slot.kind, check_metadata=True):
        return array
    while kinds.is_dictionary(array.type):
        array = _without_dictionary(array)
    if kinds.is_null(array.type):
        return pa.nulls(len(array), slot.kind)
    if kinds.is_struct(slot.kind):
        return _struct(array, slot)
    if kinds.is_map(slot.kind):
        return _map(array, slot)
    if kinds.is_fixed_size_list(slot.kind):
        return _fixed_list(array, slot)
    if is_any_list(slot.kind):
        return _list(array, slot)
    made = array if array.type == slot.kind else cast_plain(array, slot.kind)
    if kinds.is_timestamp(slot.kind):
        _check_range(made)
    return made


def _without_dictionary(array: pa.DictionaryArray) -> pa.Array:
    values = array.dictionary
    if kinds.is_string_view(values.type) or kinds.is_binary_view(values.type):
        # Views can't be taken from. Large, as all entries together may pass 2 GiB where those in use don't.
        values = values.cast(pa.large_string() if kinds.is_string_view(values.type) else pa.large_binary())
    return values.take(array.indices)


def _struct(array: pa.StructArray, slot: Slot) -> pa.Array:
    by_name = {array.type.field(index).name: child for index, child in enumerate(array.flatten())}
    nulls = _nulls(array)
    parts = [_part(by_name[part.name], part, missing=nulls) for part in slot.parts]
    fields = [slot.kind.field(index) for index in range(slot.kind.num_fields)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=pa.array(nulls))


def _list(array: pa.Array, slot: Slot) -> pa.Array:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths(array))])
    try:
        values = _part(array.flatten(), slot.parts[0])
    except RefusedValueError as error:
        raise lifted(error, offsets) from error
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=slot.kind, mask=_mask(array))


def _fixed_list(array: pa.Array, slot: Slot) -> pa.Array:
    size, nulls = slot.kind.list_size, _nulls(array)
    have = lengths(array)
    wrong = ~nulls & (have != size)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RefusedValueError(row, f"a list of {have[row]} values, not {size}", "give each row that many, or null")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(nulls, 0, size))])
    try:
        values = _part(array.flatten(), slot.parts[0])
    except RefusedValueError as error:
        raise lifted(error, offsets) from error
    if nulls.any():
        # A null list still takes its room.
        places = (offsets[:-1, None] + np.arange(size)).reshape(-1)
        values = _blanked(values, slot.parts[0], places=places, blank=np.repeat(nulls, size))
    return pa.FixedSizeListArray.from_arrays(values, type=slot.kind, mask=pa.array(nulls))


def _map(array: pa.MapArray, slot: Slot) -> pa.Array:
    entries = as_list(array)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths(entries))])
    try:
        keys, values = (_part(child, part) for child, part in zip(entries.flatten().flatten(), slot.parts, strict=True))
    except RefusedValueError as error:
        raise lifted(error, offsets) from error
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values, type=slot.kind, mask=_mask(entries))


def _part(array: pa.Array, slot: Slot, *, missing: Any = None) -> pa.Array:
    """A part of a column; ``missing`` says where its parent is null."""
    made = _convert(array, slot)
    if slot.nullable or not made.null_count:
        return made
    nulls = _nulls(made)
    wrong = nulls if missing is None else nulls & ~missing
    if wrong.any():
        _refuse_null(int(np.argmax(wrong)), slot)
    return _blanked(made, slot, places=np.arange(len(made)), blank=nulls)


def _blanked(array: pa.Array, slot: Slot, *, places: Any, blank: Any) -> pa.Array:
    """The values at some places, with one that means nothing where ``blank`` is set."""
    holder = pa.concat_arrays([array, _blank(slot)])
    return holder.take(pa.array(np.where(blank, len(array), places)))


def _blank(slot: Slot) -> pa.Array:
    if kinds.is_struct(slot.kind):
        fields = [slot.kind.field(index) for index in range(slot.kind.num_fields)]
        return pa.StructArray.from_arrays([_blank(part) for part in slot.parts], fields=fields)
    if kinds.is_fixed_size_list(slot.kind):
        values = _blank(slot.parts[0]).take(pa.array(np.zeros(slot.kind.list_size, np.int64)))
        return pa.FixedSizeListArray.from_arrays(values, type=slot.kind)
    if slot.parts:
        return pa.array([[]], slot.kind)
    if kinds.is_string(slot.kind) or kinds.is_binary(slot.kind):
        return pa.array([b""], pa.binary()).cast(slot.kind)
    return pa.Array.from_buffers(slot.kind, 1, [None, pa.py_buffer(bytes(max(slot.kind.bit_width // 8, 1)))])


def _check_range(array: pa.TimestampArray) -> None:
    """Coarse timestamps must fit microseconds too, so that their column can be widened later."""
    per_second = _PER_SECOND.get(array.type.unit)
    if per_second is None or not len(array):
        return
    numbers = array.cast(pa.int64())
    bound = _SECONDS_MAX * per_second
    outside = pc.or_(pc.less(numbers, -bound), pc.greater(numbers, bound))
    if (index := pc.index(outside, value=True).as_py()) >= 0:
        raise RefusedValueError(
            index, f"the timestamp {numbers[index]} {array.type.unit} is out of range", "years -290,307 to 294,246 fit"
        )


def _refuse_null(index: int, slot: Slot) -> None:
    if slot.key:
        raise RefusedValueError(index, "null in a key", "give each row its key")
    what = f"null in {slot.label}, which is" if slot.path != slot.name else "null, and the column is"
    raise RefusedValueError(
        index, f"{what} not nullable", "give a value, or allow null with widen_column(..., nullable=True)"
    )


def lifted(error: RefusedValueError, offsets: Any) -> RefusedValueError:
    """The same of a list's value, by the row of the list."""
    row = int(np.searchsorted(offsets, error.index, side="right")) - 1
    return RefusedValueError(row, error.problem, error.hint)


def _has_dictionary(kind: pa.DataType) -> bool:
    if kinds.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(index).type) for index in range(kind.num_fields))


def _nulls(array: pa.Array) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
