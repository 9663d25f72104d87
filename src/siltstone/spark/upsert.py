"""Upserting a DataFrame: rows are brought together by key, written, and matched with the table's in tasks.

What must hold:
- A key that comes twice in the DataFrame is refused: its rows have no order that says which one counts.
- What tasks found out is what the driver's own look would have found; fragments that others add meanwhile are
  looked at by the driver, before it commits.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from siltstone.api.staging import Staging
from siltstone.errors import InvalidInputError
from siltstone.spark.arguments import as_table, check_frame
from siltstone.spark.workers import run_on_rows, run_tasks
from siltstone.table import arguments
from siltstone.table.near import near_fragments
from siltstone.table.operations import Upsert
from siltstone.table.schema import key_fields
from siltstone.table.staged import Met, Site, as_matched, gather, meet, stage_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from siltstone.api import Table
    from siltstone.format.rollup import Live
    from siltstone.format.table import Fragment, Schema
    from siltstone.table.inserts import Inserted
    from siltstone.table.operations import Matched
    from siltstone.table.versions import Version


class _Meeting(NamedTuple):
    live: Live
    written: dict[int, Fragment]


def upsert(df: DataFrame, table: Table | str, *, once: str | None = None, message: str = "") -> Version:
    """Add rows in the place of those with the same keys, as one version.

    Raises DuplicateKeyError (a key comes twice in the DataFrame), SchemaMismatchError, InvalidInputError (the
    table has no key).
    """
    check_frame(df)
    staging = Staging(as_table(table), once=arguments.check_once(once), message=message)
    if staging.applied_as("upsert"):
        return staging.commit([])
    rows = brought_together(df, staging.state.schema)
    staged = run_on_rows(rows, partial(stage_rows, staging.site, twice="refuse"))
    inserted = gather(staging.tools, staging.state.schema, staged)
    matched = _matched(df.sparkSession, staging, inserted)
    return staging.commit([Upsert(inserted, matched=matched)])


def brought_together(df: DataFrame, schema: Schema) -> DataFrame:
    """The rows by ranges of the key's first column: each key in one partition, and few fragments of the table near."""
    if not schema.key:
        raise InvalidInputError("upsert needs a key, and this table has none", hint="create it with key=")
    key = key_fields(schema)[0].name
    names = {name.lower(): name for name in df.columns}
    if key.lower() not in names:
        raise InvalidInputError(
            f"the DataFrame has no column {key!a}, which is the table's key", hint="select or rename one", column=key
        )
    return df.repartitionByRange(df[f"`{names[key.lower()].replace('`', '``')}`"])


def _matched(spark: SparkSession, staging: Staging, inserted: Inserted) -> dict[tuple[str, int], Matched]:
    """The rows of the table that have the new rows' keys, found by a task for each fragment that may hold some."""
    meetings: dict[str, _Meeting] = {}
    for number, fragment in enumerate(inserted.fragments):
        for live in near_fragments(staging.state, fragment):
            meetings.setdefault(live.fragment.name, _Meeting(live, {})).written[number] = fragment
    met = run_tasks(spark, list(meetings.values()), partial(_meet, staging.site))
    return as_matched(met, len(inserted.fragments))


def _meet(site: Site, meeting: _Meeting) -> Met:
    return meet(site, meeting.live, meeting.written)
