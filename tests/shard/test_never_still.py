"""Reads and merges while others never stand still, or where objects are lost: an error in words, and no lost row."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from shard_worlds import ShardWorld, attempt, rows
from siltstone.errors import ConflictError, MissingObjectError, UnavailableError
from siltstone.shard.merge import tidy
from siltstone.testing.script import ANY, Fault
from worlds import FOR_EVER

WAL = "shards/a/wal/entries/"
MANIFEST = "shards/a/manifest/entries/"
DATA = "shards/a/data/"


def whenever(store, verb, action, *, key):
    """Do something before each call of a kind."""

    def act():
        action()
        store.before(verb, act, key=key)

    store.before(verb, act, key=key)


def flush(writer):
    writer.freeze()
    writer.flush_memtables()


def read(table):
    return sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist())


def place_of(world, table):
    return table._shards.reader(world.shard, table._looked()).place


# -- others who never stand still ------------------------------------------------------------------


def test_scan__the_shard_is_flushed_whenever_its_wal_is_read__gives_up_and_a_later_read_has_all(monkeypatch):
    world = ShardWorld()
    numbers, writer = itertools.count(1), world.writer()
    world.put(writer, next(numbers))
    table = world.table()
    place = place_of(world, table)
    look = place.read

    def put_and_flush():
        found = look()
        world.put(writer, next(numbers))
        flush(writer)
        world.clock.advance(60)
        return found

    monkeypatch.setattr(place, "read", put_and_flush)
    with pytest.raises(UnavailableError, match="was flushed all the time while it was read"):
        read(table)
    assert sorted(world.check()) == world.acknowledged
    monkeypatch.undo()
    assert read(table) == world.acknowledged


def test_get__fragments_are_merged_and_removed_whenever_they_are_read__gives_up_and_a_later_read_has_all():
    world = ShardWorld(keyed=True)
    store, numbers = world.interleaves(), itertools.count(1)
    writer, other = world.writer(), world.table()

    def put_and_flush():
        world.put(writer, next(numbers))
        flush(writer)

    def go_on():
        other.merge_shards()
        world.clock.advance(3600)
        other.merge_shards()  # which removes what the one before dropped
        put_and_flush()

    put_and_flush()
    table = world.table(store)
    whenever(store, ANY, go_on, key=f"shards/{world.shard}/data/")
    with pytest.raises(UnavailableError, match="were merged all the time while they were read"):
        table.get([1], fresh=True)
    assert sorted(world.check()) == world.acknowledged


def test_scan__columns_are_added_whenever_a_shard_is_read__gives_up_and_a_later_read_has_all():
    world = ShardWorld()
    store, numbers = world.interleaves(), itertools.count(1)
    world.put(world.writer(), 1)
    table, other = world.table(store), world.table()

    def add_column():
        other.add_column(f"more{next(numbers)}", pa.int64())
        world.clock.advance(10)

    whenever(store, "get", add_column, key=WAL)
    with pytest.raises(ConflictError, match="were changed all the time while they were read"):
        table.scan(fresh=True).to_arrow()
    assert world.check() == [1]


# -- tidying behind a merge ------------------------------------------------------------------------


def merged_and_not_tidied(world, writer, *ids):
    """Rows in the WAL that are merged, which the manifest does not know yet."""
    for one in ids:
        world.put(writer, one, once=f"put {one}")
    store = world.fault_store()
    store.on("create", Fault.REFUSE, key=MANIFEST, times=FOR_EVER)
    world.table(store).merge_shards()


def test_tidy__a_flush_truncates_the_wal_while_ids_are_read__they_are_in_the_manifest_all_the_same():
    world = ShardWorld()
    writer = world.writer()
    merged_and_not_tidied(world, writer, 1, 2)
    store = world.interleaves()
    table = world.table(store)
    place, merged = place_of(world, table), table._looked().shards[world.shard]
    store.before("get", lambda: (flush(writer), world.clock.advance(60)), key=WAL)
    state = tidy(place, place.manifest(), merged)
    assert store.pending == 0
    assert set(state.once) == {"put 1", "put 2"}
    assert state.replay_from.position == merged.position
    world.go_on()


def test_tidy__another_memtable_is_flushed_whenever_it_reads__gives_up_and_forgets_no_id(monkeypatch):
    world = ShardWorld()
    writer, ids = world.writer(), range(1, 9)
    for one in ids:
        merged_and_not_tidied(world, writer, one)
        writer.freeze()
    table = world.table()
    place, merged = place_of(world, table), table._looked().shards[world.shard]
    look = place.read

    def flush_one(*, now):
        found = look(now=now)
        writer._flush(writer._tables.oldest)
        world.clock.advance(60)
        return found

    monkeypatch.setattr(place, "read", flush_one)
    with pytest.raises(UnavailableError, match="was truncated all the time while it was read"):
        tidy(place, place.manifest(), merged)
    table = world.table()
    found = tidy(place_of(world, table), place_of(world, table).manifest(), merged)
    assert set(found.once) == {f"put {one}" for one in ids}
    assert world.check() == list(ids)


def test_tidy__the_manifest_forgot_that_the_shard_was_written_to__is_told():
    world = ShardWorld()
    merged_and_not_tidied(world, world.writer(), 1)
    world.store().delete([info.key for info in world.store().list(MANIFEST[:-1])])
    table = world.table()
    place, merged = place_of(world, table), table._looked().shards[world.shard]
    with pytest.raises(MissingObjectError, match="shards/a/manifest/ is gone"):
        tidy(place, place.manifest(), merged)


# -- objects that are gone -------------------------------------------------------------------------


def test_merge__a_fragment_of_the_shard_is_lost__is_told_and_nothing_is_merged():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1)
    flush(writer)
    world.store().delete([info.key for info in world.store().list(DATA[:-1])])
    told = attempt(world.table().merge_shards)
    assert isinstance(told, MissingObjectError)
    assert world.table()._looked().shards[world.shard].position == 0


def test_scan__a_fragment_of_the_table_is_lost__is_told_and_not_looked_for_again():
    world = ShardWorld()
    world.put(world.writer(), 1)
    world.table().append(rows(2))
    world.store().delete([info.key for info in world.store().list("data")])
    with pytest.raises(MissingObjectError) as caught:
        read(world.table())
    assert caught.value.facts["object"].startswith("data/")
