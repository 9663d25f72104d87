"""Shards let go of fragments that are merged: by the store's clock, and without harm to those who read them."""

from __future__ import annotations

import functools
import random

import pyarrow as pa
import pytest

from shard_models import DAY_S, MERGE, World, busy, content, delete, ids_of, plain, plain_rows, stages, upsert
from siltstone.api import open_table
from siltstone.errors import MissingObjectError, TruncatedError
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import ANY

MINUTES_11_S = 660
SHARD = "0000-0000"
READS = {
    "scan": lambda table: content(table.scan(fresh=True)),
    "where": lambda table: content(table.scan(where="n >= 0", fresh=True)),
    "get": lambda table: plain_rows(table.get(list(range(60)), fresh=True)),
    "batches": lambda table: sorted(
        (row["id"], row["n"], row["note"]) for one in table.scan(fresh=True) for row in one.to_pylist()
    ),
}


def data(world):
    return world.shard_keys(SHARD, "data/")


def ahead(world, seconds, store=None):
    """A handle of a process whose clock is so much ahead of the store's."""
    clock = ManualClock()
    clock.advance(world.clock.monotonic() + seconds)
    return open_table(store or world.store(), probe=False, env=manual_env(99, clock=clock))


def flushed():
    """A world of one shard, with a fragment that is not merged."""
    world = World(shards=1)
    writer = world.writer(0)
    world.put(writer, {1: 1, 2: 2})
    world.flush(writer)
    return world, writer


# -- clocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [MINUTES_11_S, DAY_S, -DAY_S])
def test_merge_shards__by_one_whose_clock_is_wrong__fragments_stay_for_ten_minutes_of_the_store(seconds):
    world, _ = flushed()
    reader = world.open()
    scan = reader.scan(fresh=True)
    world.do(world.open(), MERGE)  # drops it, by a clock that is right
    world.do(ahead(world, seconds), MERGE)
    assert len(data(world)) == 1
    assert content(scan) == plain({1: 1, 2: 2})
    world.clock.advance(MINUTES_11_S)
    world.do(ahead(world, seconds), MERGE)
    assert data(world) == []
    world.check()


def test_merge_shards__one_is_ahead_and_drops_another_is_behind_and_removes__ten_minutes_of_the_store_count():
    world, _ = flushed()
    world.do(ahead(world, 2 * DAY_S), MERGE)
    world.clock.advance(MINUTES_11_S)
    world.do(ahead(world, -DAY_S / 2), MERGE)
    assert data(world) == []


def test_split_shards__by_one_whose_clock_is_ahead__old_fragments_stay_for_ten_minutes_of_the_store():
    world, _ = flushed()
    scan = world.open().scan(fresh=True)
    world.open().split_shards(2)  # drops it, by a clock that is right
    ahead(world, DAY_S).merge_shards()
    assert len(data(world)) == 1
    assert content(scan) == plain({1: 1, 2: 2})
    world.clock.advance(MINUTES_11_S)
    ahead(world, DAY_S).merge_shards()
    assert data(world) == []


def test_merge_shards__nothing_to_drop__the_store_is_not_asked_for_its_time():
    world = World(shards=1)
    world.put(world.writer(0), {1: 1})
    store = world.faulty()
    world.do(world.open(store), MERGE)
    assert not [call for call in store.calls if call.key.endswith("manifest/clock")]


def test_merge_shards__a_fragment_to_drop__the_store_is_asked_for_its_time_once():
    world, _ = flushed()
    store = world.faulty()
    world.do(world.open(store), MERGE)
    assert [call.verb for call in store.calls if call.key.endswith("manifest/clock")] == ["put", "head"]


# -- readers ---------------------------------------------------------------------------------------


@functools.cache
def prepared():
    return busy()[0]


def merge_and_remove(world):
    """All that was flushed is merged, and the objects of it are removed."""
    table = world.open()
    world.do(table, MERGE)
    world.clock.advance(MINUTES_11_S)
    writer = world.writer(0, table)
    world.put(writer, {next(ids_of(0, 2)): 6})
    world.flush(writer)
    world.do(table, MERGE)


@pytest.mark.parametrize("read", READS)
def test_read__a_shard_lets_go_of_its_fragments_at_any_place_of_it__sees_what_was_there_before_or_after(read):
    world = prepared().copy()
    store = world.interleaves()
    table = world.open(store)
    store.calls.clear()
    READS[read](table)
    found = stages(store.calls)
    for nth in random.Random(read).sample(found, min(len(found), 25)):
        world = prepared().copy()
        _, before = world.expected(world.open())
        store = world.interleaves()
        table = world.open(store, patience_s=10 * DAY_S)
        store.calls.clear()
        store.before(ANY, functools.partial(merge_and_remove, world), nth=nth)
        seen = READS[read](table)
        _, after = world.expected(world.open())
        assert seen in (plain(before), plain(after)), nth
        assert READS[read](table) == plain(after)


@pytest.mark.parametrize("operation", [MERGE, upsert({3: 7, 55: 7}), delete(1)], ids=lambda one: one.name)
def test_operation__a_shard_lets_go_of_its_fragments_at_any_place_of_it__is_done(operation):
    world = prepared().copy()
    store = world.interleaves()
    table = world.open(store)
    store.calls.clear()
    world.do(table, operation)
    found = stages(store.calls)
    for nth in random.Random(operation.name).sample(found, min(len(found), 25)):
        world = prepared().copy()
        store = world.interleaves()
        table = world.open(store, patience_s=10 * DAY_S)
        store.calls.clear()
        store.before(ANY, functools.partial(merge_and_remove, world), nth=nth)
        world.do(table, operation)
        world.check()


def test_writer_scan__a_shard_let_go_since_it_was_asked_for__rows_come_from_the_table():
    world, _ = flushed()
    table = world.open()
    scan = world.writer(0, table).scan()
    world.do(world.open(), MERGE)
    world.clock.advance(MINUTES_11_S)
    world.do(world.open(), MERGE)
    assert data(world) == []
    forget_files(table)
    assert content(scan) == plain({1: 1, 2: 2})


def let_go(world):
    """What was flushed is merged, and the objects of it are removed."""
    world.open().merge_shards()
    world.clock.advance(MINUTES_11_S)
    world.open().merge_shards()


def forget_files(table):
    """As where there is no room to keep files in memory."""
    table._own_tools.files._open.clear()


def test_scan__rows_were_handed_out_before__the_caller_is_told_to_read_again():
    world, _ = flushed()
    table = world.open()
    scan = table.scan(fresh=True)
    assert content(scan) == plain({1: 1, 2: 2})
    let_go(world)
    forget_files(table)
    for read in (scan.to_arrow, lambda: list(scan.to_batches())):
        with pytest.raises(TruncatedError, match="merged since") as told:
            read()
        assert "read again" in told.value.hint


def test_scan__a_shard_lets_go_between_two_batches__the_caller_is_told_to_read_again():
    world = World(shards=1)
    writer = world.writer(0)
    for start in range(0, 30 * 10_000, 10_000):  # more than is read ahead
        writer.put(pa.table({"id": range(start, start + 9_000), "n": [0] * 9_000, "note": ["x" * 50] * 9_000}))
        world.flush(writer)
    table = world.open()
    batches = table.scan(fresh=True).to_batches()
    first = next(batches)
    let_go(world)
    forget_files(table)
    with pytest.raises(TruncatedError, match="merged since"):
        list(batches)
    assert 0 < first.num_rows < 30 * 9_000


def test_sql__a_shard_let_go_since_it_was_planned__the_caller_is_told_to_read_again():
    world, _ = flushed()
    table = world.open()
    result = table.sql(f"select * from {table.name}", fresh=True)
    let_go(world)
    forget_files(table)
    with pytest.raises(TruncatedError, match="merged since"):
        result.to_arrow()


def test_scan__columns_were_changed_since_too__the_caller_is_told_to_read_again():
    world, _ = flushed()
    table = world.open()
    scan = table.scan(fresh=True)
    world.open().drop_column("note")
    let_go(world)
    forget_files(table)
    with pytest.raises(TruncatedError, match="merged since"):
        scan.to_arrow()


@pytest.mark.parametrize("read", READS)
def test_read__a_fragment_is_gone_that_its_shard_names__is_damage(read):
    world, _ = flushed()
    (key,) = data(world)
    world.store().delete([key])
    with pytest.raises(MissingObjectError, match=key.rpartition("/")[2]):
        READS[read](world.open())
