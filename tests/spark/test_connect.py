"""Everything again over Spark Connect, where there is no SparkContext and no JVM of one's own."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64()), ("note", pa.string())])


@pytest.fixture
def table(tmp_path):
    return ss.create(tmp_path / "table", schema=SCHEMA, key="id")


def frame(connect, first: int, end: int, note: str = "n"):
    return connect.range(first, end, 1, 3).selectExpr("id", "id % 10 as x", f"'{note}' as note")


def test_connect__jobs__change_the_table_as_local_calls_do(connect, table):
    assert ss.spark.append(frame(connect, 0, 1000), table, once="a").inserted == 1000
    assert ss.spark.append(frame(connect, 0, 1000), table, once="a").operation == "none"
    assert ss.spark.upsert(frame(connect, 900, 1100, "up"), table).updated == 100
    assert ss.spark.delete(connect, table, "x = 3").deleted == 110
    assert ss.spark.update(connect, table, {"note": "'seven'"}, "x = 7").updated == 110
    before = table.scan().to_arrow().sort_by("id")
    assert ss.spark.compact(connect, table).operation == "compact"
    assert table.scan().to_arrow().sort_by("id") == before
    assert (table.count(), table.count("note = 'up'"), table.count("note = 'seven'")) == (990, 160, 110)
    assert ss.spark.overwrite(frame(connect, 0, 5), table).inserted == 5
    assert table.count() == 5


@pytest.mark.parametrize("plan", ["native", "python"])
def test_connect__read__gives_the_rows_of_the_version(connect, table, plan):
    table.append(pa.table({"id": range(100), "x": range(100), "note": ["a"] * 100}, schema=SCHEMA))
    table.delete("id % 10 = 0")
    rows = ss.spark.read(connect, table, ["id"], where="x >= 50", plan=plan)
    table.delete(None)
    assert sorted(row.id for row in rows.collect()) == [n for n in range(50, 100) if n % 10]


def test_connect__format__reads_and_writes(connect, tmp_path):
    uri = str(tmp_path / "made")
    frame(connect, 0, 100).write.format("siltstone").mode("append").option("key", "id").save(uri)
    writer = frame(connect, 50, 150, "up").write.format("siltstone").mode("append")
    writer.option("operation", "upsert").option("once", "b").save(uri)
    writer.option("operation", "upsert").option("once", "b").save(uri)
    found = connect.read.format("siltstone").load(uri)
    assert found.where("note = 'up'").count() == 100
    assert connect.read.format("siltstone").option("version", 1).load(uri).count() == 100
    assert ss.open(uri).version == 2


def test_connect__stream__writes_each_row_once(connect, tmp_path):
    incoming = tmp_path / "in"
    incoming.mkdir()
    for number in range(3):
        (incoming / f"{number}.json").write_text(f'{{"id": {number}}}\n')
    stream = connect.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(incoming))
    for _ in range(2):
        writer = stream.writeStream.format("siltstone").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
        assert query.awaitTermination(120)
        assert query.exception() is None
    assert sorted(ss.open(tmp_path / "table").scan().to_arrow().column("id").to_pylist()) == [0, 1, 2]


def test_connect__bad_input__is_told_by_its_own_error(connect, table):
    with pytest.raises(ss.errors.SchemaMismatchError, match="'x'"):
        ss.spark.append(connect.range(3), table)
    twice = frame(connect, 0, 5).union(frame(connect, 4, 6))
    with pytest.raises(ss.errors.DuplicateKeyError, match="4"):
        ss.spark.upsert(twice, table)
    assert table.version == 0
