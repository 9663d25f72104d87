"""Reading a table as a DataFrame: by Spark's own Parquet reader where that gives the same rows, else in tasks.

What must hold:
- A DataFrame sees one version, however often it is run and whatever is committed meanwhile; with ``fresh``, the rows
  that were durable when it was made.
- Which of the two ways is taken shows in nothing but the time it takes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from siltstone.errors import InvalidInputError
from siltstone.spark.arguments import as_table, check_session, session_first
from siltstone.spark.held import held_frame
from siltstone.spark.native import choose, read_native, union
from siltstone.spark.parts import Job, make_job, make_parts, read_pickled, split_held
from siltstone.spark.sparksql import quoted, translate
from siltstone.spark.types import spark_schema
from siltstone.table import arguments
from siltstone.table.predicate import parse_predicate
from siltstone.table.reading import Reading, chosen_schema
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import arrow_schema
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from siltstone.api import Table
    from siltstone.format.rollup import Live
    from siltstone.format.table import Field
    from siltstone.table.checkpoints import Checkpoint
    from siltstone.table.predicate import Predicate
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

Way = Literal["auto", "native", "python"]


class _Query(NamedTuple):
    """What is asked of which version."""

    tools: Tools
    state: State
    fields: tuple[Field, ...]
    predicate: Predicate | None

    @property
    def schema(self) -> StructType:
        return spark_schema(chosen_schema(self.fields))

    def reading(self) -> Reading:
        return Reading(self.tools, self.state.schema, self.fields, self.predicate)


@session_first
def read(
    spark: SparkSession,
    table: Table | str,
    columns: Sequence[str] | None = None,
    *,
    where: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    checkpoint: Checkpoint | str | None = None,
    fresh: bool = False,
    plan: Way = "auto",
) -> DataFrame:
    """A version of a table as a DataFrame: the newest, or the one of a number, tag or checkpoint. It stays that one.

    With ``fresh``, rows that are durable in shards and not merged yet are seen too: those that are in no fragment are
    brought to the driver. Shards keep what was merged since for some minutes; use the DataFrame within them.

    Only ``columns`` are read, and only files that may hold rows that match ``where`` (the table's own SQL, as in
    ``table.scan``). ``plan`` says who reads: Spark's own Parquet reader (``native``: files on a disk that executors
    share), tasks with the table's reader (``python``), or the faster one that can (``auto``). Both give the same.

    ``count()`` of the DataFrame that is returned comes from the log and reads nothing, unless it has a filter or is
    cached; DataFrames made from it count as always. All columns may be null, as in Spark's own sources.

    Raises InvalidInputError, UnsupportedTypeError (Spark has no such type; leave the column out), NotFoundError,
    TruncatedError, MissingObjectError and CorruptionError (a file is gone, or is another one).
    """
    pinned = version is not None or tag is not None or checkpoint is not None
    _check(spark, fresh=fresh, plan=plan, pinned=pinned)
    table = as_table(table)
    if pinned:
        table = table.at(version=version, tag=tag, checkpoint=checkpoint)
    query = _query(table, columns, arguments.check_where(where), fresh=fresh)
    lives = query.reading().choose(query.state.fragments)
    frame = _frame(spark, query, lives, plan)
    if query.predicate is None:
        _count_from_log(frame, query.state.fragments.rows)
    return frame


def _check(spark: object, *, fresh: object, plan: object, pinned: bool) -> None:
    check_session(spark)
    if arguments.check_flag(fresh, "fresh") and pinned:
        raise InvalidInputError(
            "fresh=True asks for the newest rows, and version=, tag= or checkpoint= for older ones",
            hint="give one of them",
        )
    if plan not in {"auto", "native", "python"}:
        raise InvalidInputError(f"plan is {shown(str(plan))}", hint="it is 'auto', 'native' or 'python'")


def _query(table: Table, columns: Sequence[str] | None, where: str | None, *, fresh: bool) -> _Query:
    tools, state = table._seen_by(fresh=fresh)  # noqa: SLF001 - what the handle sees, for others to read
    predicate = None if where is None else parse_predicate(where, arrow_schema(state.schema))
    return _Query(tools, state, chosen_fields(state.schema, columns), predicate)


def _frame(spark: SparkSession, query: _Query, lives: Sequence[Live], plan: Way) -> DataFrame:
    job = make_job(
        query.tools,
        query.state,
        columns=[one.name for one in query.fields],
        where=None if query.predicate is None else query.predicate.text,
        schema=query.schema,
    )
    if not lives:
        return spark.createDataFrame([], query.schema)
    rest, held = split_held(query.reading(), lives)
    frames: list[DataFrame] = []
    if rest and plan != "python":
        frames, rest, why = _native(spark, query, rest)
        if rest and plan == "native":
            raise InvalidInputError(f"Spark can't read all of this table by itself: {why}", hint="leave plan= out")
    if rest:
        frames.append(_in_tasks(spark, job, rest, query))
    if held.num_rows or not frames:
        frames.append(held_frame(spark, held, query.schema))
    return union(frames)


def _native(spark: SparkSession, query: _Query, lives: Sequence[Live]) -> tuple[list[DataFrame], list[Live], str]:
    """What Spark reads itself; the fragments that it does not, and why."""
    condition = None if query.predicate is None else translate(query.predicate)
    if query.predicate is not None and condition is None:
        return [], list(lives), "its filter may mean something else there"
    fields = query.reading().together
    choice = choose(query.tools, lives, fields)
    frames = read_native(spark, query.tools, choice, fields, spark_schema(chosen_schema(fields)))
    if condition is not None:
        chosen = [quoted(one.name) for one in query.fields]
        frames = [frame.where(condition).select(*chosen) for frame in frames]
    return frames, choice.rest, choice.why


def _in_tasks(spark: SparkSession, job: Job, lives: Sequence[Live], query: _Query) -> DataFrame:
    parts = make_parts(query.reading(), lives)
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(partial(_read_parts, job, parts), job.schema)


def _read_parts(job: Job, parts: Sequence[bytes], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from read_pickled(job, parts[number])


def _count_from_log(frame: DataFrame, rows: int) -> None:
    """Let ``count()`` of this very object answer without a job."""
    whole = frame.count

    def count() -> int:
        # Whoever counts a DataFrame that is to be cached means to have it read.
        level = frame.storageLevel
        return whole() if level.useMemory or level.useDisk else rows

    _set(frame, "count", count)


def _set(frame: Any, name: str, value: object) -> None:
    setattr(frame, name, value)
