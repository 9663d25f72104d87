"""Python values, numpy arrays and pandas columns to Arrow arrays of a table's types.

What must hold:
- What has no Arrow type goes straight to the table's: nothing is guessed from the first values.
- A value of another kind is refused by its row, never parsed, truncated or rounded (but a float for a float32 column).
- What is made here is wide (large strings and lists), so that no length overflows before it is cut into pieces.
"""

from __future__ import annotations

import datetime as dt
import decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.table.arguments import shown_object
from siltstone.table.rows_convert import RefusedValueError, cast_plain, first_failing, lifted, shown_value
from siltstone.table.rows_match import is_any_list
from siltstone.table.types import shown, shown_type, widens

if TYPE_CHECKING:
    from siltstone.table.rows_match import Slot

_NONE = type(None)
_WHOLE = (int, np.integer)
_TRUTH = (bool, np.bool_)
_REFUSALS = (pa.ArrowException, ValueError, TypeError, OverflowError)


def columns_of(rows: list[dict[str, Any]], slots: tuple[Slot, ...]) -> list[list[Any]]:
    """The columns of rows, each a dict with exactly the table's columns; one with a default may be left out."""
    expected = {slot.name for slot in slots}
    required = {slot.name for slot in slots if not slot.optional}
    for index, row in enumerate(rows):
        keys = row.keys()
        if keys != expected and not (required <= keys <= expected):
            raise _refuse_keys(index, row, expected=expected, required=required)
    return [[row.get(slot.name, slot.default) for row in rows] for slot in slots]


def from_column(values: Any, slot: Slot) -> pa.Array | pa.ChunkedArray:
    """A column of any kind as an array."""
    if isinstance(values, np.ndarray):
        return from_numpy(values, slot)
    if isinstance(values, list | tuple):
        return from_values(list(values), slot)
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else from_pandas(values, slot)


def from_values(values: list[Any], slot: Slot) -> pa.Array:
    """Python values as an array."""
    kind = slot.kind
    if kinds.is_struct(kind):
        return _struct(values, slot)
    if kinds.is_map(kind):
        return _map(values, slot)
    if is_any_list(kind):
        return _list(values, slot)
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        return _from_moments(values, slot)
    _check_instances(values, slot, *_wanted(kind))
    if kinds.is_time(kind):
        _check_zones(values, slot)
        return _build(values, pa.time64("us"), slot)
    if kinds.is_float32(kind):
        _build(values, kind, slot)  # refuses whole numbers that it can't hold
        return to_float32(_build(values, pa.float64(), slot))
    if kinds.is_string(kind):
        return _build(values, pa.large_string(), slot)
    return _build(values, pa.large_binary() if kinds.is_binary(kind) else kind, slot)


def from_numpy(values: Any, slot: Slot) -> pa.Array:
    """A numpy array as an Arrow one; rows of a two-dimensional one are lists."""
    if values.ndim != 1 or values.dtype == object:
        return from_values(list(values), slot)
    return loosened(_import(pa.array, values), slot)


def from_pandas(values: Any, slot: Slot) -> pa.Array | pa.ChunkedArray:
    """A pandas column as an Arrow array. What pandas takes for missing is null; NaN stays NaN where null can't be."""
    if values.dtype == object:
        cells = np.array(values, dtype=object)  # a copy, as it is changed
        cells[np.asarray(values.isna())] = None
        return from_values(cells.tolist(), slot)
    if kinds.is_floating(slot.kind) and not slot.nullable and isinstance(values.dtype, np.dtype):
        return from_numpy(values.to_numpy(), slot)
    return loosened(_import(pa.Array.from_pandas, values), slot)


def loosened(array: pa.Array | pa.ChunkedArray, slot: Slot) -> pa.Array | pa.ChunkedArray:
    """Numbers and times of a width that numpy or pandas chose in the width of the table, each value checked."""
    if not _loose(array.type, slot.kind):
        return array
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if kinds.is_float32(slot.kind) and kinds.is_float64(array.type):
        return to_float32(array)
    if kinds.is_date32(slot.kind):
        return _to_date(array)
    return cast_plain(array, slot.kind)


def to_float32(array: pa.DoubleArray) -> pa.FloatArray:
    """Doubles rounded to floats; what would become infinite is refused."""
    made = array.cast(pa.float32())
    lost = pc.and_(pc.is_inf(made), pc.invert(pc.is_inf(array)))
    if (index := pc.index(lost, value=True).as_py()) >= 0:
        raise RefusedValueError(
            index, f"{shown_value(array, index)} is too large for float", "widen the column to double"
        )
    return made


def _to_date(array: pa.TimestampArray) -> pa.Date32Array:
    made = array.cast(pa.date32())
    lost = pc.not_equal(made.cast(array.type), array)
    if (index := pc.index(lost, value=True).as_py()) >= 0:
        raise RefusedValueError(index, f"{shown_value(array, index)} is not a whole day", "cut the time off first")
    return made


def _loose(given: pa.DataType, kind: pa.DataType) -> bool:
    if given == kind or widens(given, kind):
        return False
    if kinds.is_timestamp(given):
        return bool(kinds.is_date32(kind) and given.tz is None)
    numbers = (kinds.is_integer(one) or kinds.is_floating(one) for one in (given, kind))
    return all(numbers) and not kinds.is_float16(given)


def _import(read: Any, values: Any) -> pa.Array | pa.ChunkedArray:
    try:
        return read(values)
    except _REFUSALS as error:
        hint = "convert the column to a plain type first"
        raise RefusedValueError(0, f"the type {shown(str(values.dtype))} has no Arrow type", hint) from error


def _build(values: list[Any], kind: pa.DataType, slot: Slot) -> pa.Array:
    try:
        return pa.array(values, kind)
    except _REFUSALS as error:
        index = first_failing(values, lambda part: pa.array(part, kind))
        problem = f"{shown_object(values[index])} is no {shown_type(slot.kind)}: {shown(str(error))[1:-1]}"
        raise RefusedValueError(index, problem, "give a value that fits the column") from error


def _from_moments(values: list[Any], slot: Slot) -> pa.Array:
    """Timestamps and durations in the finest unit that they have; a coarser column is checked for it later."""
    if any(one.__name__ == "NaTType" for one in set(map(type, values))):
        values = [None if type(one).__name__ == "NaTType" else one for one in values]  # what pandas has for null
    _check_instances(values, slot, *_wanted(slot.kind))
    if kinds.is_duration(slot.kind):
        fine = any(getattr(one, "nanoseconds", 0) for one in values)
        return _build(values, pa.duration("ns" if fine else "us"), slot)
    _check_zones(values, slot)
    fine = any(getattr(one, "nanosecond", 0) for one in values)
    return _build(values, pa.timestamp("ns" if fine else "us", tz=slot.kind.tz), slot)


def _wanted(kind: pa.DataType) -> tuple[tuple[type, ...], tuple[type, ...]]:
    """The Python types that a plain column takes, and those among their subclasses that it does not."""
    if kinds.is_boolean(kind):
        return _TRUTH, ()
    if kinds.is_integer(kind):
        return _WHOLE, _TRUTH
    if kinds.is_floating(kind):
        return (float, np.floating, *_WHOLE), _TRUTH
    if kinds.is_decimal(kind):
        return (decimal.Decimal, int), _TRUTH
    if kinds.is_string(kind):
        return (str,), ()
    if kinds.is_date32(kind):
        return (dt.date,), (dt.datetime,)
    if kinds.is_timestamp(kind):
        return (dt.datetime,), ()
    if kinds.is_time(kind):
        return (dt.time,), ()
    if kinds.is_duration(kind):
        return (dt.timedelta,), ()
    return (bytes, bytearray, memoryview), ()


def _check_instances(values: list[Any], slot: Slot, good: tuple[type, ...], bad: tuple[type, ...] = ()) -> None:
    types = set(map(type, values)) - {_NONE}
    wrong = {one for one in types if not issubclass(one, good) or issubclass(one, bad)}
    if not wrong:
        return
    index = next(index for index, value in enumerate(values) if type(value) in wrong)
    found = type(values[index]).__name__
    raise RefusedValueError(
        index,
        f"{shown_object(values[index])} of type {shown(found)[1:-1]} is no {shown_type(slot.kind)}",
        f"give {good[0].__name__}, or None",
    )


def _check_zones(values: list[Any], slot: Slot) -> None:
    aware = kinds.is_timestamp(slot.kind) and slot.kind.tz is not None
    wrong = (index for index, one in enumerate(values) if one is not None and (one.tzinfo is None) == aware)
    if (index := next(wrong, None)) is not None:
        has = "has no time zone" if aware else "has a time zone"
        raise RefusedValueError(
            index,
            f"{shown_object(values[index])} {has}, and the column is {shown_type(slot.kind)}",
            "add one with replace(tzinfo=...)" if aware else "remove it with replace(tzinfo=None)",
        )


def _refuse_keys(
    index: int, row: dict[str, Any], *, expected: set[str], required: set[str], inside: str = ""
) -> RefusedValueError:
    missing, extra = sorted(required - row.keys()), sorted(map(shown_object, row.keys() - expected))
    what = [f"it lacks {shown(missing[0])}"] if missing else []
    what += [f"it has {extra[0]}, which is not in the table"] if extra else []
    hints = ["give None for what is not known"] if missing else []
    hints += ["leave it out, or add it to the table with add_column first"] if extra else []
    return RefusedValueError(index, f"{inside}{' and '.join(what)}", "; ".join(hints))


def _struct(values: list[Any], slot: Slot) -> pa.Array:
    _check_instances(values, slot, (dict,))
    expected = {part.name for part in slot.parts}
    for index, value in enumerate(values):
        if value is not None and value.keys() != expected:
            raise _refuse_keys(index, value, expected=expected, required=expected, inside=f"in {slot.label} ")
    parts = [
        from_values([None if value is None else value[part.name] for value in values], part) for part in slot.parts
    ]
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(parts, names=[part.name for part in slot.parts], mask=nulls)


def _list(values: list[Any], slot: Slot) -> pa.Array:
    _check_instances(values, slot, (list, tuple, np.ndarray))
    present = [value for value in values if value is not None]
    offsets = _offsets(values)
    try:
        if present and all(isinstance(one, np.ndarray) and one.ndim == 1 and one.dtype != object for one in present):
            items = from_numpy(np.concatenate(present), slot.parts[0])
        else:
            items = from_values(list(chain.from_iterable(present)), slot.parts[0])
    except RefusedValueError as error:
        raise lifted(error, offsets) from error
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.LargeListArray.from_arrays(pa.array(offsets), items, mask=nulls)


def _map(values: list[Any], slot: Slot) -> pa.Array:
    _check_instances(values, slot, (dict, list, tuple))
    entries = [list(value.items()) if isinstance(value, dict) else value for value in values]
    offsets = _offsets(entries)
    pairs = list(chain.from_iterable(value for value in entries if value is not None))
    try:
        wrong = (at for at, pair in enumerate(pairs) if not isinstance(pair, list | tuple) or len(pair) != 2)
        if (index := next(wrong, None)) is not None:
            raise RefusedValueError(
                index, f"{shown_object(pairs[index])} is no pair of a key and a value", "give a dict, or pairs"
            )
        keys = from_values([pair[0] for pair in pairs], slot.parts[0])
        items = from_values([pair[1] for pair in pairs], slot.parts[1])
    except RefusedValueError as error:
        raise lifted(error, offsets) from error
    if keys.null_count:
        at = pc.index(keys.is_null(), value=True).as_py()
        raise lifted(RefusedValueError(at, "null as the key of a map", "give a key, or leave the entry out"), offsets)
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=nulls)


def _offsets(values: list[Any]) -> Any:
    return np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype=np.int64)
