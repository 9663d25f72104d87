"""What a shard's writer promises: order, durability, one entry for many puts, and an end that is one."""

from __future__ import annotations

import gc
import os
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import siltstone as ss
from shard_worlds import SCHEMA, ShardWorld, rows
from siltstone.errors import (
    ClosedError,
    CommitUnknownError,
    ForkedError,
    InvalidInputError,
    LimitExceededError,
    SchemaMismatchError,
    UnavailableError,
)
from siltstone.shard.config import ENTRY_BYTES_MAX
from siltstone.shard.wal import WalTailer
from siltstone.table.once import Once
from siltstone.testing.s3server import Faults
from siltstone.testing.script import Fault
from worlds import FOR_EVER

WAL = "shards/a/wal/entries/"
DATA = "shards/a/data/"
MODES = pytest.mark.parametrize("enable_memtable", [True, False], ids=["memtable", "wal only"])


def entries(world):
    """Position and ids of each entry with rows that is not flushed."""
    table = world.table()
    logs = table._shards.reader(world.shard, table._looked()).place.read()
    tailer = WalTailer(logs.wal, after=logs.manifest.read().replay_from)
    return [(one.position, one.chunk.rows.column("id").to_pylist()) for one in tailer.read(table._looked().schema)]


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
        assert entries(world)[-1] == (stats.next_wal_entry_position, [life])
        assert writer.wal_stats().next_wal_entry_position == stats.next_wal_entry_position + 1
    assert [position for position, _ in entries(world)] == [0, 2, 4], "a fence stands before each life but the first"


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
    assert entries(world) == [(0, [1])]
    ack.wait()
    assert repr(ack) == "Ack(durable)"


def test_put__not_durable__is_in_the_wal_when_somebody_waits():
    world = ShardWorld()
    writer = world.writer(durable_write=False)
    acks = [writer.put(rows(one)) for one in (1, 2)]
    assert not any(ack.done for ack in acks)
    assert entries(world) == []
    assert world.ids() == []
    assert sorted(writer.scan().to_arrow().column("id").to_pylist()) == [1, 2], "its own reads see it"
    acks[0].wait()
    assert acks[1].done
    assert entries(world) == [(0, [1, 2])], "one entry for both"


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
    with pytest.raises(UnavailableError, match="not in the WAL"):
        new.wait()
    assert not new.done
    assert world.ids() == [1]


def test_put__rows_of_two_memtables_wait__share_no_entry():
    world = ShardWorld()
    writer = world.writer(durable_write=False, max_memtable_rows=2)
    for one in range(5):
        writer.put(rows(one))
    writer.flush()
    assert entries(world) == [(0, [0, 1]), (1, [2, 3]), (2, [4])]


def test_put__more_than_an_entry_takes__is_cut_and_stays_in_order():
    world = ShardWorld()
    writer = world.writer(max_wal_buffer_size=4096)
    data = pa.table({"id": range(1000), "note": ["x" * 30] * 1000}, schema=SCHEMA)
    writer.put(data)
    found = entries(world)
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
            time.sleep(0)
        begun.append(writer.wal_stats().pending_batches)

    store.before("create", queue_more, key=WAL)
    writer.put(rows(1))
    for thread in others:
        thread.join()
    assert begun == [4]
    assert [len(ids) for _, ids in entries(world)] == [1, 3]


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
    assert entries(world) == []


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


# -- puts that count once --------------------------------------------------------------------------


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
    assert entries(world) == [(0, [1])]


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


# -- columns that others change --------------------------------------------------------------------


@MODES
def test_put__columns_were_added_by_others__old_rows_and_new_ones_are_taken(enable_memtable):
    world = ShardWorld()
    writer = world.writer(enable_memtable=enable_memtable)
    writer.put([{"id": 1, "note": "a"}])
    world.table().add_column("stars", pa.int64(), default=5)
    writer.put([{"id": 2, "note": "b"}])
    writer.put([{"id": 3, "note": "c", "stars": 1}])
    writer.put([{"id": 4, "note": "d"}])
    expected = [(1, 5), (2, 5), (3, 1), (4, 5)]
    assert [(row["id"], row["stars"]) for row in world.table().scan(fresh=True).to_arrow().to_pylist()] == expected
    world.writer(enable_memtable=enable_memtable)
    world.table().merge_shards()
    assert [(row["id"], row["stars"]) for row in world.table().scan().to_arrow().to_pylist()] == expected


CHANGES = {
    "dropped": (lambda table: table.drop_column("note"), {}),
    "renamed": (lambda table: table.rename_column("note", "text"), {"text": "x"}),
    "replaced": (
        lambda table: (table.drop_column("note"), table.add_column("note", pa.int64())),
        {"note": 3},
    ),
}


@MODES
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("flushes", [True, False])
def test_put__columns_were_changed_by_others__rows_of_before_and_after_are_right(change, flushes, enable_memtable):
    world = ShardWorld()
    writer = world.writer(enable_memtable=enable_memtable)
    writer.put([{"id": 1, "note": "a"}])
    act, new = CHANGES[change]
    act(world.table())
    if flushes and enable_memtable:
        writer.freeze()
        writer.flush_memtables()
    writer.put([{"id": 2, **new}])
    old = {"dropped": {}, "renamed": {"text": "a"}, "replaced": {"note": None}}[change]
    expected = [{"id": 1, **old}, {"id": 2, **new}]

    def seen(scan):
        return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])

    assert seen(world.table().scan(fresh=True)) == expected
    if enable_memtable:
        assert seen(writer.scan()) == expected
        writer.freeze()
        writer.flush_memtables()
        assert seen(world.table().scan(fresh=True)) == expected
    second = world.writer(enable_memtable=enable_memtable)
    second.put([{"id": 3, **new}])
    world.table().merge_shards()
    assert world.table().scan().to_arrow().to_pylist() == [*expected, {"id": 3, **new}]


@pytest.mark.parametrize("flushes", [True, False])
def test_put__column_was_widened_by_others__small_and_large_values_are_right(flushes, tmp_path):
    table = ss.create(tmp_path / "t", schema=pa.schema([("id", pa.int64()), ("n", pa.int16())]))
    other = ss.open(tmp_path / "t")
    with table.shard("a").writer() as writer:
        writer.put([{"id": 1, "n": 7}])
        other.widen_column("n", pa.int64())
        if flushes:
            writer.freeze()
            writer.flush_memtables()
        writer.put([{"id": 2, "n": 8}])
        writer.put([{"id": 3, "n": 2**40}])
        expected = [{"id": 1, "n": 7}, {"id": 2, "n": 8}, {"id": 3, "n": 2**40}]
        assert writer.scan().to_arrow().to_pylist() == expected
        assert other.scan(fresh=True).to_arrow().to_pylist() == expected
    with other.shard("a").writer() as writer:
        assert writer.scan().to_arrow().to_pylist() == expected
    other.merge_shards()
    assert other.scan().to_arrow().to_pylist() == expected


def test_flush_memtables__columns_were_changed_meanwhile__later_puts_go_by_the_new_ones():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1)
    other = world.table()
    other.drop_column("note")
    other.add_column("note", pa.string())  # another column of the same name
    writer.freeze()
    writer.flush_memtables()
    world.put(writer, 2)
    assert world.table().scan(fresh=True).to_arrow().column("note").to_pylist() == [None, "x2"]


def test_queue__rows_were_checked_against_columns_of_before__are_brought_to_the_new_ones():
    world = ShardWorld()
    writer = world.writer()
    checked = writer.intake.rows(rows(1))
    world.table().rename_column("note", "text")
    writer.put([{"id": 2, "text": "b"}])
    writer.queue(checked, room=True).wait()
    assert world.table().scan(fresh=True).to_arrow().to_pylist() == [{"id": 2, "text": "b"}, {"id": 1, "text": "x1"}]


# -- the end ---------------------------------------------------------------------------------------


def test_writer__closed__refuses_everything_and_can_be_closed_again():
    world = ShardWorld(keyed=True)
    writer = world.writer()
    ack = writer.put(rows(1), wait=False)
    writer.close()
    assert ack.done
    ack.wait()
    writer.close()
    calls = [lambda: writer.put(rows(2)), lambda: writer.delete([1]), writer.flush, writer.scan, writer.freeze]
    for call in [*calls, writer.flush_memtables, lambda: writer.get([1])]:
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert writer.is_stopped
    assert world.ids() == [1]


def test_writer__block_ends_with_an_error__rows_are_durable_and_the_error_is_the_users():
    world = ShardWorld()
    writer = world.writer(durable_write=False)
    writer.put(rows(1))
    with pytest.raises(ZeroDivisionError), writer:
        1 / 0  # noqa: B018
    assert writer.is_stopped
    assert world.ids() == [1]


def test_writer__in_the_child_of_a_fork__is_refused_and_stays_the_parents(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=1)
    writer = table.shard(0).writer(ss.ShardWriterConfig(durable_write=False))
    ack = writer.put(rows(1))
    calls = [
        lambda: writer.put(rows(2)),
        lambda: writer.delete([1]),
        ack.wait,
        writer.flush,
        writer.freeze,
        writer.flush_memtables,
        writer.scan,
        lambda: writer.get([1]),
        writer.stats,
        writer.wal_stats,
        writer.memtable_stats,
    ]
    child = os.fork()
    if not child:
        status = 1
        try:
            for call in calls:
                with pytest.raises(ForkedError, match="fork"):
                    call()
            writer.close()  # the parent's to close
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    writer.put(rows(3), wait=True)
    os.mkfifo(tmp_path / "go")
    child = os.fork()
    if not child:  # its copy of the memtable is of no use: what the parent puts from now on is not in it
        (tmp_path / "go").read_bytes()
        found = table.scan(fresh=True).to_arrow().column("id").to_pylist()
        os._exit(0 if sorted(found) == [1, 3, 4] else 1)
    writer.put(rows(4), wait=True)
    (tmp_path / "go").write_bytes(b"x")
    assert os.waitpid(child, 0)[1] == 0
    writer.close()


def threads_of(shard):
    return [one for one in threading.enumerate() if one.name.endswith(f"-{shard}")]


def test_writer__forgotten_without_a_close__its_threads_end(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    writer = table.shard("forgotten").writer(ss.ShardWriterConfig(durable_write=False, max_memtable_rows=2))
    for number in range(4):
        writer.put(rows(number)).wait()
    running = threads_of("forgotten")
    assert running
    del writer
    end = time.monotonic() + 30
    while threads_of("forgotten") and time.monotonic() < end:  # a thread may hold the writer for as long as it works
        gc.collect()
        running[0].join(0.05)
    assert threads_of("forgotten") == []
    with table.shard("forgotten").writer() as writer:
        assert writer.scan().count() == 4
    assert threads_of("forgotten") == []


def test_put__nobody_waits__is_durable_after_the_interval(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    with table.shard("a").writer(ss.ShardWriterConfig(durable_write=False, max_wal_flush_interval_ms=1)) as writer:
        ack = writer.put(rows(1))
        end = time.monotonic() + 30
        while not ack.done and time.monotonic() < end:
            time.sleep(0.001)
        assert ack.done
        assert ss.open(tmp_path / "t").count(fresh=True) == 1


def test_repr__of_a_writer__names_the_shard_and_the_epoch():
    assert repr(ShardWorld().writer()) == "ShardWriter(memory://, shard a, epoch 1)"
