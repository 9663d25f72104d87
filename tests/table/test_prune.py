"""Pruning leaves out the fragments it should, and keeps what bounds do not tell."""

from __future__ import annotations

import datetime as dt
import math
import time

import numpy as np
import pytest

from bounded_types import NEW_YEAR, SCHEMA, SECOND
from siltstone.format.table import Bounds
from siltstone.table.fragments import ColumnBounds
from siltstone.table.predicate import parse_predicate
from siltstone.table.prune import prune_for


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


def test_keeps_many__a_hundred_thousand_fragments__are_decided_at_once():
    bounds_of_all = many(100_000)
    for where in ("big = 777", "big > 500 AND big < 1000", "big IN (1, 5, 9, 70000, 90000)"):
        prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
        kept = prune.keeps_many(lambda _: bounds_of_all, count=100_000)
        assert 1 <= kept.sum() <= 52
        assert kept.dtype == bool
    prune = prune_for(parse_predicate("big = 777", SCHEMA), SCHEMA)
    assert best_of(lambda: prune.keeps_many(lambda _: bounds_of_all, count=100_000)) < 0.1  # one by one: a second


def test_keeps_many__no_fragments__is_empty():
    for where in ("big = 5", "true", "false"):
        prune = prune_for(parse_predicate(where, SCHEMA), SCHEMA)
        assert prune.keeps_many(lambda _: many(0), count=0).tolist() == []


def test_keeps_many__constant_filters__are_said_of_each_fragment():
    assert prune_for(parse_predicate("true", SCHEMA), SCHEMA).keeps_many(lambda _: None, count=3).tolist() == [True] * 3
    assert (
        prune_for(parse_predicate("false", SCHEMA), SCHEMA).keeps_many(lambda _: None, count=3).tolist() == [False] * 3
    )
