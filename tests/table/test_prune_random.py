"""Pruning leaves out no fragment with a row that matches, whatever the rows, the bounds and the filter."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bounded_types import NEW_YEAR, SCHEMA, SECOND, TYPES
from siltstone.format.table import Bounds
from siltstone.table.bounds import bounds_of
from siltstone.table.fragments import ColumnBounds
from siltstone.table.predicate import parse_predicate
from siltstone.table.prune import prune_for
from siltstone.table.schema import make_schema

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
