"""Checks of what users hand to the functions of this package."""

from __future__ import annotations

from siltstone.api import Table, open_table
from siltstone.errors import InvalidInputError


def as_table(table: Table | str) -> Table:
    """A handle, or one for a URI."""
    if isinstance(table, Table):
        return table
    if isinstance(table, str):
        return open_table(table)
    raise InvalidInputError(
        f"a table must be a Table or a URI, got {type(table).__name__}", hint="open it with siltstone.open()"
    )


def check_session(spark: object) -> None:
    """Raise where something is not a session."""
    if not (hasattr(spark, "range") and hasattr(spark, "createDataFrame")):
        raise InvalidInputError(
            f"spark must be a SparkSession, got {type(spark).__name__}", hint="make one with siltstone.spark.session()"
        )


def check_frame(df: object) -> None:
    """Raise where something is not a DataFrame of rows that are there."""
    if not (hasattr(df, "mapInArrow") and hasattr(df, "schema")):
        raise InvalidInputError(
            f"a Spark DataFrame is needed, got {type(df).__name__}",
            hint="rows in memory go into a table with table.append() and table.upsert()",
        )
    if df.isStreaming:  # type: ignore[attr-defined]
        raise InvalidInputError(
            "this DataFrame is a stream", hint="write it with df.writeStream.format('siltstone').start(uri)"
        )
