"""Whatever a user hands in as rows, as checked Arrow tables of exactly a table's columns.

What must hold:
- Rows come out in the order they came in, in the table's column order and types, or an error names the culprit.
- Memory is bounded by ``ROWS_PER_CHUNK`` and ``CHUNK_BYTES``, not by how much there is to read.
- What a user's own generator raises reaches the user unchanged.
- Rows are counted over the whole input, from 0; batches of a stream or an iterable from 1.
- There is one NaN in columns of floats, the one without a sign.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError, SchemaMismatchError
from siltstone.table.arguments import shown_object
from siltstone.table.rows_convert import RefusedValueError, check_valid, convert, is_sliceable, refused
from siltstone.table.rows_match import match_columns, match_type, slots_of
from siltstone.table.rows_split import CHUNK_BYTES, ROWS_PER_CHUNK, VALUE_BYTES_MAX, default_bytes, pieces
from siltstone.table.rows_values import columns_of, from_column
from siltstone.table.schema import arrow_schema
from siltstone.table.types import shown

if TYPE_CHECKING:
    from siltstone.format.table import Schema
    from siltstone.table.rows_match import Slot

Unit: TypeAlias = tuple[pa.Table, str]  # with what to call it in a message

_ACCEPTED = (
    "pass a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a pandas or polars DataFrame, a list of dicts, "
    "a dict of lists, or an iterable of any of these"
)
_PACE_START = 256  # rows; how large values are shows only when some were converted
_PACE_GROWTH = 4


def batches(data: object, schema: Schema) -> Iterator[pa.Table]:
    """The rows of ``data`` as tables of exactly the columns of ``schema``, each of bounded size.

    Arrow input keeps its types: what could lose a value is refused by type or by row. Python values, numpy arrays and
    pandas columns go straight to the table's types, each value checked. A pandas index is used only where its name is
    that of a column that the frame does not have.

    Raises:
        SchemaMismatchError: columns, types or values are not those of the table.
        InvalidInputError: ``data`` is nothing that holds rows, or broken.
        LimitExceededError: a value is over ``VALUE_BYTES_MAX``.
    """
    if (ready := _as_it_is(data, schema)) is not None:
        yield one_nan(ready)
        return
    intake = _Intake(slots_of(schema))
    target = arrow_schema(schema)
    for given, where in intake.units(data):
        present = intake.match(given.schema, where)
        have = {slot.name for slot in present}
        absent = [slot for slot in intake.slots if slot.name not in have]
        for part in intake.valid(given.select([slot.name for slot in present]), present):
            for piece in pieces(part, present, first=intake.rows, more=default_bytes(absent)):
                made = {
                    slot.name: convert(column, slot, first=intake.rows)
                    for slot, column in zip(present, piece.columns, strict=True)
                }
                for slot in absent:
                    made[slot.name] = pa.repeat(pa.scalar(slot.default, slot.kind), piece.num_rows)
                yield one_nan(pa.Table.from_arrays([made[slot.name] for slot in intake.slots], schema=target))
                intake.rows += piece.num_rows


def one_nan(table: pa.Table) -> pa.Table:
    """The same rows; of the many ways to write NaN, engines take those with a sign for less than every number."""
    for place, column in enumerate(table.columns):
        if kinds.is_floating(column.type) and pc.any(nan := pc.is_nan(column)).as_py():
            one = pc.if_else(nan, pa.scalar(np.nan, column.type), column)
            table = table.set_column(place, table.schema.field(place), one)
    return table


def _as_it_is(data: object, schema: Schema) -> pa.Table | None:
    """Arrow data that is not large and has just the right columns of plain types; None where it needs a closer look."""
    if not isinstance(data, pa.Table | pa.RecordBatch) or not 0 < data.num_rows <= ROWS_PER_CHUNK:
        return None
    shape = _shape(schema)
    if shape is None or data.schema.types != shape.types or data.schema.names != shape.schema.names:
        return None
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    if any(table.column(place).null_count for place in shape.filled):
        return None
    if table.get_total_buffer_size() > VALUE_BYTES_MAX and table.nbytes > VALUE_BYTES_MAX:
        return None
    try:
        table.validate(full=True)
    except (pa.ArrowException, ValueError, IndexError):
        return None
    if not isinstance(data, pa.RecordBatch) and any(column.num_chunks != 1 for column in table.columns):
        table = table.combine_chunks()
    return table if table.schema.equals(shape.schema) else pa.Table.from_arrays(table.columns, schema=shape.schema)


class _Shape(NamedTuple):
    """What data must look like to be taken as it is."""

    schema: pa.Schema
    types: list[pa.DataType]
    filled: tuple[int, ...]  # columns without nulls


@lru_cache(maxsize=16)
def _shape(schema: Schema) -> _Shape | None:
    slots = slots_of(schema)
    if not all(slot.same and is_sliceable(slot.kind) for slot in slots):
        return None
    target = arrow_schema(schema)
    return _Shape(target, target.types, tuple(place for place, one in enumerate(target) if not one.nullable))


class _Intake:
    """What is read of one input: the columns it must have, and how many rows are done."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self.slots = slots
        self.rows = 0
        self._matched: pa.Schema | None = None
        self._present: tuple[Slot, ...] = ()

    def units(self, data: object) -> Iterator[Unit]:
        """Arrow tables of whatever size ``data`` comes in, neither matched nor validated."""
        if (known := self._known(data, "")) is not None:
            yield from known
        elif isinstance(data, str | bytes | bytearray | memoryview) or not isinstance(data, Iterable):
            raise InvalidInputError(
                f"the data is of the type {shown(type(data).__name__)}, which has no rows", hint=_ACCEPTED
            )
        else:
            yield from self._items(data)

    def match(self, schema: pa.Schema, where: str) -> tuple[Slot, ...]:
        """Check names and types, once for all batches that share them; returns the columns that are there."""
        if self._matched is not None and schema.equals(self._matched):
            return self._present
        try:
            names = schema.names
        except UnicodeDecodeError as error:
            raise SchemaMismatchError(f"{where}a column's name is not valid UTF-8", hint="rename it") from error
        match_columns(names, self.slots, where=where)
        have = set(names)
        present = tuple(slot for slot in self.slots if slot.name in have)
        for slot in present:
            match_type(schema.field(slot.name).type, slot, where=where)
        self._matched, self._present = schema, present
        return present

    def valid(self, table: pa.Table, slots: tuple[Slot, ...]) -> Iterator[pa.Table]:
        """The table in parts of at most ``ROWS_PER_CHUNK`` rows whose arrays are safe to follow."""
        sliceable = [is_sliceable(column.type) for column in table.columns]
        for slot, column, later in zip(slots, table.columns, sliceable, strict=True):
            if not later:
                check_valid(column, slot, first=self.rows, rows_known=False)
        for start in range(0, table.num_rows, ROWS_PER_CHUNK):
            part = table.slice(start, ROWS_PER_CHUNK)
            for slot, column, now in zip(slots, part.columns, sliceable, strict=True):
                if now:
                    check_valid(column, slot, first=self.rows, rows_known=True)
            yield part

    def _known(self, data: Any, where: str) -> Iterator[Unit] | None:
        """The tables of what holds rows by itself; None for what may be an iterable of such."""
        if isinstance(data, pa.Table):
            return iter([(data, where)])
        if isinstance(data, pa.RecordBatch):
            return iter([(pa.Table.from_batches([data]), where)])
        if isinstance(data, pa.RecordBatchReader):
            return self._stream(data, where)
        if _is_of("pandas", ("DataFrame",), data):
            return self._frame(data, where)
        if _is_of("pyarrow.dataset", ("Dataset",), data):
            data = data.scanner(batch_size=ROWS_PER_CHUNK, batch_readahead=2, fragment_readahead=1)
        if _is_of("pyarrow.dataset", ("Scanner",), data):
            return self._stream(data.to_reader(), where, files=True)
        if isinstance(data, Mapping):
            return self._lists(data, where)
        if hasattr(data, "__arrow_c_stream__"):
            return self._stream(_imported(pa.RecordBatchReader.from_stream, data, where), where)
        if hasattr(data, "__arrow_c_array__"):
            return iter([(pa.Table.from_batches([_imported(pa.record_batch, data, where)]), where)])
        return None

    def _stream(self, reader: pa.RecordBatchReader, where: str, *, files: bool = False) -> Iterator[Unit]:
        self.match(reader.schema, where)
        number = 1
        while True:
            label = where or f"batch {number}: "
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowException, OSError) as error:
                if not files and not isinstance(error, pa.ArrowException):
                    raise  # from the user's own generator behind the reader
                raise InvalidInputError(
                    f"{label}it can't be read: {shown(str(error))[1:-1]}", hint="check where the data comes from"
                ) from error
            yield pa.Table.from_batches([batch]), label
            number += 1

    def _frame(self, frame: Any, where: str) -> Iterator[Unit]:
        names = [_checked_name(name, where) for name in frame.columns]
        wanted = {slot.name for slot in self.slots}
        levels = [name for name in frame.index.names if name in wanted and name not in names]
        match_columns([*names, *levels], self.slots, where=where)
        columns = {name: frame[name] for name in names}
        columns |= {name: frame.index.get_level_values(name).to_series() for name in levels}
        return self._paced(columns, len(frame), where)

    def _lists(self, lists: Mapping[Any, Any], where: str) -> Iterator[Unit]:
        columns = {_checked_name(name, where): _sliceable(values, name, where) for name, values in lists.items()}
        match_columns(list(columns), self.slots, where=where)
        rows = {name: len(values) for name, values in columns.items()}
        other, length = next(iter(rows.items()), ("", 0))
        for name, count in rows.items():
            if count != length:
                raise SchemaMismatchError(
                    f"{where}column {shown(name)} has {count} values, and {shown(other)} has {length}",
                    hint="give each column a value for each row",
                    column=name,
                )
        return self._paced(columns, length, where)

    def _paced(self, columns: dict[str, Any], length: int, where: str) -> Iterator[Unit]:
        """Columns of Python values in steps that follow from how large the values before were."""
        slots = [slot for slot in self.slots if slot.name in columns]
        start, pace = 0, _PACE_START
        while start < length:
            parts = []
            for slot in slots:
                values = columns[slot.name]
                part = values.iloc[start : start + pace] if hasattr(values, "iloc") else values[start : start + pace]
                parts.append(self._made(part, slot))
            table = pa.table(parts, names=[slot.name for slot in slots])
            yield table, where
            start, pace = start + pace, _next_pace(pace, table)

    def _items(self, items: Iterable[Any], *, inside: int = 0) -> Iterator[Unit]:
        """Rows and batches in the order they come; ``inside`` is the batch that they are the rows of."""
        rows: list[dict[str, Any]] = []
        pace, number = _PACE_START, inside
        for item in items:
            if isinstance(item, dict):
                rows.append(item)
                if len(rows) < pace:
                    continue
            if rows:
                table = self._table(rows)
                yield table, ""
                rows, pace = [], _next_pace(pace, table)
            if not isinstance(item, dict):
                number += 1
                yield from self._item(item, number=number, inside=inside)
        if rows:
            yield self._table(rows), ""

    def _item(self, item: object, *, number: int, inside: int) -> Iterator[Unit]:
        if not inside:
            if (known := self._known(item, f"batch {number}: ")) is not None:
                return known
            if isinstance(item, list | tuple):
                return self._items(item, inside=number)
        where = f"batch {inside} of the data has" if inside else "the data has"
        raise InvalidInputError(
            f"{where} something of the type {shown(type(item).__name__)} at row {self.rows}, counting from 0",
            hint=_ACCEPTED,
            row=self.rows,
        )

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        try:
            columns = columns_of(rows, self.slots)
        except RefusedValueError as error:
            row = self.rows + error.index
            raise SchemaMismatchError(
                f"row {row} (counting from 0): {error.problem}", hint=error.hint, row=row
            ) from None
        arrays = [self._made(values, slot) for values, slot in zip(columns, self.slots, strict=True)]
        return pa.table(arrays, names=[slot.name for slot in self.slots])

    def _made(self, values: Any, slot: Slot) -> pa.Array | pa.ChunkedArray:
        try:
            return from_column(values, slot)
        except RefusedValueError as error:
            raise refused(error, slot, first=self.rows) from error.__cause__


def _is_of(module: str, names: tuple[str, ...], data: object) -> bool:
    """Whether ``data`` is of a class of a module, which is imported if so."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(data, tuple(getattr(loaded, name) for name in names))


def _imported(read: Any, data: object, where: str) -> Any:
    try:
        return read(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{where}the {shown(type(data).__name__)} has no rows: {shown(str(error))[1:-1]}", hint=_ACCEPTED
        ) from error


def _checked_name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise SchemaMismatchError(
            f"{where}a column has the name {shown_object(name)}, which is no string", hint="rename it"
        )
    return str(name)


def _sliceable(values: Any, name: object, where: str) -> Any:
    if isinstance(values, np.ndarray) and not values.ndim:
        values = values.item()
    known = isinstance(values, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray)
    if known or _is_of("pandas", ("Series", "Index"), values):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return _imported(pa.chunked_array, values, where)
    is_one = isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)
    raise SchemaMismatchError(
        f"{where}column {shown(str(name))} is of the type {shown(type(values).__name__)}, not a list of values",
        hint=f"one row? put it in a list; else {_ACCEPTED}" if is_one else _ACCEPTED,
        column=name,
    )


def _next_pace(pace: int, table: pa.Table) -> int:
    fitting = CHUNK_BYTES * table.num_rows // max(table.nbytes, 1)
    return int(max(1, min(fitting, pace * _PACE_GROWTH, ROWS_PER_CHUNK)))
