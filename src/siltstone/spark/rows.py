"""Deleting and updating rows by a filter: tasks look through the fragments, the driver commits one version."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from siltstone.api.staging import Staging
from siltstone.spark.arguments import as_table, check_session, session_first
from siltstone.spark.workers import run_tasks
from siltstone.table import arguments
from siltstone.table.operations import Delete
from siltstone.table.predicate import parse_predicate
from siltstone.table.reading import Reading
from siltstone.table.schema import arrow_schema
from siltstone.table.staged import as_copied, choose
from siltstone.table.update import Update

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.format.rollup import Live
    from siltstone.table.versions import Version


@session_first
def delete(
    spark: SparkSession, table: Table | str, where: str | None, *, once: str | None = None, message: str = ""
) -> Version:
    """Delete the rows that match a SQL condition, as one version; None deletes all."""
    check_session(spark)
    where = arguments.check_where(where)
    staging = Staging(as_table(table), once=arguments.check_once(once), message=message)
    work = Delete(where, staging.state.schema)
    if staging.applied_as(work.operation):
        return staging.commit([])
    if where is not None:
        found = run_tasks(spark, _near(staging, where), partial(choose, staging.site, where=where))
        work = Delete(where, staging.state.schema, found={one.name: one.rows for one in found})
    return staging.commit([work])


@session_first
def update(
    spark: SparkSession,
    table: Table | str,
    values: Mapping[str, str],
    where: str | None = None,
    *,
    once: str | None = None,
    message: str = "",
) -> Version:
    """Give columns new values (SQL expressions) in the rows that match a condition, as one version."""
    check_session(spark)
    values, where = arguments.check_values(values), arguments.check_where(where)
    staging = Staging(as_table(table), once=arguments.check_once(once), message=message)
    schema, site = staging.state.schema, staging.site
    work = partial(Update, values, where, schema, base=site.base, moment=site.moment)
    work()  # bad input is told before a job starts
    if staging.applied_as(Update.operation):
        return staging.commit([])
    lives = {live.fragment.name: live for live in _near(staging, where)}
    found = run_tasks(spark, list(lives.values()), partial(choose, site, where=where, values=dict(values)))
    copied = [as_copied(staging.tools, schema, lives[one.name], one) for one in found if one.copied]
    rows = {one.name: one.rows for one in found} if where is not None else {}
    return staging.commit([work(found=rows, copied=copied)])


def _near(staging: Staging, where: str | None) -> list[Live]:
    """The fragments that may hold rows that match."""
    schema = staging.state.schema
    predicate = None if where is None else parse_predicate(where, arrow_schema(schema))
    return Reading(staging.tools, schema, (), predicate).choose(staging.state.fragments)
