"""Rows that are in the memory of the driver, as a DataFrame.

What must hold:
- More than a few rows travel to tasks as they are, in columns, and become Spark's own rows there. Left to itself, Spark
  makes rows of up to 48 MiB in the driver, by one thread, and each job serializes them one by one.
- What the session says is the same afterwards.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from siltstone.locks import ForkLock
from siltstone.spark.types import to_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FEW_BYTES = 1024 * 1024  # up to here rows are part of the plan
PART_BYTES = 8 * 1024 * 1024  # of one task

_ROWS_OF_DRIVER = "spark.sql.execution.arrow.localRelationThreshold"
_ROWS_OF_TASK = "spark.sql.execution.arrow.maxRecordsPerBatch"
_lock = ForkLock()  # one at a time: each puts back what it found


def held_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """A DataFrame of some rows, which have the columns of a schema.

    Raises:
        InvalidInputError: a value can't be held by Spark; the message names the column.
    """
    rows = to_spark(rows, schema)
    if rows.nbytes <= FEW_BYTES:
        return spark.createDataFrame(rows, schema)
    parts = -(-rows.nbytes // PART_BYTES)
    each = -(-rows.num_rows // parts)
    with _lock, _told(spark, {_ROWS_OF_DRIVER: "0", _ROWS_OF_TASK: str(each)}):
        # In one piece: each of them would be a task.
        return spark.createDataFrame(rows.combine_chunks(), schema)


@contextmanager
def _told(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A session with other settings for a while."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, found in before.items():
            if found is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, found)
