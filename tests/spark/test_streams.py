"""Streams into tables and out of them: stopped and started again at any point, each row arrives once."""

from __future__ import annotations

import os
import random
import shutil
import time

import pyarrow as pa
import pytest

import figures
import siltstone as ss
from spark_faults import FaultySource
from spark_streams import ROWS, finish, stream_of, write_files

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())])
RESTARTS = int(os.environ.get("SILTSTONE_TEST_RESTARTS", "20"))


def into(frame, uri, tmp_path, *, name: str = "siltstone", now: bool = True, mode: str = "append", **options):
    """Start a query that writes; with ``now`` it ends by itself."""
    writer = frame.writeStream.format(name).outputMode(mode).options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    return (writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")).start(str(uri))


def ids(table) -> list[int]:
    return sorted(table.scan(["id"]).to_arrow().column("id").to_pylist())


# -- into tables -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_write_stream__stopped_and_started_again_at_random__each_row_is_there_once(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA)
    chance = random.Random(1)
    write_files(tmp_path / "in", 4)
    frame = stream_of(spark, tmp_path / "in")
    for turn in range(RESTARTS):
        query = into(frame, tmp_path / "table", tmp_path, now=False)
        write_files(tmp_path / "in", 1, first=4 + turn)
        time.sleep(chance.uniform(0, 0.8))
        query.stop()
    finish(into(frame, tmp_path / "table", tmp_path))
    assert ids(table) == list(range((4 + RESTARTS) * ROWS))


@pytest.mark.parametrize("fault", ["worker@task wrote", "worker@before commit", "worker@after commit"])
def test_write_stream__a_process_dies__the_batch_is_replayed_and_counts_once(spark, tmp_path, fault):
    table = ss.create(tmp_path / "table", schema=SCHEMA)
    write_files(tmp_path / "in", 3)
    spark.dataSource.register(FaultySource)
    facts = {"name": "siltstone_faulty", "fault": fault, "marker": str(tmp_path / "met")}
    query = into(stream_of(spark, tmp_path / "in"), tmp_path / "table", tmp_path, **facts)
    query_failed = False
    try:
        finish(query)
    except Exception:
        query_failed = True
    assert (tmp_path / "met").exists()
    figures.record("kills")
    assert query_failed
    finish(into(stream_of(spark, tmp_path / "in"), tmp_path / "table", tmp_path, **facts))
    assert ids(table) == list(range(3 * ROWS))
    assert table.version == 3


def test_write_stream__many_batches__leave_one_number_in_the_table(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA)
    write_files(tmp_path / "in", 5)
    finish(into(stream_of(spark, tmp_path / "in"), tmp_path / "table", tmp_path))
    assert table.version == 5
    assert list(table._state.batches.values()) == [4]
    assert not table._state.once


def test_write_stream__upsert__replaces_rows(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA, key="id")
    table.append([{"id": number, "x": -1} for number in range(30)])
    write_files(tmp_path / "in", 1)
    finish(into(stream_of(spark, tmp_path / "in"), tmp_path / "table", tmp_path, operation="upsert"))
    assert table.count() == 30
    assert table.count("x = -1") == 30 - ROWS


def test_write_stream__complete__each_batch_replaces_all(spark, tmp_path):
    write_files(tmp_path / "in", 2)
    counts = stream_of(spark, tmp_path / "in").groupBy("x").count()
    finish(into(counts, tmp_path / "table", tmp_path, mode="complete"))
    table = ss.open(tmp_path / "table")  # it was made of the rows' columns
    assert table.scan().to_arrow().sort_by("x").to_pylist() == [{"x": 0, "count": ROWS}, {"x": 1, "count": ROWS}]


# -- out of tables ---------------------------------------------------------------------------------


def collect(spark, uri, tmp_path, name: str, **options):
    """What a stream out of a table gives up to now, by batch."""
    frame = spark.readStream.format("siltstone").options(**options).load(str(uri))
    found: list[list[dict]] = []
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: found.append([row.asDict() for row in rows.collect()]))
        .option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)
    return [sorted(batch, key=lambda row: (row["id"], row.get("_change", ""))) for batch in found]


def test_read_stream__changes__are_those_of_the_feed_also_after_a_restart(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA, key="id")
    table.append([{"id": 1, "x": 1}, {"id": 2, "x": 2}])
    first = collect(spark, tmp_path / "table", tmp_path, "a", changes="true")
    assert first == [[{"id": n, "x": n, "_change": "insert", "_version": 1} for n in (1, 2)]]
    table.upsert([{"id": 2, "x": 20}, {"id": 3, "x": 3}])
    table.compact()
    table.delete("id = 1")
    (second,) = collect(spark, tmp_path / "table", tmp_path, "a", changes="true")
    expected = table.changes(1).to_arrow().to_pylist()
    assert second == sorted(expected, key=lambda row: (row["id"], row["_change"]))
    assert collect(spark, tmp_path / "table", tmp_path, "a", changes="true") == []


def test_read_stream__rows_only__appends_come_and_a_delete_is_told(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA, key="id")
    table.append([{"id": 1, "x": 1}])
    table.append([{"id": 2, "x": 2}])
    table.compact()
    assert collect(spark, tmp_path / "table", tmp_path, "a", since="1") == [[{"id": 2, "x": 2}]]
    table.delete("id = 1")
    with pytest.raises(Exception, match="replaced or deleted rows"):
        collect(spark, tmp_path / "table", tmp_path, "a", since="1")


def test_read_stream__the_table_was_made_anew__is_refused(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA)
    for number in range(3):
        table.append([{"id": number, "x": 0}])
    collect(spark, tmp_path / "table", tmp_path, "a")
    for rows in (1, 6):
        shutil.rmtree(tmp_path / "table")
        table = ss.create(tmp_path / "table", schema=SCHEMA)
        for number in range(rows):
            table.append([{"id": number, "x": 0}])
        with pytest.raises(Exception, match="is another table"):
            collect(spark, tmp_path / "table", tmp_path, "a")


def test_read_stream__columns_were_added_dropped_and_made_anew__are_told_by_their_ids(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA)
    table.append([{"id": 1, "x": 11}])
    collect(spark, tmp_path / "table", tmp_path, "a")
    table.append([{"id": 2, "x": 12}])
    table.add_column("more", pa.int64(), default=7)
    table.drop_column("x")
    table.add_column("x", pa.string())
    table.append([{"id": 3, "more": 8, "x": "0012"}])
    expected = [{"id": 2, "more": 7, "x": None}, {"id": 3, "more": 8, "x": "0012"}]
    assert collect(spark, tmp_path / "table", tmp_path, "a") == [expected]
    (whole,) = collect(spark, tmp_path / "table", tmp_path, "b")
    assert whole == [{"id": 1, "more": 7, "x": None}, *expected]


def test_read_stream__a_column_is_dropped_while_it_runs__the_query_ends_and_goes_on_when_started_again(spark, tmp_path):
    table = ss.create(tmp_path / "table", schema=SCHEMA)
    table.append([{"id": 1, "x": 11}])
    frame = spark.readStream.format("siltstone").load(str(tmp_path / "table"))
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint-a"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    query.processAllAvailable()
    table.drop_column("x")
    table.append([{"id": 2}])
    with pytest.raises(Exception, match="dropped or made another type"):
        query.awaitTermination(60)
    assert [row for batch in collect(spark, tmp_path / "table", tmp_path, "a") for row in batch] == [{"id": 2}]


def test_write_stream__the_table_was_made_anew_with_a_key__keys_stay_unique(spark, tmp_path):
    ss.create(tmp_path / "table", schema=SCHEMA).append([{"id": 1, "x": 0}] * 2)
    write_files(tmp_path / "in", 1)
    finish(into(stream_of(spark, tmp_path / "in"), tmp_path / "table", tmp_path))
    shutil.rmtree(tmp_path / "table")
    table = ss.create(tmp_path / "table", schema=SCHEMA, key="id")
    table.append([{"id": ROWS, "x": -1}])
    write_files(tmp_path / "in", 1, first=1)
    with pytest.raises(Exception, match="1 key is in the table already"):
        finish(into(stream_of(spark, tmp_path / "in"), tmp_path / "table", tmp_path))
    assert table.scan().to_arrow().to_pylist() == [{"id": ROWS, "x": -1}]


@pytest.mark.parametrize(("option", "value", "batches"), [("versions_per_batch", "2", 3), ("rows_per_batch", "25", 5)])
def test_read_stream__bounded_batches__end_at_versions(spark, tmp_path, option, value, batches):
    table = ss.create(tmp_path / "table", schema=SCHEMA)
    for number in range(5):
        table.append([{"id": number * ROWS + row, "x": number} for row in range(ROWS)])
    found = collect(spark, tmp_path / "table", tmp_path, "a", since="0", **{option: value})
    assert len(found) == batches
    assert [row["id"] for batch in found for row in batch] == list(range(5 * ROWS))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"since": "99"}, "99"),
        ({"since": "x"}, "not a whole number"),
        ({"changes": "yes"}, "not true or false"),
        ({"rows_per_batch": "0"}, "never end"),
        ({"rows_per_batch": "1", "versions_per_batch": "1"}, "both given"),
        ({"snice": "1"}, "no option 'snice'"),
    ],
)
def test_read_stream__bad_option__is_told(spark, tmp_path, options, words):
    ss.create(tmp_path / "table", schema=SCHEMA)
    with pytest.raises(Exception, match=words):
        collect(spark, tmp_path / "table", tmp_path, "a", **options)
