"""Rows of the driver's memory as a DataFrame: what comes out, in how many tasks, and what the session says then."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import siltstone as ss
from siltstone.spark import held
from siltstone.spark.held import held_frame
from siltstone.spark.types import spark_schema
from spark_reads import EVERY, expected, plain_rows, shown
from spark_shards import TABLES, busy_table

SETTINGS = ("spark.sql.execution.arrow.localRelationThreshold", "spark.sql.execution.arrow.maxRecordsPerBatch")


def settings_of(spark):
    return [spark.conf.get(key, None) for key in SETTINGS]


def plan_of(frame):
    return frame._jdf.queryExecution().toString()


@pytest.fixture
def no_rows_in_plans(monkeypatch):
    monkeypatch.setattr(held, "FEW_BYTES", 0)
    monkeypatch.setattr(held, "PART_BYTES", 2_000)


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_read__fresh_rows_travel_to_tasks__rows_of_the_scan(spark, tmp_path, make, no_rows_in_plans):
    table = make(str(tmp_path / "t"))
    wanted = expected(table, fresh=True)
    for where in (None, "id between 3 and 60"):
        frame = ss.spark.read(spark, table, where=where, fresh=True)
        assert shown(frame.toArrow()) == expected(table, where=where, fresh=True)
    assert ss.spark.read(spark, table, fresh=True).select("id").count() == len(wanted)


def test_held_frame__every_type__the_same_either_way(spark, monkeypatch):
    schema = spark_schema(EVERY.schema)
    within = held_frame(spark, EVERY, schema)
    monkeypatch.setattr(held, "FEW_BYTES", 0)
    travelling = held_frame(spark, EVERY, schema)

    assert "LocalRelation" in plan_of(within)
    assert "LocalRelation" not in plan_of(travelling)
    assert travelling.schema == within.schema == schema
    assert shown(travelling.toArrow()) == shown(within.toArrow())


def test_held_frame__many_pieces__few_tasks_of_about_a_size_and_each_row_once(spark, monkeypatch):
    rows = pa.concat_tables([plain_rows(start, 10) for start in range(0, 5_000, 10)])
    monkeypatch.setattr(held, "FEW_BYTES", 0)
    monkeypatch.setattr(held, "PART_BYTES", rows.nbytes // 3)
    before = settings_of(spark)

    frame = held_frame(spark, rows, spark_schema(rows.schema))

    assert settings_of(spark) == before
    sizes = [len(one) for one in frame.select("id").rdd.glom().collect()]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 3
    assert sorted(frame.select("id").toArrow().column("id").to_pylist()) == list(range(5_000))


@pytest.mark.parametrize("mine", ["123456", None])
def test_held_frame__that_fails__session_says_what_it_said_before(spark, monkeypatch, mine):
    monkeypatch.setattr(held, "FEW_BYTES", 0)
    one = pa.array([1])
    rows = pa.table({"a": pa.StructArray.from_arrays([one, one], names=["twice", "twice"])})
    if mine is not None:
        spark.conf.set(SETTINGS[0], mine)
    try:
        before = settings_of(spark)
        with pytest.raises(PySparkException, match="DUPLICATED_FIELD_NAME"):
            held_frame(spark, rows, spark_schema(rows.schema))
        assert settings_of(spark) == before
        assert before[0] == mine
    finally:
        spark.conf.unset(SETTINGS[0])


def test_read__fresh_through_spark_connect__rows_of_the_scan(connect, tmp_path, no_rows_in_plans):
    table = busy_table(str(tmp_path / "t"))
    before = settings_of(connect)
    assert shown(ss.spark.read(connect, table, fresh=True).toArrow()) == expected(table, fresh=True)
    assert settings_of(connect) == before
