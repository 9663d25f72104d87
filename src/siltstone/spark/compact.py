"""Compacting a table in tasks: each rewrites the rows of a range of keys, the driver puts them in place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from siltstone.api.staging import Staging
from siltstone.errors import ConflictError, InvalidInputError
from siltstone.spark.arguments import as_table, check_session, session_first
from siltstone.spark.workers import run_tasks
from siltstone.table.compact_plan import GROUP_ROWS
from siltstone.table.compact_spread import plan_slices, rewrite_slice, to_works
from siltstone.table.fragment import ROWS_PER_FRAGMENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.table.compact import Compact
    from siltstone.table.versions import Version


@session_first
def compact(spark: SparkSession, table: Table | str, *, rows_target: int = ROWS_PER_FRAGMENT) -> Version:
    """Rewrite small, worn and overlapping fragments into full ones, in keyed tables clustered by key.

    Rows stay as they are, also those that others delete meanwhile stay deleted. Raises ConflictError where another
    compaction was first with all of it.

    Text indexes lose the rows of the fragments that were rewritten, and searches read these until they are indexed
    again: load, then compact, then ``build_text_index``.
    """
    check_session(spark)
    if type(rows_target) is not int or not 1 <= rows_target <= GROUP_ROWS:
        raise InvalidInputError(
            f"rows_target must be a whole number from 1 to {GROUP_ROWS}, got {ascii(rows_target)[:60]}",
            hint="it is how many rows a fragment has at most; leave it out",
        )
    staging = Staging(as_table(table))
    slices = plan_slices(staging.tools, staging.state, rows_target=rows_target)
    done = run_tasks(spark, slices, partial(rewrite_slice, staging.site))
    works = to_works(staging.tools, staging.state.schema, slices, done)
    try:
        return staging.commit(works)
    except ConflictError:
        return _one_by_one(staging, works)


def _one_by_one(staging: Staging, works: list[Compact]) -> Version:
    """A version for each group, for those that nobody else has rewritten meanwhile."""
    version, conflict = None, None
    for work in works:
        try:
            version = staging.commit([work])
        except ConflictError as error:
            conflict = error
    if version is None and conflict is not None:
        raise conflict
    return version or staging.commit([])
