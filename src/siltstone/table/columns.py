"""From a table's columns to those of a file, which may be older than the table's schema.

What must hold:
- Columns and the parts of structs are found by field id; a name counts only where the file gives no ids.
- A column that the file lacks is its default or null; one of a narrower type is widened; any other type is damage.
- Bounds are in the terms of the table's type, and are given only where they truly bound every value but null.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from siltstone.errors import CorruptionError, InvalidInputError
from siltstone.format import parquet, thrift
from siltstone.table import pages
from siltstone.table.schema import arrow_type
from siltstone.table.types import LIST, MAP, STRUCT, list_size, widens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from siltstone.format.parquet import Chunk, Footer, Node
    from siltstone.format.table import Field

_INTEGERS = frozenset({parquet.INT32, parquet.INT64})
_KEPT = (1, 2, 3, 5, 6, 7, 8, 10)  # of a schema element: all but its name and its id


class Limits:
    """The smallest and the largest value of each row group or page; ``some`` is false where there are only nulls."""

    __slots__ = ("_ascending", "highs", "lows", "some")

    def __init__(self, lows: np.ndarray, highs: np.ndarray, some: np.ndarray) -> None:
        self.lows = lows
        self.highs = highs
        self.some = some
        ascending = some.all() and (lows[:-1] <= lows[1:]).all() and (highs[:-1] <= highs[1:]).all()
        self._ascending = (lows.tolist(), highs.tolist()) if ascending else None

    def may_hold(self, ordered: np.ndarray) -> list[int]:
        """Which of them may hold one of some values, which are in order."""
        if len(ordered) == 1 and self._ascending is not None:
            lows, highs = self._ascending
            value = ordered.item()
            return list(range(bisect_left(highs, value), bisect_right(lows, value)))
        if not self.some.any():
            return []
        first = np.searchsorted(ordered, self.lows, "left")
        found = self.some & (np.searchsorted(ordered, self.highs, "right") > first)
        places: list[int] = np.flatnonzero(found).tolist()
        return places


class FileType(NamedTuple):
    """The type of a file's column, and the Parquet type that it is stored as."""

    arrow: pa.DataType
    stored: int


class Plan:
    """How some columns of a table are read from one file."""

    def __init__(self, footer: Footer, fields: tuple[Field, ...], *, name: str) -> None:
        self.name = name
        self.fields = fields
        self.kinds = tuple(arrow_type(one) for one in fields)
        self.schema = pa.schema(
            [pa.field(one.name, kind, nullable=one.nullable) for one, kind in zip(fields, self.kinds, strict=True)]
        )
        by_id = {node.id: node for node in footer.columns if node.id}
        by_name = {node.name: node for node in footer.columns if not node.id}
        self.nodes = tuple(by_id.get(one.id) or by_name.get(one.name) for one in fields)
        found = [(node, one) for node, one in zip(self.nodes, fields, strict=True) if node is not None]
        self.leaves = tuple(leaf for node, _ in found for leaf in range(node.leaf, node.leaf + node.leaves))
        self.flat = all(node.flat for node, _ in found)
        self.head = pages.file_head(_elements(found))
        self.aligned: dict[int, bool] = {}  # by row group, whether the pages of all columns hold the same rows

    def shape(self, found: pa.Table) -> pa.Table:
        """The columns as the table wants them, from those that the file has."""
        if found.schema.equals(self.schema):
            return found
        columns = iter(found.columns)
        return self.join(
            [
                filler(field, found.num_rows) if node is None else self._widen(next(columns), field, kind)
                for node, field, kind in zip(self.nodes, self.fields, self.kinds, strict=True)
            ],
            found.num_rows,
        )

    def fill(self, rows: int) -> pa.Table:
        """What a file without any of the columns holds."""
        return self.join([filler(field, rows) for field in self.fields], rows)

    def gather(self, columns: Mapping[int, pa.ChunkedArray], rows: int) -> pa.Table:
        """A table of columns that were read apart, by their place; the rest are those that the file lacks."""
        return self.join(
            [columns[place] if place in columns else filler(field, rows) for place, field in enumerate(self.fields)],
            rows,
        )

    def join(self, columns: Sequence[pa.ChunkedArray], rows: int) -> pa.Table:
        """A table of these columns; one without any still has its rows."""
        if not columns:
            return pa.table([pa.nulls(rows)], names=["_"]).select([])
        return pa.Table.from_arrays(list(columns), schema=self.schema)

    def _widen(self, column: pa.ChunkedArray, field: Field, kind: pa.DataType) -> pa.ChunkedArray:
        if column.type == kind:
            return column
        if not _fits(column.type, kind):
            raise CorruptionError(
                f"{self.name} holds column {field.name!a} as {column.type}, the table as {kind}",
                hint="restore it from a copy",
                object=self.name,
            )
        try:
            return column.cast(kind)
        except pa.ArrowException as error:
            raise CorruptionError(
                f"{self.name} holds values of column {field.name!a} that are not of type {kind}: {_first_line(error)}",
                hint="restore it from a copy",
                object=self.name,
            ) from error


def filler(field: Field, rows: int) -> pa.ChunkedArray:
    """The values of a column that a file lacks."""
    kind = arrow_type(field)
    if field.default is None:
        return pa.chunked_array([_nulls(kind, rows)])
    return pa.chunked_array([pa.repeat(pa.scalar(field.default, kind), rows)])


def _nulls(kind: pa.DataType, rows: int) -> pa.Array:
    """Nulls; parts of structs that are never null have values all the same, or Parquet could not write them again."""
    if not _has_firm_parts(kind):
        return pa.nulls(rows, kind)
    return pa.StructArray.from_arrays(_parts(kind, rows), fields=_fields(kind), mask=pa.repeat(pa.scalar(True), rows))


def _no_nulls(kind: pa.DataType, rows: int) -> pa.Array:
    """Values that mean nothing, and that are not null."""
    if kinds.is_struct(kind):
        return pa.StructArray.from_buffers(kind, rows, [None], null_count=0, children=_parts(kind, rows))
    if kinds.is_fixed_size_list(kind):
        part = kind.value_field
        values = (_nulls if part.nullable else _no_nulls)(part.type, rows * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    if kinds.is_list(kind) or kinds.is_map(kind):
        nothing = pa.array([[]] * min(rows, 1), kind)
        return nothing.take(pa.repeat(pa.scalar(0), rows))
    nulls = pa.nulls(rows, kind)  # the bytes of which are zeros
    return pa.Array.from_buffers(kind, rows, [None, *nulls.buffers()[1:]], null_count=0)


def _parts(kind: pa.StructType, rows: int) -> list[pa.Array]:
    return [(_nulls if one.nullable else _no_nulls)(one.type, rows) for one in _fields(kind)]


def _fields(kind: pa.StructType) -> list[pa.Field]:
    return [kind.field(place) for place in range(kind.num_fields)]


def _has_firm_parts(kind: pa.DataType) -> bool:
    """Whether each value, null or not, has parts that are never null."""
    return bool(kinds.is_struct(kind)) and any(not one.nullable or _has_firm_parts(one.type) for one in _fields(kind))


def file_type(plan: Plan, footer: Footer) -> FileType:
    """The type that the file has for the only column of a plan, which is flat."""
    empty = b"".join(pages.build(plan.head, []))
    try:
        return FileType(
            pq.read_schema(pa.BufferReader(empty)).field(0).type, footer.groups[0].chunks[plan.leaves[0]].type
        )
    except (pa.ArrowException, OSError, IndexError) as error:
        raise CorruptionError(
            f"{plan.name} is damaged: its schema can't be read: {_first_line(error)}",
            hint="restore it from a copy",
            object=plan.name,
        ) from error


def limits(
    lows: Sequence[bytes], highs: Sequence[bytes], some: np.ndarray, *, found: FileType, wanted: pa.DataType
) -> Limits | None:
    """Bounds as a file has them, in the terms of a table's type; None where they can't be told."""
    if not _fits(found.arrow, wanted) or (kinds.is_decimal(wanted) and found.stored in _INTEGERS):
        return None
    if not some.any():
        nothing = np.full(len(some), "" if kinds.is_string(wanted) else 0, object if kinds.is_string(wanted) else None)
        return Limits(nothing, nothing, some)
    # Where there are only nulls any value will do: nobody looks at it.
    first = int(np.argmax(some))
    try:
        low = _values([one if here else lows[first] for one, here in zip(lows, some, strict=True)], found.arrow, wanted)
        high = _values(
            [one if here else highs[first] for one, here in zip(highs, some, strict=True)], found.arrow, wanted
        )
    except (ValueError, pa.ArrowException):
        return None
    if low is None or high is None:
        return None
    return Limits(low, high, some)


def comparable(values: pa.Array) -> np.ndarray | None:
    """Values without nulls in the terms of ``Limits``; None where they have no order there."""
    kind = values.type
    found: np.ndarray
    if kinds.is_integer(kind):
        found = values.to_numpy().astype(np.uint64 if kinds.is_unsigned_integer(kind) else np.int64)
    elif kinds.is_temporal(kind):
        found = values.view(pa.int64() if kind.bit_width == 64 else pa.int32()).to_numpy().astype(np.int64)
    elif kinds.is_floating(kind):
        found = values.to_numpy(zero_copy_only=False).astype(np.float64)
        if np.isnan(found).any():
            return None
    elif kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind):
        found = np.empty(len(values), dtype=object)
        found[:] = values.to_pylist()
    elif kinds.is_decimal(kind):
        found = np.empty(len(values), dtype=object)
        found[:] = [int.from_bytes(one, "little", signed=True) for one in fixed_bytes(values)]
    else:
        return None
    return found


def fixed_bytes(values: pa.Array) -> list[bytes]:
    """The bytes of each value of a type of fixed width."""
    width = values.type.byte_width
    data = bytes(memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width])
    return [data[start : start + width] for start in range(0, len(data), width)]


def chunk_limits(chunks: Sequence[Chunk], rows: Sequence[int]) -> tuple[list[bytes], list[bytes], np.ndarray] | None:
    """The bounds of whole chunks as the footer has them; None where one lacks them."""
    some = np.array([chunk.nulls != count for chunk, count in zip(chunks, rows, strict=True)], dtype=bool)
    if any((chunk.low is None or chunk.high is None) and here for chunk, here in zip(chunks, some, strict=True)):
        return None
    return [chunk.low or b"" for chunk in chunks], [chunk.high or b"" for chunk in chunks], some


def as_keys(keys: pa.Array, plan: Plan) -> pa.Array:
    """Keys in the type of their column, the only one of a plan."""
    field, kind = plan.fields[0], plan.kinds[0]
    if keys.null_count:
        raise InvalidInputError(f"a key of column {field.name!a} is null", hint="leave nulls out")
    if keys.type == kind:
        return keys
    try:
        return keys.cast(kind)
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"the keys of column {field.name!a} are {keys.type}, not {kind}: {_first_line(error)}",
            hint="cast them to the column's type",
        ) from error


def _elements(found: Sequence[tuple[Node, Field]]) -> list[thrift.Struct]:
    root: thrift.Struct = {4: (thrift.BINARY, b"schema"), 5: (thrift.I32, len(found))}
    elements = [root]
    for node, field in found:
        _add_elements(elements, node, field, name=field.name)
    return elements


def _add_elements(elements: list[thrift.Struct], node: Node, field: Field | None, *, name: str) -> None:
    """A column's schema with the names that its parts have now, so that Arrow can match them by name."""
    element = {number: node.element[number] for number in _KEPT if number in node.element}
    elements.append({**element, 4: (thrift.BINARY, name.encode())})
    parts: Sequence[tuple[Node, Field | None, str]]
    if field is not None and field.type == STRUCT:
        parts = _struct_parts(node, field)
    elif field is not None and (field.type in {LIST, MAP} or list_size(field.type)) and len(node.children) == 1:
        middle = node.children[0]
        inner = {number: middle.element[number] for number in _KEPT if number in middle.element}
        elements.append({**inner, 4: (thrift.BINARY, middle.name.encode())})
        children = field.children if len(field.children) == len(middle.children) else (None,) * len(middle.children)
        parts = [(child, part, child.name) for child, part in zip(middle.children, children, strict=True)]
    else:
        parts = [(child, None, child.name) for child in node.children]
    for child, part, part_name in parts:
        _add_elements(elements, child, part, name=part_name)


def _struct_parts(node: Node, field: Field) -> list[tuple[Node, Field | None, str]]:
    by_id = {child.id: child for child in field.children}
    by_name = {child.name: child for child in field.children}
    parts: list[tuple[Node, Field | None, str]] = []
    for number, child in enumerate(node.children):
        part = by_id.get(child.id) if child.id else by_name.get(child.name)
        # No name of a user holds a control character, so nothing is taken for a part that was dropped.
        parts.append((child, part, part.name if part else f"\x01{number}"))
    return parts


def _as_read(kind: pa.DataType) -> pa.DataType:
    """What Parquet gives back for a type that it has no word for."""
    if kinds.is_duration(kind):
        return pa.int64()
    if kinds.is_time32(kind):
        return pa.time32("ms")
    if kinds.is_timestamp(kind):
        return pa.timestamp("ms" if kind.unit == "s" else kind.unit, "UTC" if kind.tz else None)
    return kind


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_struct(wanted):
        parts = [(wanted.field(one).name, wanted.field(one).type) for one in range(wanted.num_fields)]
        return bool(kinds.is_struct(found)) and all(
            found.get_field_index(name) < 0 or _fits(found.field(name).type, kind) for name, kind in parts
        )
    if kinds.is_map(wanted):
        return (
            bool(kinds.is_map(found))
            and _fits(found.key_type, wanted.key_type)
            and _fits(found.item_type, wanted.item_type)
        )
    if kinds.is_list(wanted) or kinds.is_fixed_size_list(wanted):
        return bool(kinds.is_list(found)) and _fits(found.value_type, wanted.value_type)
    read = _as_read(wanted)
    return bool(found in {wanted, read} or widens(found, read))


def _values(plain: Sequence[bytes], found: pa.DataType, wanted: pa.DataType) -> np.ndarray | None:
    if kinds.is_string(wanted) or kinds.is_binary(wanted) or kinds.is_fixed_size_binary(wanted):
        objects = np.empty(len(plain), dtype=object)
        objects[:] = [one.decode() for one in plain] if kinds.is_string(wanted) else list(plain)
        return objects
    if kinds.is_decimal(wanted):
        objects = np.empty(len(plain), dtype=object)
        objects[:] = [int.from_bytes(one, "big", signed=True) for one in plain]
        return objects
    if any(len(one) != len(plain[0]) for one in plain):
        return None
    data = b"".join(plain)
    if kinds.is_boolean(wanted):
        return np.frombuffer(data, np.uint8, count=len(plain)).astype(np.int64)
    if kinds.is_floating(wanted):
        numbers = np.frombuffer(data, "<f4" if kinds.is_float32(found) else "<f8", count=len(plain)).astype(np.float64)
        return None if np.isnan(numbers).any() else numbers
    return _integers(data, len(plain), found, wanted)


def _integers(data: bytes, count: int, found: pa.DataType, wanted: pa.DataType) -> np.ndarray:
    sign = "u" if kinds.is_unsigned_integer(found) else "i"
    numbers = np.frombuffer(data, f"<{sign}{8 if found.bit_width == 64 else 4}", count=count)
    if kinds.is_integer(wanted):
        return numbers.astype(np.uint64 if kinds.is_unsigned_integer(wanted) else np.int64)
    width = pa.int64() if wanted.bit_width == 64 else pa.int32()
    cast: Any = pa.array(numbers).view(found).cast(wanted).view(width)
    values: np.ndarray = cast.to_numpy().astype(np.int64)
    return values


def _first_line(error: Exception) -> str:
    return ascii(str(error).partition("\n")[0][:200])[1:-1]
