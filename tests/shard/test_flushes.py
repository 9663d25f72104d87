"""From memtables to fragments: in order, each row once, and the cursor never passes what was not flushed."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

import siltstone as ss
from shard_worlds import SCHEMA, ShardWorld, attempt, rows
from siltstone.env import Env
from siltstone.errors import SiltstoneError, UnavailableError, WriterStoppedError
from siltstone.shard.chunks import DELETED, POSITION, shard_schema
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.wrapper import StoreWrapper
from siltstone.table.tools import make_tools
from siltstone.testing.script import ANY, Fault
from worlds import FOR_EVER

TICK = threading.Event()  # is never set: to look again in a while
WAL = "shards/a/wal/entries/"
DATA = "shards/a/data/"
MANIFEST = "shards/a/manifest/entries/"


def state_of(world):
    table = world.table()
    return table._shards.reader(world.shard, table._looked()).place.read().manifest.read()


def fragment_rows(world, one):
    """The rows of a shard's fragment as they are in its file, hidden columns too."""
    table = world.table()
    reader = table._shards.reader(world.shard, table._looked())
    file = make_tools(reader.place.store, table._log.env).files.open(one.fragment)
    fields = shard_schema(table._looked().schema).fields
    return pa.concat_tables(file.read(group, fields) for group in range(len(file.groups))).to_pylist()


# -- what a flush makes ----------------------------------------------------------------------------


def test_flush_memtables__keyed__each_key_once_in_order_newest_wins_and_tombstones_stay():
    world = ShardWorld(keyed=True)
    writer = world.writer()
    writer.put(rows(3, 1, 2, note="a"))
    writer.put(rows(2, note="b"))
    writer.delete([3, 9])
    writer.freeze()
    assert writer.flush_memtables() == 1
    state = state_of(world)
    assert (state.generation, state.replay_from.position, len(state.fragments)) == (1, 3, 1)
    one = state.fragments[0]
    assert (one.generation, one.first, one.until) == (0, 0, 3)
    assert one.fragment.name.startswith(f"{0:020d}-")
    assert fragment_rows(world, one) == [
        {"id": 1, "note": "a1", POSITION: 0, DELETED: False},
        {"id": 2, "note": "b2", POSITION: 1, DELETED: False},
        {"id": 3, "note": None, POSITION: 2, DELETED: True},
        {"id": 9, "note": None, POSITION: 2, DELETED: True},
    ]


def test_flush_memtables__several_are_frozen__are_flushed_in_order_and_cursors_follow():
    world = ShardWorld()
    writer = world.writer(max_memtable_rows=2)
    for number in range(7):
        world.put(writer, number)
    assert writer.memtable_stats().frozen == 3
    assert writer.flush_memtables() == 3
    state = state_of(world)
    assert [(one.generation, one.first, one.until) for one in state.fragments] == [(0, 0, 2), (1, 2, 4), (2, 4, 6)]
    assert state.replay_from.position == 6
    assert writer.flush_memtables() == 0
    assert writer.stats().flushed_memtables == 3
    assert writer.wal_stats().replay_from == 6
    assert sorted(world.check()) == list(range(7))
    second = world.take_over()
    assert second.stats().replayed_rows == 1
    assert second.memtable_stats().generation == 3


@pytest.mark.parametrize(
    "limit", [{"max_memtable_rows": 4}, {"max_memtable_batches": 2}, {"max_memtable_size": 60}], ids=str
)
def test_put__a_memtable_reaches_a_limit__is_frozen(limit):
    world = ShardWorld()
    writer = world.writer(**limit)
    world.put(writer, 1, 2)
    assert writer.memtable_stats().frozen == 0
    world.put(writer, 3, 4)
    stats = writer.memtable_stats()
    assert (stats.frozen, stats.rows, stats.generation) == (1, 0, 1)
    assert stats.frozen_bytes > 0


def test_freeze__empty_memtable__nothing_is_frozen():
    world = ShardWorld()
    writer = world.writer()
    writer.freeze()
    writer.freeze()
    assert writer.flush_memtables() == 0
    assert writer.memtable_stats().generation == 0
    assert state_of(world).generation == 0


def test_flush_memtables__rows_nobody_waited_for__are_durable_before_they_are_flushed():
    world = ShardWorld()
    store = world.interleaves()
    writer = world.writer(store, durable_write=False)
    acks = [writer.put(rows(number)) for number in (1, 2)]
    writer.freeze()
    done = []
    store.before(ANY, lambda: done.extend(ack.done for ack in acks), key=DATA)
    writer.flush_memtables()
    assert done == [True, True]
    assert sorted(world.ids()) == [1, 2]


def test_flush_memtables__rows_were_merged_meanwhile__are_left_out_of_the_fragment():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1)
    world.put(writer, 2)
    world.table().merge_shards()
    world.put(writer, 3)
    writer.freeze()
    writer.flush_memtables()
    state = state_of(world)
    assert [(one.first, one.until, one.fragment.rows) for one in state.fragments] == [(2, 3, 1)]
    assert sorted(world.check()) == [1, 2, 3]
    world.put(writer, 4)
    world.table().merge_shards()
    writer.freeze()
    writer.flush_memtables()  # all of it is merged: there is no fragment to write
    assert state_of(world).generation == 2
    assert state_of(world).fragments == ()
    world.go_on()


@pytest.mark.parametrize("place", [DATA, MANIFEST, "wal/floor"])
def test_flush_memtables__merged_at_the_moment_it_is_flushed__each_row_is_there_once(place):
    for when in ("before", "after"):
        world = ShardWorld()
        store = world.interleaves()
        writer = world.writer(store)
        world.put(writer, 1)
        writer.freeze()
        world.put(writer, 2)
        getattr(store, when)(ANY, lambda world=world: world.table().merge_shards(), key=place)
        writer.flush_memtables()
        assert not store.pending
        assert sorted(world.check()) == [1, 2]
        world.put(writer, 3)
        world.go_on()


# -- flushes that fail -----------------------------------------------------------------------------


def test_flush_memtables__the_first_of_two_fails__the_cursor_does_not_pass_it():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    world.put(writer, 1)
    writer.freeze()
    world.put(writer, 2)
    writer.freeze()
    store.on(ANY, Fault.REFUSE, key=f"{DATA}{0:020d}-", times=FOR_EVER)  # files of generation 0 can't be written
    assert isinstance(attempt(writer.flush_memtables), UnavailableError)
    assert isinstance(attempt(writer.flush_memtables), UnavailableError)
    state = state_of(world)
    assert (state.replay_from.position, state.generation, state.fragments) == (0, 0, ())
    assert writer.memtable_stats().frozen == 2
    world.put(writer, 3)
    assert sorted(world.check()) == [1, 2, 3]
    store.script.clear()
    assert writer.flush_memtables() == 2
    assert state_of(world).replay_from.position == 2
    world.go_on()


def test_flush_memtables__the_second_of_two_fails__the_first_is_flushed_and_the_next_writer_replays_the_second():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    world.put(writer, 1)
    writer.freeze()
    world.put(writer, 2)
    writer.freeze()
    store.on(ANY, Fault.REFUSE, key=f"{DATA}{1:020d}-", times=FOR_EVER)
    assert isinstance(attempt(writer.flush_memtables), UnavailableError)
    assert (state_of(world).replay_from.position, state_of(world).generation) == (1, 1)
    assert world.take_over().stats().replayed_rows == 1
    assert isinstance(attempt(writer.flush_memtables), SiltstoneError)
    assert state_of(world).replay_from.position == 1
    world.go_on()


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.DELAY, Fault.FAIL_AFTER], ids=lambda fault: fault.name)
def test_flush_memtables__answer_of_the_manifest_is_lost__is_recorded_once_and_goes_on(fault):
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    world.put(writer, 1)
    writer.freeze()
    world.put(writer, 2)
    writer.freeze()
    store.on("create", fault, key=MANIFEST, times=FOR_EVER)
    store.on("get", Fault.REFUSE, key=MANIFEST, times=FOR_EVER)
    assert isinstance(attempt(writer.flush_memtables), SiltstoneError)
    store.script.clear()
    writer.flush_memtables()
    store.release()
    state = state_of(world)
    assert [(one.first, one.until) for one in state.fragments] == [(0, 1), (1, 2)]
    assert writer.memtable_stats().frozen == 0
    assert sorted(world.check()) == [1, 2]
    world.go_on()


def test_flush_memtables__wal_cant_be_truncated__is_flushed_all_the_same():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    world.put(writer, 1)
    writer.freeze()
    store.on(ANY, Fault.DENY, key="wal/floor", times=FOR_EVER)
    writer.flush_memtables()
    assert state_of(world).replay_from.position == 1
    store.script.clear()
    world.put(writer, 2)
    writer.freeze()
    writer.flush_memtables()
    assert len(list(world.store().list("shards/a/wal/floor"))) == 1
    world.go_on()


def test_put__wal_is_being_truncated__does_not_wait_for_it():
    world = ShardWorld()
    store = world.interleaves()
    writer = world.writer(store)
    world.put(writer, 1)
    writer.freeze()
    putting = threading.Thread(target=world.put, args=(writer, 2))

    def put_meanwhile():
        putting.start()
        putting.join(30)

    store.before("put", put_meanwhile, key="wal/floor")
    writer.flush_memtables()
    assert not store.pending
    assert not putting.is_alive()
    assert world.acknowledged == [1, 2]


# -- the wal afterwards ----------------------------------------------------------------------------


def test_flush_memtables__again_and_again__wal_and_manifest_keep_a_bounded_number_of_objects():
    world = ShardWorld()
    writer = world.writer(max_memtable_rows=4)
    for number in range(400):
        world.put(writer, number)
        writer.flush_memtables()
        world.clock.advance(5)
        if number % 40 == 39:
            world.table().merge_shards()
    assert len(list(world.store().list(WAL[:-1]))) < 60
    assert len(list(world.store().list("shards/a/manifest"))) < 80
    assert sorted(world.check()) == list(range(400))
    world.go_on()


# -- threads ---------------------------------------------------------------------------------------


def eventually(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        TICK.wait(0.005)
    return condition()


def test_writer__with_threads__flushes_by_itself(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    with table.shard("a").writer(ss.ShardWriterConfig(max_memtable_rows=10)) as writer:
        for number in range(95):
            writer.put(rows(number))
        assert eventually(lambda: writer.stats().flushed_memtables == 9)
        assert eventually(lambda: writer.wal_stats().replay_from == 90)
        assert writer.memtable_stats().rows == 5
    status = table.shard("a").status()
    assert (status.fragments, status.fragment_rows, status.wal_lag) == (9, 90, 5)
    assert sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist()) == list(range(95))


def test_writer__a_flush_of_its_thread_fails__is_tried_again_and_told(places):
    place = places.store("faulty")
    table = ss.create(place.uri, schema=SCHEMA, storage_options=place.options, env=Env(patience_s=0.1))
    try:
        with table.shard("a").writer(ss.ShardWriterConfig(max_memtable_rows=5)) as writer:
            places.honest.set(fail_match="/data/", fail_status=503)
            for number in range(10):
                writer.put(rows(number))
            assert eventually(lambda: writer.stats().last_error != "")
            assert writer.stats().flushed_memtables == 0
            places.honest.set(fail_match="")
            assert eventually(lambda: writer.stats().flushed_memtables == 2)
    finally:
        places.honest.set(fail_match="")
    assert sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist()) == list(range(10))


class Burning(StoreWrapper):
    """A store whose own code fails."""

    def create(self, key, data):
        if DATA in key:
            raise ZeroDivisionError("the disk is on fire")
        super().create(key, data)

    put = create


def test_writer__its_thread_meets_what_nobody_thought_of__is_stopped_and_says_so():
    store = Burning(MemoryStore(bucket=MemoryBucket()))
    table = ss.create(store, schema=SCHEMA, probe=False)
    writer = table.shard("a").writer(ss.ShardWriterConfig(max_memtable_rows=2))
    writer.put(rows(1, 2))
    assert eventually(lambda: writer.is_stopped)
    with pytest.raises(WriterStoppedError, match="ZeroDivisionError: the disk is on fire"):
        writer.put(rows(3))
    writer.close()
    with table.shard("a").writer() as second:
        assert second.stats().replayed_rows == 2


def test_open__full_memtables_are_replayed__are_flushed_by_themselves(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    with table.shard("a").writer() as writer:
        for number in range(10):
            writer.put(rows(number))
    with table.shard("a").writer(ss.ShardWriterConfig(max_memtable_rows=3)) as writer:
        assert eventually(lambda: writer.stats().flushed_memtables == 3)
        assert writer.memtable_stats().rows == 1
    assert sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist()) == list(range(10))
