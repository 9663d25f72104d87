"""Steps on the shards of a table: rows are put into them, and taken into the table later.

What must hold: rows that were put are durable before the table's log says that the step was applied. A run that ends in
between puts nothing twice: the shards know the step's mark too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import spark as on_spark
from siltstone.api.staging import Staging
from siltstone.pipeline.kinds import Done
from siltstone.pipeline.sources import frame
from siltstone.table import arguments

if TYPE_CHECKING:
    from siltstone.pipeline.kinds import Task


def ingest(task: Task) -> Done:
    """Put rows into shards."""
    with task.table("into") as table:
        done = on_spark.ingest(frame(task, table), table, once=task.once)
        mark = Staging(table, once=arguments.check_once(task.once), message=task.message).commit([])
        return Done(f"put {done.rows:,} rows into {done.shards} shards", done.rows, 0, mark.version)


def merge(task: Task) -> Done:
    """Take what is in shards into the table."""
    with task.table() as table:
        before = table.version
        last = on_spark.merge_shards(task.spark, table)
        if last.operation == "none":
            return Done("nothing to do", version=last.version)
        merged = [one for one in table.history(last.version - before) if one.operation == "merge"]
        rows = sum(one.inserted + one.updated for one in merged)
        replaced, gone = sum(one.updated for one in merged), sum(one.deleted for one in merged)
        says = f"took {rows:,} rows out of shards"
        says += f", {replaced:,} of them in the place of others" if replaced else ""
        says += f", {gone:,} rows are gone" if gone else ""
        return Done(says, rows, len(merged), last.version)
