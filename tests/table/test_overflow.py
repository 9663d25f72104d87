"""Integers that would wrap around in new values: refused where a row comes to them, wherever they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.errors import InvalidInputError
from siltstone.table.assignments import parse_assignments


def changed(table, **values):
    return parse_assignments(values, table.schema).apply(table)


EDGES = pa.table({
    "u8": pa.array([200], pa.uint8()),
    "i8": pa.array([-128], pa.int8()),
    "u32": pa.array([2**32 - 1], pa.uint32()),
    "u64": pa.array([2**64 - 1], pa.uint64()),
    "low": pa.array([-(2**63)]),
    "high": pa.array([2**63 - 1]),
    "zero": pa.array([0]),
    "none": pa.array([None], pa.int64()),
    "no": pa.array([False]),
    "list": pa.array([[0]]),
    "part": pa.array([{"a": 0}]),
})  # fmt: skip


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("u8", "u8 + u8"),
        ("u8", "u8 - CAST(201 AS TINYINT UNSIGNED)"),
        ("zero", "u8 + u8"),
        ("zero", "i8 * i8"),
        ("zero", "i8 + i8 + high"),  # the first sum is one of 8 bits
        ("i8", "-i8"),
        ("u32", "u32 * u32"),
        ("u32", "u32 + u8"),
        ("u64", "u64 * u64"),
        ("high", "high + 1"),
        ("high", "high * high * high"),
        ("high", "low - 1"),
        ("high", "-low"),
        ("high", "-(low) + 0"),
        ("high", "9223372036854775807 + 1"),
        ("high", "coalesce(high + 1, 0)"),
        ("high", "coalesce(none, high + 1)"),
        ("high", "nvl(none, high + 1)"),
        ("high", "nvl2(zero, high + 1, 0)"),
        ("high", "CAST(high + 1 AS BIGINT)"),
        ("high", "(high + 1) / 2"),
        ("high", "(high + 1) % 2"),
        ("high", "greatest(high + 1, 0)"),
        ("high", "abs(high + 2)"),
        ("high", "CASE WHEN zero = 0 THEN high + 1 ELSE 0 END"),
        ("high", "CASE zero WHEN 1 THEN 1 ELSE high + 1 END"),
        ("high", "CASE WHEN high + 1 > 0 THEN 1 ELSE 2 END"),
        ("no", "no OR high + 1 > 0"),
        ("no", "NOT no AND high + 1 > 0"),
        ("no", "zero BETWEEN 0 AND high + 1"),
        ("list", "[zero, high + 1]"),
        ("part", "named_struct('a', high + 1)"),
    ],
)
def test_apply__an_integer_wraps_around_anywhere__is_refused(column, text):
    with pytest.raises(InvalidInputError, match=r"leaves the range of its type|Overflow happened") as caught:
        changed(EDGES, **{column: text})
    assert f"column {column!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("zero", "u8 + 100", 300),
        ("zero", "u8 - i8", 328),
        ("zero", "CAST(u8 AS BIGINT) * u8", 40_000),
        ("high", "high + 1 - 1", 2**63 - 1),
        ("high", "-high", 1 - 2**63),
        ("high", "low + 0", -(2**63)),
        ("u64", "u64 - 1", 2**64 - 2),
        ("high", "none + 1", None),
        ("high", "NULL + 1", None),
        ("high", "CASE WHEN zero = 0 THEN 1 ELSE high + 1 END", 1),
        ("high", "CASE WHEN zero = 0 THEN 1 WHEN high + 1 > 0 THEN 2 END", 1),
        ("high", "CASE zero WHEN 1 THEN high + 1 ELSE 3 END", 3),
        ("high", "coalesce(zero, high + 1)", 0),
        ("high", "nvl2(zero, 4, high + 1)", 4),
        ("high", "coalesce(zero, 1 / zero + 1)", 0),
        ("high", "CASE WHEN zero <> 0 THEN 1 / zero + 1 ELSE 5 END", 5),
        ("no", "no AND high + 1 > 0", False),
        ("no", "NOT no OR high + 1 > 0", True),
        ("high", "DATE '2026-01-02' - DATE '2026-01-01' + 1", 2),
    ],
)
def test_apply__an_integer_wraps_around_where_no_row_comes_to_or_comes_back__is_stored(column, text, expected):
    assert changed(EDGES, **{column: text})[column].to_pylist() == [expected]


def test_apply__one_row_of_many_wraps_around__is_refused():
    table = pa.table({"n": np.arange(20_000), "limit": np.full(20_000, 2**63 - 1)})
    assert changed(table, n='CASE WHEN n < 20000 THEN n ELSE n + "limit" END')["n"].equals(table["n"])
    with pytest.raises(InvalidInputError, match="leaves the range"):
        changed(table, n='CASE WHEN n < 19999 THEN n ELSE n + "limit" END')


WIDTHS = {"i8": pa.int8(), "u8": pa.uint8(), "i16": pa.int16(), "u32": pa.uint32(), "i64": pa.int64()}


@st.composite
def integers_near_the_edges(draw):
    """A value for each column, mostly one that a small step takes out of its type."""
    row = {}
    for name, kind in WIDTHS.items():
        bits = kind.bit_width
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if name[0] == "i" else (0, 2**bits - 1)
        row[name] = draw(st.one_of(st.sampled_from([low, high]), st.integers(max(low, -3), 3), st.integers(low, high)))
    return row


def larger(inner):
    """The text of an expression, and the same in Python: there, integers have no end."""
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.builds(
            lambda sign, pair: (f"({pair[0][0]} {sign} {pair[1][0]})", f"({pair[0][1]} {sign} {pair[1][1]})"),
            st.sampled_from("+-*"),
            pairs,
        ),
        inner.map(lambda one: (f"coalesce({one[0]}, 0)", one[1])),
        inner.map(lambda one: (f"CAST({one[0]} AS BIGINT)", one[1])),
        pairs.map(lambda pair: (f"greatest({pair[0][0]}, {pair[1][0]})", f"max({pair[0][1]}, {pair[1][1]})")),
        pairs.map(
            lambda pair: (
                f"CASE WHEN {pair[0][0]} > 0 THEN {pair[0][0]} ELSE {pair[1][0]} END",
                f"({pair[0][1]} if {pair[0][1]} > 0 else {pair[1][1]})",
            )
        ),
    )


@settings(max_examples=150)
@given(
    row=integers_near_the_edges(),
    expression=st.recursive(st.sampled_from([(name, name) for name in (*WIDTHS, "7")]), larger, max_leaves=6),
)
def test_apply__any_arithmetic_of_integers__gives_what_it_should_or_is_refused(row, expression):
    text, python = expression
    table = pa.table({name: pa.array([value], WIDTHS[name]) for name, value in row.items()})
    table = table.append_column("exact", pa.array([None], pa.decimal128(38, 0)))
    expected = eval(python, {}, row)
    try:
        after = changed(table, exact=text)
    except InvalidInputError:
        assert "u" in text or any(abs(value) > 1 for value in row.values()), "nothing here leaves its type"
        return
    assert after["exact"].to_pylist() == [expected]


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["n"] * 400),
        " + ".join(["abs(n + 1)"] * 200),
        "CASE WHEN " + " AND ".join(["n + 1 > 0"] * 400) + " THEN n ELSE 0 END",
        "CASE " + " ".join(f"WHEN n = {one} THEN n + {one}" for one in range(400)) + " END",
        "coalesce(" + ", ".join(["NULLIF(n + 1, n + 1)"] * 400) + ", n)",
    ],
)
def test_apply__long_expressions_of_integers__are_evaluated(text):
    table = pa.table({"n": pa.array([1])})
    assert changed(table, n=text)["n"][0].is_valid
