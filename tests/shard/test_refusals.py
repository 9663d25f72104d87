"""What shards and their writers refuse, or have nothing to do for, and what they say of themselves."""

from __future__ import annotations

import pytest

import siltstone as ss
from shard_worlds import SCHEMA, ShardWorld, rows
from siltstone.errors import InvalidInputError, WriterStoppedError
from siltstone.shard.config import ShardWriterConfig, knobs
from siltstone.shard.routed import open_all
from siltstone.shard.writer import ShardWriter
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import manual_env
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore
from worlds import FOR_EVER


def alone(world):
    """A writer that was opened without a table to read."""
    table = world.table()
    state = table._looked()
    place = table._shards.a_place(world.shard, state)
    return ShardWriter(place, table._looked, knobs(ShardWriterConfig(), state.settings), background=False)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda writer: writer.scan(), "to read"),
        (lambda writer: writer.get([1]), "to read"),
        (lambda writer: writer.search("note", "x"), "to read"),
        (lambda writer: writer.checkpoint("c"), "to read"),
    ],
    ids=["scan", "get", "search", "checkpoint"],
)
def test_writer__it_has_no_table__reading_is_refused_and_putting_is_not(call, what):
    world = ShardWorld()
    writer = alone(world)
    with pytest.raises(InvalidInputError, match=f"no table {what}"):
        call(writer)
    world.put(writer, 1)
    assert world.check() == [1]


@pytest.mark.parametrize("shard", [0, None, 1.5])
def test_shard__no_name_where_names_are_given__is_refused_and_makes_nothing(shard):
    world = ShardWorld()
    before = dict(world.bucket.objects)
    with pytest.raises(InvalidInputError, match="have names"):
        world.table().shard(shard).writer()
    assert world.bucket.objects == before


def test_shard__of_a_table_with_a_key_and_without_shards__is_refused_with_what_to_do():
    table = ss.create(MemoryStore(bucket=MemoryBucket()), schema=SCHEMA, key="id", probe=False, env=manual_env(1))
    with pytest.raises(InvalidInputError, match="has no shards") as caught:
        table.shard(0).writer()
    assert "split_shards()" in caught.value.hint
    with pytest.raises(InvalidInputError, match="has no shards"):
        open_all(lambda _: None, 0)


def test_close__a_writer_of_several_was_stopped_with_rows__all_are_closed_and_the_first_error_is_told():
    store = FaultStore(MemoryStore(bucket=MemoryBucket()))
    ss.create(store, schema=SCHEMA, key="id", shards=2, probe=False, env=manual_env(2))
    table = ss.open(store, probe=False, env=manual_env(3))
    writer = table.writer(ShardWriterConfig(max_wal_flush_interval_ms=3_600_000))
    writer.put(rows(*range(8)), wait=False)
    store.on("create", Fault.DENY, key="shards/0000-0000/wal", times=FOR_EVER)
    with pytest.raises(WriterStoppedError):
        writer.close()
    assert writer.is_stopped
    assert [one.next_wal_entry_position for one in writer.wal_stats()] == [0, 1]
    assert "2 shards" in repr(writer)


def test_delete__no_keys__writes_nothing():
    world = ShardWorld(keyed=True)
    with world.table().writer() as writer:
        acknowledged = writer.delete([])
        assert acknowledged.done
        assert repr(acknowledged) == "RoutedAck(durable)"
        assert [one.entries for one in writer.wal_stats()] == [0]
    assert world.writer().delete([]).done
