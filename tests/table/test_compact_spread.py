"""Compaction by many processes: the rows stay the same, whatever their keys are and whatever others do meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

import staged_jobs as jobs
from key_types import KEYS
from row_tables import RowTable, grown, ids_of, numbered
from siltstone.errors import ConflictError
from siltstone.table import compact_spread
from siltstone.table.compact_spread import rewrite_slice, to_works

COMPOSITE = pa.schema([("a", pa.string()), ("b", pa.int32()), ("text", pa.string())])


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Pages of few rows, so that slices are cut within fragments."""
    monkeypatch.setattr("siltstone.table.layout.PAGE_ROWS", 4)
    monkeypatch.setattr("siltstone.table.layout._BATCH_ROWS", 4)


def shuffled(*, count, lots, seed=0):
    """Ids in lots whose ranges all overlap."""
    ids = np.random.default_rng(seed).permutation(count).tolist()
    return [ids[start::lots] for start in range(lots)]


def compacted(table, **options):
    """The versions that a compaction by tasks makes."""
    works = jobs.compact(table, **options)
    if works:
        table.do(*works)
    return len(works)


def read_back(table, slices):
    """The ids that each slice holds, as a task reads them."""
    found = []
    for part in slices:
        read = compact_spread._read(table.tools, table.state.schema, part)
        found.append(read.column("id").to_pylist())
    return found


# -- slices ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows_target", [1, 2, 3, 7, 20, 50, 99, 100, 101, 1000])
def test_plan_slices__any_target__each_row_is_in_one_slice(rows_target):
    table = grown(*shuffled(count=100, lots=9), key="id")
    table.delete("id % 7 = 3")
    left = sorted(row["id"] for row in table.rows())
    slices = jobs.slices(table, rows_target=rows_target)
    assert sorted(one for ids in read_back(table, slices) for one in ids) == left
    assert {live.fragment.name for part in slices for live in part.lives} == {
        live.fragment.name for live in table.state.fragments
    }
    before = table.rows()
    assert compacted(table, rows_target=rows_target) == 1
    assert table.rows() == before
    assert max(map(len, ids_of(table))) <= rows_target
    ranges = sorted((min(ids), max(ids)) for ids in ids_of(table))
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("rows_target", [10, 40])
def test_compact__key_of_any_type__rows_are_the_same(kind, rows_target):
    arrow, value = KEYS[kind]
    table = RowTable(pa.schema([pa.field("id", arrow, nullable=False), ("n", pa.int64())]), key="id")
    for lot in shuffled(count=120, lots=7):
        table.append([{"id": value(n), "n": n} for n in lot])
    table.delete("n % 5 = 1")
    works = jobs.compact(table, rows_target=rows_target)
    other = table.other()
    other.delete("n % 5 = 2")
    other.upsert([{"id": value(n), "n": n + 1000} for n in (0, 8, 120)])
    table.do(*works)
    wanted = [n for n in range(120) if n % 5 not in {1, 2} and n not in {0, 8}]
    assert sorted(row["n"] for row in table.rows()) == [*wanted, 1000, 1008, 1120]
    assert [row for row in table.rows() if row["id"] != value(row["n"] % 1000)] == []
    assert max(live.fragment.rows for live in table.state.fragments) <= rows_target


@pytest.mark.parametrize("shares", [1, 2, 3, 40])
def test_compact__composite_key_with_few_values_in_its_first_column__they_stay_together(shares):
    table = RowTable(COMPOSITE, key=["a", "b"])
    for lot in shuffled(count=120, lots=6):
        table.append([{"a": f"tenant {n % shares:03}", "b": n - 50, "text": f"{n}"} for n in lot])
    slices = jobs.slices(table, rows_target=30)
    assert len(slices) == min(shares, 5)
    assert len({part.low for part in slices}) == len(slices)
    before = table.rows()
    works = jobs.compact(table, rows_target=30)
    table.other().delete("b in (-50, 0, 13)")
    table.do(*works)
    assert table.rows() == [row for row in before if row["b"] not in {-50, 0, 13}]
    assert max(live.fragment.rows for live in table.state.fragments) <= 30


def test_plan_slices__more_rows_of_one_value_than_fit_in_memory__groups_are_cut_instead(monkeypatch):
    monkeypatch.setattr("siltstone.table.compact_spread.SLICE_ROWS", 50)
    table = RowTable(COMPOSITE, key=["a", "b"])
    for lot in shuffled(count=200, lots=10):
        table.append([{"a": "one" if n < 120 else f"other {n}", "b": n, "text": ""} for n in lot])
    slices = jobs.slices(table, rows_target=20)
    assert all(part.low is None and part.high is None for part in slices)
    assert len({part.group for part in slices}) == len(slices)
    before = table.rows()
    compacted(table, rows_target=20)
    assert table.rows() == before


def test_plan_slices__pages_have_no_bounds__groups_are_cut_instead():
    arrow, value = KEYS["decimal"]
    table = RowTable(pa.schema([("id", arrow)]), key="id")
    for lot in shuffled(count=60, lots=6):
        table.append([{"id": value(n)} for n in lot])
    slices = jobs.slices(table, rows_target=20)
    assert {(part.low, part.high) for part in slices} == {(None, None)}
    before = table.rows()
    compacted(table, rows_target=20)
    assert table.rows() == before
    assert len(table.state.fragments) == 3


def test_compact__fragments_of_many_row_groups__deleted_rows_stay_deleted(monkeypatch):
    monkeypatch.setattr("siltstone.table.layout.GROUP_ROWS", 8)
    table = grown(*shuffled(count=200, lots=4), key="id")
    table.delete("id % 3 = 1")
    assert len(table.tools.files.open(next(iter(table.state.fragments)).fragment).groups) == 7
    works = jobs.compact(table, rows_target=30)
    table.other().delete("id % 11 = 5")
    table.do(*works)
    assert sorted(row["id"] for row in table.rows()) == [n for n in range(200) if n % 3 != 1 and n % 11 != 5]


def test_plan_slices__wide_rows__are_cut_by_their_bytes(monkeypatch):
    monkeypatch.setattr("siltstone.table.compact_plan.FILE_BYTES", 20_000)
    table = RowTable(key="id")
    chance = random.Random(1)
    for lot in shuffled(count=200, lots=10):
        table.append([{"id": n, "text": chance.randbytes(400 if n < 100 else 4).hex()} for n in lot])
    table.other().append(numbered(1000))
    assert len(jobs.slices(table, rows_target=1000)) > 3


def test_plan_slices__key_was_widened__cuts_old_and_new_fragments():
    table = RowTable(pa.schema([("id", pa.int32()), ("text", pa.string())]), key="id")
    for lot in shuffled(count=40, lots=4):
        table.append(numbered(*(n - 20 for n in lot)))
    table.widen_column("id", pa.int64())
    table.append(numbered(-(2**40), 2**40, 0 + 100))
    slices = jobs.slices(table, rows_target=10)
    assert len(slices) > 2
    assert sorted(one for ids in read_back(table, slices) for one in ids) == [-(2**40), *range(-20, 20), 100, 2**40]
    before = table.rows()
    compacted(table, rows_target=10)
    assert table.rows() == before


@pytest.mark.parametrize("key", [None, "id"])
def test_compact__nothing_is_worth_it__there_is_nothing_to_do(key):
    assert jobs.compact(RowTable(key=key), rows_target=10) == []
    assert jobs.compact(grown(range(10), key=key), rows_target=10) == []
    assert jobs.compact(grown(range(10), range(10, 20), key=key), rows_target=10) == []


@pytest.mark.parametrize("key", [None, "id"])
def test_compact__one_fragment_with_many_deleted_rows__is_rewritten(key):
    table = grown(range(10), key=key)
    table.delete("id % 2 = 0")
    assert compacted(table, rows_target=10) == 1
    assert ids_of(table) == [[1, 3, 5, 7, 9]]
    assert next(iter(table.state.fragments)).vector is None


def test_compact__small_fragments_side_by_side__become_one():
    table = grown(range(49), range(49, 98), key="id")
    assert len(jobs.slices(table, rows_target=100)) == 1, "what fits in one fragment is not cut"
    compacted(table, rows_target=100)
    assert ids_of(table) == [list(range(98))]


@pytest.mark.parametrize("seed", range(12))
def test_compact__again_and_again__ends(seed):
    chance = random.Random(seed)
    table = RowTable(key="id")
    ids = chance.sample(range(10_000), 300)
    if chance.random() < 0.5:
        ids.sort()
    while ids:
        lot, ids = ids[: chance.randrange(1, 60)], ids[60:]
        table.append(numbered(*lot))
    target = chance.choice([5, 30, 60, 100])
    before, turns = table.rows(), 0
    while compacted(table, rows_target=target):
        turns += 1
        assert turns < 4
    assert table.rows() == before


def test_to_works__as_many_fragments_came_out_as_went_in__is_left_as_it_is():
    table = grown([1, 2], [3, 4], key="id")
    slices = jobs.slices(table, rows_target=100)
    assert [part.fewer for part in slices] == [True]
    small = slices[0]._replace(rows_target=2)
    done = [rewrite_slice(jobs.site_of(table), small)]
    assert to_works(table.tools, table.state.schema, slices, done) == []


def test_rewrite_slice__no_row_is_in_it__writes_nothing():
    table = grown([1, 2, 30], [3, 4, 31], key="id")
    [part] = jobs.slices(table, rows_target=100)
    written = jobs.data_objects(table)
    assert rewrite_slice(jobs.site_of(table), part._replace(low=10, high=20)).fragments == ()
    assert rewrite_slice(jobs.site_of(table), part._replace(lives=(), low=10, high=20)).fragments == ()
    assert jobs.data_objects(table) == written


@pytest.mark.parametrize("key", [None, "id"])
def test_compact__group_does_not_fit_in_memory_at_once__rows_are_found_all_the_same(monkeypatch, key):
    monkeypatch.setattr("siltstone.table.compact.GROUP_BYTES", 1)
    table = grown(*shuffled(count=60, lots=6), key=key)
    table.delete("id % 10 = 3")
    works = jobs.compact(table, rows_target=1000)
    table.other().delete("id % 10 = 4")
    before = [row for row in table.rows() if row["id"] % 10 != 4]
    if works:
        table.do(*works)
    assert table.refresh().rows() == before


def test_slices__sent_to_tasks__carry_no_statistics():
    table = grown(*shuffled(count=100, lots=9), key="id")
    for part in jobs.slices(table, rows_target=20):
        assert all(live.fragment.bounds == {} for live in part.lives)


# -- others at the same time -----------------------------------------------------------------------------------


def test_compact__rows_deleted_meanwhile__only_fragments_that_may_hold_them_are_read():
    table = grown(*shuffled(count=400, lots=8), key="id")
    other, store = jobs.metered(table)
    works = jobs.compact(other, rows_target=20)
    table.delete("id = 77")
    store.reset()
    other.do(*works)
    assert store.usage().requests["get"] <= 4, "a vector, the deleted key and one new fragment"
    assert sorted(row["id"] for row in other.rows()) == [n for n in range(400) if n != 77]


def test_compact__all_rows_of_new_fragments_deleted_meanwhile__they_are_not_added():
    table = grown(*shuffled(count=40, lots=4), key="id")
    works = jobs.compact(table, rows_target=10)
    table.other().delete("id < 20")
    done = table.do(*works)
    assert done.change.rewrite
    assert sorted(one for ids in ids_of(table) for one in ids) == list(range(20, 40))


def test_compact__two_at_once__one_of_them_is_refused_and_rows_are_the_same():
    table = grown(*shuffled(count=60, lots=6), key="id")
    other = table.other()
    before = table.rows()
    mine, theirs = jobs.compact(table, rows_target=20), jobs.compact(other, rows_target=7)
    other.do(*theirs)
    with pytest.raises(ConflictError):
        table.do(*mine)
    assert table.refresh().rows() == before


def test_compact__one_of_its_groups_was_replaced__the_others_can_be_done_one_by_one():
    lots = [range(10), range(5, 15), range(100, 120), range(200, 210), range(205, 215)]
    table = RowTable(key="id")
    for lot in lots:
        table.upsert(numbered(*lot))
    before = table.rows()
    works = jobs.compact(table, rows_target=20)
    assert len(works) == 2
    table.other().delete("id >= 205 and id < 215")
    with pytest.raises(ConflictError):
        table.do(*works)
    for work, outcome in zip(works, (contextlib.nullcontext(), pytest.raises(ConflictError)), strict=True):
        with outcome:
            table.refresh().do(work)
    assert table.refresh().rows() == [row for row in before if not 205 <= row["id"] < 215]


@pytest.mark.parametrize("event", ["restore", "overwrite", "drop", "add", "widen"])
def test_compact__rows_or_columns_changed_meanwhile__they_are_what_the_others_left(event):
    table = RowTable(pa.schema([("id", pa.int32()), ("text", pa.string()), ("n", pa.int32())]), key="id")
    for lot in shuffled(count=60, lots=6):
        table.append([{**row, "n": row["id"]} for row in numbered(*lot)])
    version = table.state.version
    table.delete("id % 10 = 3")
    works = jobs.compact(table, rows_target=20)
    other = table.other()
    {
        "restore": lambda: other.restore(version),
        "overwrite": lambda: other.overwrite([{"id": 1, "text": "x", "n": 1}]),
        "drop": lambda: other.drop_column("n"),
        "add": lambda: other.add_column(pa.field("extra", pa.int64()), 9),
        "widen": lambda: (other.widen_column("id", pa.int64()), other.delete("id in (1, 59)")),
    }[event]()
    wanted = other.rows()
    with pytest.raises(ConflictError) if event in {"restore", "overwrite"} else contextlib.nullcontext():
        table.do(*works)
    assert table.refresh().rows() == wanted


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("seed", range(10))
def test_compact__any_order_of_events__rows_are_those_of_a_dict(seed, key):
    chance = random.Random(seed)
    table, model, begun = RowTable(key=key), {}, []
    for number in range(25):
        table = table.other()
        what = chance.choice(["upsert", "upsert", "delete", "begin", "end", "end", "compact"])
        if what == "upsert":
            ids = chance.sample(range(80), chance.randrange(1, 20)) if key else [100 * number + n for n in range(9)]
            (table.upsert if key else table.append)(numbered(*ids, text=f"{number} "))
            model |= {one: f"{number} {one}" for one in ids}
        elif what == "delete":
            rest = chance.randrange(7)
            table.delete(f"id % 7 = {rest}")
            model = {one: text for one, text in model.items() if one % 7 != rest}
        elif what == "compact":
            table.compact(rows_target=chance.choice([3, 20, 100]))
        elif what == "begin":
            target = chance.choice([1, 4, 10, 30, 100])
            begun.append((table, jobs.compact(table, rows_target=target, chance=chance)))
        elif begun:
            older, works = begun.pop(chance.randrange(len(begun)))
            for work in works:
                with contextlib.suppress(ConflictError):
                    older.do(work)
            table = older.refresh()
        assert len(table.rows()) == len(model)
        assert {row["id"]: row["text"] for row in table.rows()} == model
