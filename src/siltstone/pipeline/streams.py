"""Streams of files into a table: each batch is a version, or goes into the table's shards.

What must hold: a file is taken in once, by the stream's checkpoint, whatever is stopped and started again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from siltstone import spark as on_spark
from siltstone.api.staging import Staging
from siltstone.pipeline.kinds import Done
from siltstone.pipeline.sources import located, stream
from siltstone.table import arguments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from siltstone.api import Table
    from siltstone.pipeline.kinds import Task

POLL_S = 1
INGEST = "ingest"
OPERATIONS = ("append", "upsert", INGEST)


def take_in(task: Task) -> Done:
    """Take in the files that are there."""
    with task.table("into") as table:
        before = table.version
        query = start_stream(task, table)
        seen: dict[int, int] = {}  # rows by the number of their batch
        try:
            while not query.awaitTermination(POLL_S):
                _look(query, seen)
                new = f"{len(seen)} batches" if _ingests(task) else f"{table.version - before} new"
                task.say(f"version {table.version}, {new}")
        finally:
            query.stop()
        _look(query, seen)
        batches = [one for one in table.history(limit=table.version - before) if not one.once]
        # The files that were there are taken in, and this says so: those that arrive later are for the next run.
        mark = Staging(table, once=arguments.check_once(task.once), message=task.message).commit([])
        if _ingests(task):
            rows = sum(seen.values())
            return Done(f"put {rows:,} rows into shards in {len(seen)} batches", rows, 0, mark.version)
        rows = sum(one.inserted + one.updated for one in batches)
        return Done(f"took {rows:,} rows in {len(batches)} batches", rows, len(batches), mark.version)


def start_stream(task: Task, table: Table, *, every: str = "") -> StreamingQuery:
    """Begin to take in the files that are there; a stream that was stopped goes on where its checkpoint says.

    With ``every`` a batch is begun so often, and the stream does not end by itself.
    """
    trigger: dict[str, Any] = {"processingTime": every} if every else {"availableNow": True}
    rows = stream(task, table)
    writer = rows.writeStream.foreachBatch(partial(_put, table)) if _ingests(task) else _into_versions(task, rows)
    query: StreamingQuery = (
        writer.option("checkpointLocation", located(task.settings["checkpoint"])).trigger(**trigger).start()
    )
    return query


def _ingests(task: Task) -> bool:
    return bool(task.get("operation") == INGEST)


def _into_versions(task: Task, rows: DataFrame) -> Any:
    settings = task.settings
    # Spark shows options in its plans and logs, except where their names say that they are secret.
    reach = {f"storage_secret.{name}": value for name, value in (task.get("storage") or {}).items()}
    if task.get("commits") is not None:
        reach["commits_secret"] = task.get("commits")
    writer = rows.writeStream.format("siltstone").options(**reach).option("path", settings["into"])
    return writer.option("operation", settings.get("operation") or "append").option("message", task.message)


def _put(table: Table, rows: DataFrame, number: int) -> None:
    """A batch into the shards; one that is run again after a crash puts nothing."""
    on_spark.ingest(rows, table, batch=number)


def _look(query: StreamingQuery, seen: dict[int, int]) -> None:
    """Note the batches that are done; Spark remembers the last ones alone."""
    seen |= {one["batchId"]: one["numInputRows"] for one in query.recentProgress if one["numInputRows"]}
