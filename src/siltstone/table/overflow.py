"""Whether an integer wraps around where an expression is evaluated, as DataFusion's do without a word.

What must hold:
- For each row it is told of every +, - and * of integers, wherever it is in the expression, that the row's value is
  made from.
- What CASE, coalesce, AND and OR do not come to in a row is neither told of nor evaluated: it may fail there.
- What wraps around and comes back is right: only what leaves a sum or a product is looked at.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from siltstone.table import engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datafusion import DataFrame, Expr

_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_MINUS = "Negative"  # as DataFusion calls the sign
_FIRST_OF = frozenset({"coalesce", "nvl", "ifnull"})
_WIDE = pa.decimal128(20, 0)  # every integer; a product of two that has more than 38 digits fails
_PLANNED_TOGETHER = 50  # expressions; the time grows with the square
_LIMIT = pa.decimal128(38, 0)


@dataclass(eq=False)
class _Part:
    """A part of an expression, and what of it tells of a wrapped integer. ``wide`` is it in numbers that don't wrap."""

    expr: Expr
    parent: _Part | None
    sign: str  # of an operator, or the name of a function
    parts: list[_Part] = field(default_factory=list)
    kind: pa.DataType | None = None
    wide: Expr | None = None
    told: list[Expr] = field(default_factory=list)

    @property
    def is_joined(self) -> bool:
        """Whether it is an operand of an AND in an AND, or of an OR in an OR."""
        return self.sign in {"AND", "OR"} and self.parent is not None and self.parent.sign == self.sign

    @property
    def is_inner(self) -> bool:
        """Whether it is a part of a larger sum or product of its type."""
        return self.parent is not None and self.parent.wide is not None and self.parent.kind == self.kind


def overflows(whole: Expr, frame: DataFrame) -> Expr | None:
    """An expression that is true in rows where an integer wraps around in another; None where none can.

    It draws its own random numbers, so of what is made from them it tells for others of the same kind.
    """
    parts = _parts(whole)
    _find_integers(parts, frame)
    for part in reversed(parts):  # operands come before what they are operands of
        part.told = _told(part, frame)
    return _any(parts[0].told)


def _parts(whole: Expr) -> list[_Part]:
    found, stack = [], [_part(whole, None)]
    while stack:
        part = stack.pop()
        found.append(part)
        part.parts = [_part(one, part) for one in engine.parts_of(part.expr)]
        stack += part.parts
    return found


def _part(expr: Expr, parent: _Part | None) -> _Part:
    variant = expr.variant_name()
    named = variant in {"BinaryExpr", "ScalarFunction"}
    return _Part(expr, parent, expr.rex_call_operator() if named else variant)


def _find_integers(parts: Sequence[_Part], frame: DataFrame) -> None:
    """Set the type and ``wide`` of each sum and product of integers."""
    arithmetic = [one for one in parts if one.sign in _ARITHMETIC or one.sign == _MINUS]
    known = _types({
        one.expr.canonical_name(): one.expr
        for whole in arithmetic
        for one in whole.parts
        if one.sign not in _ARITHMETIC and one.sign != _MINUS
    }, frame)  # fmt: skip
    signs: dict[tuple[str, ...], pa.DataType] = {}
    for part in reversed(arithmetic):
        for one in part.parts:
            one.kind = known[one.expr.canonical_name()] if one.kind is None else one.kind
        operands = [one.kind for one in part.parts]
        # By the types of its operands: to plan each whole chain takes time that grows with the square.
        asked = (part.sign, *map(str, operands))
        if asked not in signs:
            alike = _applied(part.sign, [_null(one) for one in operands])
            signs[asked] = operands[0] if part.sign == _MINUS else engine.types_of([alike], frame)[0]
        part.kind = signs[asked]
        if kinds.is_integer(part.kind) and all(kinds.is_integer(one) or kinds.is_null(one) for one in operands):
            sides = [
                one.expr.cast(_WIDE) if one.wide is None or one.kind != part.kind else one.wide for one in part.parts
            ]
            part.wide = _applied(part.sign, sides)


def _types(exprs: Mapping[str, Expr], frame: DataFrame) -> dict[str, pa.DataType]:
    names, found = list(exprs), []
    for start in range(0, len(names), _PLANNED_TOGETHER):
        found += engine.types_of([exprs[one] for one in names[start : start + _PLANNED_TOGETHER]], frame)
    return dict(zip(names, found, strict=True))


def _null(kind: pa.DataType) -> Expr:
    return engine.datafusion().lit(pa.scalar(None, pa.null())).cast(kind)


def _applied(sign: str, sides: Sequence[Expr]) -> Expr:
    if sign == _MINUS:
        return engine.datafusion().lit(pa.scalar(Decimal(0), _WIDE)) - sides[0]
    return _ARITHMETIC[sign](*sides)


def _told(part: _Part, frame: DataFrame) -> list[Expr]:
    if part.sign in {"AND", "OR"}:
        return [] if part.is_joined else _guarded(_alternatives(part), frame)
    if part.sign == "Case":
        return _guarded(_branches(part), frame)
    if part.sign in _FIRST_OF:
        return _guarded([(one, one.expr.is_not_null(), []) for one in part.parts], frame)
    if part.sign == "nvl2":
        first, second, third = part.parts
        return _guarded([(first, first.expr.is_not_null(), second.told), (third, None, [])], frame)
    inside = [told for one in part.parts for told in one.told]
    if part.wide is None or part.is_inner:
        return inside
    return [*inside, engine.folded(_outside(part.wide, part.kind), frame)]


def _outside(wide: Expr, kind: pa.DataType) -> Expr:
    bits = kind.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kinds.is_signed_integer(kind) else (0, 2**bits - 1)
    least, most = (engine.datafusion().lit(pa.scalar(Decimal(one), _LIMIT)) for one in (low, high))
    return wide.between(least, most, negated=True)


# -- what a row comes to ---------------------------------------------------------------------------

_Step = tuple[_Part, "Expr | None", "list[Expr]"]  # what is evaluated; where it ends there; what is evaluated then


def _branches(part: _Part) -> list[_Step]:
    pairs, rest = part.parts[: len(part.parts) // 2 * 2], part.parts[len(part.parts) // 2 * 2 :]
    steps: list[_Step] = [(when, when.expr, then.told) for when, then in zip(pairs[::2], pairs[1::2], strict=True)]
    return steps + [(one, None, []) for one in rest]


def _alternatives(part: _Part) -> list[_Step]:
    sides, stack = [], [part]
    while stack:
        one = stack.pop()
        if one is part or one.is_joined:
            stack += reversed(one.parts)
        else:
            sides.append(one)
    return [(one, one.expr if part.sign == "OR" else ~one.expr, []) for one in sides]


def _guarded(steps: Sequence[_Step], frame: DataFrame) -> list[Expr]:
    """What tells of the steps, each only for the rows that come to it."""
    told = [place for place, (part, _, then) in enumerate(steps) if part.told or then]
    if not told:
        return []
    rows: list[tuple[Expr, Expr]] = []
    yes, no = (engine.datafusion().lit(one) for one in (True, False))
    for part, ends, then in steps[: told[-1] + 1]:
        rows += [(one, yes) for one in part.told]
        if ends is not None:
            # Folded by itself: a CASE of true and false would become an AND, which evaluates both sides.
            after = _any(then)
            rows.append((engine.folded(ends, frame), no if after is None else after))
    return [_case(rows)]


def _any(told: Sequence[Expr]) -> Expr | None:
    if len(told) < 2:
        return told[0] if told else None
    return _case([(one, engine.datafusion().lit(True)) for one in told])


def _case(rows: Sequence[tuple[Expr, Expr]]) -> Expr:
    """The second of the first pair whose first is true; flat, for a chain would take stack."""
    made = engine.datafusion().functions.when(*rows[0])
    for when, then in rows[1:]:
        made = made.when(when, then)
    return made.otherwise(engine.datafusion().lit(False))
