"""The new values of an update: SQL expressions over the rows of one table, and how columns take what they give.

What must hold:
- A new value that its column can't hold exactly is refused, not bent. Floats are rounded to the column's precision,
  and the clock to its unit.
- No integer on the way to a value has wrapped around.
- A list, a struct or a map is held to the same in each of its parts; the parts of structs go by their names.
- A time, once it is assigned, equals what it was assigned from where a filter compares the two.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError
from siltstone.table import engine
from siltstone.table.overflow import overflows
from siltstone.table.schema import near_names
from siltstone.table.types import is_bytes, is_list, is_nested, is_text, shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datafusion import Expr

_NUMBER = re.compile(r"[+-]?\s*(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_ALL_DIGITS = Context(prec=100_000)  # more than a text can have
_FIT_HINT = "round or cut it in the expression, or widen the column"
_WIDER_HINT = "compute in a wider type, such as CAST(column AS BIGINT) or CAST(column AS DECIMAL(38, 0))"
_PARTS_HINT = "its parts must be such as the column's, with the names that they have: named_struct('name', value, ...)"
_DECIMAL_HINT = "a number with a point is a double in an expression: write CAST('1.5' AS DECIMAL(2, 1)), or round it"


@dataclass(frozen=True, eq=False)
class _Value:
    """The new value of one column, and where integers wrap around in it."""

    field: pa.Field
    text: str
    exprs: tuple[Expr, ...]
    number: pa.Scalar | None  # that the text is, for a column of decimals
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
            made, *wrapped = (
                pa.chunked_array([batch.column(one) for batch in found])
                for one in range(place, place + len(value.exprs))
            )
            place += len(value.exprs)
            if any(pc.any(one).as_py() for one in wrapped):
                raise _unfit(value, "an integer in it leaves the range of its type", hint=_WIDER_HINT)
            number = table.schema.get_field_index(value.field.name)
            field = table.schema.field(number)
            table = table.set_column(number, field, _stored(made, value, field))
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
    chosen = pa.schema([columns.field(name) for name in sorted(read)])
    return Assignments(read, chosen, tuple(values))


def _value(field: pa.Field, text: str, parsed: engine.Parsed) -> _Value:
    kind, wanted = parsed.kind, field.type
    if not _is_near(kind, wanted):
        raise InvalidInputError(
            f"the new value of column {shown(field.name)}: {shown(text)} is {shown_type(kind)}, "
            f"the column holds {shown_type(wanted)}",
            hint=_PARTS_HINT if is_nested(wanted) else "write CAST(value AS type), or quote a text as \"'text'\"",
            column=field.name,
        )
    with engine.words(f"the new value of column {shown(field.name)}:", text, ()):
        wrapped = overflows(parsed.whole, parsed.frame)
        keeps_names = not is_nested(wanted) or _keeps_names(parsed)
    exprs = (parsed.expr,) if wrapped is None else (parsed.expr, wrapped)
    value = _Value(field, text, exprs, None, bool(parsed.changing))
    if not keeps_names:
        raise _unfit(value, "structs in it have other names than each other", hint=_PARTS_HINT)
    if kinds.is_decimal(wanted) and _NUMBER.fullmatch(text.strip()):
        return _Value(field, text, exprs, _number(value), rounds=False)
    return value


def _number(value: _Value) -> pa.Scalar:
    """The number that a text is, to its last digit: as an expression it would be a double."""
    number, wanted = Decimal("".join(value.text.split())), value.field.type
    _, digits, exponent = number.normalize(_ALL_DIGITS).as_tuple()
    whole = len(digits) + int(exponent)
    if number and (-int(exponent) > wanted.scale or whole > wanted.precision - wanted.scale):
        raise _unfit(value, f"{shown(value.text.strip())} is not exactly a {shown_type(wanted)}")
    return pa.scalar(number or Decimal(0), wanted)


def _is_near(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if kind == wanted or kinds.is_null(kind):
        return True
    if is_nested(wanted):
        return is_nested(kind) and _are_parts_near(kind, wanted)
    if is_text(kind):
        time = kinds.is_timestamp(wanted) or kinds.is_date(wanted) or kinds.is_time(wanted)
        return bool(time or is_text(wanted) or is_bytes(wanted))
    groups = (_is_number, _is_day, kinds.is_time, kinds.is_duration, _is_raw)
    return any(group(kind) and group(wanted) for group in groups)


def _are_parts_near(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_struct(wanted):
        if not kinds.is_struct(kind) or sorted(one.name for one in kind) != sorted(one.name for one in wanted):
            return False
        return all(_is_near(kind.field(one.name).type, one.type) for one in wanted)
    if kinds.is_map(wanted):
        near = kinds.is_map(kind) and _is_near(kind.key_type, wanted.key_type)
        return bool(near and _is_near(kind.item_type, wanted.item_type))
    return (is_list(kind) or kinds.is_fixed_size_list(kind)) and _is_near(kind.value_type, wanted.value_type)


def _keeps_names(parsed: engine.Parsed) -> bool:
    """Whether structs that CASE makes one of, or that are cast, have one set of names: other parts would be lost."""
    stack = [parsed.whole]
    while stack:
        part = stack.pop()
        inside = engine.parts_of(part)
        stack += inside
        if part.variant_name() == "Case":
            pairs = len(inside) // 2 * 2
            made = [*inside[1:pairs:2], *inside[pairs:]]
        else:
            made = [part, *inside] if part.variant_name() in {"Cast", "TryCast"} else []
        found = [one for one in engine.types_of(made, parsed.frame) if is_nested(one)] if made else []
        if not all(_same_names(one, found[0]) for one in found):
            return False
    return True


def _same_names(one: pa.DataType, other: pa.DataType) -> bool:
    if kinds.is_struct(one) and kinds.is_struct(other):
        names = sorted(part.name for part in one)
        same = names == sorted(part.name for part in other)
        return same and all(_same_names(one.field(name).type, other.field(name).type) for name in names)
    if kinds.is_map(one) and kinds.is_map(other):
        return _same_names(one.item_type, other.item_type)
    lists = all(is_list(part) or kinds.is_fixed_size_list(part) for part in (one, other))
    return _same_names(one.value_type, other.value_type) if lists else True


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _is_day(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) or kinds.is_date(kind))


def _is_raw(kind: pa.DataType) -> bool:
    return bool(is_bytes(kind) or kinds.is_fixed_size_binary(kind))


# -- how a column takes them -----------------------------------------------------------------------


def _stored(made: pa.ChunkedArray, value: _Value, field: pa.Field) -> pa.ChunkedArray:
    """The values in the column's type, or an error that names the column."""
    if value.number is not None:
        return pa.chunked_array([pa.repeat(value.number, len(made))])
    if not _is_near(made.type, field.type):  # where CASE makes one struct of several, only its rows tell which
        raise _unfit(value, f"it gives {shown_type(made.type)}", hint=_PARTS_HINT)
    try:
        return pa.chunked_array([_fitted(one, value, field) for one in made.chunks], type=field.type)
    except pa.ArrowException as error:
        raise _unfit(value, str(error).partition("\n")[0]) from error


def _fitted(made: pa.Array, value: _Value, field: pa.Field) -> pa.Array:
    if made.null_count and not field.nullable:
        raise _unfit(value, f"{_it(value, field)} is null in some rows, and can't be")
    wanted = field.type
    if kinds.is_null(made.type):
        return pa.nulls(len(made), wanted)
    if kinds.is_struct(wanted):
        return _struct(made, value, wanted)
    if kinds.is_map(wanted):
        return _map(made, value, wanted)
    return _list(made, value, wanted) if is_nested(wanted) else _leaf(made, value, wanted)


def _struct(made: pa.StructArray, value: _Value, wanted: pa.DataType) -> pa.Array:
    rows = made.filter(made.is_valid())  # what is in a null is nothing
    parts = [_fitted(rows.field(one.name), value, one) for one in wanted]
    dense = pa.StructArray.from_arrays(parts, fields=list(wanted)) if parts else rows.cast(wanted)
    return _spread(dense, made)


def _list(made: pa.Array, value: _Value, wanted: pa.DataType) -> pa.Array:
    rows = made.filter(made.is_valid())
    values = _fitted(rows.flatten(), value, wanted.value_field)
    dense = pa.LargeListArray.from_arrays(_offsets(rows), values, type=pa.large_list(wanted.value_field))
    return _spread(dense.cast(wanted), made)


def _map(made: pa.MapArray, value: _Value, wanted: pa.DataType) -> pa.Array:
    pairs = pa.list_(pa.struct([made.type.key_field, made.type.item_field]))
    rows = made.filter(made.is_valid()).cast(pairs)
    keys, items = (
        _fitted(rows.flatten().field(place), value, one)
        for place, one in enumerate((wanted.key_field, wanted.item_field))
    )
    return _spread(pa.MapArray.from_arrays(_offsets(rows).cast(pa.int32()), keys, items, type=wanted), made)


def _offsets(rows: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(rows).cast(pa.int64())
    return pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])


def _spread(dense: pa.Array, made: pa.Array) -> pa.Array:
    """The values that are there, in the places where they were, with null in the others."""
    if not made.null_count:
        return dense
    places = pc.subtract(pc.cumulative_sum(made.is_valid().cast(pa.int64())), 1)
    return dense.take(pc.if_else(made.is_valid(), places, pa.scalar(None, pa.int64())))


def _leaf(made: pa.Array, value: _Value, wanted: pa.DataType) -> pa.Array:
    kind, exact = made.type, made
    if is_text(kind) and kinds.is_temporal(wanted):
        made, exact = _cast(made, value, wanted), _cast(made, value, _finest(wanted), tries=True)
    elif kinds.is_decimal(wanted):
        made = _cast(made, value, wanted)
        made.validate(full=True)  # sums of decimals may have a digit too many
    elif kinds.is_timestamp(kind) and kinds.is_timestamp(wanted) and wanted.tz != kind.tz:
        # As it is where the two are compared: a time without a zone is one of the other's zone.
        if wanted.tz is None:
            made = exact = pc.local_timestamp(made)
        elif kind.tz is None:
            made = exact = _cast(made, value, pa.timestamp(kind.unit, wanted.tz))
    stored = made.cast(wanted, safe=not (value.rounds and kinds.is_temporal(wanted)))
    lost = _loses(stored, exact, value)
    if lost is not None:
        doubles = kinds.is_floating(kind) and kinds.is_decimal(wanted)
        why = f"{shown(str(lost))} is not exactly a {shown_type(wanted)}"
        raise _unfit(value, why, hint=_DECIMAL_HINT if doubles else _FIT_HINT)
    return stored


def _cast(made: pa.Array, value: _Value, wanted: pa.DataType, *, tries: bool = False) -> pa.Array:
    """As SQL does it: pyarrow rounds and reads text in other ways."""
    if made.type == wanted or not len(made):
        return made.cast(wanted)
    column = engine.datafusion().col("made")
    with engine.words(f"a new value of column {shown(value.field.name)}:", value.text, ()):
        cast = column.try_cast(wanted) if tries else column.cast(wanted)
        found = engine.evaluate([cast], [pa.record_batch([made], names=["made"])])
    return pa.concat_arrays([one.column(0) for one in found])


def _finest(kind: pa.DataType) -> pa.DataType:
    if kinds.is_time(kind):
        return pa.time64("ns")
    return pa.timestamp("ns", kind.tz if kinds.is_timestamp(kind) else None)


def _loses(stored: pa.Array, exact: pa.Array, value: _Value) -> object | None:
    """A value that is another one once it is stored, if there is any."""
    kind = exact.type
    if kinds.is_floating(stored.type) and kinds.is_floating(kind):
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


def _it(value: _Value, field: pa.Field) -> str:
    return "it" if field.name == value.field.name and field.type == value.field.type else f"its {shown(field.name)}"


def _unfit(value: _Value, why: str, *, hint: str = _FIT_HINT) -> InvalidInputError:
    return InvalidInputError(
        f"the new value of column {shown(value.field.name)}: {shown(value.text)} does not fit "
        f"{shown_type(value.field.type)}: {ascii(why)[1:-1]}",
        hint=hint,
        column=value.field.name,
    )
