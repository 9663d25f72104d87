"""Rows for a step: files that Spark reads, or another table.

What must hold: a line that is no row of the format stops the step. Spark's own default makes a row of nulls of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from siltstone import spark as on_spark
from siltstone.pipeline.kinds import Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from siltstone.api import Table
    from siltstone.pipeline.kinds import Task

FILE_FORMATS = ("csv", "json", "orc", "parquet")
TABLE = "siltstone"
_TYPED = ("orc", "parquet")  # the files say what they hold
_STRICT = {"json": {"mode": "FAILFAST"}, "csv": {"mode": "FAILFAST", "header": "true"}}

SHAPING = {
    "columns": Key('columns of the files, as in "id bigint, stars int"; without it those of the table'),
    "select": Key("Spark SQL expressions that make the table's columns of the files'", "texts"),
    "where": Key("a Spark SQL condition for the rows that are taken"),
    "options": Key("options of Spark's reader, such as {multiLine: true}", "map"),
}
FROM = {
    "from": Key("files or a directory that Spark reads, or a table", needed=True),
    "format": Key("what is there", needed=True, choices=(*FILE_FORMATS, TABLE)),
    **SHAPING,
}


def frame(task: Task, table: Table) -> DataFrame:
    """The rows that a step writes to ``table``."""
    if task.settings["format"] == TABLE:
        return _shaped(task, on_spark.read(task.spark, task.open(task.settings["from"])))
    return _shaped(task, _reader(task, task.spark.read, table, infer=True).load(located(task.settings["from"])))


def stream(task: Task, table: Table) -> DataFrame:
    """The files of a directory, and those that arrive there, as a stream."""
    reader = _reader(task, task.spark.readStream, table, infer=False)
    if (most := task.get("files_per_batch")) is not None:
        reader = reader.option("maxFilesPerTrigger", str(most))
    return _shaped(task, reader.load(located(task.settings["from"])))


def located(path: str) -> str:
    """A path as Spark finds it wherever it was started; a URI as it is."""
    return path if "://" in path or path.startswith("file:/") else os.path.abspath(path)  # noqa: PTH100 - may hold *


def _reader(task: Task, reader: Any, table: Table, *, infer: bool) -> Any:
    kind = task.settings["format"]
    for name, value in {**_STRICT.get(kind, {}), **(task.get("options") or {})}.items():
        reader = reader.option(name, value)
    if (columns := task.get("columns")) is not None:
        reader = reader.schema(columns)
    elif not (infer and kind in _TYPED):
        # Never guessed from the first lines: an id that looks like a number today may not tomorrow.
        reader = reader.schema(on_spark.read(task.spark, table).schema)
    return reader.format(kind)


def _shaped(task: Task, rows: DataFrame) -> DataFrame:
    if (where := task.get("where")) is not None:
        rows = rows.where(where)
    if (select := task.get("select")) is not None:
        rows = rows.selectExpr(*select)
    return rows
