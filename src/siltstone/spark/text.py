"""Text indexes built in tasks: each makes an item of a build, and the driver brings the build to its end.

What must hold:
- Tasks get the name of a build and numbers of items, never rows. What a task made counts when the build's log says so,
  once for each item, however often and wherever it is run; what is made follows from the texts alone.
- Nothing of a build depends on the driver that began it: anyone ends it by its name, and the same call made again goes
  on with what a driver that was killed left behind.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.api.index_builds import check_items
from siltstone.api.staging import Staging
from siltstone.errors import AlreadyExistsError, ConflictError, CorruptionError, MissingObjectError, NotFoundError
from siltstone.index.operations import found
from siltstone.index.results import text_field
from siltstone.index.settings import analyzer_of
from siltstone.spark.arguments import as_table, check_session, session_first
from siltstone.spark.text_left import Wanted, left_build, unindexed
from siltstone.spark.workers import run_tasks
from siltstone.table import arguments
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.api.index_builds import IndexBuild
    from siltstone.format.rollup import Live
    from siltstone.format.text import TextIndex

ITEM_BYTES_LEAST = 8 * 1024 * 1024  # of files; each item becomes a part, which every search looks into
SLOTS_MAX = 4096
ROUNDS_MAX = 8
_LOST = (CorruptionError, MissingObjectError, NotFoundError)  # what a build raises that can't be ended


@dataclass(frozen=True)
class IndexBuilt:
    """What was done: all of it is part of the table, at ``version``."""

    index: str
    version: int
    build: str | None = None  # the last one; None where all was well already
    rows: int = (
        0  # of the fragments that were indexed, or taken over from older parts; deleted rows of theirs count too
    )
    items: int = 0


@session_first
def build_text_index(
    spark: SparkSession,
    table: Table | str,
    column: str,
    *,
    name: str | None = None,
    items: int | None = None,
    **analyzer: object,
) -> IndexBuilt:
    """Index the words of a column in tasks; where the index is there, take in what is new and merge small parts.

    A build that an earlier call left behind, since its driver was killed or a task failed, is gone on with.

    Args:
        spark: the session.
        table: a table, or its URI.
        column: the column, of texts.
        name: what the index is called; the column's name without it.
        items: into how many tasks the work is cut at least, where there are fragments enough; without it as many as
            run at once, unless there is little to do.
        analyzer: as for ``table.create_text_index``; where the index is there, they must be those that it has.

    Raises InvalidInputError (no such column, language or option), AlreadyExistsError (an index of this name is of
    another column or has other options, or came first), ConflictError (others changed it all the time).
    """
    check_session(spark)
    table = as_table(table)
    state = Staging(table).state
    field = text_field(state.schema, column)
    label = arguments.check_label(column if name is None else name, "index")
    asked = analyzer_of(analyzer)
    there = state.indexes.get(label)
    if there is not None:
        _check_same(label, there, Wanted(label, field.id, asked if analyzer else there.analyzer))
        asked = there.analyzer
    job = _Job(spark, table, Wanted(label, field.id, asked), None if items is None else check_items(items))
    return job.run(lambda cut: table.begin_text_index(column, name=name, items=cut, **analyzer))


@session_first
def optimize_text_index(
    spark: SparkSession, table: Table | str, name: str, *, items: int | None = None, whole: bool = False
) -> IndexBuilt:
    """Index in tasks what came since, merge small parts, leave out fragments that are gone.

    With ``whole`` all of its segments become one. Raises NotFoundError (there is no such index), ConflictError.
    """
    check_session(spark)
    table = as_table(table)
    index = found(Staging(table).state, name)
    wanted = Wanted(name, index.field, index.analyzer)
    cut = None if items is None else check_items(items)
    return _Job(spark, table, wanted, cut, whole=arguments.check_flag(whole, "whole")).run(None)


@dataclass(frozen=True)
class _Job:
    """A call: the index, and how its work is cut."""

    spark: SparkSession
    table: Table
    wanted: Wanted
    items: int | None
    whole: bool = False

    def run(self, create: Callable[[int], IndexBuild] | None) -> IndexBuilt:
        """Go on with what was left, then do the rest; ``create`` begins an index that is not there."""
        table, label = self.table, self.wanted.label
        done, tried = IndexBuilt(label, table.version), set[str]()
        failed = ConflictError(f"index {shown(label)} was changed by others all the time", hint="try again")
        for _ in range(ROUNDS_MAX):
            state = Staging(table).state
            left = None if self.whole else left_build(table, state, self.wanted, but=tried)
            build = left
            if build is None:
                cut = self._cut(unindexed(table, state, label))
                if create is None or label in state.indexes:
                    build = table.begin_optimize_index(label, items=cut, whole=self.whole)
                else:
                    build = create(cut)
            if build is None:
                return done
            tried.add(build.name)
            try:
                done = self._do(build, done)
            except ConflictError as error:  # another one was faster, or what it was begun on was collected
                failed = error
                continue
            except _LOST:
                if left is None:
                    raise
                continue  # what was left is lost, and made anew
            if left is None:
                return done
        raise failed

    def _do(self, build: IndexBuild, before: IndexBuilt) -> IndexBuilt:
        run_tasks(self.spark, build.missing(), partial(run_item, pickle.dumps(self.table), build.name))
        version = build.commit().version
        return IndexBuilt(before.index, version, build.name, before.rows + build.rows, before.items + build.items)

    def _cut(self, lives: Sequence[Live]) -> int:
        """Into how many items texts are cut at least."""
        if self.items is not None:
            return self.items
        most = sum(live.fragment.bytes for live in lives) // ITEM_BYTES_LEAST
        return 1 if most <= 1 else min(most, task_slots(self.spark))


def run_item(handle: bytes, build: str, item: int) -> None:
    """In a task: make an item of a build."""
    with pickle.loads(handle) as table:  # noqa: S301 - made by the driver of the same job
        table.index_build(build).run(item, threads=1)


def task_slots(spark: SparkSession) -> int:
    """How many tasks run at once: Spark cuts a range into as many partitions."""
    return max(1, spark.range(0, SLOTS_MAX).mapInArrow(_one_row, "number long").count())


def _one_row(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["number"])


def _check_same(label: str, there: TextIndex, wanted: Wanted) -> None:
    if (there.field, there.analyzer) == wanted[1:]:
        return
    what = "is of another column" if there.field != wanted.field else "has other options"
    raise AlreadyExistsError(
        f"there is an index {shown(label)} already, which {what}",
        hint="give another name=, drop it first, or leave the options out to take in new rows",
    )
