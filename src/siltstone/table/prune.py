"""Which fragments and row groups may hold a row that a filter chooses, from their statistics alone.

What must hold:
- What is left out holds no row that the filter chooses; what is not understood leaves nothing out.
- Bounds are at or outside of the least and the greatest value that is not null, in the unit of the column's type:
  ints for integers, bools, dates, times, timestamps and durations; floats; text; bytes, or their hex.
- NaN has no bounds, and the two zeros are one where a bound is compared: DataFusion tells them apart in places.
- The work is done for all fragments at once, and no row is read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.types as kinds

from siltstone.table.engine import parts_of
from siltstone.table.fragments import ColumnBounds
from siltstone.table.types import is_bytes, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from datafusion import Expr

    from siltstone.format.table import Bounds
    from siltstone.table.predicate import Predicate

    Find = Callable[[str], ColumnBounds | None]
    Found = np.ndarray | bool  # whether each fragment may match, or all of them
    Test = Callable[[Find], Found]

_NESTING_MAX = 100
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TURNED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_LOOSE = {"<": "<=", ">": ">="}
_WILD = "%_\\"  # in LIKE: the last one escapes
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class Prune:
    """What a filter says about statistics. Threads may share it."""

    def __init__(self, test: Test) -> None:
        self._test = test

    def keeps(self, bounds: Callable[[str], Bounds | None], *, rows: int) -> bool:
        """Whether a fragment may hold a row that matches; ``bounds`` gives the statistics of a column by its name."""

        def find(name: str) -> ColumnBounds | None:
            found = bounds(name)
            return None if found is None else _one(found, rows)

        return bool(self.keeps_many(find, count=1)[0])

    def keeps_many(self, bounds: Find, *, count: int) -> np.ndarray:
        """Whether each of ``count`` fragments may; ``bounds`` gives the statistics of a column over all of them."""
        return np.array(np.broadcast_to(np.asarray(self._test(bounds), dtype=bool), (count,)))


def prune_for(predicate: Predicate, schema: pa.Schema) -> Prune:
    """What a filter over the columns of a schema says about statistics."""
    return prune_by([[predicate.expr]], schema)


def prune_by(ways: Sequence[Sequence[Expr]], schema: pa.Schema) -> Prune:
    """What is kept if a row may pass all expressions of one of some ways."""
    types = {field.name: field.type for field in schema}
    builder = _Builder(types)
    return Prune(_any([_all([builder.test(expr) for expr in way]) for way in ways]))


def _one(bounds: Bounds, rows: int) -> ColumnBounds:
    # Objects: a Python number is compared as it is, whatever its size.
    low, high = np.empty(1, dtype=object), np.empty(1, dtype=object)
    low[0], high[0] = bounds.low, bounds.high
    known = np.array([bounds.low is not None and bounds.high is not None])
    return ColumnBounds(low, high, known, np.array([bounds.nulls]), np.array([rows]))


# -- tests of many fragments at once ---------------------------------------------------------------


def _keep(_: Find) -> Found:
    return True


def _drop(_: Find) -> Found:
    return False


def _all(tests: Sequence[Test]) -> Test:
    left = [test for test in tests if test is not _keep]
    if not left:
        return _keep
    if _drop in left:
        return _drop

    def test(find: Find) -> Found:
        found: Found = True
        for one in left:
            found = found & one(find)
        return found

    return test if len(left) > 1 else left[0]


def _any(tests: Sequence[Test]) -> Test:
    left = [test for test in tests if test is not _drop]
    if not left:
        return _drop
    if _keep in left:
        return _keep

    def test(find: Find) -> Found:
        found: Found = False
        for one in left:
            found = found | one(find)
        return found

    return test if len(left) > 1 else left[0]


def _some_null(column: str) -> Test:
    def test(find: Find) -> Found:
        bounds = find(column)
        return True if bounds is None else bounds.nulls != 0

    return test


def _some_value(column: str) -> Test:
    def test(find: Find) -> Found:
        bounds = find(column)
        return True if bounds is None else bounds.nulls != bounds.rows

    return test


def _between(column: _Column, compare: Callable[[Any, Any], Any]) -> Test:
    """A test of the bounds; where they are not known, there only has to be a value."""

    def test(find: Find) -> Found:
        bounds = find(column.name)
        if bounds is None:
            return True
        low, high = column.as_compared(bounds.low, bounds.known), column.as_compared(bounds.high, bounds.known)
        if low is None or high is None:
            return bounds.nulls != bounds.rows
        found = np.asarray(compare(low, high), dtype=bool)
        return (found | ~bounds.known) & (bounds.nulls != bounds.rows)

    return test


def _compare(column: _Column, operator: str, value: Any) -> Test:
    if column.is_float and value == 0:
        if operator == "!=":
            return _some_value(column.name)
        operator = _LOOSE.get(operator, operator)
    return _between(
        column,
        {
            "=": lambda low, high: (low <= value) & (high >= value),
            "!=": lambda low, high: (low != value) | (high != value),
            "<": lambda low, _: low < value,
            "<=": lambda low, _: low <= value,
            ">": lambda _, high: high > value,
            ">=": lambda _, high: high >= value,
        }[operator],
    )


def _one_of(column: _Column, values: Sequence[Any]) -> Test:
    if not values:
        return _drop
    ordered = np.array(sorted(set(values)), dtype=object)
    if column.is_float:
        ordered = ordered.astype(np.float64)

    def compare(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        wanted = ordered.astype(low.dtype)
        return np.searchsorted(wanted, low, "left") < np.searchsorted(wanted, high, "right")

    return _between(column, compare)


def _none_of(column: _Column, values: Sequence[Any]) -> Test:
    if column.is_float:
        return _some_value(column.name)
    return _all([_compare(column, "!=", value) for value in values])


def _begins(column: _Column, start: str) -> Test:
    after = _after(start)
    if after is None:
        return _compare(column, ">=", start)
    return _between(column, lambda low, high: (low < after) & (high >= start))


def _after(start: str) -> str | None:
    """The least text above all that begin with ``start``; None where there is none."""
    while start:
        point = ord(start[-1]) + 1
        start = start[:-1]
        if point in _SURROGATES:
            point = _SURROGATES.stop
        if point <= _LAST_CHARACTER:
            return start + chr(point)
    return None


# -- from an expression to a test --------------------------------------------------------------------


class _Column:
    """A column as an expression compares it: as it is, or as a wider number."""

    def __init__(self, name: str, kind: pa.DataType, *, compared_as: pa.DataType) -> None:
        self.name = name
        self.kind = kind
        self.is_float = bool(kinds.is_floating(compared_as))

    def as_compared(self, bounds: np.ndarray, known: np.ndarray) -> np.ndarray | None:
        """Bounds in the terms of what they are compared with; None where they are not what the column holds."""
        if bounds.dtype != object:
            numbers = "biuf" if self.is_float else "biu"
            if is_text(self.kind) or _is_raw(self.kind) or bounds.dtype.kind not in numbers:
                return None
        elif not all(self._is_own(one) for one in bounds[known]):
            return None
        if self.is_float:
            # An integer is rounded as DataFusion rounds it before the two are compared.
            bounds = np.where(known, bounds, 0) if bounds.dtype == object else bounds
            return bounds.astype(np.float64)
        if bounds.dtype == object and not known.all():
            filler: object = "" if is_text(self.kind) or _is_raw(self.kind) else 0
            bounds = np.where(known, bounds, filler)
        return bounds

    def _is_own(self, bound: object) -> bool:
        if is_text(self.kind) or _is_raw(self.kind):
            return isinstance(bound, str)
        return isinstance(bound, int | float) if self.is_float else isinstance(bound, int)


class _Builder:
    """Turns an expression with folded constants into a test."""

    def __init__(self, types: dict[str, pa.DataType]) -> None:
        self._types = types

    def test(self, expr: Expr, *, negated: bool = False, depth: int = 0) -> Test:
        """What must hold of statistics where the expression (or its opposite) is true for some row."""
        variant = expr.variant_name()
        if depth > _NESTING_MAX:
            return _keep
        if variant == "BinaryExpr":
            return self._binary(expr, negated=negated, depth=depth)
        if variant == "Not":
            return self.test(parts_of(expr)[0], negated=not negated, depth=depth + 1)
        if variant == "Column":
            column = self._column(expr, None)
            return _compare(column, "=", 0 if negated else 1) if column else _keep
        if variant == "Literal":
            value = expr.python_value()
            known = kinds.is_boolean(value.type) and value.is_valid and value.as_py() != negated
            return _keep if known else _drop
        if variant == "InList":
            return self._in_list(expr, negated=negated)
        if variant == "Like" and not negated:
            return self._like(expr)
        return self._is(variant, expr, negated=negated, depth=depth)

    def _binary(self, expr: Expr, *, negated: bool, depth: int) -> Test:
        operator = expr.rex_call_operator()
        if operator in {"AND", "OR"}:
            tests = [self.test(one, negated=negated, depth=depth + 1) for one in _terms(expr, operator)]
            return _all(tests) if (operator == "AND") != negated else _any(tests)
        left, right = parts_of(expr)
        if operator in {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"}:
            return self._distinct(left, right, equal=(operator == "IS NOT DISTINCT FROM") != negated, depth=depth)
        if operator not in _OPPOSITE:
            return _keep
        if left.variant_name() == "Literal":
            left, right, operator = right, left, _TURNED[operator]
        compared = self._compared(left, right)
        return _compare(compared[0], _OPPOSITE[operator] if negated else operator, compared[1]) if compared else _keep

    def _distinct(self, left: Expr, right: Expr, *, equal: bool, depth: int) -> Test:
        if left.variant_name() == "Literal":
            left, right = right, left
        if compared := self._compared(left, right):
            column, value = compared
            return _compare(column, "=", value) if equal else _any([_compare(column, "!=", value), self._null(left)])
        truth = right.python_value() if right.variant_name() == "Literal" else None
        if truth is None or not kinds.is_boolean(truth.type) or not truth.is_valid:
            return _keep
        if equal:
            return self.test(left, negated=not truth.as_py(), depth=depth + 1)
        return _any([self.test(left, negated=bool(truth.as_py()), depth=depth + 1), self._null(left)])

    def _is(self, variant: str, expr: Expr, *, negated: bool, depth: int) -> Test:
        """IS TRUE and the like, which are never null themselves."""
        if variant in {"IsNull", "IsUnknown", "IsNotNull", "IsNotUnknown"}:
            if variant.startswith("IsNot") == negated:
                return self._null(parts_of(expr)[0])
            part = parts_of(expr)[0]
            column = self._column(part, None, only=False) if part.variant_name() == "Column" else None
            return _some_value(column.name) if column else _keep
        if variant not in {"IsTrue", "IsNotTrue", "IsFalse", "IsNotFalse"}:
            return _keep
        part, truth = parts_of(expr)[0], variant.endswith("True")
        if variant.startswith("IsNot") == negated:
            return self.test(part, negated=not truth, depth=depth + 1)
        return _any([self.test(part, negated=truth, depth=depth + 1), self._null(part)])

    def _in_list(self, expr: Expr, *, negated: bool) -> Test:
        first, *rest = parts_of(expr)
        values = []
        column = None
        negated = negated != expr.to_variant().negated()
        for one in rest:
            if one.variant_name() == "Literal" and not one.python_value().is_valid and not negated:
                continue  # equal to nothing
            compared = self._compared(first, one)
            if compared is None:
                return _keep
            column = compared[0]
            values.append(compared[1])
        if column is None:
            return _keep
        return _none_of(column, values) if negated else _one_of(column, values)

    def _like(self, expr: Expr) -> Test:
        if expr.rex_call_operator() != "like":
            return _keep
        compared = self._compared(*parts_of(expr))
        if compared is None or not is_text(compared[0].kind):
            return _keep
        column, pattern = compared
        end = next((place for place, one in enumerate(pattern) if one in _WILD), len(pattern))
        return _begins(column, pattern[:end]) if end else _some_value(column.name)

    def _null(self, expr: Expr) -> Test:
        """What must hold where the expression is null for some row."""
        tests, stack = [], [expr]
        while stack:
            part = stack.pop()
            variant = part.variant_name()
            if variant == "Column":
                tests.append(_some_null(part.to_variant().name()))
            elif variant == "Literal" and part.python_value().is_valid:
                continue
            elif variant in {"Cast", "Not", "InList", "Like"} or (
                variant == "BinaryExpr" and part.rex_call_operator() in {"AND", "OR", *_OPPOSITE}
            ):
                stack += parts_of(part)
            elif not variant.startswith("Is"):
                return _keep
        return _any(tests)

    def _compared(self, left: Expr, right: Expr) -> tuple[_Column, Any] | None:
        """A column and the constant that it is compared with, in the terms of its bounds."""
        if right.variant_name() != "Literal" or not (literal := right.python_value()).is_valid:
            return None
        if left.variant_name() == "Cast":
            left = parts_of(left)[0]  # both sides of a comparison are of one type, the literal's
        column = self._column(left, literal.type)
        value = _value(literal, column.kind) if column else None
        return (column, value) if column and value is not None else None

    def _column(self, expr: Expr, compared_as: pa.DataType | None, *, only: bool = True) -> _Column | None:
        if expr.variant_name() != "Column":
            return None
        name = expr.to_variant().name()
        kind = self._types.get(name)
        if kind is None or (only and compared_as is None and not kinds.is_boolean(kind)):
            return None
        return _Column(name, kind, compared_as=kind if compared_as is None else compared_as)


def _terms(expr: Expr, operator: str) -> list[Expr]:
    """The terms of a chain of one operator; chains are long, not deep."""
    terms, stack = [], [expr]
    while stack:
        part = stack.pop()
        if part.variant_name() == "BinaryExpr" and part.rex_call_operator() == operator:
            stack += parts_of(part)
        else:
            terms.append(part)
    return terms


def _is_raw(kind: pa.DataType) -> bool:
    return bool(is_bytes(kind) or kinds.is_fixed_size_binary(kind))


def _value(literal: pa.Scalar, kind: pa.DataType) -> Any:
    """A constant in the terms of a column's bounds; None where the two can't be compared by bounds."""
    given = literal.type
    if kinds.is_boolean(kind):
        return int(literal.as_py()) if kinds.is_boolean(given) else None
    if kinds.is_integer(kind) and kinds.is_integer(given):
        return literal.as_py()
    if kinds.is_floating(given) and (
        (kinds.is_integer(kind) and kinds.is_float64(given))
        or (kinds.is_floating(kind) and given.bit_width >= kind.bit_width)
    ):
        return None if math.isnan(literal.as_py()) else literal.as_py()
    if is_text(kind):
        return literal.as_py() if is_text(given) else None
    if _is_raw(kind) and _is_raw(given):
        return literal.as_py().hex()
    timed = kinds.is_timestamp(kind) or kinds.is_date32(kind) or kinds.is_time(kind) or kinds.is_duration(kind)
    return literal.value if timed and given == kind else None
