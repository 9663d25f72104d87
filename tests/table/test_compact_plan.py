"""Which fragments a compaction takes, decided on paper."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siltstone import paths
from siltstone.format.rollup import Live
from siltstone.format.table import Bounds, Change, Fragment, Vector
from siltstone.log.marks import Mark
from siltstone.table.compact_plan import GROUP_FRAGMENTS, GROUP_ROWS, plan_compaction
from siltstone.table.compact_ranges import Range
from siltstone.table.fragments import Fragments
from siltstone.table.layout import FILE_BYTES
from siltstone.table.schema import make_schema
from siltstone.table.state import State

START = Mark(1, 0, "ab" * 32)
COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])
MILLION = 1_048_576


def state_of(lives, *, key="id"):
    change = Change(
        operation="append",
        add=tuple(live.fragment for live in lives),
        mask={live.fragment.name: live.vector for live in lives if live.vector},
    )
    state = State(mark=START, block=START, schema=make_schema(COLUMNS, key))
    return replace(state, fragments=Fragments().apply(change, name="paper"))


def live(low=0, high=99, *, rows=100, deleted=0, size=4096, bounds=True):
    name = paths.name(0, uuid.uuid4().hex)
    vector = Vector(name=name, offset=0, length=100, rows=deleted) if deleted else None
    found = {"1": Bounds(low, high, 0)} if bounds else {}
    return Live(Fragment(name=name, rows=rows, bytes=size, sha256="ab" * 32, bounds=found), vector)


def planned(*lives, key="id", **options):
    """The groups, as numbers of the fragments given."""
    numbers = {one.fragment.name: number for number, one in enumerate(lives)}
    groups = plan_compaction(state_of(lives, key=key), **options)
    return [sorted(numbers[one.fragment.name] for one in group) for group in groups]


@pytest.mark.parametrize("key", [None, "id"])
def test_plan__empty_table__is_empty(key):
    assert planned(key=key) == []


@pytest.mark.parametrize("key", [None, "id"])
def test_plan__large_fragments_apart__is_empty(key):
    assert planned(*(live(n * 100, n * 100 + 99, rows=MILLION) for n in range(5)), key=key) == []


@pytest.mark.parametrize("key", [None, "id"])
def test_plan__small_fragments__are_one_group(key):
    assert planned(*(live(n * 100, n * 100 + 99) for n in range(5)), key=key) == [[0, 1, 2, 3, 4]]


def test_plan__no_key__leaves_large_fragments_between_small_ones_alone():
    assert planned(live(), live(rows=MILLION), live(), key=None) == [[0, 2]]


def test_plan__key__does_not_join_small_fragments_across_a_large_one():
    assert planned(live(0, 9), live(10, 90, rows=MILLION), live(91, 99)) == []
    assert planned(live(0, 9), live(10, 19), live(20, 90, rows=MILLION), live(91, 92), live(93, 99)) == [[0, 1], [3, 4]]


def test_plan__small_fragments_that_overlap_over_a_large_one__are_one_group():
    lives = [live(0, 60), *(live(n * 10, n * 10 + 9, rows=MILLION) for n in range(10)), live(55, 99)]
    assert planned(*lives) == [[0, 11]]


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize(("deleted", "expected"), [(MILLION // 5, []), (MILLION // 5 + 2, [[0]])])
def test_plan__over_a_fifth_deleted__is_rewritten(key, deleted, expected):
    assert planned(live(rows=MILLION, deleted=deleted), key=key) == expected


def test_plan__large_fragments_that_overlap__are_one_group():
    assert planned(live(0, 90, rows=MILLION), live(10, 99, rows=MILLION), live(200, 300, rows=MILLION)) == [[0, 1]]


def test_plan__no_key__ranges_do_not_matter():
    assert planned(live(rows=MILLION), live(rows=MILLION), key=None) == []


def test_plan__few_rows_over_many_large_fragments__are_left():
    lives = [live(0, 999, rows=10_000), *(live(n * 10, n * 10 + 9, rows=MILLION) for n in range(100))]
    assert planned(*lives) == []
    lives = [*(live(0, 999, rows=10_000) for _ in range(3)), *lives[1:]]
    assert planned(*lives) == [[0, 1, 2]]


def test_plan__many_rows_over_many_large_fragments__are_merged_with_them():
    lives = [live(0, 19, rows=MILLION), live(0, 9, rows=MILLION), live(10, 19, rows=MILLION)]
    assert planned(*lives) == [[0, 1, 2]]


def test_plan__overlap_share_of_zero__any_overlap_is_merged():
    lives = [live(0, 999, rows=10), *(live(n * 10, n * 10 + 9, rows=MILLION) for n in range(3))]
    assert planned(*lives) == []
    assert planned(*lives, overlap_share=0.0) == [[0, 1, 2, 3]]


def test_plan__ranges_not_known__overlap_nothing():
    assert planned(*(live(rows=MILLION, bounds=False) for _ in range(3))) == []
    assert planned(*(live(bounds=False) for _ in range(3))) == [[0, 1, 2]]


def test_plan__ranges_given__count_instead_of_the_log():
    lives = [live(rows=MILLION) for _ in range(2)]
    apart = {one.fragment.name: Range(n * 10, n * 10 + 5) for n, one in enumerate(lives)}
    assert planned(*lives) == [[0, 1]]
    assert planned(*lives, ranges=apart) == []


@pytest.mark.parametrize("bound", ["text", 1.5, None])
def test_plan__bounds_of_another_type_in_the_log__are_not_believed(bound):
    assert planned(live(bound, bound, rows=MILLION), live(0, 9, rows=MILLION), live(5, 6, rows=MILLION)) == [[1, 2]]


def test_plan__few_rows_in_a_large_file__are_not_small():
    lives = [live(n, n, rows=50, size=FILE_BYTES // 2) for n in range(4)]
    assert planned(*lives) == planned(*lives, key=None) == []


@pytest.mark.parametrize("key", [None, "id"])
def test_plan__many_fragments__groups_are_bounded(key):
    lives = [live(n, n, rows=MILLION // 3) for n in range(40)]
    groups = planned(*lives, key=key)
    assert len(groups) == 4
    assert all(len(group) * (MILLION // 3) <= GROUP_ROWS for group in groups)
    assert max(map(len, planned(*(live(n, n, rows=1) for n in range(GROUP_FRAGMENTS + 5)), key=key))) == GROUP_FRAGMENTS


# -- whatever there is, rewriting it comes to an end -----------------------------------------------------

TARGET = 8
fragments = st.lists(st.tuples(st.sets(st.integers(0, 60), max_size=12), st.integers(0, 5)), max_size=14)


def rewritten(group, target):
    """The keys of a group, in order, cut evenly."""
    keys = sorted(key for one in group for key in one)
    each = -(-len(keys) // -(-len(keys) // target)) if keys else 1
    return [keys[start : start + each] for start in range(0, len(keys), each)]


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr("siltstone.table.compact_plan.GROUP_ROWS", 3 * TARGET)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fragments, st.sampled_from([None, "id"]), st.sampled_from([0.0, 0.2, 1.0]))
def test_plan__any_fragments__are_in_one_group_each_and_come_to_an_end(small_groups, found, key, share):
    there, used = [], set()
    for keys, deleted in found:
        if keys - used:  # a key is in one row
            there.append((sorted(keys - used), deleted))
            used |= keys
    for _ in range(40):
        lives = [live(keys[0], keys[-1], rows=len(keys) + deleted, deleted=deleted) for keys, deleted in there]
        groups = planned(*lives, key=key, rows_target=TARGET, overlap_share=share)
        taken = [number for group in groups for number in group]
        assert len(taken) == len(set(taken))
        if not groups:
            break
        left = [one for number, one in enumerate(there) if number not in taken]
        for group in groups:
            left += [(keys, 0) for keys in rewritten([there[number][0] for number in group], TARGET)]
        assert sorted(k for keys, _ in left for k in keys) == sorted(k for keys, _ in there for k in keys)
        there = left
    else:
        raise AssertionError("rewriting did not come to an end")
    assert not any(deleted > 0.2 * (len(keys) + deleted) for keys, deleted in there)
