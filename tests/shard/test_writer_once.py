"""Puts that are to count once: however often they are made, by whichever writer, their rows are there once."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from shard_worlds import MODES, SCHEMA, ShardWorld, rows
from siltstone.errors import CommitUnknownError, InvalidInputError, LimitExceededError
from siltstone.table.once import Once
from siltstone.testing.script import Fault
from worlds import FOR_EVER

WAL = "shards/a/wal/entries/"


def once_world():
    world = ShardWorld()
    return world, world.writer()


@MODES
@pytest.mark.parametrize(
    "later", ["at once", "reopened", "flushed", "flushed and reopened", "merged", "merged and gone"]
)
def test_put__once_and_again_later__is_there_once(later, enable_memtable):
    world = ShardWorld()
    writer = world.writer(enable_memtable=enable_memtable)
    world.put(writer, 1, once="load-1")
    world.put(writer, 2, once=Once(stream="s", batch=4))
    world.put(writer, 3)
    if "flushed" in later and enable_memtable:
        writer.freeze()
        writer.flush_memtables()
    if "merged" in later:
        world.table().merge_shards()
        if "gone" in later:
            world.clock.advance(3600)
            world.table().merge_shards()
            assert list(world.store().list(WAL[:-1])) == []
    if later not in {"at once", "flushed", "merged"}:
        writer = world.writer(enable_memtable=enable_memtable)
    assert writer.applied(Once(id="load-1"))
    assert not writer.applied(Once(id="load-2"))
    assert writer.put(rows(1), once="load-1").done
    writer.put(rows(2), once=Once(stream="s", batch=4))
    writer.put(rows(2), once=Once(stream="s", batch=3))
    assert sorted(world.check()) == [1, 2, 3]
    world.put(writer, 4, once="load-2")
    world.put(writer, 5, once=Once(stream="s", batch=5))
    assert sorted(world.check()) == [1, 2, 3, 4, 5]
    world.go_on(enable_memtable=enable_memtable)


def test_put__once_while_the_first_one_is_not_durable_yet__waits_for_that_one():
    world, writer = once_world()
    first = writer.put(rows(1), once="x", wait=False)
    again = writer.put(rows(1), once="x", wait=False)
    assert not writer.applied(Once(id="x"))
    assert not again.done
    again.wait()
    assert first.done
    assert world.entries() == [(0, [1])]


def test_put__once_from_many_threads__is_there_once():
    world, writer = once_world()
    gate = threading.Barrier(8)

    def work():
        gate.wait()
        writer.put(rows(1), once="x")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.ids() == [1]


def test_put__once_of_unknown_outcome__the_next_writer_knows():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, max_wal_append_attempts=1)
    store.on("create", Fault.LOSE, key=WAL, times=FOR_EVER)
    store.on("get", Fault.REFUSE, key=WAL, times=FOR_EVER)
    assert isinstance(world.put(writer, 1, once="x"), CommitUnknownError)
    second = world.writer()
    assert second.applied(Once(id="x"))
    second.put(rows(1), once="x")
    assert world.check() == [1]


def test_put__once_with_more_than_an_entry_takes__is_refused_before_anything_is_queued():
    world = ShardWorld()
    writer = world.writer(max_wal_buffer_size=1024)
    data = pa.table({"id": range(100), "note": ["x" * 30] * 100}, schema=SCHEMA)
    with pytest.raises(LimitExceededError, match="one entry"):
        writer.put(data, once="x")
    assert writer.wal_stats().pending_batches == 0


@pytest.mark.parametrize("once", ["", "x" * 10_000, 5, b"x"])
def test_put__once_that_is_none__is_refused(once):
    _, writer = once_world()
    with pytest.raises(InvalidInputError, match="once"):
        writer.put(rows(1), once=once)
    assert writer.wal_stats().pending_batches == 0
