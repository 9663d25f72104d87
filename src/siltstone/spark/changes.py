"""Streaming from a table: the rows that each version brought, or with ``changes`` all that each version did to rows.

What must hold:
- An offset is a version of one very table. A query that is restarted goes on behind the last version it processed,
  and a batch that is read again has the same rows.
- Without ``changes`` a version that deletes or replaces rows ends the query with an error: rows that a reader
  took for new would be doubled, or those that are gone would stay.
- A table that is there when a query starts comes first, as one batch of inserts, unless ``since`` names a version.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from siltstone.api.staging import Staging
from siltstone.errors import InvalidInputError, SchemaMismatchError
from siltstone.spark.options import read_options
from siltstone.spark.reader import checked_columns
from siltstone.spark.types import spark_schema, to_spark
from siltstone.table.evolve import still_reads
from siltstone.table.output import in_batches
from siltstone.table.reading import Reading
from siltstone.table.schema import arrow_schema
from siltstone.table.stream import in_order, pace_for
from siltstone.table.tasks import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from siltstone.api import Table
    from siltstone.format.rollup import Live
    from siltstone.format.table import Schema
    from siltstone.table.staged import Site
    from siltstone.table.versions import Version

CHANGE, VERSION = "_change", "_version"
_EXTRA = [pa.field(CHANGE, pa.string()), pa.field(VERSION, pa.int64())]
Offset = dict[str, Any]
_NOTHING = -1  # before the first version
_PARTS_MAX = 64


@dataclass
class RowsPart(InputPartition):
    """Rows of fragments that are all new."""

    site: Site
    lives: tuple[Live, ...]
    version: int


@dataclass
class ChangesPart(InputPartition):
    """What the versions behind ``since`` up to ``until`` did to rows."""

    since: int
    until: int


def stream_schema(table: Table, *, changes: bool) -> StructType:
    """The columns of the rows of a stream."""
    return spark_schema(pa.schema([*table.schema, *_EXTRA]) if changes else table.schema)


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What a streaming query reads from a table."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        given = read_options(options, doing="readStream")
        self._place = given.place
        self._changes = given.flag("changes")
        self._since = given.whole("since")
        self._rows, self._versions = given.whole("rows_per_batch"), given.whole("versions_per_batch")
        if self._rows is not None and self._versions is not None:
            raise InvalidInputError("options rows_per_batch and versions_per_batch are both given", hint="give one")
        if 0 in (self._rows, self._versions):
            raise InvalidInputError("a batch of nothing would never end", hint="give at least 1")
        self._schema = schema
        self._target: int | None = None
        self._table: Table | None = None
        staging = Staging(self._open(), reads=True)
        # Columns are told by their ids from here on, whatever is renamed, dropped or added while the query runs.
        self._log, self._columns = staging.log, _columns(staging.state.schema, schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}  # tasks open it themselves, where they need it

    # -- at the driver -----------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before everything, or the version that ``since`` names."""
        if self._since is None:
            return self._offset(_NOTHING)
        return self._offset(self._open().at(version=self._since).version)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much a batch may have, if the options say so."""
        if self._rows is not None:
            return ReadMaxRows(self._rows)
        return ReadAllAvailable() if self._versions is None else ReadMaxFiles(self._versions)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where a query that takes what is there now ends."""
        self._target = self._open().version

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """The version up to which the next batch goes."""
        newest = self._open().version if self._target is None else self._target
        since = self._version_of(start, newest)
        if newest == since:
            return start
        if isinstance(limit, ReadAllAvailable) or since == _NOTHING:
            return self._offset(newest)
        if isinstance(limit, ReadMaxFiles):
            return self._offset(min(newest, since + limit.max_files))
        return self._offset(self._filled(since, newest, limit))

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The newest version."""
        return self._offset(self._open().version)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What tasks read for a batch."""
        newest = self._open().version
        since, until = self._version_of(start, newest), self._version_of(end, newest)
        if since >= until:
            return []
        self._check_columns(until)
        if since == _NOTHING:
            return self._whole(until)
        self._check(since, until)
        width = max(1, -(-(until - since) // _PARTS_MAX))
        return [ChangesPart(first, min(first + width, until)) for first in range(since, until, width)]

    def stop(self) -> None:
        """Let go of the table."""
        if self._table is not None:
            self._table.close()
            self._table = None

    def _offset(self, version: int) -> Offset:
        return {"version": version, "table": self._log}

    def _version_of(self, offset: Offset, newest: int) -> int:
        """The version of an offset, which must be one of this very table."""
        version = int(offset["version"])
        if offset.get("table", self._log) != self._log or version > newest:
            raise InvalidInputError(
                f"{self._place.uri} is another table than the one that this query has read up to version {version}",
                hint="start the query anew with another checkpointLocation",
            )
        return version

    def _check_columns(self, version: int) -> None:
        """Refuse versions in which a column of this stream is gone, or holds what its type does not."""
        then = Staging(self._open().at(version=version), reads=True).state.schema
        if not still_reads(then, self._columns):
            raise SchemaMismatchError(
                f"columns of this stream were dropped or made another type by version {version}",
                hint="start the query again: it goes on with the columns of now",
            )

    def _open(self) -> Table:
        if self._table is None:
            self._table = self._place.open()
        return self._table

    def _between(self, since: int, until: int) -> list[Version]:
        """The versions behind one up to another, oldest first."""
        return self._open().at(version=until).history(until - since)[::-1]

    def _filled(self, since: int, newest: int, limit: ReadLimit) -> int:
        """The last version that fits; one at least."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 1
        rows, last = 0, since + 1
        for one in self._between(since, newest):
            rows += one.inserted + one.deleted + (2 if self._changes else 1) * one.updated
            if rows > most:
                break
            last = one.version
        return max(last, since + 1)

    def _check(self, since: int, until: int) -> None:
        """Refuse versions that did more than bring rows, where only rows are read."""
        if self._changes:
            return
        for one in self._between(since, until):
            if one.deleted or one.updated or one.operation in {"overwrite", "restore"}:
                raise InvalidInputError(
                    f"version {one.version} ({one.operation}) replaced or deleted rows, which this stream can't show",
                    hint='set option("changes", "true"), and look at the column _change',
                )

    def _whole(self, version: int) -> list[InputPartition]:
        staging = Staging(self._open().at(version=version), reads=True)
        lives = staging.state.fragments.select(None)
        width = max(1, -(-len(lives) // _PARTS_MAX))
        return [
            RowsPart(replace(staging.site, schema=self._columns), tuple(lives[start : start + width]), version)
            for start in range(0, len(lives), width)
        ]

    # -- in a task ---------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a part."""
        if isinstance(partition, RowsPart):
            for rows in _rows(partition):
                yield from self._as_asked(rows, partition.version)
            return
        if not isinstance(partition, ChangesPart):
            raise InvalidInputError(f"this is no part of a stream: {type(partition).__name__}")
        with self._place.open() as table:
            changes = Staging(table, reads=True).changes(partition.since, partition.until, self._columns)
            for batch in changes.to_batches():
                yield from self._as_asked(pa.Table.from_batches([batch]), partition.until)

    def _as_asked(self, rows: pa.Table, version: int) -> list[pa.RecordBatch]:
        if CHANGE not in rows.column_names and self._changes:
            rows = rows.append_column(_EXTRA[0], pa.repeat("insert", rows.num_rows))
            rows = rows.append_column(_EXTRA[1], pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows))
        found: list[pa.RecordBatch] = to_spark(rows.select(self._schema.names), self._schema).to_batches()
        return found


def _columns(columns: Schema, schema: StructType) -> Schema:
    """The columns of a table that a stream reads; they must be there, and of the types that Spark was told."""
    plain = StructType([one for one in schema.fields if one.name not in {CHANGE, VERSION}])
    names = checked_columns(plain, arrow_schema(columns))
    chosen = tuple(one for one in columns.fields if one.name in names or one.id in columns.key)
    return msgspec.structs.replace(columns, fields=chosen)


def _rows(part: RowsPart) -> Iterator[pa.Table]:
    tools = part.site.tools()
    reading = Reading(tools, part.site.schema, part.site.schema.fields)
    with closing(in_order(tasks(reading, part.lives), pace_for(tools.store))) as tables:
        for batch in in_batches(tables):
            yield pa.Table.from_batches([batch])
