"""Promises of a writer at their edges: ids of long puts, refused puts that nobody waits for, reads after a fence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from shard_models import World, ids_of, number_of, rows_of
from siltstone.errors import BackpressureError, ClosedError, FencedError
from siltstone.shard.routed import RoutedWriter

LONG = "x" * 100


def long_rows(ids, n=0):
    return [{"id": id_, "n": n, "note": LONG} for id_ in ids]


def fill(writer, ids):
    """Put rows until there is no room for more."""
    for id_ in ids:
        writer.put(long_rows([id_]), wait=False)


# -- ids -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", ["at once", "reopened", "flushed and reopened", "merged"])
def test_put__once_and_again_with_rows_of_several_entries__none_of_them_comes_again(later):
    world = World(shards=1)
    writer = world.writer(0, max_wal_buffer_size=2000)
    writer.put(long_rows(range(50)), once="load")
    assert writer.wal_stats().entries > 1
    writer.put([{"id": 0, "n": 99, "note": "newer"}])
    if "flushed" in later:
        world.flush(writer)
    if later == "merged":
        world.open().merge_shards()
    if "reopened" in later:
        writer = world.writer(0, max_wal_buffer_size=2000)
    end = writer.wal_stats().next_wal_entry_position
    assert writer.put(long_rows(range(50)), once="load").done
    writer.flush()
    assert writer.wal_stats().next_wal_entry_position == end
    assert world.open().get([0], fresh=True).to_pylist() == [{"id": 0, "n": 99, "note": "newer"}]


# -- room ------------------------------------------------------------------------------------------


def test_put__refused_for_rows_that_are_durable_and_fill_no_memtable__there_is_room_when_they_are_flushed():
    world = World(shards=1)
    writer = world.writer(0, max_unflushed_memtable_bytes=20_000)
    for id_ in range(1000):
        try:
            writer.put(long_rows([id_]), wait=False)
        except BackpressureError:
            writer.flush()
            writer.flush_memtables()  # as its thread does, which a refused put has woken
            writer.put(long_rows([id_]), wait=False)
    writer.flush()
    assert world.open().count(fresh=True) == 1000


def test_put__refused_for_rows_that_are_not_in_the_wal_yet__no_small_memtable_is_flushed_for_it():
    world = World(shards=1)
    writer = world.writer(0, max_unflushed_memtable_bytes=20_000)
    with pytest.raises(BackpressureError):
        fill(writer, range(1000))
    assert writer.memtable_stats().frozen == 0
    writer.flush()
    writer.put(long_rows([2000]), wait=False)


def test_put__one_of_several_shards_has_no_room__nothing_is_queued_for_any():
    world = World(shards=2)
    writers = world.writers(max_unflushed_memtable_bytes=20_000)
    routed = RoutedWriter(writers)
    full, other = writers[1], writers[0]
    mine, theirs = ids_of(1, 2), ids_of(0, 2)
    with pytest.raises(BackpressureError):
        fill(full, mine)
    with pytest.raises(BackpressureError):
        routed.put(long_rows([next(theirs), next(mine)]), wait=False)
    assert other.wal_stats().pending_batches == 0
    full.flush()
    world.flush(full)
    ack = routed.put(long_rows([next(theirs), next(mine)]), wait=False)
    ack.wait()
    assert ack.done


def test_put__rows_of_many_batches_to_several_shards__each_shard_has_its_rows_in_their_order():
    world = World(shards=2)
    routed = RoutedWriter(world.writers())
    tables = [pa.Table.from_pylist(rows_of(dict.fromkeys(range(20), turn))) for turn in range(5)]
    routed.put(pa.concat_tables(tables).to_reader(max_chunksize=20))
    found = world.open().scan(fresh=True).to_arrow().to_pylist()
    assert {row["id"]: row["n"] for row in found} == dict.fromkeys(range(20), 4)
    assert len(found) == 20


# -- figures ---------------------------------------------------------------------------------------


def test_stats__a_put_of_several_entries__is_one_put():
    world = World(shards=1)
    writer = world.writer(0, max_wal_buffer_size=2000)
    writer.put(long_rows(range(50)))
    writer.put(long_rows([0]))
    writer.put([])
    assert (writer.stats().puts, writer.stats().rows) == (2, 51)
    assert writer.wal_stats().entries > 2


def test_status__fragments_are_merged_and_not_dropped_yet__are_not_counted():
    world = World(shards=1)
    writer, table = world.writer(0), world.open()
    world.put(writer, {1: 1})
    world.flush(writer)
    assert [(one.fragments, one.fragment_rows) for one in table.shards()] == [(1, 1)]
    table._tidy = list  # as where the merger was killed before it came so far
    table.merge_shards()
    assert [(one.fragments, one.fragment_rows) for one in world.open().shards()] == [(0, 0)]


# -- after a fence, and at the end -----------------------------------------------------------------


@pytest.mark.parametrize("read", [lambda writer: writer.scan().to_arrow(), lambda writer: writer.get([1, 2])])
def test_scan__the_writer_was_fenced_unnoticed__is_told_instead_of_missing_rows(read):
    world = World(shards=1)
    first = world.writer(0)
    world.put(first, {1: 1})
    second = world.writer(0)
    world.put(second, {1: 2})
    with pytest.raises(FencedError):
        read(first)
    with pytest.raises(FencedError):
        first.put(rows_of({3: 3}))
    assert read(second).to_pylist() == rows_of({1: 2})


def test_scan__an_entry_of_its_own_is_under_way__rows_are_seen_once():
    world = World(shards=1)
    store = world.interleaves()
    writer = world.writer(0, world.open(store))
    seen = []
    store.after("create", lambda: seen.extend(writer.get([1]).to_pylist()), key="wal/entries/")
    writer.put(rows_of({1: 1}))
    assert seen == rows_of({1: 1})


def test_put__another_thread_closed_the_writer_meanwhile__says_so():
    world = World(shards=2)
    routed = RoutedWriter(world.writers())
    ids = [next(ids_of(number, 2)) for number in range(2)]
    assert [number_of(id_, 2) for id_ in ids] == [0, 1]
    routed._pool = ThreadPoolExecutor(2)
    routed._pool.shutdown()  # as where the other thread is just there
    with pytest.raises(ClosedError):
        routed.put(rows_of(dict.fromkeys(ids, 1)))
