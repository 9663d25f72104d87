"""Ingesting DataFrames through shards: every row is durable once, whatever is run again, stopped or killed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import figures
import siltstone as ss
from siltstone.errors import (
    ConflictError,
    FencedError,
    InvalidInputError,
    SchemaMismatchError,
    SiltstoneError,
    UnavailableError,
)
from siltstone.testing.s3server import Faults, FaultServer
from spark_cluster import SPECULATION
from spark_cuts import INGEST
from spark_ingests import ROWS as MANY
from spark_ingests import module, put
from spark_streams import finish, stream_of, write_files

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())])
FAULTS = ["worker@middle", "worker@task wrote", "executor@middle", "stall@middle", "stall@task wrote"]
KEYS = {
    "text": ({"key": pa.string()}, ["", "a", "ä" * 9, "longer than thirty-two bytes, as few keys are", "🦉"]),
    "binary": ({"key": pa.binary()}, [b"", b"\0\xff", b"x" * 40]),
    "int32": ({"key": pa.int32()}, [0, -1, 2**31 - 1]),
    "date": ({"key": pa.date32()}, [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 2, 3)]),
    "time": ({"key": pa.timestamp("ms", "UTC")}, [-(10**12) - 1, 1_767_225_600_000]),
    "local time": ({"key": pa.timestamp("us")}, [-(10**15) - 1, 1_767_225_600_000_000]),
    "decimal": ({"key": pa.decimal128(9, 2)}, [Decimal("0.00"), Decimal("-1.25"), Decimal("1234567.89")]),
    "long decimal": ({"key": pa.decimal128(38, 3)}, [Decimal("9" * 30), Decimal("-0.001")]),
    "two": ({"Key `a.b`": pa.string(), "n": pa.int16()}, ["a", "b", "c"]),
}


def sharded(tmp_path, *, shards: int = 3, **more):
    return ss.create(tmp_path / "table", schema=SCHEMA, key="id", shards=shards, **more)


def frame(spark, count: int = 500, *, x: str = "id * 2"):
    return spark.range(0, count, 1, 2).selectExpr("id", f"{x} as x")


def rows(table, **options) -> list[dict]:
    return table.scan(**options).to_arrow().sort_by("id").to_pylist()


def wanted(count: int = 500) -> list[dict]:
    return [{"id": number, "x": 2 * number} for number in range(count)]


# -- what is put -----------------------------------------------------------------------------------


def test_ingest__a_frame__its_rows_are_durable_and_come_into_the_table_with_a_merge(spark, tmp_path):
    table = sharded(tmp_path)
    table.append([{"id": 3, "x": -1}, {"id": 1_000, "x": -1}])

    done = ss.spark.ingest(frame(spark), table)

    assert (done.rows, done.shards, done.before) == (500, 3, 0)
    assert table.version == 1
    assert rows(ss.open(table.uri), fresh=True) == [*wanted(), {"id": 1_000, "x": -1}]
    ss.spark.merge_shards(spark, table)
    assert rows(table) == [*wanted(), {"id": 1_000, "x": -1}]


def test_ingest__the_same_once_again__puts_nothing_also_after_a_merge(spark, tmp_path):
    table = sharded(tmp_path)
    ss.spark.ingest(frame(spark), table, once="job")
    table.upsert([{"id": 3, "x": -3}])
    with table.writer() as writer:
        writer.put([{"id": 4, "x": -4}])

    done = ss.spark.ingest(frame(spark), table.uri, once="job")

    assert (done.rows, done.shards, done.before) == (500, 3, 3)
    kept = {row["id"]: row["x"] for row in rows(table, fresh=True)}
    assert (kept[3], kept[4]) == (-3, -4)
    assert ss.spark.ingest(frame(spark), table, once="another").before == 0
    assert rows(table, fresh=True) == wanted()


def test_ingest__columns_in_another_order_and_type__fit(spark, tmp_path):
    table = sharded(tmp_path)

    ss.spark.ingest(frame(spark).selectExpr("x", "cast(id as smallint) as id"), table)

    assert rows(table, fresh=True) == wanted()


@pytest.mark.parametrize("kind", KEYS)
def test_ingest__keys_of_every_type__go_where_the_tables_own_writer_puts_them(spark, tmp_path, kind):
    columns, values = KEYS[kind]
    schema = pa.schema([*(pa.field(name, one, nullable=False) for name, one in columns.items()), ("v", pa.int64())])
    table = ss.create(tmp_path / "table", schema=schema, key=list(columns), shards=5)
    given = {name: values if place == 0 else range(len(values)) for place, name in enumerate(columns)}
    before = pa.table({**given, "v": [1] * len(values)}, schema=schema)
    table.append(before)
    frame = ss.spark.read(spark, table).selectExpr(*(f"`{name.replace('`', '``')}`" for name in columns), "2L as v")

    ss.spark.ingest(frame, table)  # a row that is none of its shard's would be refused

    found = table.scan(fresh=True).to_arrow()
    assert found["v"].to_pylist() == [2] * len(values)
    assert found.select(list(columns)).sort_by(next(iter(columns))) == before.select(list(columns)).sort_by(
        next(iter(columns))
    )


def test_ingest__with_memtables__rows_are_there(spark, tmp_path):
    table = sharded(tmp_path, shards=2)
    config = ss.ShardWriterConfig(enable_memtable=True, max_memtable_rows=100, durable_write=True)

    ss.spark.ingest(frame(spark), table, config=config)

    assert sum(one.fragments for one in table.shards()) >= 2
    assert rows(table, fresh=True) == wanted()


def test_ingest__a_writer_has_a_shard__it_is_fenced_and_loses_nothing(spark, tmp_path):
    table = sharded(tmp_path)
    with table.shard(0).writer() as writer:
        key = next(n for n in range(1_000, 1_100) if _takes(writer, n))
        writer.put([{"id": key, "x": 1}])

        ss.spark.ingest(frame(spark), table)

        with pytest.raises(FencedError, match="spark "):
            writer.put([{"id": key, "x": 2}])
    assert rows(table, fresh=True) == [*wanted(), {"id": key, "x": 1}]


def _takes(writer, key: int) -> bool:
    try:
        return bool(writer.intake.rows([{"id": key, "x": 0}]))
    except InvalidInputError:
        return False


def test_ingest__on_s3_that_lies_with_a_commit_store__rows_are_there_once(spark, tmp_path):
    with FaultServer(Faults(lie="always"), in_thread=True) as server:
        reach = {"commits": f"sqlite://{tmp_path}/claims.db", "storage_options": server.storage_options}
        table = ss.create("s3://bkt/ingested", schema=SCHEMA, key="id", shards=2, **reach)
        for _ in range(2):
            ss.spark.ingest(frame(spark), table, once="job")
        assert rows(table, fresh=True) == wanted()
        ss.spark.merge_shards(spark, table)
        assert rows(table) == wanted()


def test_ingest__over_spark_connect__put_merged_and_read(connect, tmp_path):
    table = sharded(tmp_path)

    assert ss.spark.ingest(frame(connect), table, once="job").rows == 500
    assert ss.spark.ingest(frame(connect), table, once="job").before == 3
    assert ss.spark.read(connect, table, fresh=True).toArrow().sort_by("id").to_pylist() == wanted()
    assert ss.spark.merge_shards(connect, table).inserted == 500
    assert rows(table) == wanted()


# -- what is refused -------------------------------------------------------------------------------


def test_ingest__bad_input__is_told_before_a_row_is_put(spark, tmp_path):
    table = sharded(tmp_path)
    loose = ss.create(tmp_path / "loose", schema=SCHEMA)
    keyed = ss.create(tmp_path / "keyed", schema=SCHEMA, key="id")
    nanos = ss.create(tmp_path / "nanos", schema=pa.schema([("id", pa.timestamp("ns"))]), key="id", shards=1)
    good = frame(spark, 3)
    for call, words in {
        lambda: ss.spark.ingest(good, loose): "has no key",
        lambda: ss.spark.ingest(good, keyed): "has no shards",
        lambda: ss.spark.ingest(good.selectExpr("x"), table): "no column 'id'",
        lambda: ss.spark.ingest(good.selectExpr("current_timestamp() as id"), nanos): "it lacks a type",
        lambda: ss.spark.ingest([{"id": 1}], table): "a Spark DataFrame is needed",
        lambda: ss.spark.ingest(good, 7): "must be a Table or a URI",
        lambda: ss.spark.ingest(good, table, once=""): "once must not be empty",
        lambda: ss.spark.ingest(good, table, batch=-1): "batch must be a whole number",
        lambda: ss.spark.ingest(good, table, batch=1): "which streaming query",
        lambda: ss.spark.ingest(good, table, config={"durable_write": True}): "must be a ShardWriterConfig",
        lambda: ss.spark.ingest(good, table, config=ss.ShardWriterConfig(max_wal_buffer_size=0)): "from 1 to",
        lambda: ss.spark.ingest(good.selectExpr("nullif(id, 1) as id", "x"), table): "null",
        lambda: ss.spark.ingest(good, ss.open(table.uri, version=0)): "pinned",
        lambda: good.write.format("siltstone").mode("append").option("operation", "ingest").save(table.uri): "ingest",
    }.items():
        with pytest.raises(Exception, match=words) as caught:
            call()
        assert isinstance(caught.value, SiltstoneError) or words == "ingest", words
    with pytest.raises(SchemaMismatchError, match="lack 'x'"):
        ss.spark.ingest(good.selectExpr("id"), table)
    assert table.count(fresh=True) in {0, 2}  # the rows beside the null key, where they came first


def test_ingest__split_meanwhile__is_told_and_works_again(spark, tmp_path, monkeypatch):
    table = sharded(tmp_path)
    together = module._brought_together

    def split(*arguments):
        ss.open(table.uri).split_shards(2)
        return together(*arguments)

    monkeypatch.setattr(module, "_brought_together", split)
    with pytest.raises(ConflictError, match="split into other shards"):
        ss.spark.ingest(frame(spark), table, once="job")
    monkeypatch.undo()

    assert ss.spark.ingest(frame(spark), table, once="job").shards == 2
    assert rows(table, fresh=True) == wanted()


# -- streams ---------------------------------------------------------------------------------------


def into_shards(spark, tmp_path, put):
    writer = stream_of(spark, tmp_path / "in").writeStream.foreachBatch(put)
    return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()


def test_ingest__batches_of_a_stream_stopped_in_the_middle__each_counts_once(spark, tmp_path):
    table = sharded(tmp_path, shards=2)
    write_files(tmp_path / "in", 3)
    done = []

    def put(batch, number):
        done.append(ss.spark.ingest(batch, table, batch=number))
        if len(done) == 2:
            raise UnavailableError("stopped behind its second batch")

    with pytest.raises(Exception, match="behind its second"):
        finish(into_shards(spark, tmp_path, put))
    with table.writer() as writer:
        writer.put([{"id": 20, "x": -1}])  # newer than the second batch, which is run again
    finish(into_shards(spark, tmp_path, put))

    assert [one.before for one in done] == [0, 0, 2, 0]
    assert [row["x"] for row in rows(table, fresh=True)] == [0] * 20 + [-1] + [1] * 19 + [2] * 20
    ss.spark.merge_shards(spark, table)
    batches = [one.place.read().manifest.read() for one in table._shards.readers(table._now())]
    assert [list(one.batches.values()) for one in batches] == [[2], [2]]
    assert [one.once for one in batches] == [(), ()]


def test_ingest__two_streams_by_name__are_told_apart(spark, tmp_path):
    table = sharded(tmp_path, shards=1)

    for name, before in {"a": 0, "b": 0}.items():
        assert ss.spark.ingest(frame(spark, 5), table, once=name, batch=0).before == before
    assert ss.spark.ingest(frame(spark, 5), table, once="a", batch=0).before == 1
    assert ss.spark.ingest(frame(spark, 5), table, once="a", batch=1).before == 0


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ingest__workers_and_executors_die_and_stall__rows_are_there_once(standalone, tmp_path):
    job = {"root": str(tmp_path), "faults": FAULTS}
    found = standalone.driver(**SPECULATION).do("spark_ingests", "faults", job)
    assert [one["fault"] for one in found] == FAULTS
    for number, one in enumerate(found):
        assert (one["met"], one["failures"], one["seen"]) == (True, ["", ""], MANY), one
        figures.record("kills", one["fault"].startswith(("worker@", "executor@")))
        ids = ss.open(f"{tmp_path}/table{number}").scan(["id"]).to_arrow().column("id").to_pylist()
        assert sorted(ids) == list(range(MANY)), one["fault"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ingest__its_driver_is_killed_in_the_middle__run_again_all_rows_are_there_once(cut_off, spark):
    table = ss.open(cut_off.uri(INGEST))
    assert table.count(fresh=True) < MANY
    assert put(spark, table.uri) == ""
    ids = table.scan(["id"], fresh=True).to_arrow().column("id").to_pylist()
    assert sorted(ids) == list(range(MANY))
