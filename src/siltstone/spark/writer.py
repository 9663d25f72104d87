"""Writing with the format "siltstone": tasks write fragments, ``commit`` makes one version of them.

What must hold:
- A batch of a stream is applied once: its version carries the query's id and the batch's number, and a batch that
  is replayed after a crash finds them there.
- ``abort`` deletes nothing. Spark also calls it when ``commit`` died behind its durable write, and then the
  fragments are the table's.
- What an attempt wrote that Spark threw away is in no version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from siltstone.api import create_table
from siltstone.api.staging import Staging
from siltstone.errors import ConflictError, CorruptionError, InternalError, InvalidInputError, NotFoundError
from siltstone.spark.options import Options, Place, read_options
from siltstone.spark.plainly import plainly
from siltstone.spark.types import arrow_of
from siltstone.table import arguments
from siltstone.table.once import Once
from siltstone.table.operations import Append, Overwrite, Upsert
from siltstone.table.staged import Site, Staged, gather, stage_rows
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from siltstone.api import Table

QUERY = "sql.streaming.queryId"
OPERATIONS: dict[str, type[Append | Upsert | Overwrite]] = {"append": Append, "upsert": Upsert, "overwrite": Overwrite}
HANDLES_MAX = 8  # tables that a worker process keeps open


@dataclass
class Written(WriterCommitMessage):
    """What a task says that it wrote, for which query, and with which columns."""

    site: Site
    staged: Staged = field(default_factory=Staged)
    query: str = ""


class BatchWriter(DataSourceArrowWriter):
    """One job that writes."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        given = read_options(options, doing="write")
        self._place = given.place
        self._operation = _operation(given, overwrite=overwrite)
        self._once = arguments.check_once(given.text("once"))
        self._message = arguments.check_message(given.text("message"))
        table = _open_or_create(given, schema)
        _check_key(table, self._operation)
        staging = Staging(table, once=self._once)
        self._site, self._applied = staging.site, staging.applied_as(self._operation)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write the rows of a partition as fragments."""
        if self._applied:
            return Written(self._site)
        return Written(self._site, stage_rows(self._site, iterator, twice="refuse"))

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """At the driver: make them a version."""
        table = self._place.open()
        staging = Staging(table, once=self._once, message=self._message)
        if self._applied or staging.applied_as(self._operation):
            return
        _commit(staging, self._operation, _of_tasks(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave everything as it is: nothing refers to what the tasks wrote, unless it was committed."""


class StreamWriter(DataSourceStreamArrowWriter):
    """The batches of one run of a stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        given = read_options(options, doing="writeStream")
        self._place = given.place
        self._operation = _operation(given, overwrite=overwrite)
        self._message = arguments.check_message(given.text("message"))
        table = _open_or_create(given, schema)
        _check_key(table, self._operation)
        self._log = Staging(table).log

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write the rows of a partition as fragments."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context is not None else None
        if not query:
            raise InternalError("Spark does not say which query this task belongs to")
        site = _site(self._place, self._log)
        return Written(site, stage_rows(site, iterator, twice="refuse"), query)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """At the driver: make them a version, unless the batch was applied before."""
        written = _of_tasks(messages)
        if not any(one.staged.fragments for one in written) and self._operation != "overwrite":
            return
        once = Once(stream=f"spark/{written[0].query}", batch=batchId) if written else Once()
        staging = Staging(self._place.open(), once=once, message=self._message)
        if not staging.applied:
            _commit(staging, self._operation, written)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave everything as it is: Spark runs the batch again, and its number tells whether it was applied."""


def _commit(staging: Staging, operation: str, written: Sequence[Written]) -> None:
    schemas = {one.site.schema for one in written if one.staged.fragments}
    if {one.site.log for one in written} - {staging.log}:
        raise ConflictError("another table was made at this place meanwhile", hint="nothing was changed; run it again")
    if len(schemas) > 1:
        raise ConflictError("columns were changed while tasks were writing", hint="nothing was changed; run it again")
    schema = schemas.pop() if schemas else staging.state.schema
    inserted = gather(staging.tools, schema, [one.staged for one in written])
    staging.commit([OPERATIONS[operation](inserted)])


def _of_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    written = [one for one in messages if isinstance(one, Written)]
    if len(written) != len(messages):
        raise InternalError(f"{len(messages) - len(written)} of {len(messages)} tasks did not say what they wrote")
    return written


def _operation(options: Options, *, overwrite: bool) -> str:
    operation = options.text("operation") or ("overwrite" if overwrite else "append")
    if operation == "ingest":
        raise InvalidInputError(
            "rows can't be ingested by a format: Spark does not let it bring them to their shards first",
            hint="use siltstone.spark.ingest(rows, table), in a stream within foreachBatch",
        )
    if operation not in OPERATIONS:
        raise InvalidInputError(
            f"option operation is {shown(operation)}", hint=f"it is one of {', '.join(sorted(OPERATIONS))}"
        )
    if overwrite and operation != "overwrite":
        raise InvalidInputError(
            f"mode overwrite replaces all rows, and option operation says {operation}",
            hint="use mode append, or leave the option out",
        )
    return operation


def _check_key(table: Table, operation: str) -> None:
    if operation == "upsert" and not table.key:
        raise InvalidInputError("upsert needs a key, and this table has none", hint="create it with key=")


def _open_or_create(options: Options, schema: StructType) -> Table:
    """The table, which is made of the columns of the rows where there is none."""
    names = options.text("key")
    key = [one.strip() for one in names.split(",")] if names else None
    try:
        table = options.place.open()
    except NotFoundError:
        return create_table(
            options.place.uri,
            schema=arrow_of(schema),
            key=key,
            commits=options.place.commits,
            storage_options=dict(options.place.storage) or None,
            wal=options.place.wal,
            exist_ok=True,
        )
    if key is not None and tuple(key) != table.key:
        raise InvalidInputError(
            f"option key says {shown(', '.join(key))}, the table's key is {shown(', '.join(table.key) or 'none')}",
            hint="leave the option out where the table is there",
        )
    return table


def _site(place: Place, log: str) -> Site:
    """What a task needs. A handle that was kept from a table that is gone by now is thrown away."""
    try:
        site = Staging(_handle(place)).site
    except CorruptionError:
        site = None
    if site is None or site.log != log:
        _handle.cache_clear()
        site = Staging(_handle(place)).site
    return site


@lru_cache(HANDLES_MAX)
def _handle(place: Place) -> Table:
    """The table, kept open in a worker process for the tasks that follow."""
    return place.open()
