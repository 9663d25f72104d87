"""Rows of a DataFrame into the shards of a table: each task is the writer of one shard.

What must hold:
- All rows of a shard are in one task, and its last put carries the job's id: an attempt that comes behind a finished
  one, of the same job or of one with the same ``once``, puts nothing.
- A row counts as put when it is in the WAL. What was not when another writer took the shard over is put again by the
  one who takes it back: rows have keys, so the same row twice is one row.
- When the call returns, all rows are durable.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - everyone calls it so

from siltstone.api.staging import Staging
from siltstone.errors import ConflictError, InternalError, InvalidInputError
from siltstone.shard.config import PREFIX, ShardWriterConfig, knobs
from siltstone.shard.route import shard_numbers, spark_expression
from siltstone.spark.arguments import as_table, check_frame
from siltstone.spark.pen import Pen
from siltstone.spark.sparksql import quoted
from siltstone.spark.types import spark_type
from siltstone.spark.workers import run_on_rows
from siltstone.spark.writer import QUERY
from siltstone.table import arguments
from siltstone.table.once import Once
from siltstone.table.rows import batches
from siltstone.table.schema import arrow_type, key_fields
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from siltstone.api import Table
    from siltstone.format.table import Field, Schema, Sharding

HELD_BYTES_MAX = 64 * 1024 * 1024  # rows of a task that are on their way into the WAL


@dataclass(frozen=True)
class Ingested:
    """What became of a DataFrame: all its rows are durable."""

    rows: int
    shards: int  # that have some of them
    before: int  # of these, how many had theirs from an earlier run with the same ``once``


class _Put(NamedTuple):
    number: int
    rows: int
    before: bool


@dataclass(frozen=True)
class _Job:
    """What tasks need. It pickles, and shows nothing of the store."""

    table: Table = field(repr=False)
    sharding: Sharding
    config: ShardWriterConfig
    name: str
    once: Once
    stream: bool  # whether the stream of ``once`` is the query that runs the task

    def put(self, rows: Iterator[pa.RecordBatch]) -> _Put:
        """In a task: put the rows of a shard."""
        once = self._once()
        with self.table as table:
            state = table._now()  # noqa: SLF001 - what the handle sees, for others to read
            if state.sharding != self.sharding:
                raise ConflictError("the table was split into other shards meanwhile", hint="run it again")
            first = next(rows)
            number = _number(first, state.schema, self.sharding.count)
            with Pen(table, number, once=once, config=self.config, name=self.name) as pen:
                pen.put(first)
                for batch in rows:
                    pen.put(batch)
                return _Put(number, *pen.end())

    def _once(self) -> Once:
        if not self.stream:
            return self.once
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context is not None else None
        if not query:
            raise InvalidInputError(
                "batch= is given, and Spark does not say which streaming query this is",
                hint="call it in foreachBatch; where that is done, name the stream with once=",
            )
        return Once(stream=f"spark/{query}", batch=self.once.batch)


def ingest(
    df: DataFrame,
    table: Table | str,
    *,
    once: str | None = None,
    batch: int | None = None,
    config: ShardWriterConfig | None = None,
) -> Ingested:
    """Put rows into the shards of a keyed table, each in the place of the row with its key; they are durable then.

    Rows are seen by reads with ``fresh=True``, and by all when the shards are merged. Where a key comes twice in the
    DataFrame, one of its rows counts. Writers of the shards are fenced, and take them back where they are jobs.

    With ``once`` the same job puts its rows once, however often it is run. In ``foreachBatch``, ``batch`` is the
    number of the batch, and each counts once for its query; with ``once`` too, for the stream of that name.

    Raises InvalidInputError (the table has no key or no shards, a row does not fit), SchemaMismatchError, FencedError
    (other writers took shards over all the time), ConflictError (the table was split into other shards).
    """
    check_frame(df)
    table = as_table(table)
    staging = Staging(table)
    state = staging.state
    if state.sharding is None:
        raise _no_shards(keyed=bool(state.schema.key))
    chosen = _config(config, state.settings)
    knobs(chosen, state.settings)  # bad input is told before a job starts
    mark, of_query = _mark(once, batch, job=(job := staging.tools.env.ids.new()))
    rows = _brought_together(df, key_fields(state.schema), state.sharding.count)
    work = _Job(table, state.sharding, chosen, f"spark {job}", mark, of_query)
    put: list[_Put] = run_on_rows(rows, partial(_Job.put, work))
    if len({one.number for one in put}) != len(put):
        raise InternalError(f"rows of one shard were in two tasks: {sorted(one.number for one in put)}")
    return Ingested(sum(one.rows for one in put), len(put), sum(one.before for one in put))


def _no_shards(*, keyed: bool) -> InvalidInputError:
    if keyed:
        return InvalidInputError(
            "this table has no shards",
            hint="create it with shards=, give it some with split_shards(), or use spark.append or spark.upsert",
        )
    return InvalidInputError(
        "this table has no key, and rows are brought to shards by their key", hint="use spark.append"
    )


def _config(config: object, settings: Mapping[str, str]) -> ShardWriterConfig:
    """What the writers of tasks do; ``settings`` are the table's."""
    if config is None:
        config = ShardWriterConfig()
    if not isinstance(config, ShardWriterConfig):
        raise InvalidInputError(
            f"config must be a ShardWriterConfig, got {type(config).__name__}",
            hint="such as siltstone.ShardWriterConfig(max_wal_buffer_size=2**22)",
        )
    most = config.max_unflushed_memtable_bytes
    if most is None and f"{PREFIX}max_unflushed_memtable_bytes" not in settings:
        most = HELD_BYTES_MAX
    return dataclasses.replace(
        config,
        durable_write=False,  # all rows of a task are waited for together
        # A memtable is for those who read what they put, and a task does not: it would fill memory, to be replayed by
        # nobody but the next task. Merges and fresh reads take rows straight from the WAL.
        enable_memtable=bool(config.enable_memtable),
        max_unflushed_memtable_bytes=most,
    )


def _mark(once: object, batch: object, *, job: str) -> tuple[Once, bool]:
    """What tells that rows were put before, and whether its stream is the query's."""
    if batch is None:
        return arguments.check_once(job if once is None else once), False
    return arguments.check_once(None, "query" if once is None else once, batch), once is None


# -- rows to their shards --------------------------------------------------------------------------


def _brought_together(df: DataFrame, key: Sequence[Field], count: int) -> DataFrame:
    """The rows with those of each shard in a partition of its own; the JVM finds out which."""
    slots = [msgspec.structs.replace(one, name=f"k{number}") for number, one in enumerate(key)]
    text = spark_expression(slots, count)
    if text is None:
        raise InvalidInputError(
            f"Spark can't tell shards by the key {shown(', '.join(one.name for one in key))}: it lacks a type of it",
            hint="use spark.upsert, or put the rows with table.writer()",
        )
    names = {name.lower(): name for name in df.columns}
    values: dict[str, str] = {}
    for slot, one in zip(slots, key, strict=True):
        if one.name.lower() not in names:
            raise InvalidInputError(
                f"the DataFrame has no column {one.name!a}, which is of the table's key",
                hint="select or rename one",
                column=one.name,
            )
        values[quoted(slot.name)] = _value(df, names[one.name.lower()], one)
    number = re.sub("|".join(values), lambda found: values[found[0]], text)
    return df.repartitionById(count, F.expr(f"CAST({number} AS INT)"))


def _value(df: DataFrame, name: str, of_table: Field) -> str:
    """A column of the key, as SQL, of the type that the table has it in: others are hashed in another way."""
    wanted = spark_type(arrow_type(of_table), column=name)
    text = quoted(name)
    return text if df.schema[name].dataType == wanted else f"CAST({text} AS {wanted.simpleString()})"


def _number(batch: pa.RecordBatch, schema: Schema, count: int) -> int:
    """The shard of a batch's first row."""
    rows = next(batches(batch.slice(0, 1), schema))
    return int(shard_numbers(rows.select([one.name for one in key_fields(schema)]), count)[0])
