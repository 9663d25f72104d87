"""What a shard's writer promises: order, durability, one entry for many puts, and an end that is one."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import siltstone as ss
from shard_worlds import MODES, SCHEMA, ShardWorld, rows
from siltstone.errors import (
    InvalidInputError,
    LimitExceededError,
    SchemaMismatchError,
    WriterStoppedError,
)
from siltstone.shard.config import ENTRY_BYTES_MAX
from siltstone.testing.s3server import Faults
from siltstone.testing.script import Fault
from worlds import FOR_EVER

TICK = threading.Event()  # is never set: to look again in a while
WAL = "shards/a/wal/entries/"
DATA = "shards/a/data/"


# -- positions and figures -------------------------------------------------------------------------


@MODES
def test_put__first_one_of_a_fresh_shard__has_position_0(enable_memtable, tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    with table.shard("a").writer(ss.ShardWriterConfig(enable_memtable=enable_memtable)) as writer:
        assert writer.wal_stats().next_wal_entry_position == 0
        writer.put(rows(1))
        assert writer.wal_stats().next_wal_entry_position == 1
    assert (tmp_path / "t" / WAL / f"{0:020d}").exists()
    assert table.scan(fresh=True).to_arrow().column("id").to_pylist() == [1]


@MODES
def test_wal_stats__right_after_open__name_the_place_where_the_next_entry_goes(enable_memtable):
    world = ShardWorld()
    for life in range(3):
        writer = world.writer(enable_memtable=enable_memtable)
        stats = writer.wal_stats()
        assert (stats.entries, stats.rows, stats.pending_batches, stats.pending_bytes) == (0, 0, 0, 0)
        assert stats.replay_from == 0
        world.put(writer, life)
        assert world.entries()[-1] == (stats.next_wal_entry_position, [life])
        assert writer.wal_stats().next_wal_entry_position == stats.next_wal_entry_position + 1
    assert [position for position, _ in world.entries()] == [0, 2, 4], "a fence stands before each life but the first"


def test_stats__right_after_open__tell_what_was_replayed_and_flushed():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1, 2)
    writer.freeze()
    writer.flush_memtables()
    world.put(writer, 3)
    writer = world.writer(name="second")
    stats, wal, memtable = writer.stats(), writer.wal_stats(), writer.memtable_stats()
    assert (stats.epoch, stats.puts, stats.rows, stats.replayed_rows, stats.flushed_memtables) == (2, 0, 0, 1, 0)
    assert (wal.replay_from, wal.next_wal_entry_position) == (1, 3)
    assert (memtable.generation, memtable.rows, memtable.batches, memtable.frozen) == (1, 1, 1, 0)
    assert memtable.bytes > 0


def test_stats__after_puts_and_deletes__count_them():
    world = ShardWorld(keyed=True)
    writer = world.writer()
    writer.put(rows(1, 2, 3))
    writer.delete([1, 2])
    stats = writer.stats()
    assert (stats.puts, stats.rows, stats.deletes) == (2, 5, 2)
    assert (writer.wal_stats().entries, writer.wal_stats().rows) == (2, 5)
    assert writer.scan().to_arrow().column("id").to_pylist() == [3]
    assert writer.get([1, 3]).column("id").to_pylist() == [3]


# -- durable means durable -------------------------------------------------------------------------


def test_put__durable__is_in_the_wal_when_it_returns():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    ack = writer.put(rows(1))
    assert ack.done
    assert world.entries() == [(0, [1])]
    ack.wait()
    assert repr(ack) == "Ack(durable)"


def test_put__not_durable__is_in_the_wal_when_somebody_waits():
    world = ShardWorld()
    writer = world.writer(durable_write=False)
    acks = [writer.put(rows(one)) for one in (1, 2)]
    assert not any(ack.done for ack in acks)
    assert world.entries() == []
    assert world.ids() == []
    assert sorted(writer.scan().to_arrow().column("id").to_pylist()) == [1, 2], "its own reads see it"
    acks[0].wait()
    assert acks[1].done
    assert world.entries() == [(0, [1, 2])], "one entry for both"


@pytest.mark.parametrize("wait", [True, False])
def test_put__told_otherwise_than_the_writer__does_as_told(wait):
    world = ShardWorld()
    writer = world.writer(durable_write=not wait)
    assert writer.put(rows(1), wait=wait).done == wait


def test_ack__an_older_generation_is_flushed__does_not_speak_for_a_newer_put():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, durable_write=False, max_wal_append_attempts=1)
    old = writer.put(rows(1))
    writer.freeze()
    new = writer.put(rows(2))
    writer.flush_memtables()
    assert old.done
    assert not new.done
    assert world.ids() == [1]
    store.on("create", Fault.DENY, key=WAL, times=FOR_EVER)
    with pytest.raises(WriterStoppedError, match="not in the WAL"):
        new.wait()
    assert not new.done
    assert world.ids() == [1]


def test_put__rows_of_two_memtables_wait__share_no_entry():
    world = ShardWorld()
    writer = world.writer(durable_write=False, max_memtable_rows=2)
    for one in range(5):
        writer.put(rows(one))
    writer.flush()
    assert world.entries() == [(0, [0, 1]), (1, [2, 3]), (2, [4])]


def test_put__more_than_an_entry_takes__is_cut_and_stays_in_order():
    world = ShardWorld()
    writer = world.writer(max_wal_buffer_size=4096)
    data = pa.table({"id": range(1000), "note": ["x" * 30] * 1000}, schema=SCHEMA)
    writer.put(data)
    found = world.entries()
    assert len(found) > 8
    assert [one for _, ids in found for one in ids] == list(range(1000))
    assert all(one.size < 8192 for one in world.store().list(WAL[:-1]))


# -- threads ---------------------------------------------------------------------------------------


def test_put__from_many_threads__each_ones_order_is_kept_and_entries_are_shared(places):
    place = places.store("faulty")
    places.honest.set(latency_ms=5)
    try:
        table = ss.create(place.uri, schema=SCHEMA, storage_options=place.options)
        threads, puts = 16, 12
        with table.shard("a").writer(ss.ShardWriterConfig(max_memtable_rows=50)) as writer:

            def work(number):
                for step in range(puts):
                    writer.put(rows(number * 1000 + step))

            running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            stats = writer.wal_stats()
    finally:
        places.honest.set(Faults())
    assert stats.rows == threads * puts
    assert stats.entries < threads * puts / 3, "puts that meet share an entry"
    table.merge_shards()
    found = table.scan().to_arrow().column("id").to_pylist()
    assert len(found) == len(set(found)) == threads * puts
    for number in range(threads):
        mine = [one for one in found if one // 1000 == number]
        assert mine == sorted(mine)


def test_put__others_queue_while_an_entry_is_written__share_the_next_one():
    world = ShardWorld()
    store = world.interleaves()
    writer = world.writer(store)
    others, begun = [], []

    def queue_more():
        others.extend(threading.Thread(target=writer.put, args=(rows(one),)) for one in (2, 3, 4))
        for thread in others:
            thread.start()
        while writer.wal_stats().pending_batches < 4:
            TICK.wait(0.001)
        begun.append(writer.wal_stats().pending_batches)

    store.before("create", queue_more, key=WAL)
    writer.put(rows(1))
    for thread in others:
        thread.join()
    assert begun == [4]
    assert [len(ids) for _, ids in world.entries()] == [1, 3]


# -- rows that are taken in ------------------------------------------------------------------------


def test_put__owner_changes_the_memory_afterwards__rows_stay_as_they_were():
    world = ShardWorld()
    numbers = np.arange(3)
    frame = pd.DataFrame({"id": np.arange(3, 6), "note": ["a", "b", "c"]})
    more = np.arange(6, 9)
    frames = [pd.DataFrame({"id": more, "note": ["a", "b", "c"]}, copy=False)]
    writer = world.writer(durable_write=False)
    writer.put({"id": numbers, "note": ["a", "b", "c"]})
    writer.put(frame)
    writer.put(iter(frames))
    numbers[:] = more[:] = 99
    frame.loc[:, "id"] = 99
    assert sorted(writer.scan().to_arrow().column("id").to_pylist()) == list(range(9))
    writer.freeze()
    writer.flush_memtables()
    assert sorted(world.ids()) == list(range(9))


def test_put__slices_of_large_tables__hold_no_more_memory_than_their_own():
    world = ShardWorld()
    writer = world.writer(durable_write=False)
    before = pa.total_allocated_bytes()
    for number in range(20):
        large = pa.table({"id": np.arange(100_000), "note": ["x" * 20] * 100_000}, schema=SCHEMA)
        writer.put(large.slice(number, 10))
        del large
    gc.collect()
    assert pa.total_allocated_bytes() - before < 2**20


def test_put__a_row_that_fits_into_no_entry__is_refused_and_the_writer_goes_on():
    world = ShardWorld()
    writer = world.writer()
    huge = pa.table({"id": [1, 2], "note": ["x" * (ENTRY_BYTES_MAX + 1), "y"]}, schema=SCHEMA)
    with pytest.raises(LimitExceededError, match="an entry of the WAL"):
        writer.put(huge)
    world.put(writer, 3)
    assert world.check() == [3]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([{"id": "x", "note": "y"}], SchemaMismatchError),
        ([{"id": 1, "other": "y"}], SchemaMismatchError),
        ([{"id": None, "note": "y"}], SchemaMismatchError),
        (7, InvalidInputError),
        ("text", InvalidInputError),
    ],
)
def test_put__bad_rows__are_refused_and_nothing_is_queued(data, error):
    world = ShardWorld()
    writer = world.writer()
    with pytest.raises(error):
        writer.put(data)
    good = rows(1)
    with pytest.raises(error):
        writer.put(iter([good, data]) if error is SchemaMismatchError else data)
    assert writer.wal_stats().pending_batches == writer.memtable_stats().rows == 0
    world.put(writer, 2)
    assert world.check() == [2]


def test_put__no_rows__is_durable_at_once_and_writes_nothing():
    world = ShardWorld()
    writer = world.writer()
    assert writer.put([]).done
    assert world.entries() == []


def test_put__a_row_of_another_shard__the_error_names_its_key_and_its_shard():
    table = ss.create("memory://wrong-shard", schema=SCHEMA, key="id", shards=4)
    key = next(number for number in range(100, 200) if table.shard_of(number) == [3])
    with table.shard(0).writer() as writer, pytest.raises(InvalidInputError) as raised:
        writer.put(rows(key))
    assert raised.value.message.endswith(f"such as the one with the key {key}, which belongs to shard 3")
    assert "table.shard_of(keys)" in raised.value.hint


def test_put__rows_of_other_shards__are_refused_with_the_keys(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=4)
    with table.shard(0).writer() as writer, table.writer() as routed:
        with pytest.raises(InvalidInputError, match="belong to other shards than 0"):
            routed.writers[0].put(rows(*range(20)))
        with pytest.raises(InvalidInputError, match="belong to other shards than 0"):
            routed.writers[0].delete(list(range(20)))
        routed.put(rows(*range(20)))
        assert writer.stats().rows == 0
    assert sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist()) == list(range(20))


def test_delete__table_without_a_key__is_refused():
    world = ShardWorld()
    with pytest.raises(InvalidInputError, match="no key"):
        world.writer().delete([1])


def test_put__same_key_again_and_deleted_in_between__the_last_one_counts():
    world = ShardWorld(keyed=True)
    writer = world.writer()
    writer.put(rows(1, 2, note="a"))
    writer.delete([1])
    writer.put(rows(2, note="b"))
    writer.freeze()
    writer.flush_memtables()
    writer.put(rows(1, note="c"))
    writer.delete([2, 77])
    found = world.table().scan(fresh=True).to_arrow().to_pylist()
    assert found == [{"id": 1, "note": "c1"}]
    second = world.writer()
    assert second.scan().to_arrow().to_pylist() == found
