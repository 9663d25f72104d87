"""SQL expressions over the rows of one table: filters, and the new values of an update.

What must hold:
- A filter says yes or no to each row from that row alone, and says the same today and tomorrow.
- Rows keep their order; a null is no.
- Where NaN is compared, it equals itself and is above every number. Only pruning must know that too.
- A new value that its column can't hold exactly is refused, not bent. Floats are rounded to the column's precision,
  and the clock to its unit.
"""

from __future__ import annotations

import operator
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import InternalError, InvalidInputError
from siltstone.table import engine
from siltstone.table.schema import near_names
from siltstone.table.types import is_bytes, is_nested, is_text, shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datafusion import Expr

WHERE = "where"
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_CHAIN_MAX = 100
_WRAPPED = 2.0**15  # DataFusion's integers wrap around at 2**16 or more; a float is nearer than that


@dataclass(frozen=True, eq=False)
class Predicate:
    """A filter. Threads may share it; evaluating it takes about 0.4 ms and the time for the rows."""

    text: str
    columns: frozenset[str]
    schema: pa.Schema
    expr: Expr  # with its constants folded
    lists_floats: bool  # DataFusion looks values up in a list by their bits, and there are two zeros

    def mask(self, table: pa.Table) -> pa.ChunkedArray:
        """Whether each row matches. The table has at least ``columns``.

        Raises:
            InvalidInputError: a row can't be evaluated (division by zero, a text that is no number).
        """
        if not self.columns or not table.num_rows:
            return pa.chunked_array([pa.repeat(pa.scalar(bool(table.num_rows) and self._constant()), table.num_rows)])
        with engine.words(WHERE, self.text, self.schema.names):
            columns = engine.columns_for(table, _only(self.schema, self.columns))
            found = engine.evaluate([self.expr], [_one_zero(one) for one in columns] if self.lists_floats else columns)
        mask = pa.chunked_array([batch.column(0) for batch in found], type=pa.bool_())
        if len(mask) != table.num_rows:
            raise InternalError(f"where {shown(self.text)} gave {len(mask)} answers for {table.num_rows} rows")
        return pc.fill_null(mask, False)

    def _constant(self) -> bool:
        with engine.words(WHERE, self.text, ()):
            one_row = pa.record_batch([pa.nulls(1)], names=["_"])
            return bool(engine.evaluate([self.expr], [one_row])[0].column(0)[0].as_py())

    def __reduce__(self) -> tuple[object, ...]:
        return (parse_predicate, (self.text, self.schema))


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parse a filter over the columns of a schema.

    Raises:
        InvalidInputError: it is no SQL expression that says yes or no to one row of these columns.
    """
    parsed = engine.parse(text, engine.plain(schema), what=WHERE)
    if parsed.changing:
        raise InvalidInputError(
            f"where {shown(text)} calls {min(parsed.changing)}(), which gives another value each time",
            hint="pass the value itself, so that a retry chooses the same rows",
        )
    if not kinds.is_boolean(parsed.kind):
        raise InvalidInputError(
            f"where {shown(text)} is {shown_type(parsed.kind)}, not true or false", hint="compare it with something"
        )
    return Predicate(text, parsed.columns, engine.plain(schema), parsed.expr, _lists_floats(parsed.expr, schema))


def _lists_floats(expr: Expr, schema: pa.Schema) -> bool:
    """Whether floats are looked for in a list; many alternatives of one column become a list, too."""
    stack = [expr]
    while stack:
        part = stack.pop()
        if part.variant_name() == "InList":
            names = engine.columns_of(part)
            if any(kinds.is_floating(schema.field(name).type) or is_nested(schema.field(name).type) for name in names):
                return True
        stack += engine.parts_of(part)
    return False


def _one_zero(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, in which zero has no sign."""
    columns = [
        pc.add(column, pa.scalar(0.0, column.type)) if kinds.is_floating(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _only(schema: pa.Schema, columns: frozenset[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in sorted(columns)])


# -- new values ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Value:
    """The new value of one column: two expressions where the second tells whether the first lost something."""

    field: pa.Field
    text: str
    kind: pa.DataType
    exprs: tuple[Expr, ...]
    rounds: bool  # the clock's digits below the column's unit mean nothing


@dataclass(frozen=True, eq=False)
class Assignments:
    """New values of columns, each from the row as it was before."""

    columns: frozenset[str]  # that the values are made from
    schema: pa.Schema  # of those
    values: tuple[_Value, ...]

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows with their new values; the schema stays.

        Raises:
            InvalidInputError: a value can't be evaluated, or its column can't hold it; the message names the column.
        """
        if not table.num_rows:
            return table
        exprs = [expr for value in self.values for expr in value.exprs]
        names = ", ".join(shown(value.field.name) for value in self.values)
        with engine.words(f"a new value of column {names}:", "; ".join(value.text for value in self.values), ()):
            found = engine.evaluate(exprs, self._batches(table))
        place = 0
        for value in self.values:
            arrays = [
                pa.chunked_array([batch.column(one) for batch in found])
                for one in range(place, place + len(value.exprs))
            ]
            place += len(value.exprs)
            number = table.schema.get_field_index(value.field.name)
            field = table.schema.field(number)
            table = table.set_column(number, field, _stored(arrays, value, field))
        return table

    def _batches(self, table: pa.Table) -> list[pa.RecordBatch]:
        if self.columns:
            return engine.columns_for(table, self.schema)
        return [pa.record_batch([pa.nulls(table.num_rows)], names=["_"])]


def parse_assignments(texts: Mapping[str, str], schema: pa.Schema, *, moment: int | None = None) -> Assignments:
    """Parse the new values of columns. For now() and the like it is ``moment``, in nanoseconds since 1970, or now.

    Raises:
        InvalidInputError: a column is not there, or its value is no SQL expression over one row that it could hold.
    """
    if not texts:
        raise InvalidInputError("no column is given a new value", hint='for example {"price": "price * 2"}')
    moment = time.time_ns() if moment is None else moment
    columns = engine.plain(schema)
    values, read = [], frozenset[str]()
    for name, text in texts.items():
        if name not in schema.names:
            raise InvalidInputError(
                f"column {shown(str(name))} is given a new value and is not there",
                hint=near_names(schema.names, str(name)),
                column=str(name),
            )
        parsed = engine.parse(text, columns, what=f"the new value of column {shown(name)}:", moment=moment)
        values.append(_value(schema.field(name), text, parsed))
        read |= parsed.columns
    return Assignments(read, _only(columns, read), tuple(values))


def _value(field: pa.Field, text: str, parsed: engine.Parsed) -> _Value:
    kind, wanted, expr = parsed.kind, field.type, parsed.expr
    if not _is_near(kind, wanted):
        raise InvalidInputError(
            f"the new value of column {shown(field.name)}: {shown(text)} is {shown_type(kind)}, "
            f"the column holds {shown_type(wanted)}",
            hint="write CAST(value AS type), or quote a text as \"'text'\"",
            column=field.name,
        )
    exprs: tuple[Expr, ...] = (expr,)
    if is_text(kind) and kinds.is_temporal(wanted):
        exprs = (expr.cast(wanted), expr.try_cast(_finest(wanted)))
    elif kinds.is_decimal(wanted) and not kinds.is_null(kind):
        exprs = (expr.cast(wanted), expr)
    elif kinds.is_timestamp(kind) and kinds.is_timestamp(wanted) and kind.tz != wanted.tz:
        # A time without a zone is one of the column's zone, as it is where the two are compared.
        exprs = (expr.cast(pa.timestamp(kind.unit, wanted.tz)),)
    elif kinds.is_integer(kind) and (floats := _in_floats(expr)) is not None:
        exprs = (expr, floats)
    return _Value(field, text, kind, exprs, bool(parsed.changing))


def _in_floats(expr: Expr, depth: int = 0) -> Expr | None:
    """The same arithmetic on floats, which do not wrap around; None where there is none."""
    sign = expr.rex_call_operator() if expr.variant_name() == "BinaryExpr" else ""
    if sign not in _ARITHMETIC or depth > _CHAIN_MAX:
        return None
    sides = []
    for side in expr.rex_call_operands():
        floats = _in_floats(side, depth + 1)
        sides.append(side.cast(pa.float64()) if floats is None else floats)
    return _ARITHMETIC[sign](sides[0], sides[1])


def _is_near(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if kind == wanted or kinds.is_null(kind):
        return True
    if is_text(kind):
        time = kinds.is_timestamp(wanted) or kinds.is_date(wanted) or kinds.is_time(wanted)
        return bool(time or is_text(wanted) or is_bytes(wanted))
    groups = (_is_number, _is_day, kinds.is_time, kinds.is_duration, _is_raw, kinds.is_nested)
    return any(group(kind) and group(wanted) for group in groups)


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _is_day(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) or kinds.is_date(kind))


def _is_raw(kind: pa.DataType) -> bool:
    return bool(is_bytes(kind) or kinds.is_fixed_size_binary(kind))


def _finest(kind: pa.DataType) -> pa.DataType:
    if kinds.is_time(kind):
        return pa.time64("ns")
    return pa.timestamp("ns", kind.tz if kinds.is_timestamp(kind) else None)


def _stored(arrays: list[pa.ChunkedArray], value: _Value, field: pa.Field) -> pa.ChunkedArray:
    """The values in the column's type, or an error that names the column."""
    try:
        stored = arrays[0].cast(field.type, safe=not (value.rounds and kinds.is_temporal(field.type)))
        lost = _loses(stored, arrays[0], arrays[-1], value)
    except pa.ArrowException as error:
        raise _unfit(value, str(error).partition("\n")[0]) from error
    if lost is not None:
        raise _unfit(value, f"{shown(str(lost))} is not exactly a {shown_type(field.type)}")
    if stored.null_count and not field.nullable:
        raise _unfit(value, "it is null in some rows, and the column can't be")
    return stored


def _loses(stored: pa.ChunkedArray, made: pa.ChunkedArray, exact: pa.ChunkedArray, value: _Value) -> object | None:
    """A value that is another one once it is stored, if there is any."""
    kind = exact.type
    if kinds.is_integer(made.type) and kinds.is_floating(kind):
        far = pc.abs(pc.subtract(made.cast(kind, safe=False), exact))
        same = pc.less(far, _WRAPPED)
    elif kinds.is_floating(stored.type) and kinds.is_floating(kind):
        same = pc.or_(pc.is_finite(stored), pc.invert(pc.is_finite(exact)))
    elif kind == stored.type or _may_round(kind, stored.type, value):
        return None
    else:
        same = pc.equal(stored.cast(kind, safe=False), exact)
    wrong = exact.filter(pc.invert(pc.fill_null(same, True)))
    return wrong[0].as_py() if len(wrong) else None


def _may_round(kind: pa.DataType, wanted: pa.DataType, value: _Value) -> bool:
    if _is_number(kind):
        return bool(kinds.is_floating(wanted))
    return value.rounds or not kinds.is_temporal(kind)


def _unfit(value: _Value, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the new value of column {shown(value.field.name)}: {shown(value.text)} does not fit "
        f"{shown_type(value.field.type)}: {ascii(why)[1:-1]}",
        hint="round or cut it in the expression, or widen the column",
        column=value.field.name,
    )
