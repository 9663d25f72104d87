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


# -- which shard keys belong to ------------------------------------------------------------------------


def test_shard_of__keys_in_every_form_of_get__are_where_the_writer_brings_them():
    table = ss.create("memory://shard-of", schema=pa.schema([("id", pa.int64())]), key="id", shards=4)
    keys = [7, 3, 7, 11]
    found = table.shard_of(keys)
    assert len(found) == 4
    assert found[0] == found[2], "one number for each key, also where it comes again"
    assert all(type(one) is int for one in found)
    for form in (tuple(keys), iter(keys), pa.array(keys), pa.table({"id": keys}), [{"id": key} for key in keys]):
        assert table.shard_of(form) == found
    assert table.shard_of(7) == table.shard_of([7]) == found[:1]
    assert table.shard_of([]) == []
    for number in range(4):
        with table.shard(number).writer() as writer:
            mine = [key for key in range(40) if table.shard_of(key) == [number]]
            writer.put([{"id": key} for key in mine])
    assert table.count(fresh=True) == 40


def test_shard_of__key_of_several_columns__takes_tuples_and_dicts():
    schema = pa.schema([("site", pa.string()), ("n", pa.int32()), ("v", pa.int64())])
    table = ss.create("memory://shard-of-two", schema=schema, key=["site", "n"], shards=3)
    keys = [("a", 1), ("b", 2), ("a", 3)]
    found = table.shard_of(keys)
    assert table.shard_of([{"site": site, "n": n} for site, n in keys]) == found
    assert table.shard_of(("b", 2)) == found[1:2]
    for key, number in zip(keys, found, strict=True):
        with table.shard(number).writer() as writer:
            writer.put([{"site": key[0], "n": key[1], "v": 1}])
    with pytest.raises(InvalidInputError, match="no tuple of the 2 values"):
        table.shard_of(["a", "b"])


def test_shard_of__shards_were_split_by_another__is_right_after_a_refresh():
    world, table, _ = begun()
    keys = list(range(100))
    before = table.shard_of(keys)
    other = world.open()
    other.split_shards(7)
    assert table.shard_of(keys) == before
    table.refresh()
    assert table.shard_of(keys) == other.shard_of(keys) != before


def test_shard_of__table_without_shards_or_without_a_key__says_what_to_do():
    schema = pa.schema([("id", pa.int64())])
    keyed = ss.create("memory://shard-of-none", schema=schema, key="id")
    with pytest.raises(InvalidInputError, match=r"no shards.*split_shards\(\)"):
        keyed.shard_of([1])
    with pytest.raises(InvalidInputError, match=r"no key.*shard\('name'\)\.writer\(\)"):
        ss.create("memory://shard-of-keyless", schema=schema).shard_of([1])
