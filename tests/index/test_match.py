"""Rows as sorted arrays, and documents of parts as rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.errors import InternalError
from siltstone.index.match import Live, as_rows, intersect, member, order_of, summed, union, without
from siltstone.index.statistics import Column
from text_oracle import PLAIN, part_of

row_sets = st.sets(st.integers(0, 300) | st.integers(10_000, 10_040), max_size=80)


def rows_of(values):
    return np.array(sorted(values), np.int64)


@given(row_sets, row_sets, row_sets)
def test_sets_of_rows__of_any_sizes__are_as_pythons(a, b, c):
    one, two, three = map(rows_of, (a, b, c))
    assert member(one, two).tolist() == [row in b for row in sorted(a)]
    assert intersect([one, two, three]).tolist() == sorted(a & b & c)
    assert union([one, two, three]).tolist() == sorted(a | b | c)
    assert without(one, two).tolist() == sorted(a - b)


def test_member__of_few_in_many_and_many_in_few__is_the_same():
    many = np.arange(0, 1_000_000, 3)
    few = np.array([0, 1, 3, 500_001, 999_999, 2_000_000])
    assert member(few, many).tolist() == [True, False, True, True, True, False]
    assert few[np.isin(few, many)].tolist() == many[member(many, few)].tolist()


@given(st.lists(st.dictionaries(st.integers(0, 50), st.sampled_from([0.0, 0.1, 0.7, 1e-9, 3.0])), min_size=1))
def test_summed__of_several__adds_in_the_order_given(sets):
    rows, scores, counts = summed(
        [(rows_of(one), np.array([one[row] for row in sorted(one)], np.float64)) for one in sets]
    )
    expected = {}
    for one in sets:
        for row, score in one.items():
            expected[row] = expected.get(row, 0.0) + score
    assert rows.tolist() == sorted(expected)
    assert scores.tolist() == [expected[row] for row in sorted(expected)]
    assert counts.tolist() == [sum(row in one for one in sets) for row in sorted(expected)]


def test_live__with_runs_in_another_order__gives_the_rows_of_the_table():
    live = Live(part_of(["a"] * 6), None, np.array([0, 2, 2, 5]), np.array([100, 7, 0, 50]))
    docs = np.array([0, 1, 2, 3, 4, 5], np.uint32)
    assert live.rows(docs).tolist() == [100, 101, 0, 1, 2, 50]
    assert live.rows(docs[[1, 4]]).tolist() == [101, 2]
    assert live.rows(docs[:0]).tolist() == []
    assert live.end == 102


def test_live__with_a_fragment_that_is_gone__ends_with_those_that_are_there():
    alive = np.array([True, False, False, False])
    live = Live(part_of(["a"] * 4), alive, np.array([0, 2]), np.array([3, 10**12]))
    assert live.end == 5
    assert live.runs_alive().tolist() == [True, False]


def test_as_rows__of_parts_out_of_order__can_be_sorted():
    part = part_of(["a"] * 3)
    lives = [Live(part, None, np.array([0]), np.array([30])), Live(part, None, np.array([0]), np.array([10]))]
    rows, slices = as_rows(lives, [np.array([0, 2], np.uint32), np.array([1], np.uint32)])
    assert rows.tolist() == [30, 32, 11]
    assert [rows[place].tolist() for place in slices] == [[30, 32], [11]]
    assert rows[order_of(rows)].tolist() == [11, 30, 32]
    assert order_of(np.array([1, 2])) is None


@pytest.mark.parametrize(
    ("alive", "starts", "bases"),
    [
        (np.ones(2, np.bool_), [0], [0]),
        (None, [1], [0]),
        (None, [0, 2, 1], [0, 5, 9]),
        (None, [0, 4], [0, 5]),
        (None, [0], [0, 1]),
        (None, [], []),
    ],
)
def test_column__of_a_part_whose_runs_do_not_fit__is_refused(alive, starts, bases):
    live = Live(part_of(["a"] * 3), alive, np.array(starts, np.int64), np.array(bases, np.int64))
    with pytest.raises(InternalError):
        Column([live], PLAIN)
