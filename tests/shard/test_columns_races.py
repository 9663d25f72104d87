"""Columns are changed while shards are read: rows of the columns of now are no damage to whoever began before."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table
from siltstone.errors import CorruptionError, WriterStoppedError
from siltstone.shard.config import ShardWriterConfig
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import ANY
from siltstone.testing.stores import Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int16())])
WIDE = 2**40


def _transaction(table):
    with table.transaction() as transaction:
        transaction.upsert([{"id": 1, "n": 4}])


OPERATIONS = {
    "merge": lambda table: table.merge_shards(),
    "split": lambda table: table.split_shards(1),
    "upsert": lambda table: table.upsert([{"id": 1, "n": 4}]),
    "append": lambda table: table.append([{"id": 7, "n": 4}]),
    "delete": lambda table: table.delete("n = 1"),
    "update": lambda table: table.update({"n": "n"}),
    "scan": lambda table: table.scan(fresh=True).to_arrow(),
    "get": lambda table: table.get([1, 2], fresh=True),
    "transaction": _transaction,
}
_seeds = itertools.count(1)


def begun():
    """A table whose shard has rows, another handle on it, and the shard's writer."""
    bucket, clock = MemoryBucket(), ManualClock()

    def store():
        return MemoryStore(bucket=bucket, clock=clock)

    def opened(through=None):
        return open_table(through or store(), probe=False, env=manual_env(next(_seeds), clock=clock, patience_s=5))

    create_table(store(), schema=SCHEMA, key="id", shards=1, probe=False, env=manual_env(0, clock=clock))
    other = opened()
    writer = other._open_writer(0, ShardWriterConfig(), "", background=False)
    writer.put([{"id": 1, "n": 1}])
    other.append([{"id": 50, "n": 5}])
    writer.put([{"id": 3, "n": 1}])
    return SimpleNamespace(store=store, open=opened, other=other, writer=writer)


def widen(world, *, flush):
    """What happens meanwhile."""
    world.other.widen_column("n", pa.int64())
    world.writer.put([{"id": 2, "n": WIDE}])
    if flush:
        world.writer.freeze()
        world.writer.flush_memtables()


def places(operation):
    """Store calls of an operation up to which its shards can be written to."""
    world = begun()
    store = Interleaves(world.store())
    table = world.open(store)
    store.calls.clear()
    operation(table)
    sealed = [
        nth for nth, call in enumerate(store.calls) if operation is OPERATIONS["split"] and "manifest" in call.key
    ]
    return range(1, (sealed[0] if sealed else len(store.calls)) + 1)


@pytest.mark.parametrize("flush", [False, True], ids=["in the WAL", "flushed"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation__a_column_is_widened_and_used_at_any_place_of_it__is_done(name, flush):
    operation = OPERATIONS[name]
    for nth in places(operation):
        world = begun()
        store = Interleaves(world.store())
        table = world.open(store)
        store.calls.clear()
        store.before(ANY, lambda: widen(world, flush=flush), nth=nth)  # noqa: B023 - it is run in this turn
        operation(table)
        assert not store.pending
        table = world.open()
        fresh = {row["id"]: row["n"] for row in table.scan(fresh=True).to_arrow().to_pylist()}
        assert fresh[2] == WIDE
        table.merge_shards()
        assert {row["id"]: row["n"] for row in table.scan().to_arrow().to_pylist()} == fresh


def test_scan__the_writer_of_the_same_handle_takes_up_other_columns_meanwhile__sees_its_rows():
    for nth in range(1, 9):
        world = begun()
        store = Interleaves(world.store())
        table = world.open(store)
        writer = table._open_writer(0, ShardWriterConfig(), "", background=False)
        store.calls.clear()

        def meanwhile(world=world, writer=writer):
            world.other.widen_column("n", pa.int64())
            writer.put([{"id": 2, "n": WIDE}])

        store.before(ANY, meanwhile, nth=nth)
        table.scan(fresh=True).to_arrow()
        found = {row["id"]: row["n"] for row in table.scan(fresh=True).to_arrow().to_pylist()}
        assert store.pending or found == {1: 1, 2: WIDE, 3: 1, 50: 5}


@pytest.mark.parametrize("name", ["merge", "scan", "upsert"])
def test_operation__an_entry_is_damaged_and_columns_are_as_they_were__is_told_so(name):
    world = begun()
    key = [info.key for info in world.store().list("shards/0000-0000/wal/entries")][-1]
    data = world.store().get(key)
    world.store().put(key, data[:-9] + b"x" + data[-8:])
    with pytest.raises(CorruptionError):
        OPERATIONS[name](world.open())


def test_follow_columns__another_thread_looked_later_and_was_first__columns_do_not_go_back():
    world = begun()
    writer = world.writer
    before, now, queue_all = world.other._now(), writer._now, writer._queue_all
    world.other.add_column("extra", pa.int64())

    def late(*arguments, **options):
        """A thread goes on that looked before the column was added; the one that puts has taken it up since."""
        writer._now = lambda: before
        writer.follow_columns()
        writer._now = now
        return queue_all(*arguments, **options)

    writer._queue_all = late
    writer.put([{"id": 9, "n": 1, "extra": 77}])
    assert world.open().get([9], fresh=True).to_pylist() == [{"id": 9, "n": 1, "extra": 77}]


def test_follow_columns__interrupted_half_way__the_writer_is_stopped_and_says_why():
    world = begun()
    writer, freeze = world.writer, world.writer._freeze
    world.other.add_column("extra", pa.int64())

    def interrupted(schema):
        freeze(schema)
        raise KeyboardInterrupt

    writer._freeze = interrupted
    with pytest.raises(KeyboardInterrupt):
        writer.put([{"id": 9, "n": 1, "extra": 77}])
    with pytest.raises(WriterStoppedError, match="taking up columns was cut off half way by KeyboardInterrupt"):
        writer.put([{"id": 9, "n": 1}])
    assert sorted(world.open().scan(["id"], fresh=True).to_arrow().column("id").to_pylist()) == [1, 3, 50]
