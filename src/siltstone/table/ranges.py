"""Tests of the statistics of many fragments at once: may a value of a column be below, among, null, and so on.

What must hold:
- A test says no only where no row can pass it. Bounds that are not known, or not of the column's type, say yes.
- NaN has no bounds, and the two zeros are one: DataFusion tells them apart in places.
- Null passes no comparison, so a fragment with nothing else is left out by any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from siltstone.table.bounds import after_text, term
from siltstone.table.fragments import ColumnBounds

if TYPE_CHECKING:
    from siltstone.format.table import Bounds

Find = Callable[[str], ColumnBounds | None]
Found = np.ndarray | bool  # whether each fragment may pass, or all of them
Test = Callable[[Find], Found]

_LOOSE = {"<": "<=", ">": ">="}
_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray, Any], Any]] = {
    "=": lambda low, high, value: (low <= value) & (high >= value),
    "!=": lambda low, high, value: (low != value) | (high != value),
    "<": lambda low, _, value: low < value,
    "<=": lambda low, _, value: low <= value,
    ">": lambda _, high, value: high > value,
    ">=": lambda _, high, value: high >= value,
}


def one(bounds: Bounds, rows: int) -> ColumnBounds:
    """The statistics of one fragment as those of many."""
    # Objects: a Python number is compared as it is, whatever its size.
    low, high = np.empty(1, dtype=object), np.empty(1, dtype=object)
    low[0], high[0] = bounds.low, bounds.high
    known = np.array([bounds.low is not None and bounds.high is not None])
    return ColumnBounds(low, high, known, np.array([bounds.nulls]), np.array([rows]))


def keep(_: Find) -> Found:
    """Leaves nothing out."""
    return True


def drop(_: Find) -> Found:
    """Leaves everything out."""
    return False


def every(tests: Sequence[Test]) -> Test:
    """All of some tests."""
    left = [test for test in tests if test is not keep]
    if not left or drop in left:
        return drop if left else keep

    def test(find: Find) -> Found:
        found: Found = True
        for one_test in left:
            found = found & one_test(find)
        return found

    return test if len(left) > 1 else left[0]


def some(tests: Sequence[Test]) -> Test:
    """One of some tests."""
    left = [test for test in tests if test is not drop]
    if not left or keep in left:
        return keep if left else drop

    def test(find: Find) -> Found:
        found: Found = False
        for one_test in left:
            found = found | one_test(find)
        return found

    return test if len(left) > 1 else left[0]


def has_null(column: str) -> Test:
    """A row may be null."""

    def test(find: Find) -> Found:
        bounds = find(column)
        return True if bounds is None else bounds.nulls != 0

    return test


def has_value(column: str) -> Test:
    """A row may be something else."""

    def test(find: Find) -> Found:
        bounds = find(column)
        return True if bounds is None else bounds.nulls != bounds.rows

    return test


def compare(column: str, operator: str, value: Any) -> Test:
    """A value may be below, equal to or above another; a float one stands for a comparison of floats."""
    if isinstance(value, float) and value == 0:
        if operator == "!=":
            return has_value(column)
        operator = _LOOSE.get(operator, operator)
    passes = _COMPARE[operator]
    wanted = term(value)
    return _between(column, type(value), lambda low, high: passes(low, high, wanted))


def among(column: str, values: Sequence[Any]) -> Test:
    """A value may be one of several of one type."""
    if not values:
        return drop
    ordered = sorted(set(values))

    def test(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        wanted = _like(ordered, low)
        return np.searchsorted(wanted, low, "left") < np.searchsorted(wanted, high, "right")

    return _between(column, type(values[0]), test)


def not_among(column: str, values: Sequence[Any]) -> Test:
    """A value may be none of several of one type."""
    if not values or isinstance(values[0], float):
        return has_value(column)
    ordered = sorted(set(values))

    def test(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        wanted = _like(ordered, low)
        listed = np.searchsorted(wanted, low, "left") < np.searchsorted(wanted, low, "right")
        return (low != high) | ~listed

    return _between(column, type(values[0]), test)


def begins(column: str, start: str) -> Test:
    """A text may begin with another."""
    after = after_text(start)
    if after is None:
        return compare(column, ">=", start)
    first, last = term(start), term(after)
    return _between(column, str, lambda low, high: (low < last) & (high >= first))


def _between(column: str, kind: type, passes: Callable[[np.ndarray, np.ndarray], Any]) -> Test:
    """A test of the bounds; where they are not known, there only has to be a value."""

    def test(find: Find) -> Found:
        bounds = find(column)
        if bounds is None:
            return True
        valued: np.ndarray = bounds.nulls != bounds.rows
        try:
            low, high = _terms(bounds.low, kind), _terms(bounds.high, kind)
            known = bounds.known & ~(np.isnan(low) | np.isnan(high)) if kind is float else bounds.known
            return (np.asarray(passes(low, high), dtype=bool) | ~known) & valued
        except TypeError:
            return valued  # some bound is not of the column's type

    return test


def _terms(bounds: np.ndarray, kind: type) -> np.ndarray:
    """Bounds in the terms of the value that they are compared with."""
    if bounds.dtype != object and bounds.dtype.kind not in {int: "iu", float: "iuf"}.get(kind, ""):
        raise TypeError
    if bounds.dtype == object and kind is float and not all(isinstance(bound, int | float) for bound in bounds):
        raise TypeError
    # An integer is rounded as DataFusion rounds it before it compares it with a float.
    return bounds.astype(np.float64) if kind is float else bounds


def _like(ordered: Sequence[Any], bounds: np.ndarray) -> np.ndarray:
    """Values as an array to search in; without those that the bounds can't reach."""
    if bounds.dtype.kind in "iu":
        reach = np.iinfo(bounds.dtype)
        ordered = [value for value in ordered if reach.min <= value <= reach.max]
    found = np.empty(len(ordered), dtype=bounds.dtype)
    found[:] = ordered
    return found
