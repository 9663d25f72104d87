"""Which fragments and row groups may hold a row that a filter chooses, from their statistics alone.

What must hold:
- What is left out holds no row that the filter chooses; what is not understood leaves nothing out.
- Bounds are in the unit of the column's type: ints for integers, bools, dates, times, timestamps and durations;
  floats; text; hex for bytes.
- The work is done for all fragments at once, and no row is read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.types as kinds

from siltstone.table import ranges
from siltstone.table.engine import parts_of
from siltstone.table.types import is_bytes, is_nested, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from datafusion import Expr

    from siltstone.format.table import Bounds
    from siltstone.table.fragments import ColumnBounds
    from siltstone.table.predicate import Predicate
    from siltstone.table.ranges import Find, Test

_NESTING_MAX = 100
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TURNED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_WILD = "%_\\"  # in LIKE: the last one escapes


class Prune:
    """What a filter says about statistics. Threads may share it."""

    def __init__(self, test: Test) -> None:
        self._test = test

    def keeps(self, bounds: Callable[[str], Bounds | None], *, rows: int) -> bool:
        """Whether a fragment may hold a row that matches; ``bounds`` gives the statistics of a column by its name."""

        def find(name: str) -> ColumnBounds | None:
            found = bounds(name)
            return None if found is None else ranges.one(found, rows)

        return bool(self.keeps_many(find, count=1)[0])

    def keeps_many(self, bounds: Find, *, count: int) -> np.ndarray:
        """Whether each of ``count`` fragments may; ``bounds`` gives the statistics of a column over all of them."""
        return np.array(np.broadcast_to(np.asarray(self._test(bounds), dtype=bool), (count,)))


def prune_for(predicate: Predicate, schema: pa.Schema) -> Prune:
    """What a filter over the columns of a schema says about statistics."""
    return prune_by([[predicate.expr]], schema)


def prune_by(ways: Sequence[Sequence[Expr]], schema: pa.Schema) -> Prune:
    """The same, for rows that pass all expressions of at least one of several ways."""
    builder = _Builder({field.name: field.type for field in schema})
    return Prune(ranges.some([ranges.every([builder.test(expr) for expr in way]) for way in ways]))


class _Builder:
    """Turns an expression with folded constants into a test of statistics."""

    def __init__(self, types: dict[str, pa.DataType]) -> None:
        self._types = types

    def test(self, expr: Expr, *, negated: bool = False, depth: int = 0) -> Test:
        """What must hold of statistics where the expression (or its opposite) is true for some row."""
        variant = expr.variant_name()
        if depth > _NESTING_MAX:
            return ranges.keep
        if variant == "BinaryExpr":
            return self._binary(expr, negated=negated, depth=depth)
        if variant == "Not":
            return self.test(parts_of(expr)[0], negated=not negated, depth=depth + 1)
        if variant == "Column":
            name = self._name(expr)
            return ranges.compare(name, "=", 0 if negated else 1) if name else ranges.keep
        if variant == "Literal":
            value = expr.python_value()
            true = kinds.is_boolean(value.type) and value.is_valid and value.as_py() != negated
            return ranges.keep if true else ranges.drop
        if variant == "InList":
            return self._in_list(expr, negated=negated)
        if variant == "Like" and not negated:
            return self._like(expr)
        if variant.startswith("Is"):
            return self._is(variant, parts_of(expr)[0], negated=negated, depth=depth)
        return ranges.keep

    def _binary(self, expr: Expr, *, negated: bool, depth: int) -> Test:
        operator = expr.rex_call_operator()
        if operator in {"AND", "OR"}:
            tests = [self.test(one, negated=negated, depth=depth + 1) for one in _terms(expr, operator)]
            return ranges.every(tests) if (operator == "AND") != negated else ranges.some(tests)
        left, right = parts_of(expr)
        if left.variant_name() == "Literal":
            left, right, operator = right, left, _TURNED.get(operator, operator)
        if operator in {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"}:
            return self._distinct(left, right, equal=(operator == "IS NOT DISTINCT FROM") != negated, depth=depth)
        compared = self._compared(left, right)
        if compared is None or operator not in _OPPOSITE:
            return ranges.keep
        column, value = compared
        return ranges.compare(column, _OPPOSITE[operator] if negated else operator, value)

    def _distinct(self, left: Expr, right: Expr, *, equal: bool, depth: int) -> Test:
        if compared := self._compared(left, right):
            column, value = compared
            if equal:
                return ranges.compare(column, "=", value)
            return ranges.some([ranges.compare(column, "!=", value), self._null(left)])
        truth = right.python_value() if right.variant_name() == "Literal" else None
        if truth is None or not kinds.is_boolean(truth.type) or not truth.is_valid:
            return ranges.keep
        return self._is(f"Is{'' if equal else 'Not'}{truth.as_py()}", left, negated=False, depth=depth)

    def _is(self, variant: str, part: Expr, *, negated: bool, depth: int) -> Test:
        """IS TRUE and the like, which are never null themselves."""
        asserts = variant.startswith("IsNot") == negated  # and not the opposite
        if variant.endswith(("Null", "Unknown")):
            if asserts:
                return self._null(part)
            return ranges.has_value(self._name(part)) if self._name(part) else ranges.keep
        if not variant.endswith(("True", "False")):
            return ranges.keep
        truth = variant.endswith("True")
        if asserts:
            return self.test(part, negated=not truth, depth=depth + 1)
        return ranges.some([self.test(part, negated=truth, depth=depth + 1), self._null(part)])

    def _in_list(self, expr: Expr, *, negated: bool) -> Test:
        first, *rest = parts_of(expr)
        negated = negated != expr.to_variant().negated()
        found = []
        for one in rest:
            if one.variant_name() == "Literal" and not one.python_value().is_valid and not negated:
                continue  # equal to nothing
            compared = self._compared(first, one)
            if compared is None:
                return ranges.keep
            found.append(compared)
        if not found:
            return ranges.keep
        values = [value for _, value in found]
        return (ranges.not_among if negated else ranges.among)(found[0][0], values)

    def _like(self, expr: Expr) -> Test:
        compared = self._compared(*parts_of(expr)) if expr.rex_call_operator() == "like" else None
        if compared is None or not is_text(self._types[compared[0]]):
            return ranges.keep
        column, pattern = compared
        end = next((place for place, one in enumerate(pattern) if one in _WILD), len(pattern))
        return ranges.begins(column, pattern[:end]) if end else ranges.has_value(column)

    def _null(self, expr: Expr) -> Test:
        """What must hold where the expression is null for some row."""
        tests, stack = [], [expr]
        while stack:
            part = stack.pop()
            variant = part.variant_name()
            if variant == "Column":
                name = self._name(part)
                # Two lists or structs without nulls at the top may be compared to null by what is inside.
                if not name or (is_nested(self._types[name]) and part is not expr):
                    return ranges.keep
                tests.append(ranges.has_null(name))
            elif variant == "Literal" and part.python_value().is_valid:
                continue
            elif variant in {"Cast", "Not", "InList", "Like"} or (
                variant == "BinaryExpr" and part.rex_call_operator() in {"AND", "OR", *_OPPOSITE}
            ):
                stack += parts_of(part)
            elif not variant.startswith("Is"):
                return ranges.keep
        return ranges.some(tests)

    def _compared(self, left: Expr, right: Expr) -> tuple[str, Any] | None:
        """A column and the constant that it is compared with, in the terms of its bounds."""
        if right.variant_name() != "Literal" or not (literal := right.python_value()).is_valid:
            return None
        if left.variant_name() == "Cast":
            left = parts_of(left)[0]  # to the type of the constant: both sides of a comparison have one type
        name = self._name(left)
        value = _value(literal, self._types[name]) if name else None
        return None if value is None else (name, value)

    def _name(self, expr: Expr) -> str:
        """The name of a column of the table, or nothing."""
        name: str = expr.to_variant().name() if expr.variant_name() == "Column" else ""
        return name if name in self._types else ""


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


def _value(literal: pa.Scalar, kind: pa.DataType) -> Any:
    """A constant in the terms of a column's bounds; None where bounds say nothing about it."""
    given = literal.type
    if kinds.is_boolean(kind):
        return int(literal.as_py()) if kinds.is_boolean(given) else None
    if kinds.is_integer(kind) and kinds.is_integer(given):
        return literal.as_py()
    if kinds.is_floating(given):
        # Casts to a narrower type round, which moves values past bounds.
        wide = kinds.is_float64(given) if kinds.is_integer(kind) else _is_wide(given, kind)
        return literal.as_py() if wide and not math.isnan(literal.as_py()) else None
    if is_text(kind):
        return literal.as_py() if is_text(given) else None
    if _is_raw(kind):
        return literal.as_py().hex() if _is_raw(given) else None
    timed = kinds.is_timestamp(kind) or kinds.is_date32(kind) or kinds.is_time(kind) or kinds.is_duration(kind)
    return literal.value if timed and given == kind else None


def _is_wide(given: pa.DataType, kind: pa.DataType) -> bool:
    return bool(kinds.is_floating(kind) and given.bit_width >= kind.bit_width)


def _is_raw(kind: pa.DataType) -> bool:
    return bool(is_bytes(kind) or kinds.is_fixed_size_binary(kind))
