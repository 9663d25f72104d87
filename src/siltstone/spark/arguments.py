"""Checks of what users hand to the functions of this package."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from siltstone.api import Table, open_table
from siltstone.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def session_first(call: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """The same call, which says so where the session was left out, before Python counts the other arguments."""

    @functools.wraps(call)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        if args:
            check_session(args[0], call.__name__)
        return call(*args, **kwargs)

    return called


def as_table(table: Table | str) -> Table:
    """A handle, or one for a URI."""
    if isinstance(table, Table):
        return table
    if isinstance(table, str):
        return open_table(table)
    raise InvalidInputError(
        f"a table must be a Table or a URI, got {type(table).__name__}", hint="open it with siltstone.open()"
    )


def check_session(spark: object, name: str = "") -> None:
    """Raise where something is not a session; ``name`` is the function that it was given to."""
    if not (hasattr(spark, "range") and hasattr(spark, "createDataFrame")):
        first = f"it comes first: siltstone.spark.{name}(spark, ...); " if name else ""
        raise InvalidInputError(
            f"spark must be a SparkSession, got {type(spark).__name__}",
            hint=f"{first}make one with siltstone.spark.session()",
        )


def check_frame(df: object) -> None:
    """Raise where something is not a DataFrame of rows that are there."""
    if not (hasattr(df, "mapInArrow") and hasattr(df, "schema")):
        raise InvalidInputError(
            f"a Spark DataFrame is needed, got {type(df).__name__}",
            hint="it comes first, the table second"
            if isinstance(df, Table | str)
            else "rows in memory go into a table with table.append() and table.upsert()",
        )
    if df.isStreaming:  # type: ignore[attr-defined]
        raise InvalidInputError(
            "this DataFrame is a stream", hint="write it with df.writeStream.format('siltstone').start(uri)"
        )
