"""Ingests whose processes die at a point, and what a driver of them does on a cluster.

Imported by the workers of a cluster.
"""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import siltstone as ss
from spark_cluster import driver_session
from spark_faults import happen

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64()), ("note", pa.string())])
ROWS, SHARDS = 8_000, 2
CONFIG = ss.ShardWriterConfig(max_wal_buffer_size=20_000, max_wal_flush_interval_ms=1)  # an entry for each batch
SMALL_BATCHES = ("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
_FAULT, _MARKER = "SILTSTONE_TEST_FAULT", "SILTSTONE_TEST_MARKER"
module = importlib.import_module("siltstone.spark.ingest")  # the package has the function by that name
_Job = module._Job


@dataclass(frozen=True)
class FaultyJob(_Job):
    """An ingest that a fault happens to; its driver says which by its environment."""

    fault: str = ""
    marker: str = ""

    def __post_init__(self):
        if not self.fault:
            object.__setattr__(self, "fault", os.environ[_FAULT])
            object.__setattr__(self, "marker", os.environ[_MARKER])

    def put(self, rows):
        done = super().put(self._watched(rows))
        happen(self.fault, self.marker, "task wrote")
        return done

    def _watched(self, rows):
        for number, batch in enumerate(rows):
            if number == 2:
                happen(self.fault, self.marker, "middle")
            yield batch


def frame(spark):
    return spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 7 as x", "concat('n', id) as note")


def put(spark, uri: str, *, fault: str = "none@", marker: str = "") -> str:
    """Ingest the rows of the one job; "" or why Spark says that it failed."""
    os.environ |= {_FAULT: fault, _MARKER: marker}
    module._Job = FaultyJob
    try:
        done = ss.spark.ingest(frame(spark), uri, once="job", config=CONFIG)
        assert (done.rows, done.shards) == (ROWS, SHARDS)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]
    finally:
        module._Job = _Job
    return ""


def faults(job: dict) -> None:
    """A job for each fault; run again with the same ``once``, and merged."""
    spark = driver_session()
    spark.conf.set(*SMALL_BATCHES)
    for number, fault in enumerate(job["faults"]):
        uri, marker = f"{job['root']}/table{number}", f"{job['root']}/met{number}"
        table = ss.create(uri, schema=SCHEMA, key="id", shards=SHARDS)
        failures = [put(spark, uri, fault=fault, marker=marker)]
        seen = table.count(fresh=True)
        failures.append(put(spark, uri))
        ss.spark.merge_shards(spark, table)
        print(
            json.dumps({"fault": fault, "met": Path(marker).exists(), "failures": failures, "seen": seen}), flush=True
        )
    spark.conf.unset(SMALL_BATCHES[0])
