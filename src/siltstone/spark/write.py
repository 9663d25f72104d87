"""Rows of a DataFrame into a table: tasks write fragments, the driver makes one version of them.

What must hold:
- A job that is run again with the same ``once`` adds nothing, wherever the first run was stopped.
- Whatever tasks of a job that failed have written is in no version.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from siltstone.api.staging import Staging
from siltstone.spark.arguments import as_table, check_frame
from siltstone.spark.workers import run_on_rows
from siltstone.table import arguments
from siltstone.table.operations import Append, Overwrite
from siltstone.table.staged import gather, stage_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from siltstone.api import Table
    from siltstone.table.versions import Version


def append(df: DataFrame, table: Table | str, *, once: str | None = None, message: str = "") -> Version:
    """Add rows; in a keyed table none of their keys may be there, nor come twice.

    With ``once`` the same job adds its rows once, however often it is run. Raises SchemaMismatchError,
    DuplicateKeyError, InvalidInputError.
    """
    return _write(df, table, Append, once=once, message=message)


def overwrite(df: DataFrame, table: Table | str, *, once: str | None = None, message: str = "") -> Version:
    """Add rows in the place of all that are there."""
    return _write(df, table, Overwrite, once=once, message=message)


def _write(df: DataFrame, table: Table | str, kind: Any, *, once: str | None, message: str) -> Version:
    check_frame(df)
    staging = Staging(as_table(table), once=arguments.check_once(once), message=message)
    if staging.applied_as(kind.operation):
        return staging.commit([])
    staged = run_on_rows(df, partial(stage_rows, staging.site, twice="refuse"))
    return staging.commit([kind(gather(staging.tools, staging.state.schema, staged))])
