"""Values as text files write them, and back: JSON lines and CSV.

What must hold:
- What ``plain`` writes, ``typed`` reads back as the same values. Only NaN and infinities have no place in JSON.
- A text that is not exactly a value of its column is refused, and its row can be told. Only fractions are rounded to
  what a float or double holds; a whole number is rounded to a float's precision, and never by a double.

Times are ISO 8601, decimals are text, bytes are hexadecimal, a duration is a number in its unit, and a map is a
list of objects with ``key`` and ``value``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.table.rows_split import as_list, lengths
from siltstone.table.types import decoded, is_bytes, is_nested, is_text, shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Callable

_EXACT_MAX = 2.0**53  # doubles have every whole number up to here
EXACT_HINT = "a whole number must be one that a double holds exactly; written as 9.1e15 it is rounded"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NOT_FINITE = ("nan", "+nan", "-nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity")


class UnreadableTextError(Exception):
    """A text is no value of its column's type. ``index`` is its place in the column, where that is known."""

    def __init__(self, problem: str, *, index: int = 0, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.index = index
        self.hint = hint


def wire_type(kind: pa.DataType) -> pa.DataType:
    """The type that a JSON reader is asked for, to get values of ``kind``."""
    if kinds.is_map(kind):
        parts = [pa.field("key", wire_type(kind.key_type)), pa.field("value", wire_type(kind.item_type))]
        return pa.list_(pa.struct(parts))
    if kinds.is_struct(kind):
        return pa.struct([part.with_type(wire_type(part.type)).with_nullable(True) for part in _parts(kind)])
    if is_nested(kind):
        return pa.list_(wire_type(kind.value_type))
    if kinds.is_duration(kind):
        return pa.int64()
    if kinds.is_floating(kind):
        return pa.float64()
    if kinds.is_temporal(kind) or _is_raw(kind):
        return pa.string()
    return kind


def typed_column(array: pa.Array, field: pa.Field) -> pa.Array:
    """What a reader gave, as values of a field's type.

    Raises:
        UnreadableTextError: one is none of that type; it says which.
    """
    try:
        return _checked(array, field.type)
    except UnreadableTextError as error:
        index = _first_failing(array, lambda part: _checked(part, field.type))
        value = shown(str(array[index].as_py()))[1:-1]
        raise UnreadableTextError(
            f"column {shown(field.name)}: '{value}' is no {shown_type(field.type)}",
            index=index,
            hint=hint_for(field.type),
        ) from error


def _checked(array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return _typed(array, kind)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise UnreadableTextError(str(error).partition("\n")[0]) from error


def _first_failing(array: pa.Array, check: Callable[[pa.Array], object]) -> int:
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(array[low:middle])
        except UnreadableTextError:
            high = middle
        else:
            low = middle
    return low


def hint_for(kind: pa.DataType) -> str:
    """How values of a type are written."""
    if kinds.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        return f"write times as 2026-11-14T09:30:00{zone}, at most as exact as {kind.unit}"
    if kinds.is_date(kind):
        return "write dates as 2026-11-14"
    if kinds.is_time(kind):
        return f"write times as 09:30:00, at most as exact as {kind.unit}"
    if _is_raw(kind):
        return "write bytes in hexadecimal"
    if kinds.is_floating(kind):
        return f"correct the value; {EXACT_HINT}"
    return "correct the value, or widen the column"


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if kinds.is_null(array.type):
        return pa.nulls(len(array), kind)
    if is_nested(kind):
        return _typed_nested(array, kind)
    if is_text(array.type):
        return _from_text(array, kind)
    if kinds.is_floating(kind):
        return _narrowed(array, kind)
    return array.cast(kind)


def _typed_nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if kinds.is_struct(kind):
        fields = _parts(kind)
        children = [_typed(child, part.type) for child, part in zip(array.flatten(), fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    values = array.flatten()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths(array))]), pa.int32())
    mask = array.is_null() if array.null_count else None
    if kinds.is_map(kind):
        keys, items = values.flatten()
        if keys.null_count:
            raise ValueError("null as the key of a map")
        made = (_typed(keys, kind.key_type), _typed(items, kind.item_type))
        return pa.MapArray.from_arrays(offsets, *made, type=kind, mask=mask)
    # Also for lists of a fixed size: whether each has that many values, the table checks.
    return pa.ListArray.from_arrays(offsets, _typed(values, kind.value_type), mask=mask)


def _from_text(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if is_text(kind):
        return array.cast(kind)
    if _is_raw(kind):
        return pa.array([None if one is None else bytes.fromhex(one) for one in array.to_pylist()], kind)
    if kinds.is_time(kind):
        dated = pc.binary_join_element_wise("1970-01-01T", array, "")
        return dated.cast(pa.timestamp(kind.unit)).cast(kind)
    if kinds.is_duration(kind):
        return _from_text(array, pa.int64()).cast(kind)
    if kinds.is_integer(kind) and any(pc.any(pc.match_substring(array, mark)).as_py() for mark in "xX"):
        raise ValueError("a number is hexadecimal")  # which Arrow would read
    if kinds.is_floating(kind):
        made = array.cast(pa.float64())
        said = pc.is_in(pc.utf8_lower(array), value_set=pa.array(_NOT_FINITE))
        if not _all(pc.or_(pc.is_finite(made), said)):
            raise ValueError("a number is too large")
        if has_large(made):
            large = array.filter(pc.greater_equal(pc.abs(made), _EXACT_MAX))
            if not all(map(is_exact, large.to_pylist())):
                raise ValueError("a whole number would be rounded")
        return _narrowed(made, kind)
    return array.cast(kind)


def has_large(doubles: pa.Array) -> bool:
    """Whether some are so large that they may be whole numbers that were rounded."""
    # Arrow's comparison with a number of Python's would load pandas.
    ends = pc.min_max(doubles).as_py().values()
    return any(abs(end) >= _EXACT_MAX for end in ends if end is not None)


def is_exact(text: str) -> bool:
    """Whether a number's text is no whole number that doubles lack."""
    if not _WHOLE.fullmatch(text):
        return True
    try:
        number = int(text)
        return int(float(number)) == number
    except (ValueError, OverflowError):  # thousands of digits, or past the largest double
        return False


def _narrowed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Floats rounded to a column's precision; a finite one stays finite."""
    made = array.cast(kind, safe=False)
    if not _all(pc.or_(pc.is_finite(made), pc.invert(pc.is_finite(array)))):
        raise ValueError("a number is too large")
    return made


def _all(holds: pa.Array) -> bool:
    return bool(pc.all(holds, skip_nulls=True, min_count=0).as_py())  # also where all are null


# -- writing -------------------------------------------------------------------------------------


def plain(array: pa.Array) -> pa.Array:
    """Values as JSON and CSV can hold them: numbers, booleans, strings, and lists and structs of those."""
    kind = array.type
    if kinds.is_dictionary(kind):
        return plain(array.cast(decoded(kind)))
    if kinds.is_struct(kind):
        fields = [part.name for part in _parts(kind)]
        return pa.StructArray.from_arrays([plain(child) for child in array.flatten()], fields, mask=array.is_null())
    if kinds.is_map(kind) or is_nested(kind):
        lists = as_list(array) if kinds.is_map(kind) else array
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths(lists))]), pa.int32())
        return pa.ListArray.from_arrays(offsets, plain(lists.flatten()), mask=array.is_null())
    if kinds.is_duration(kind):
        return array.cast(pa.int64())
    if kinds.is_timestamp(kind):
        return pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
    if is_bytes(kind) or kinds.is_fixed_size_binary(kind):
        return pa.array([None if one is None else one.hex() for one in array.to_pylist()], pa.string())
    if kinds.is_temporal(kind) or kinds.is_decimal(kind):
        return array.cast(pa.string())
    return array.cast(pa.string()) if is_text(kind) else array


def plain_table(table: pa.Table) -> pa.Table:
    """The same of all columns."""
    columns = []
    for column in table.columns:
        chunks = column.chunks or [pa.array([], column.type)]
        columns.append(pa.chunked_array([plain(chunk) for chunk in chunks]))
    return pa.Table.from_arrays(columns, names=table.column_names)


def _parts(kind: pa.DataType) -> list[Any]:
    return [kind.field(index) for index in range(kind.num_fields)]


def _is_raw(kind: pa.DataType) -> bool:
    return bool(is_bytes(kind) or kinds.is_fixed_size_binary(kind))
