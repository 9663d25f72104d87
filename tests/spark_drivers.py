"""What drivers do on a cluster, in processes of their own: functions that take facts; answers are JSON lines."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa

import siltstone as ss
from spark_cluster import driver_session
from spark_faults import FaultySource

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64()), ("note", pa.string())])
ROWS, TASKS = 8_000, 4


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def frame(spark, *, first: int = 0, rows: int = ROWS):
    return spark.range(first, first + rows, 1, TASKS).selectExpr("id", "id % 7 as x", "concat('n', id) as note")


def write(spark, uri: str, *, fault: str = "", marker: str = "", once: str = "job") -> str:
    """Write the rows of the one job; "" or why Spark says that it failed."""
    writer = frame(spark).write.format("siltstone_faulty").mode("append")
    try:
        writer.options(fault=fault, marker=marker, once=once).save(uri)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return ""


def faults(job: dict) -> None:
    """A job for each fault, and run again with the same ``once``, whether Spark says that it failed or not."""
    spark = driver_session()
    spark.dataSource.register(FaultySource)
    for number, fault in enumerate(job["faults"]):
        uri, marker = f"{job['root']}/table{number}", f"{job['root']}/met{number}"
        ss.create(uri, schema=SCHEMA)
        failures = [write(spark, uri, fault=fault, marker=marker), write(spark, uri)]
        say(fault=fault, uri=uri, met=Path(marker).exists(), failures=failures)


def append_rows(table, each: int, batches):
    """In a task: append some times through a handle of its own, as many workers of one job do."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for turn in range(each):
                first = (number * each + turn) * 10
                ids = list(range(first, first + 10))
                table.append(pa.table({"id": ids, "x": [turn] * 10, "note": [str(number)] * 10}, schema=SCHEMA))
            yield pa.record_batch([pa.array([number])], names=["id"])


def workers(job: dict) -> None:
    """Sixteen tasks append to one table at the same time, each through its own handle."""
    spark = driver_session()
    for place in job["places"]:
        table = ss.create(place["uri"], schema=SCHEMA, **place["reach"])
        done = spark.range(0, 16, 1, 16).mapInArrow(partial(append_rows, table, job["each"]), "id long").count()
        rows = table.scan(["id"]).to_arrow().column("id").to_pylist()
        say(tasks=done, rows=len(rows), distinct=len(set(rows)), versions=table.version)


def jobs(job: dict) -> None:
    """Jobs of several kinds at once on one keyed table."""
    spark = driver_session()
    uri = job["uri"]
    ss.create(uri, schema=SCHEMA, key="id")
    ss.spark.append(frame(spark), uri)

    def changed(first: int, step: int):
        return spark.range(first, ROWS, step, 2).selectExpr("id", f"{first} as x", "'up' as note")

    work = [
        lambda: ss.spark.append(frame(spark, first=ROWS), uri),
        lambda: ss.spark.append(frame(spark, first=2 * ROWS), uri),
        lambda: ss.spark.upsert(changed(0, 2), uri),
        lambda: ss.spark.upsert(changed(1, 2), uri),
        lambda: ss.spark.delete(spark, uri, f"id >= {ROWS} and id < {ROWS + 100}"),
        lambda: ss.spark.compact(spark, uri),
    ]
    with ThreadPoolExecutor(len(work)) as threads:
        versions = [one.version for one in threads.map(lambda run: run(), work)]
    say(versions=versions)


def whereabouts(job: dict) -> None:
    """Tell where this driver and its tasks run."""
    spark = driver_session()
    ids = [row.id for row in spark.range(0, 2, 1, 2).mapInArrow(process_ids, "id long").collect()]
    say(
        application=spark.sparkContext.applicationId,
        warehouse=spark.conf.get("spark.sql.warehouse.dir"),
        workers=ids,
    )


def process_ids(batches):
    """In a task: its process id."""
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"id": [os.getpid()]})
