"""New values that are lists, structs and maps: their parts are held to what plain values are."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from every_type import DAY, NOON, naive
from siltstone.errors import InvalidInputError
from siltstone.table.assignments import parse_assignments


def changed(table, **values):
    return parse_assignments(values, table.schema).apply(table)


NESTED = pa.table({
    "n": pa.array([5, 6, None]),
    "s": pa.array(["a", "b", None]),
    "part": pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct([("a", pa.int8()), ("b", pa.string())])
    ),
    "prices": pa.array([[Decimal("1.5")], None, []], pa.list_(pa.decimal128(4, 1))),
    "halves": pa.array([[1.0], None, []], pa.list_(pa.float32())),
    "small": pa.array([[1], None, []], pa.list_(pa.int8())),
    "days": pa.array([[DAY], None, []], pa.list_(pa.date32())),
    "times": pa.array([[NOON], None, []], pa.list_(pa.timestamp("us"))),
    "zoned": pa.array([NOON, None, NOON], pa.timestamp("us", "Europe/Vienna")),
    "vector": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2)),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int8())),
    "deep": pa.array(
        [[{"a": 1, "l": [1]}, None], None, []], pa.list_(pa.struct([("a", pa.int8()), ("l", pa.list_(pa.int8()))]))
    ),
    "firm": pa.array([{"a": 1}] * 3, pa.struct([pa.field("a", pa.int64(), nullable=False)])),
})  # fmt: skip


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("column", [name for name in NESTED.column_names if name not in {"n", "s", "zoned"}])
def test_apply__nested_column_to_itself__stays_as_it_is(column, offset):
    table = NESTED.slice(offset)
    after = changed(table, **{column: column})
    after.validate(full=True)
    assert after.equals(table)


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("part", "named_struct('b', s, 'a', n)", [{"a": 5, "b": "a"}, {"a": 6, "b": "b"}, {"a": None, "b": None}]),
        ("part", "CASE WHEN n = 5 THEN NULL ELSE part END", [None, None, {"a": None, "b": None}]),
        ("prices", "[1.5, NULL]", [[Decimal("1.5"), None]] * 3),
        ("halves", "[0.1]", [[pytest.approx(0.1)]] * 3),
        ("small", "[n, 7.0]", [[5, 7], [6, 7], [None, 7]]),
        ("small", "[]", [[]] * 3),
        ("small", "CASE WHEN n = 5 THEN [n] END", [[5], None, None]),
        ("days", "['2026-02-03']", [[dt.date(2026, 2, 3)]] * 3),
        ("times", "[zoned]", [[naive(2026, 1, 1, 13)], [None], [naive(2026, 1, 1, 13)]]),
        ("vector", "[n, 0.5]", [[5, 0.5], [6, 0.5], [None, 0.5]]),
        ("map", "MAP {'x': n}", [[("x", 5)], [("x", 6)], [("x", None)]]),
        ("deep", "[named_struct('l', [n], 'a', 1)]", [[{"a": 1, "l": [one]}] for one in (5, 6, None)]),
    ],
)
def test_apply__nested_values_that_fit__are_stored(column, text, expected):
    after = changed(NESTED, **{column: text})
    after.validate(full=True)
    assert after[column].to_pylist() == expected
    assert after.schema == NESTED.schema


@pytest.mark.parametrize(
    ("column", "text", "told"),
    [
        ("part", "named_struct('x', n, 'y', s)", "is struct<x: int64, y: string>, the column holds"),
        ("part", "struct(n, s)", "is struct<c0: int64, c1: string>, the column holds"),
        ("part", "named_struct('A', n, 'b', s)", "is struct<A: int64, b: string>, the column holds"),
        ("part", "named_struct('a', n)", "the column holds"),
        ("part", "named_struct('a', n, 'b', s, 'c', n)", "the column holds"),
        ("part", "named_struct('a', s, 'b', s)", "the column holds"),
        ("part", "CASE WHEN n = 5 THEN part ELSE named_struct('A', n, 'b', s) END", "other names"),
        ("part", "CASE n WHEN 5 THEN part WHEN 6 THEN named_struct('A', n, 'b', s) ELSE part END", "other names"),
        ("part", "CAST(named_struct('A', n, 'b', s) AS STRUCT<a TINYINT, b VARCHAR>)", "other names"),
        ("part", "named_struct('a', n * 100, 'b', s)", "not in range"),
        ("prices", "[1.25]", "is not exactly a decimal128(4, 1)"),
        ("prices", "[12345]", "too large"),
        ("halves", "[1e300]", "is not exactly a float"),
        ("small", "['7']", "is list<item: string>, the column holds"),
        ("small", "[n * 100]", "not in range"),
        ("small", "[1.5]", "truncated"),
        ("small", "n", "is int64, the column holds"),
        ("days", "['2026-02-03T10:00:00']", "is not exactly a date32"),
        ("days", "['soon']", "soon"),
        ("vector", "[1, 2, 3]", "size"),
        ("map", "MAP {1: n}", "the column holds"),
        ("map", "MAP {'x': n * 100}", "not in range"),
        ("deep", "[named_struct('l', [n * 100], 'a', 1)]", "not in range"),
        ("deep", "[named_struct('L', [n], 'a', 1)]", "the column holds"),
        ("firm", "named_struct('a', n)", "its 'a' is null in some rows"),
        ("firm", "named_struct('z', n)", "the column holds"),
    ],
)
def test_apply__nested_values_that_do_not_fit__are_refused(column, text, told):
    with pytest.raises(InvalidInputError) as caught:
        changed(NESTED, **{column: text})
    assert told in str(caught.value)
    assert f"column {column!r}" in str(caught.value)
