"""Scans: the rows of one version, some columns of them, those that a filter keeps.

What must hold:
- A scan sees one version, however often it is run and whatever is committed meanwhile.
- Rows come in the order of the fragments of that version, and of their files; the same in every run.
- Memory is bounded by what is in flight, unless all rows are asked for at once.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone.errors import InvalidInputError, MissingObjectError
from siltstone.table.output import BATCH_ROWS, BATCH_ROWS_LEAST, Output, in_batches
from siltstone.table.predicate import parse_predicate
from siltstone.table.reading import Reading, chosen_schema, pieces
from siltstone.table.schema import arrow_schema, field_named, first_names
from siltstone.table.stream import BYTES_IN_FLIGHT, in_order, pace_for
from siltstone.table.tasks import CountTask, RowsTask, tasks
from siltstone.table.types import shown
from siltstone.telemetry import metrics, seams

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from siltstone.format.rollup import Live
    from siltstone.format.table import Field, Schema
    from siltstone.table.predicate import Predicate
    from siltstone.table.state import State
    from siltstone.table.stream import Pace
    from siltstone.table.tools import Tools

EXPLAINED_FILES_MAX = 100
_ALL = 2**63


class _Plan(NamedTuple):
    reading: Reading
    lives: Sequence[Live]
    skip: int
    wanted: int | None


def _about(scan: Scan, *_: object, **__: object) -> Mapping[str, str]:
    return {"table": scan._tools.store.uri}  # noqa: SLF001 - the same module's


class Scan(Output):
    """What ``table.scan()`` returns. Nothing is read until rows are asked for; each call reads anew."""

    def __init__(
        self,
        tools: Tools,
        state: State,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._tools = tools
        self._state = state
        self._fields = chosen_fields(state.schema, columns)
        self._predicate = None if where is None else parse_predicate(where, arrow_schema(state.schema))
        self._limit = None if limit is None else _whole(limit, "limit", least=0)
        self._offset = _whole(offset, "offset", least=0)
        self._batch_rows = _whole(batch_rows, "batch_rows", least=1)

    @property
    def version(self) -> int:
        """The version it reads."""
        return self._state.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return chosen_schema(self._fields)

    # -- rows --------------------------------------------------------------------------------------

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches of at most ``batch_rows``, read ahead within bounds while they are asked for.

        Raises CorruptionError and MissingObjectError (a file is damaged or gone; the error names it), UnavailableError,
        InvalidInputError (the filter can't be evaluated for a row).
        """
        return self._batches(BYTES_IN_FLIGHT)

    @seams.traced("siltstone.scan", about=_about, seconds=metrics.SCAN_SECONDS, expects=(MissingObjectError,))
    def to_arrow(self) -> pa.Table:
        """All rows in memory."""
        # All of it is kept anyway, so there is no point in waiting for what was given out.
        return pa.Table.from_batches(self._batches(_ALL), self.schema)

    def count(self) -> int:
        """How many rows there are. Without a filter nothing is read."""
        found = self._state.fragments.rows if self._predicate is None else self._count_matching()
        rows = max(0, found - self._offset)
        return rows if self._limit is None else min(rows, self._limit)

    # -- what it does ------------------------------------------------------------------------------

    def explain(self) -> str:
        """What is read and what is ruled out, for people. Opens files to see their row groups, at most some."""
        reading, lives, _, _ = self._plan(self._fields)
        every = len(self._state.fragments)
        lines = [
            f"scan of version {self.version}",
            f"columns    {len(self._fields)} of {len(self._state.schema.fields)}: "
            + first_names([one.name for one in self._fields]),
        ]
        if self._predicate is not None:
            lines.append(f"filter     {shown(self._predicate.text)[1:-1]}")
        if self._limit is not None or self._offset:
            lines.append(f"limit      {'none' if self._limit is None else self._limit}, offset {self._offset}")
        lines.append(f"fragments  {len(lives)} of {every} are read, {every - len(lives)} are ruled out")
        lines.append(self._explain_groups(reading, lives[:EXPLAINED_FILES_MAX]))
        rows, gone = sum(one.fragment.rows for one in lives), sum(one.fragment.rows - one.rows for one in lives)
        lines.append(f"rows       {rows} in those, {gone} of them deleted; {self._state.fragments.rows} in the table")
        lines.append(f"bytes      at most {sum(one.fragment.bytes for one in lives)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        parts = [f"version {self.version}", first_names([one.name for one in self._fields]).replace("'", "")]
        if self._predicate is not None:
            parts.append(f"where {shown(self._predicate.text)}")
        if self._limit is not None:
            parts.append(f"limit {self._limit}")
        return f"Scan({', '.join(parts)})"

    # -- behind it ---------------------------------------------------------------------------------

    @seams.traced("siltstone.scan.plan", about=_about, expects=(MissingObjectError,))
    def _plan(self, fields: tuple[Field, ...], *, whole: bool = False) -> _Plan:
        """Which fragments are read, and of their rows, how many are skipped and how many are wanted at most."""
        reading = Reading(self._tools, self._state.schema, fields, self._predicate, whole=whole)
        lives, skip = reading.choose(self._state.fragments), self._offset
        if self._predicate is None:
            start = 0
            while start < len(lives) and lives[start].rows <= skip:
                skip -= lives[start].rows
                start += 1
            lives = lives[start:]
        wanted = None if self._limit is None else self._limit + skip
        return _Plan(replace(reading, most=wanted), lives, skip, wanted)

    def _pace(self, bytes_max: int) -> Pace:
        # Nobody knows how many rows match: whoever wants few starts with one task, and takes more if need be.
        first = 1 if self._predicate is not None and self._limit is not None else 0
        return pace_for(self._tools.store, bytes_max=bytes_max, first=first)

    def _batches(self, bytes_max: int) -> Iterator[pa.RecordBatch]:
        least = min(BATCH_ROWS_LEAST, self._batch_rows)
        return in_batches(self._tables(bytes_max), least=least, most=self._batch_rows)

    def _tables(self, bytes_max: int) -> Iterator[pa.Table]:
        """The rows between offset and limit, as they are read."""
        if self._limit == 0:
            return
        reading, lives, skip, left = self._plan(self._fields, whole=bytes_max == _ALL)
        with closing(in_order(tasks(reading, lives), self._pace(bytes_max))) as found:
            for whole in found:
                table = whole if left is None else whole.slice(0, left)
                if skip:
                    table, skip = table.slice(skip), max(0, skip - table.num_rows)
                if table.num_rows:
                    yield table
                left = None if left is None else left - whole.num_rows
                if left is not None and left <= 0:
                    return

    def _count_matching(self) -> int:
        reading, lives, _, wanted = self._plan((), whole=True)
        found = 0
        with closing(in_order(map(CountTask, tasks(reading, lives)), self._pace(BYTES_IN_FLIGHT))) as counts:
            for rows in counts:
                found += rows
                if wanted is not None and found >= wanted:
                    break
        return found

    def _explain_groups(self, reading: Reading, lives: Sequence[Live]) -> str:
        every = kept = 0
        for live in lives:
            file = self._tools.files.open(live.fragment)
            every += len(file.groups)
            kept += len(pieces(reading, file))
        return f"row groups {kept} of {every} in the first {len(lives)} of those fragments may match"


def matching(tools: Tools, live: Live, predicate: Predicate, schema: Schema) -> NDArray[np.int64]:
    """The numbers of a fragment's rows that match, ascending; deleted ones too."""
    reading = Reading(tools, schema, (), predicate)
    file = tools.files.open(live.fragment)
    found = list(in_order((RowsTask(reading, one) for one in pieces(reading, file)), pace_for(tools.store)))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def chosen_fields(schema: Schema, columns: Sequence[str] | None) -> tuple[Field, ...]:
    """The columns that were asked for, in the order asked for; all where none was named.

    Raises:
        InvalidInputError: a column is not there, is named twice, or none is named.
    """
    if columns is None:
        return schema.fields
    if isinstance(columns, str | bytes) or not hasattr(columns, "__iter__"):
        raise InvalidInputError(
            f"columns must be a list of names, got {type(columns).__name__}", hint="for example columns=['id']"
        )
    names = list(columns)
    if not names:
        raise InvalidInputError("columns names no column", hint="leave it out for all, or use count() for the number")
    fields = tuple(field_named(schema, name) for name in names)
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f"columns names {shown(name)} twice", hint="name it once", column=name)
    return fields


def _whole(value: object, what: str, *, least: int) -> int:
    if isinstance(value, np.integer):
        value = int(value)
    if type(value) is not int or value < least or value >= 2**63:
        raise InvalidInputError(
            f"{what} must be a whole number from {least} on, got {shown(repr(value))[1:-1]}",
            hint="leave it out for all",
        )
    return value
