"""Tables with shards that tests on Spark share: rows in fragments of the table, in fragments of shards, and in WALs."""

from __future__ import annotations

import pyarrow as pa

import siltstone as ss
from spark_reads import PLAIN, ROWS, plain_rows

SHARDS = 3


def flush(writer) -> None:
    """Make fragments of the shards of all that was put."""
    for one in getattr(writer, "writers", (writer,)):
        one.freeze()
        one.flush_memtables()


def changed(first: int, count: int, note: str) -> pa.Table:
    """Rows with the keys of others and another text."""
    rows = plain_rows(first, count)
    return rows.set_column(rows.schema.get_field_index("s"), "s", pa.array([note] * count))


def busy_table(uri):
    """Rows that are replaced, deleted and new in every place where rows may be."""
    table = ss.create(uri, schema=PLAIN, key="id", shards=SHARDS)
    for number in range(3):
        table.append(plain_rows(ROWS * number))
    table.delete("id in (0, 39, 41) or id between 100 and 105")
    with table.writer() as writer:
        writer.put(changed(5, 20, "flushed"))
        writer.put(plain_rows(3 * ROWS, 25))
        writer.delete([7, 41, 60, 3 * ROWS + 1, 9_999])
        flush(writer)
        writer.put(changed(20, 30, "flushed later"))
        writer.delete([8, 25])
        flush(writer)
        writer.put(changed(45, 10, "in the WAL"))
        writer.delete([9, 21, 3 * ROWS + 2])
        writer.put(plain_rows(4 * ROWS, 5))
        writer.put(changed(3 * ROWS, 3, "back"))
    return table


def half_merged_table(uri):
    """The same, of which a part was merged, with more on top."""
    table = busy_table(uri)
    table.merge_shards()
    with table.writer() as writer:
        writer.put(changed(0, 12, "behind the merge"))
        writer.delete([50, 51, 3 * ROWS])
        flush(writer)
        writer.put(changed(10, 3, "last"))
    return table


def wal_table(uri):
    """Rows that are in WALs alone."""
    table = ss.create(uri, schema=PLAIN, key="id", shards=2)
    config = ss.ShardWriterConfig(enable_memtable=False)
    for first in (0, 30):
        with table.writer(config) as writer:
            for start in range(first, first + 40, 10):
                writer.put(plain_rows(start, 10))
    return table


def widened_table(uri):
    """Rows from before and after changes of columns, in every place."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("old", pa.string()), ("n", pa.int32())])
    table = ss.create(uri, schema=schema, key="id", shards=2)

    def rows(first: int, **more):
        ids = range(first, first + 10)
        columns = {"id": list(ids), "n": [None if one % 4 == 0 else one for one in ids]} | more
        return pa.table({name: columns[name] for name in table.schema.names}, schema=table.schema)

    table.append(rows(0, old=["base"] * 10))
    with table.writer() as writer:
        writer.put(rows(5, old=["a"] * 10))
        flush(writer)
        writer.put(rows(20, old=["b"] * 10))
    table.rename_column("old", "new")
    table.add_column(pa.field("extra", pa.int64()), default=5)
    table.widen_column("n", pa.int64())
    with table.writer() as writer:
        writer.put(rows(12, new=["c"] * 10, extra=[None] * 10))
        flush(writer)
        writer.put(rows(40, new=["d"] * 10, extra=[1] * 10))
    return table


def loose_table(uri):
    """A table without a key, with shards of free names."""
    table = ss.create(uri, schema=PLAIN)
    table.append(plain_rows(0))
    with table.shard("east").writer() as writer:
        writer.put(plain_rows(ROWS))
        flush(writer)
        writer.put(plain_rows(2 * ROWS, 7))
    with table.shard("west").writer(ss.ShardWriterConfig(enable_memtable=False)) as writer:
        writer.put(plain_rows(3 * ROWS, 9))
    return table


TABLES = {
    "busy": busy_table,
    "half merged": half_merged_table,
    "in WALs": wal_table,
    "widened": widened_table,
    "without a key": loose_table,
}
