"""A writer of all shards of a table, and what becomes of writers when the table's handle is closed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from shard_models import (
    SCHEMA,
    World,
    begun,
    ids_of,
    rows_of,
    told,
)
from siltstone.errors import ClosedError, CommitUnknownError, FencedError, InvalidInputError
from siltstone.shard.config import ShardWriterConfig
from siltstone.testing.script import Fault

# -- a writer of all shards ----------------------------------------------------------------------------


def test_writer__bad_rows_behind_good_ones__nothing_is_queued_for_any_shard():
    world, table, _ = begun()
    with table.writer(ShardWriterConfig(durable_write=False)) as writer:
        good = pa.Table.from_pylist(rows_of(dict.fromkeys(range(100, 110), 1)), SCHEMA)
        bad = pa.table({"id": [None], "n": [1], "note": ["x"]})
        for data in ([good, bad], iter([good, bad])):
            with pytest.raises(InvalidInputError):
                writer.put(data)
    assert world.open().count("id >= 100", fresh=True) == 0


def test_writer__columns_were_added_since__takes_rows_with_them_and_without():
    world, table, _ = begun()
    with table.writer() as writer:
        world.open().add_column("extra", pa.int64(), default=5)
        writer.put([{**row, "extra": 6} for row in rows_of(dict.fromkeys(range(100, 110), 1))])
        writer.put(rows_of(dict.fromkeys(range(110, 120), 2)))
        writer.delete([100, 110])
    found = world.open().scan(["id", "extra"], where="id >= 100", fresh=True).to_arrow().to_pylist()
    assert {row["id"]: row["extra"] for row in found} == {
        **dict.fromkeys(range(101, 110), 6),
        **dict.fromkeys(range(111, 120), 5),
    }


def test_writer__of_all_shards__brings_each_row_to_its_own():
    _, table, _ = begun()
    with table.writer() as writer:
        ack = writer.put(rows_of(dict.fromkeys(range(100, 150), 1)), wait=False)
        ack.wait()
        assert ack.done
        writer.delete(list(range(100, 110)))
        assert writer.scan(where="id >= 100").count() == 40
        assert writer.get([105, 115])["id"].to_pylist() == [115]
        assert sum(one.rows for one in writer.stats()) == 60
    table.merge_shards()
    assert table.count("id >= 100") == 40


# -- closing -------------------------------------------------------------------------------------------


def test_close__table_with_open_writers__their_rows_are_durable_and_they_are_closed(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=2)
    writer = table.writer(ShardWriterConfig(durable_write=False, max_wal_flush_interval_ms=3_600_000))
    earlier = table.shard(0).writer(ShardWriterConfig(durable_write=False, max_wal_flush_interval_ms=3_600_000))
    writer.writers[1].put(rows_of({next(ids_of(1, 2)): 1}))
    earlier.put(rows_of({next(ids_of(0, 2)): 1}))
    table.close()
    table.close()
    for one in (*writer.writers, earlier):
        assert isinstance(told(lambda one=one: one.put(rows_of({1: 1}))), ClosedError | FencedError)
    assert ss.open(tmp_path / "t").count(fresh=True) == 2


def test_close__rows_of_a_writer_can_not_be_made_durable__is_told_and_the_table_is_closed():
    world = World()
    store = world.faulty()
    table = world.open(store)
    writer = world.writer(0, table, max_wal_append_attempts=1)
    writer.put(rows_of({next(ids_of(0, 2)): 1}), wait=False)
    store.on("create", Fault.REFUSE, key="wal/", times=10**9)
    with pytest.raises(CommitUnknownError):
        table.close()
    with pytest.raises(ClosedError):
        table.count()
