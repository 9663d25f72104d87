"""Columns change while rows of the columns before are in the WAL and in fragments of shards."""

from __future__ import annotations

import pyarrow as pa

import siltstone as ss
from shard_models import (
    World,
    begun,
    ids_of,
    rows_of,
)
from siltstone.api import create_table


def evolved():
    """Rows of the first columns in a fragment and in the WAL; the writer knows no others."""
    world, table, writers = begun()
    writer, ids = writers[0], list(zip(range(4), ids_of(0, 2, start=60), strict=False))
    world.put(writer, {ids[0][1]: 0})
    world.flush(writer)
    world.put(writer, {ids[1][1]: 1})
    return world, table, writer, [id_ for _, id_ in ids]


def both(table, columns, where):
    """What a fresh read says, which must be what a read behind a merge says."""
    fresh = sorted(map(repr, table.scan(columns, where=where, fresh=True).to_arrow().to_pylist()))
    table.merge_shards()
    assert sorted(map(repr, table.scan(columns, where=where).to_arrow().to_pylist())) == fresh
    return table.scan(columns, where=where).to_arrow().to_pylist()


def test_merge_shards__a_column_was_added__older_rows_have_its_default():
    _, table, writer, ids = evolved()
    table.add_column("extra", pa.int64(), default=5)
    writer.put(rows_of({ids[2]: 2}))
    writer.put([{**rows_of({ids[3]: 3})[0], "extra": 6}])
    found = both(table, ["id", "extra"], "id >= 60")
    assert {row["id"]: row["extra"] for row in found} == {ids[0]: 5, ids[1]: 5, ids[2]: 5, ids[3]: 6}


def test_merge_shards__a_column_was_dropped__older_rows_lose_it():
    _, table, writer, ids = evolved()
    table.drop_column("note")
    writer.put([{"id": ids[2], "n": 2}])
    found = both(table, None, "id >= 60")
    assert sorted(map(repr, found)) == sorted(repr({"id": id_, "n": n}) for n, id_ in enumerate(ids[:3]))


def test_merge_shards__a_column_was_renamed__older_rows_have_it_under_the_new_name():
    _, table, writer, ids = evolved()
    table.rename_column("note", "remark")
    writer.put([{"id": ids[2], "n": 2, "remark": "new"}])
    found = both(table, ["id", "remark"], "id >= 60")
    assert {row["id"]: row["remark"] for row in found} == {
        ids[0]: f"{ids[0]} is 0",
        ids[1]: f"{ids[1]} is 1",
        ids[2]: "new",
    }


def test_merge_shards__a_column_was_dropped_and_another_of_its_name_added__values_are_not_mixed():
    _, table, writer, ids = evolved()
    table.drop_column("note")
    table.add_column("note", pa.int64())
    writer.put([{"id": ids[2], "n": 2, "note": 7}])
    found = both(table, ["id", "note"], "id >= 60")
    assert {row["id"]: row["note"] for row in found} == {ids[0]: None, ids[1]: None, ids[2]: 7}


def test_merge_shards__a_column_was_widened__older_values_are_the_same():
    world = World()
    columns = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    table = create_table(
        ss.store.memory.MemoryStore(), schema=columns, key="id", shards=1, probe=False, env=world.env()
    )
    writer = table._open_writer(0, None, "", background=False)
    writer.put([{"id": 1, "n": 1}])
    writer.freeze()
    writer.flush_memtables()
    writer.put([{"id": 2, "n": 2}])
    table.widen_column("n", pa.int64())
    writer.put([{"id": 3, "n": 2**40}])
    assert both(table, None, None) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 2**40}]


def test_merge_shards__the_key_was_renamed__rows_are_found_by_it():
    _, table, writer, ids = evolved()
    table.rename_column("id", "key")
    writer.put([{"key": ids[0], "n": 50, "note": ""}])
    found = both(table, ["key", "n"], "key >= 60")
    assert {row["key"]: row["n"] for row in found} == {ids[0]: 50, ids[1]: 1}
