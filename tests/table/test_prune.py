"""Pruning leaves out no fragment with a row that matches, and leaves out those it should."""

from __future__ import annotations

import datetime as dt
import math
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siltstone.format.table import Bounds
from siltstone.table.bounds import bounds_of
from siltstone.table.fragments import ColumnBounds
from siltstone.table.predicate import parse_predicate
from siltstone.table.prune import prune_for
from siltstone.table.schema import make_schema

TYPES = {
    "tiny": pa.int8(),
    "big": pa.int64(),
    "unsigned": pa.uint64(),
    "x": pa.float64(),
    "half": pa.float32(),
    "flag": pa.bool_(),
    "s": pa.string(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "zoned": pa.timestamp("ms", "Europe/Vienna"),
    "clock": pa.time64("us"),
    "took": pa.duration("ms"),
    "price": pa.decimal128(10, 2),
    "Odd name": pa.int64(),
}
SCHEMA = pa.schema(list(TYPES.items()))
SECOND = 1_000_000
NEW_YEAR = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp())

# Few values, near each other and at the ends: so that constants hit bounds.
INTEGERS = [-128, -1, 0, 1, 2, 5, 100, 127]
BIG = [*INTEGERS, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, -(2**63)]
UNSIGNED = [0, 1, 5, 2**53 + 1, 2**63, 2**64 - 1]
FLOATS = [-1.5, -0.0, 0.0, 0.1, 1.0, 5.0, 2.0**53, math.nan, -math.nan, math.inf, -math.inf, 1e300, 5e-324]
HALVES = [-1.5, -0.0, 0.0, float(np.float32(0.1)), 1.0, 16777216.0, math.nan, math.inf]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "a%",
    "a_b",
    "b",
    "Z",
    "é",
    "\u00ff",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "\U0010ffffb",
    "a\0",
]
RAWS = [b"", b"\0", b"a", b"ab", b"\xff", b"\xff\xff", b"\xfe"]
DAYS = [-1, 0, NEW_YEAR // 86400 - 1, NEW_YEAR // 86400, NEW_YEAR // 86400 + 1]
TIMES = [(NEW_YEAR + add) * SECOND + few for add in (-3600, 0, 3600) for few in (0, 1, 500)]
VALUES = {
    "tiny": INTEGERS, "big": BIG, "unsigned": UNSIGNED, "x": FLOATS, "half": HALVES, "flag": [True, False],
    "s": TEXTS, "raw": RAWS, "day": DAYS, "at": TIMES, "zoned": [one // 1000 for one in TIMES],
    "clock": [0, 1, 3600 * SECOND], "took": [-1, 0, 1, 3_600_000], "price": [0, 1, -1], "Odd name": INTEGERS,
}  # fmt: skip
OPERATORS = ["=", "!=", "<>", "<", "<=", ">", ">="]


def text(value):
    return "'" + value.replace("'", "''") + "'"


def moment(microseconds, zone=""):
    return "'" + (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)).isoformat() + zone + "'"  # noqa: DTZ001


def constant_of(column, value):
    """A value of a column, as SQL."""
    if column in {"x", "half"}:
        return repr(value) if math.isfinite(value) else f"'{value}'"
    if column == "s":
        return text(value.replace("\0", ""))
    return {
        "raw": lambda: f"X'{value.hex()}'",
        "day": lambda: f"'{dt.date(1970, 1, 1) + dt.timedelta(value)}'",
        "at": lambda: moment(value),
        "zoned": lambda: moment(value * 1000, "Z"),
        "clock": lambda: f"'{dt.time(value // SECOND // 3600, 0, 0, value % SECOND)}'",
        "took": lambda: f"INTERVAL '{value} ms'",
    }.get(column, lambda: str(value))()


SPECIAL = {
    "tiny": ["300", "1.5", "-0.0", "1e20", "5.0"],
    "big": ["1.5", "-0.0", "5.0", "9007199254740992.0", "99999999999999999999", "1e20"],
    "unsigned": ["-1", "1.5", "9007199254740992.0", "99999999999999999999"],
    "x": ["'NaN'", "1", "16777217", "CAST(0.1 AS REAL)", "99999999999999999999"],
    "half": ["'NaN'", "0.1", "16777217", "1e300", "5"],
    "day": ["DATE '2025-12-31'", "TIMESTAMP '2026-01-01T00:00:00'", "TIMESTAMP '2026-01-01T10:00:00'"],
    "at": [
        "'2026-01-01'",
        "'2026-01-01T01:00:00+01:00'",
        "DATE '2026-01-01'",
        "TIMESTAMP '2026-01-01T00:00:00.0000005'",
    ],
    "zoned": [
        "'2026-01-01'",
        "'2026-01-01T00:00:00.000001'",
        "DATE '2026-01-01'",
        "TIMESTAMP '2026-01-01T00:00:00.0000005'",
    ],
    "price": ["0.5", "1.005"],
}


def constants(column, pool):
    """SQL of what a column may be compared with: most of the time one of a few values."""
    few = st.sampled_from([constant_of(column, value) for value in pool])
    return st.one_of(few, few, few, st.sampled_from(SPECIAL[column])) if column in SPECIAL else few


def quoted(column):
    return f'"{column}"'


@st.composite
def comparison(draw, pools):
    column = draw(st.sampled_from(sorted(pools)))
    if column == "flag":
        return draw(st.sampled_from(FLAGS))
    constant, name = constants(column, pools[column]), quoted(column)
    operator, no = draw(st.sampled_from(OPERATORS)), draw(st.sampled_from(["", "NOT "]))
    shapes = {
        "plain": lambda: f"{name} {operator} {draw(constant)}",
        "turned": lambda: f"{draw(constant)} {operator} {name}",
        "between": lambda: f"{name} {no}BETWEEN {draw(constant)} AND {draw(constant)}",
        "in": lambda: (
            f"{name} {no}IN ({', '.join(draw(st.lists(constant | st.just('NULL'), min_size=1, max_size=6)))})"
        ),
        "null": lambda: f"{name} IS {no}NULL",
        "distinct": lambda: f"({name} IS {no}DISTINCT FROM {draw(constant)})",
    }
    if column == "s":
        shapes["like"] = lambda: draw(likes(pools["s"]))
        shapes["more like"] = lambda: draw(likes(pools["s"]))
        shapes["starts"] = lambda: f"starts_with({name}, {draw(constant)})"
    if column in {"tiny", "big", "x"}:
        kind = draw(st.sampled_from(["DOUBLE", "REAL"]))
        shapes["cast"] = lambda: (
            f"{draw(st.sampled_from(['CAST', 'TRY_CAST']))}({name} AS {kind}) {operator} {draw(constant)}"
        )
        shapes["text"] = lambda: f"CAST({name} AS VARCHAR) {operator} '5'"
        shapes["computed"] = lambda: f"coalesce({name}, {draw(constant)}) {operator} {draw(constant)}"
    return shapes[draw(st.sampled_from(sorted(shapes)))]()


@st.composite
def likes(draw, pool):
    start = draw(st.sampled_from(pool)).replace("\0", "")[: draw(st.integers(0, 3))]
    pattern = start + draw(st.sampled_from(["%", "%", "_", "", "%b", "\\%", "\\_%"]))
    return f'"s" {draw(st.sampled_from(["LIKE", "LIKE", "NOT LIKE", "ILIKE"]))} {text(pattern)}'


def wider(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda it: f"({it[0]} {it[1]} {it[2]})"),
        inner.map(lambda it: f"NOT ({it})"),
        st.tuples(inner, st.sampled_from(["TRUE", "FALSE", "UNKNOWN", "NULL"]), st.sampled_from(["", "NOT "])).map(
            lambda it: f"({it[0]}) IS {it[2]}{it[1]}"
        ),
        st.tuples(inner, inner).map(lambda it: f"CASE WHEN {it[0]} THEN {it[1]} ELSE false END"),
    )


FLAGS = ["flag", "NOT flag", "flag = true", "flag IS NOT TRUE", "flag IS UNKNOWN", "true", "NULL = 1"]


@st.composite
def cases(draw):
    """A filter and some fragments: tables, and the bounds of each column, exact, wider, cut or not known."""
    used = draw(st.lists(st.sampled_from([*TYPES, "s", "s", "x", "big"]), min_size=1, max_size=2, unique=True))
    pools = {name: draw(st.lists(st.sampled_from(VALUES[name]), min_size=1, max_size=3)) for name in used}
    where = draw(st.recursive(comparison(pools), wider, max_leaves=4))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(1, 3))
        columns = {name: pa.nulls(rows, kind) for name, kind in TYPES.items()}
        for name in used:
            values = draw(st.lists(st.none() | st.sampled_from(pools[name]), min_size=rows, max_size=rows))
            columns[name] = pa.array(values, stored(TYPES[name])).cast(TYPES[name])
        table = pa.table(columns)
        given_bounds = {name: draw(bounds(table.column(name))) if name in used else None for name in TYPES}
        found.append((table, given_bounds))
    return where, found


def stored(kind):
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def as_bound(value):
    if isinstance(value, bytes):
        return value.hex()
    return value


@st.composite
def bounds(draw, column):
    kind = draw(st.sampled_from(["exact", "exact", "exact", "wide", "unknown", "none"]))
    if kind == "none":
        return None
    nulls = column.null_count
    plain = [one for one in column.cast(stored(column.type)).to_pylist() if one is not None]
    if kind == "unknown" or not plain or pa.types.is_decimal(column.type):
        return Bounds(None, None, nulls)
    if pa.types.is_floating(column.type) and any(math.isnan(one) for one in plain):
        return Bounds(None, None, nulls)
    if pa.types.is_boolean(column.type):
        plain = [int(one) for one in plain]
    low, high = min(plain), max(plain)
    if kind == "wide" and isinstance(low, str):
        cut = draw(st.integers(0, 2))
        low, high = low[:cut], high if len(high) <= cut else successor(high[:cut])
    elif kind == "wide" and isinstance(low, int | float):
        low = min(low, -(2**62))
    low, high = as_bound(low), as_bound(high)
    # Which zero is the least is up to whoever counted.
    swap = pa.types.is_floating(column.type) and draw(st.booleans())
    return Bounds(-low if swap and low == 0 else low, -high if swap and high == 0 else high, nulls)


def successor(start):
    while start:
        point = ord(start[-1]) + 1
        start = start[:-1]
        if 0xD800 <= point < 0xE000:
            point = 0xE000
        if point <= 0x10FFFF:
            return start + chr(point)
    return None


def together(column, given_bounds, rows):
    """The bounds of many fragments as arrays."""
    if all(one is None for one in given_bounds):
        return None
    known = np.array([one is not None and one.low is not None and one.high is not None for one in given_bounds])
    kind = TYPES[column]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        dtype, fill = object, ""
    elif pa.types.is_floating(kind):
        dtype, fill = np.float64, 0.0
    else:
        dtype, fill = (np.uint64 if column == "unsigned" else np.int64), 0
    lows, highs = (np.empty(len(rows), dtype=dtype) for _ in range(2))
    lows[:] = [max(0, one.low) if dtype is np.uint64 else one.low for one in fills(given_bounds, known, fill)]
    highs[:] = [one.high for one in fills(given_bounds, known, fill)]
    nulls = np.array([2**62 if one is None else one.nulls for one in given_bounds])
    return ColumnBounds(lows, highs, known, nulls, np.array(rows))


def fills(given_bounds, known, fill):
    return [one if here else Bounds(fill, fill, 0) for one, here in zip(given_bounds, known, strict=True)]


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_keeps__any_rows_bounds_and_filter__loses_no_row_that_matches(case):
    where, found = case
    predicate = parse_predicate(where, SCHEMA)
    prune = prune_for(predicate, SCHEMA)
    rows = [table.num_rows for table, _ in found]
    kept = [prune.keeps(given_bounds.get, rows=table.num_rows) for table, given_bounds in found]
    matching = [pc.any(predicate.mask(table)).as_py() for table, _ in found]
    assert [kept[place] for place, match in enumerate(matching) if match] == [True] * sum(matching)
    many = prune.keeps_many(lambda name: together(name, [one[1][name] for one in found], rows), count=len(found))
    assert many.tolist() == kept


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_keeps__statistics_as_they_are_written__lose_no_row_that_matches(case):
    where, found = case
    predicate = parse_predicate(where, SCHEMA)
    prune = prune_for(predicate, SCHEMA)
    schema = make_schema(SCHEMA, None)
    ids = {field.name: str(field.id) for field in schema.fields}
    for table, _ in found:
        written = bounds_of(table, schema)
        if not prune.keeps(lambda name, written=written: written.get(ids[name]), rows=table.num_rows):
            assert not pc.any(predicate.mask(table)).as_py()


def day(number):
    return (dt.date(2026, 1, 1) + dt.timedelta(number)).toordinal() - dt.date(1970, 1, 1).toordinal()


MIDNIGHT = NEW_YEAR * SECOND


@pytest.mark.parametrize(
    ("where", "kept", "dropped"),
    [
        ("big = 5", (5, 9), (6, 9)),
        ("5 = big", (0, 5), (0, 4)),
        ("big != 5", (5, 6), (5, 5)),
        ("big < 5", (4, 9), (5, 9)),
        ("big <= 5", (5, 9), (6, 9)),
        ("big > 5", (0, 6), (0, 5)),
        ("5 < big", (0, 6), (0, 5)),
        ("big >= 5", (0, 5), (0, 4)),
        ("big BETWEEN 3 AND 5", (5, 9), (6, 9)),
        ("big NOT BETWEEN 3 AND 5", (3, 6), (3, 5)),
        ("big IN (1, 2, 30, 40, 50)", (20, 30), (3, 29)),
        ("big NOT IN (1, 2, 3, 4, 5)", (5, 6), (5, 5)),
        ("NOT (big < 5 OR big > 7)", (7, 9), (8, 9)),
        ("NOT big = 5", (5, 6), (5, 5)),
        ("big = 5 OR big = 9", (8, 9), (6, 8)),
        ("big > 2 AND big < 5", (4, 9), (5, 9)),
        ("big > 1.5", (0, 2), (0, 1)),
        ("tiny > 300", None, (0, 5)),
        ("tiny = 3", (3, 3), (4, 9)),
        ("unsigned > 18446744073709551614", (0, 2**64 - 1), (0, 2**63)),
        ("(big > 5) IS TRUE", (0, 6), (0, 5)),
        ("big IS NOT DISTINCT FROM 5", (5, 5), (6, 9)),
        ("CASE WHEN big > 5 THEN true ELSE false END", (0, 6), (0, 5)),
        ("x > 0.5", (0.0, 1.0), (0.0, 0.5)),
        ("x < 0.0", (0.0, 1.0), (0.5, 1.0)),
        ("x < -1", (-2.0, 1.0), (-0.5, 1.0)),
        ("half > 0.1", (0.0, 1.0), (0.0, 0.05)),
        ("flag", (0, 1), (0, 0)),
        ("NOT flag", (0, 1), (1, 1)),
        ("flag IS FALSE", (0, 0), (1, 1)),
        ("s = 'm'", ("a", "z"), ("n", "z")),
        ("s LIKE 'ab%'", ("aa", "ab"), ("ac", "az")),
        ("s LIKE 'ab_d'", ("abz", "b"), ("a", "aaz")),
        ("s LIKE 'a\\%b%'", ("a%b", "a%c"), ("b", "c")),
        ("s LIKE '\ud7ff%'", ("\ud7ff\U0010ffff", "\ue000"), ("\ue000", "\ue001")),
        ("starts_with(s, 'ab')", ("abc", "abd"), ("ac", "b")),
        ("s ~ '^ab'", ("abc", "abd"), ("ac", "b")),
        ("s IN ('a', 'b', 'c', 'd')", ("c", "x"), ("e", "x")),
        ("raw = X'61'", ("61", "62"), ("62", "ff")),
        ("raw > X'ff'", ("00", "ff00"), ("00", "fe")),
        ("day = '2026-01-01'", (day(-1), day(0)), (day(1), day(9))),
        ("day >= DATE '2026-01-02'", (day(0), day(1)), (day(-9), day(0))),
        ("at >= '2026-01-01'", (0, MIDNIGHT), (0, MIDNIGHT - 1)),
        ("at < '2026-01-01T00:00:01'", (MIDNIGHT, MIDNIGHT * 2), (MIDNIGHT + SECOND, MIDNIGHT * 2)),
        ("extract(year FROM at) = 2026", (0, MIDNIGHT), (0, MIDNIGHT - 1)),
        ("zoned >= '2026-01-01'", (0, (NEW_YEAR - 3600) * 1000), (0, (NEW_YEAR - 3600) * 1000 - 1)),
        ("zoned >= '2026-01-01T00:00:00Z'", (0, NEW_YEAR * 1000), (0, NEW_YEAR * 1000 - 1)),
        ("clock > '01:00:00'", (0, 3600 * SECOND + 1), (0, 3600 * SECOND)),
        ('"Odd name" = 5', (5, 5), (6, 6)),
        ("false", None, (0, 1)),
        ("big = NULL", None, (0, 1)),
    ],
)
def test_keeps__bounds_that_say_enough__leave_the_fragment_out(where, kept, dropped):
    prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
    if kept is not None:
        assert prune.keeps(lambda _: Bounds(*kept, 0), rows=10)
    assert not prune.keeps(lambda _: Bounds(*dropped, 0), rows=10)


@pytest.mark.parametrize(
    ("where", "nulls", "kept"),
    [
        ("big IS NULL", 0, False),
        ("big IS NULL", 1, True),
        ("big IS NOT NULL", 10, False),
        ("big IS NOT NULL", 9, True),
        ("(big > 5) IS NULL", 0, False),
        ("(big > 5) IS NULL", 1, True),
        ("(big > 5) IS NOT TRUE", 1, True),
        ("big IS DISTINCT FROM 5", 1, True),
        ("big IS DISTINCT FROM 5", 0, False),
        ("big = 5", 10, False),
        ("big != 5", 10, False),
        ("big < 5 OR big IS NULL", 1, True),
        ("price = 1", 10, True),
        ("flag IS UNKNOWN", 0, False),
        ("flag IS NOT UNKNOWN", 10, False),
    ],
)
def test_keeps__counts_of_nulls__are_used(where, nulls, kept):
    low, high = (None, None) if nulls == 10 else (5, 5)
    prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
    assert prune.keeps(lambda _: Bounds(low, high, nulls), rows=10) is kept


@pytest.mark.parametrize(
    "where",
    [
        "x = 'NaN'", "x > 'NaN'", "x < 'NaN'", "x != 0.0", "x NOT IN (0.0, 1, 2, 3, 4)", "abs(big) > 100",
        "big + 1 > 100", "big > tiny", "price > 100", "s ILIKE 'zz%'", "s LIKE '%z'", "s NOT LIKE 'a%'",
        "CAST(big AS REAL) > 100", "CAST(x AS BIGINT) > 100",
        "CAST(at AS DATE) > '2999-01-01'", "day > TIMESTAMP '2200-01-01T00:00:00'", "TRY_CAST(s AS INT) > 100",
    ],
)  # fmt: skip
def test_keeps__what_bounds_do_not_tell__is_kept(where):
    low, high = ("a", "b") if where.startswith(("s ", "TRY")) else (0, 0)
    prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
    assert prune.keeps(lambda _: Bounds(low, high, 0), rows=10)
    assert prune.keeps(lambda _: None, rows=10)


@pytest.mark.parametrize(
    ("where", "low", "high"),
    [("big = 5", "a", "b"), ("s = 'a'", 1, 2), ("s LIKE 'a%'", 1.5, 2.5), ("x = 5", "a", "b"), ("raw = X'00'", 1, 2),
     ("big IN (1, 2, 3, 4, 5)", "a", "b"), ("s NOT IN ('a', 'b', 'c', 'd')", 1, 1), ("x = 5", math.nan, math.nan),
     ("x = 5", "6", "7")],
)  # fmt: skip
def test_keeps__bounds_of_another_type__are_not_believed(where, low, high):
    prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
    assert prune.keeps(lambda _: Bounds(low, high, 0), rows=10)
    arrays = ColumnBounds(np.array([low]), np.array([high]), np.array([True]), np.array([0]), np.array([10]))
    assert prune.keeps_many(lambda _: arrays, count=1).tolist() == [True]


def test_keeps__a_long_chain_and_a_long_list__are_pruned():
    chain = " OR ".join(f"big = {2 * n} AND tiny > 0" for n in range(400))
    listed = f"big IN ({', '.join(str(2 * n) for n in range(5_000))})"
    for where in (chain, listed):
        prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
        assert prune.keeps(lambda _: Bounds(2, 2, 0), rows=10)
        assert not prune.keeps(lambda _: Bounds(3, 3, 0), rows=10)


def many(count):
    lows = np.arange(count, dtype=np.int64) * 10
    return ColumnBounds(lows, lows + 9, np.ones(count, dtype=bool), np.zeros(count, np.int64), np.full(count, 1_000))


def best_of(call, times=20):
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found)


def test_keeps_many__a_hundred_thousand_fragments__takes_under_two_milliseconds():
    bounds_of_all = many(100_000)
    for where in ("big = 777", "big > 500 AND big < 1000", "big IN (1, 5, 9, 70000, 90000)"):
        prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
        kept = prune.keeps_many(lambda _: bounds_of_all, count=100_000)
        assert 1 <= kept.sum() <= 52
        assert kept.dtype == bool
    prune = prune_for(parse_predicate("big = 777", SCHEMA), SCHEMA)
    assert best_of(lambda: prune.keeps_many(lambda _: bounds_of_all, count=100_000)) < 0.002


def test_keeps_many__no_fragments__is_empty():
    for where in ("big = 5", "true", "false"):
        prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
        assert prune.keeps_many(lambda _: many(0), count=0).tolist() == []


def test_keeps_many__constant_filters__are_said_of_each_fragment():
    assert prune_for(parse_predicate("true", SCHEMA), SCHEMA).keeps_many(lambda _: None, count=3).tolist() == [True] * 3
    assert (
        prune_for(parse_predicate("false", SCHEMA), SCHEMA).keeps_many(lambda _: None, count=3).tolist() == [False] * 3
    )
