"""A filter of a table as a condition of Spark's, where both say the same of every row.

What must hold:
- What is translated means the same in both engines by what it is made of: columns of integers, text, booleans, dates
  and timestamps, compared with constants of the same kind. No part of it can fail for a row.
- Anything else is not translated. Floats are not: NaN and -0.0 are in another order there.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow.types as kinds
from pyspark.sql import functions as F  # noqa: N812 - everyone calls it so

from siltstone.table.engine import parts_of
from siltstone.table.types import is_text, widens

if TYPE_CHECKING:
    import pyarrow as pa
    from datafusion import Expr
    from pyspark.sql import Column

    from siltstone.table.predicate import Predicate

TERMS_MAX = 1_000
_NESTING_MAX = 50
_TURNED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_LONG = 2**63
_DAYS = dt.date(1970, 1, 1)
_YEAR_MIN, _YEAR_MAX = dt.date(1, 1, 1), dt.date(9999, 12, 31)


class _UnlikeError(Exception):
    """A part that is not translated."""


def translate(predicate: Predicate) -> Column | None:
    """The condition that chooses the same rows, over columns by their names; None where there is none for sure."""
    builder = _Builder({field.name: field.type for field in predicate.schema})
    try:
        return builder.build(predicate.expr)
    except _UnlikeError:
        return None


def quoted(name: str) -> str:
    """A column's name as Spark reads it."""
    return "`" + name.replace("`", "``") + "`"


class _Builder:
    """Turns an expression with folded constants into a condition."""

    def __init__(self, types: dict[str, pa.DataType]) -> None:
        self._types = types
        self._terms = 0

    def build(self, expr: Expr, depth: int = 0) -> Column:
        self._terms += 1
        if depth > _NESTING_MAX or self._terms > TERMS_MAX:
            raise _UnlikeError
        variant = expr.variant_name()
        if variant == "BinaryExpr":
            return self._binary(expr, depth)
        if variant == "Not":
            return ~self.build(parts_of(expr)[0], depth + 1)
        if variant == "Column":
            name = self._name(expr)
            if not kinds.is_boolean(self._types[name]):
                raise _UnlikeError
            return F.col(quoted(name))
        if variant == "Literal":
            value = expr.python_value()
            if not kinds.is_boolean(value.type) or not value.is_valid:
                raise _UnlikeError
            return F.lit(value.as_py())
        if variant == "InList":
            return self._in_list(expr)
        if variant == "Like":
            return self._like(expr)
        return self._is(variant, expr, depth)

    def _binary(self, expr: Expr, depth: int) -> Column:
        operator = expr.rex_call_operator()
        left, right = parts_of(expr)
        if operator in {"AND", "OR"}:
            first, second = self.build(left, depth + 1), self.build(right, depth + 1)
            return first & second if operator == "AND" else first | second
        if left.variant_name() == "Literal":
            left, right, operator = right, left, _TURNED.get(operator, operator)
        column, value = self._compared(left, right)
        if operator == "=":
            return column == value
        if operator == "!=":
            return column != value
        if operator == "<":
            return column < value
        if operator == "<=":
            return column <= value
        if operator == ">":
            return column > value
        if operator == ">=":
            return column >= value
        raise _UnlikeError

    def _in_list(self, expr: Expr) -> Column:
        first, *rest = parts_of(expr)
        found = [self._compared(first, one) for one in rest]
        if not found or len(found) > TERMS_MAX:
            raise _UnlikeError
        inside = found[0][0].isin(*(value for _, value in found))
        return ~inside if expr.to_variant().negated() else inside

    def _like(self, expr: Expr) -> Column:
        """A text that begins with another one."""
        if expr.rex_call_operator() != "like":
            raise _UnlikeError
        left, right, *_ = parts_of(expr)
        name, literal = self._name(left), _literal(right)
        if not is_text(self._types[name]) or not is_text(literal.type):
            raise _UnlikeError
        start = literal.as_py().removesuffix("%")
        if start == literal.as_py() or any(one in start for one in "%_\\"):
            raise _UnlikeError
        return F.startswith(F.col(quoted(name)), F.lit(start))

    def _is(self, variant: str, expr: Expr, depth: int) -> Column:
        if variant not in {"IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsNotTrue", "IsNotFalse"}:
            raise _UnlikeError
        part = parts_of(expr)[0]
        if variant in {"IsNull", "IsNotNull"}:
            column = F.col(quoted(self._name(part)))
            return column.isNull() if variant == "IsNull" else column.isNotNull()
        found = F.coalesce(self.build(part, depth + 1), F.lit(variant in {"IsFalse", "IsNotFalse"}))
        return found if variant in {"IsTrue", "IsNotFalse"} else ~found

    def _compared(self, left: Expr, right: Expr) -> tuple[Column, Column]:
        """A column and the constant that it is compared with."""
        literal = _literal(right)
        cast = left.variant_name() == "Cast"
        name = self._name(parts_of(left)[0] if cast else left)
        # Both sides have one type. Integers that were widened compare as before; any other cast may fail, or round.
        if cast and not (kinds.is_integer(literal.type) and widens(self._types[name], literal.type)):
            raise _UnlikeError
        return F.col(quoted(name)), _constant(literal, self._types[name])

    def _name(self, expr: Expr) -> str:
        name: str = expr.to_variant().name() if expr.variant_name() == "Column" else ""
        if name not in self._types:
            raise _UnlikeError
        return name


def _literal(expr: Expr) -> pa.Scalar:
    if expr.variant_name() != "Literal":
        raise _UnlikeError
    value = expr.python_value()
    if not value.is_valid:
        raise _UnlikeError
    return value


def _constant(literal: pa.Scalar, kind: pa.DataType) -> Column:
    """A constant in the terms of a column's type."""
    given = literal.type
    if kinds.is_integer(kind) and not kinds.is_uint64(kind):
        value: Any = literal.as_py() if kinds.is_integer(given) else _LONG
        if not -_LONG <= value < _LONG:
            raise _UnlikeError
        return F.lit(value)
    if kinds.is_boolean(kind) and kinds.is_boolean(given):
        return F.lit(literal.as_py())
    if is_text(kind) and is_text(given):
        return F.lit(literal.as_py())
    if kinds.is_date32(kind) and given == kind:
        return F.expr(f"date'{_day(literal.value)}'")
    if kinds.is_timestamp(kind) and given == kind and kind.unit in {"ms", "us"}:
        micros = literal.value * (1000 if kind.unit == "ms" else 1)
        return _moment(micros, zoned=kind.tz is not None)
    raise _UnlikeError


def _day(days: int) -> str:
    if not (_YEAR_MIN - _DAYS).days <= days <= (_YEAR_MAX - _DAYS).days:
        raise _UnlikeError
    return (_DAYS + dt.timedelta(days)).isoformat()


def _moment(micros: int, *, zoned: bool) -> Column:
    """A time by its number: what a text says depends on the session's time zone."""
    seconds, fraction = divmod(micros, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    day = _day(days)
    if zoned:
        return F.timestamp_micros(F.lit(micros))
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return F.expr(f"timestamp_ntz'{day} {clock}'")
