"""The rows that one version changed, found by their places and read from there.

What must hold:
- A row changed where it is in a fragment before a version and not after it, or the other way round: it was deleted
  or inserted. Which operation did so does not matter.
- Rows of a run come in one order, whenever they are read: a run's keys tell of its rows by their place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import InvalidInputError
from siltstone.table.keys import key_array, match
from siltstone.table.reading import Reading
from siltstone.table.schema import arrow_type, key_fields
from siltstone.table.stream import in_order, pace_for
from siltstone.table.tasks import tasks
from siltstone.table.types import shown, widens
from siltstone.table.vectors import Deleted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from siltstone.format.rollup import Live
    from siltstone.format.table import Change, Field, Fragment, Schema
    from siltstone.table.fragments import Fragments
    from siltstone.table.state import State
    from siltstone.table.stream import Task, Turn
    from siltstone.table.tools import Tools

TAKEN_TOGETHER = 65_536
KEYS_BYTES = 64 * 1024 * 1024  # of inserted keys that are compared at once
FEW = 16  # fragments that are looked up one by one
VECTORS_TOGETHER = 64
_ROW_BYTES = 256  # a guess, for rows that nothing is known of


def changed(change: Change) -> bool:
    """Whether a version may have changed rows."""
    return not change.rewrite and bool(change.add or change.remove or change.mask or change.unmask)


class Part(NamedTuple):
    """Rows of one fragment: some, or all that its vector leaves."""

    live: Live
    numbers: np.ndarray | None

    @property
    def rows(self) -> int:
        """How many they are."""
        return self.live.rows if self.numbers is None else len(self.numbers)


@dataclass(frozen=True)
class Run:
    """Rows that a version deleted, or inserted, in one order. ``paired`` are those whose key is on the other side."""

    version: int
    schema: Schema  # that they are readable with
    parts: tuple[Part, ...]
    plain: str
    other: str
    paired: Deleted | None = None

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True)
class _Take:
    """Reads some rows of a fragment."""

    tools: Tools
    fragment: Fragment
    numbers: np.ndarray
    fields: tuple[Field, ...]

    @property
    def nbytes(self) -> int:
        return len(self.numbers) * _ROW_BYTES

    def run(self, turn: Turn) -> pa.Table:
        return self.tools.files.open(self.fragment).take(self.numbers, self.fields)


@dataclass(frozen=True)
class _Of:
    """A task, and the run whose rows it reads."""

    task: Task[pa.Table]
    of: Run

    @property
    def nbytes(self) -> int:
        return self.task.nbytes

    def run(self, turn: Turn) -> tuple[Run, pa.Table]:
        return self.of, self.task.run(turn)


@dataclass(frozen=True)
class Feed:
    """Reads what versions changed, as columns of one schema."""

    tools: Tools
    schema: Schema
    fields: tuple[Field, ...]
    arrow: pa.Schema

    @cached_property
    def key(self) -> tuple[Field, ...]:
        """The columns of the key."""
        return key_fields(self.schema)

    def rows(self, steps: Iterator[tuple[Change, State, State]]) -> Iterator[pa.Table]:
        """The rows that some versions changed, in order."""
        work = (_Of(task, run) for step in steps for run in self._runs(*step) for task in self._tasks(run, self.fields))
        last, done = None, 0
        for run, table in in_order(work, pace_for(self.tools.store)):
            done = done if run is last else 0
            yield self._shaped(run, table, done)
            last, done = run, done + table.num_rows

    # -- which rows --------------------------------------------------------------------------------

    def _runs(self, change: Change, before: State, after: State) -> list[Run]:
        """What one version deleted, and what it inserted."""
        stayed = [*change.mask, *change.unmask]
        old = {live.fragment.name: live for live in _lives(before.fragments, [*change.remove, *stayed])}
        new = {live.fragment.name: live for live in _lives(after.fragments, [*(f.name for f in change.add), *stayed])}
        gone = [Part(live, None) for name, live in old.items() if name not in new]
        came = [Part(live, None) for name, live in new.items() if name not in old]
        both = [(old[name], new[name]) for name in old if name in new]
        for start in range(0, len(both), VECTORS_TOGETHER):
            for live, fewer, more in self._compared(both[start : start + VECTORS_TOGETHER]):
                gone += [Part(live, more)] if len(more) else []
                came += [Part(live, fewer)] if len(fewer) else []
        deleted = Run(after.version, before.schema, tuple(gone), "delete", "update_before")
        inserted = Run(after.version, after.schema, tuple(came), "insert", "update_after")
        if self.key and gone and came:
            deleted, inserted = self._pair(deleted, inserted)
        return [run for run in (deleted, inserted) if run.parts]

    def _compared(self, pairs: Sequence[tuple[Live, Live]]) -> Iterator[tuple[Live, np.ndarray, np.ndarray]]:
        """Fragments that are there before and after: the rows that are back, and those that are gone."""
        was, now = (
            self.tools.vectors.read_many([(one.vector, one.fragment) for one in lives if one.vector is not None])
            for lives in zip(*pairs, strict=True)
        )
        for live, _ in pairs:
            name, nothing = live.fragment.name, Deleted.none(rows=live.fragment.rows)
            old, new = was.get(name, nothing), now.get(name, nothing)
            yield live, old.minus(new).numbers(), new.minus(old).numbers()

    def _pair(self, deleted: Run, inserted: Run) -> tuple[Run, Run]:
        """The two sides of a version, with the rows marked whose keys are on both."""
        gone, came = np.zeros(deleted.rows, np.bool_), np.zeros(inserted.rows, np.bool_)
        for first, keys in self._blocks(inserted):
            start = 0
            for table in self._keys(deleted):
                found = match(keys, self._key_array(table))
                there = found >= 0
                gone[start : start + len(found)] |= there
                came[first + found[there]] = True
                start += len(found)
        return replace(deleted, paired=Deleted.from_mask(gone)), replace(inserted, paired=Deleted.from_mask(came))

    def _blocks(self, run: Run) -> Iterator[tuple[int, pa.Array]]:
        """The keys of a run in lots, each with the place of its first."""
        start, waiting = 0, []
        for table in self._keys(run):
            waiting.append(table)
            if sum(one.nbytes for one in waiting) >= KEYS_BYTES:
                yield start, self._key_array(pa.concat_tables(waiting))
                start, waiting = start + sum(one.num_rows for one in waiting), []
        if waiting:
            yield start, self._key_array(pa.concat_tables(waiting))

    def _keys(self, run: Run) -> Iterator[pa.Table]:
        work: Iterator[Any] = self._tasks(run, self.key)
        for table in in_order(work, pace_for(self.tools.store)):
            yield self._cast(table, self.key, run)

    def _key_array(self, table: pa.Table) -> pa.Array:
        return key_array(table, [one.name for one in self.key])

    # -- reading them ------------------------------------------------------------------------------

    def _tasks(self, run: Run, fields: tuple[Field, ...]) -> Iterator[Task[pa.Table]]:
        fields = readable(fields, run.schema)
        reading = Reading(self.tools, run.schema, fields)
        whole: list[Live] = []
        for part in run.parts:
            if part.numbers is None:
                whole.append(part.live)
                continue
            yield from tasks(reading, whole)
            whole = []
            for start in range(0, len(part.numbers), TAKEN_TOGETHER):
                yield _Take(self.tools, part.live.fragment, part.numbers[start : start + TAKEN_TOGETHER], fields)
        yield from tasks(reading, whole)

    def _shaped(self, run: Run, table: pa.Table, start: int) -> pa.Table:
        """Rows of a run from a place on, with what happened to them."""
        rows = table.num_rows
        columns = self._cast(table, self.fields, run).columns
        if run.paired is None:
            kinds = pa.repeat(pa.scalar(run.plain), rows)
        else:
            kinds = pc.if_else(pa.array(run.paired.slice(start, rows)), run.other, run.plain)
        versions = pa.repeat(pa.scalar(run.version, pa.int64()), rows)
        return pa.Table.from_arrays(
            [*columns, pa.chunked_array([kinds]), pa.chunked_array([versions])], schema=self.arrow
        )

    def _cast(self, table: pa.Table, fields: tuple[Field, ...], run: Run) -> pa.Table:
        columns = []
        for one, column in zip(fields, table.columns, strict=True):
            kind = arrow_type(one)
            try:
                columns.append(column if column.type == kind else column.cast(kind))
            except pa.ArrowException as error:
                raise InvalidInputError(
                    f"column {shown(one.name)} has values in version {run.version} that don't fit its type {kind} now",
                    hint="leave the column out, or read the changes until a version before it was made narrower",
                    column=one.name,
                    version=run.version,
                ) from error
        return pa.Table.from_arrays(columns, names=[one.name for one in fields]) if columns else table


def readable(fields: Iterable[Field], schema: Schema) -> tuple[Field, ...]:
    """Some columns with types that the files of a version can be read as: a restore may have made them narrower."""
    had = {one.id: one for one in schema.fields}
    found = []
    for one in fields:
        old = had.get(one.id, one)
        narrower = old.type != one.type and widens(arrow_type(one), arrow_type(old))
        found.append(msgspec.structs.replace(one, type=old.type, default=old.default) if narrower else one)
    return tuple(found)


def _lives(fragments: Fragments, names: Sequence[str]) -> list[Live]:
    """The fragments of these names, those that are there; each once."""
    if len(names) <= FEW:
        return [live for name in dict.fromkeys(names) if (live := fragments.get(name)) is not None]
    keep = np.zeros(fragments.slots, np.bool_)
    extra = {name: len(fragments.base) + place for place, name in enumerate(fragments.extra)}
    for name in names:
        place = extra.get(name, fragments.base.index.get(name))
        if place is not None:
            keep[place] = True
    return fragments.select(keep)
