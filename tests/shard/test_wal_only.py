"""A writer without a memtable: rows go into the WAL and nowhere else, and whoever reads or merges finds them there."""

from __future__ import annotations

import pytest

import siltstone as ss
from shard_worlds import SCHEMA, ShardWorld, attempt, rows
from siltstone.errors import BackpressureError, InvalidInputError
from siltstone.shard.config import ShardWriterConfig
from siltstone.testing.script import Fault

WAL = "shards/a/wal/entries/"


@pytest.fixture
def world():
    return ShardWorld(keyed=True)


def test_put__wal_only__rows_are_in_the_wal_and_in_no_memtable(world):
    writer = world.writer(enable_memtable=False, max_memtable_rows=1, max_memtable_batches=1, max_memtable_size=1)
    world.put(writer, 1, 2)
    world.put(writer, 3)
    assert writer.flush_memtables() == 0
    assert writer._tables.nbytes == 0
    assert writer.wal_stats().entries == 2
    assert list(world.store().list("shards/0000-0000/data")) == []
    assert sorted(world.check()) == [1, 2, 3]
    writer.delete([2])
    assert sorted(world.ids()) == [1, 3]


CALLS = {
    "scan": lambda writer: writer.scan(),
    "get": lambda writer: writer.get([1]),
    "memtable_stats": lambda writer: writer.memtable_stats(),
    "active_memtable": lambda writer: writer.active_memtable(),
    "freeze": lambda writer: writer.freeze(),
}


@pytest.mark.parametrize("call", CALLS)
def test_reads__wal_only__are_refused_with_what_to_do(world, call):
    writer = world.writer(enable_memtable=False)
    world.put(writer, 1)
    with pytest.raises(
        InvalidInputError, match=f"{call} needs a memtable, and the writer of shard .* is WAL only"
    ) as one:
        CALLS[call](writer)
    assert "fresh=True" in one.value.hint
    world.put(writer, 2)
    assert sorted(world.check()) == [1, 2], "it goes on"


def test_open__wal_only_with_indexes__is_refused_before_anything_is_claimed(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    config = ShardWriterConfig(enable_memtable=False, index_configs=("note",))
    with pytest.raises(InvalidInputError, match="index_configs needs a memtable"):
        table.shard("a").writer(config)
    assert table.shards() == []


def test_open__wal_only_again__position_is_right_and_nothing_is_replayed(world):
    world.put(world.writer(enable_memtable=False), 1, 2)
    writer = world.writer(enable_memtable=False)
    stats = writer.wal_stats()
    assert (stats.next_wal_entry_position, stats.replay_from) == (2, 0)
    assert (writer.stats().epoch, writer.stats().replayed_rows) == (2, 0)
    world.put(writer, 3)
    assert writer.wal_stats().next_wal_entry_position == 3
    assert sorted(world.check()) == [1, 2, 3]


def test_open__with_a_memtable_after_a_wal_only_one__has_all_rows(world):
    world.put(world.writer(enable_memtable=False), 1, 2)
    writer = world.take_over()
    assert writer.memtable_stats().rows == 2
    assert writer.scan().count() == 2


def test_open__with_a_memtable_and_more_in_the_wal_than_it_may_hold__flushes_on_the_way():
    world = ShardWorld()
    writer = world.writer(enable_memtable=False)
    for number in range(60):
        world.put(writer, *range(number * 10, number * 10 + 10))
    size = writer.intake.rows(rows(*range(10))).chunks[0].nbytes
    most = 8 * size
    second = world.writer(max_unflushed_memtable_bytes=most, max_memtable_size=2 * size)
    stats = second.memtable_stats()
    assert stats.bytes + stats.frozen_bytes <= most
    assert len(second.state.fragments) >= 20
    assert second.stats().replayed_rows == 600
    assert second.wal_stats().replay_from > 40
    assert sorted(world.check()) == list(range(600))
    world.go_on()


def test_open__crashes_while_it_flushes_what_it_replays__the_next_one_has_all_rows_once():
    for nth in range(1, 40):
        world = ShardWorld()
        writer = world.writer(enable_memtable=False)
        for number in range(8):
            world.put(writer, number)
        store = world.fault_store()
        store.on("create", Fault.CRASH_AFTER, nth=nth)
        attempt(world.writer, store, max_unflushed_memtable_bytes=1, max_memtable_rows=3)
        world.go_on()
        if len([call for call in store.calls if call.verb == "create"]) < nth:
            break
    assert nth > 5


def test_put__wal_only_and_the_store_is_away__the_queue_is_bounded_by_the_budget(world):
    store = world.fault_store()
    size = world.writer_intake(world.table()).rows(rows(1)).chunks[0].nbytes
    writer = world.writer(store, enable_memtable=False, durable_write=False, max_unflushed_memtable_bytes=10 * size)
    for number in range(10):
        writer.put(rows(number), wait=False)
    assert writer.wal_stats().pending_bytes == 10 * size
    with pytest.raises(BackpressureError, match=f"{10 * size} bytes .* the limit is {10 * size}") as caught:
        writer.put(rows(10), wait=False)
    assert caught.value.facts == {"held_bytes": 10 * size, "limit_bytes": 10 * size}
    assert writer.wal_stats().pending_batches == 10
    writer.flush()
    writer.put(rows(11), wait=False)
    writer.close()
    assert sorted(world.ids()) == [*range(10), 11]


def test_config__docstring__says_what_bounds_a_wal_only_writer():
    text = " ".join(ShardWriterConfig.__doc__.split())
    assert "In a WAL-only writer it bounds the rows that are not in the WAL yet." in text
    assert "WAL only: ``scan``, ``get``, ``memtable_stats`` and ``active_memtable`` are refused" in text


def test_merge_shards__wal_only__takes_rows_straight_from_the_wal(world):
    writer = world.writer(enable_memtable=False)
    world.put(writer, 1, 2, 3)
    writer.delete([2])
    world.acknowledged.remove(2)
    world.table().merge_shards()
    assert sorted(world.table().scan().to_arrow().column("id").to_pylist()) == [1, 3]
    world.put(writer, 4)
    assert sorted(world.check()) == [1, 3, 4]
    world.go_on(enable_memtable=False)
