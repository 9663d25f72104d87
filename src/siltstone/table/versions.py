"""The versions of a table, for people: when each was made, by what, and what it did."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from siltstone.errors import NotFoundError
from siltstone.format.table import Counts
from siltstone.table.history import to_step
from siltstone.table.operations import Append

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.format.table import Change
    from siltstone.table.history import History
    from siltstone.table.operations import Work
    from siltstone.table.state import State, Step


@dataclass(frozen=True)
class Version:
    """One version of a table."""

    version: int
    time: datetime  # by the clock of whoever committed it
    operation: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    fragments_added: int = 0
    fragments_removed: int = 0
    once: tuple[str, ...] = ()
    message: str = ""
    op: str = ""
    shards: tuple[str, ...] = ()  # that it merged up to a later place, added or removed
    indexes: tuple[tuple[str, str], ...] = ()  # that it changed: names, and ids, which are empty where they went


def list_versions(history: History, state: State, *, limit: int | None = None) -> Iterator[Version]:
    """Versions that are left, newest first: those from the floor on, then those that are kept below it."""
    return itertools.islice(_listed(history, state), limit)


def _listed(history: History, state: State) -> Iterator[Version]:
    stop, first = state.mark.position, max(state.floor, _first(state))
    while stop > first:
        start = max(first, stop - READ_TOGETHER)
        yield from _between(history, start, stop)
        stop = start
    for version in sorted((one for one in state.kept if one < state.floor), reverse=True):
        yield from _between(history, version, version + 1)


def _between(history: History, start: int, stop: int) -> list[Version]:
    found = []
    for position, data in enumerate(history.log.published_many(start, stop), start):
        if data is None:
            if position < history.log.first().position:
                continue  # truncated since
            raise history.log.lost(position, "later versions are there")
        found.append(describe(to_step(history.log.read(data, position))))
    return found[::-1]


READ_TOGETHER = 512
TIME_MS_MAX = 253_402_300_799_000  # the end of the year 9999


def counts_of(works: Sequence[Work], change: Change) -> Counts:
    """What one thread's operations did: appends may have shared a version with those of other threads."""
    if all(type(work) is Append for work in works):
        return Counts(inserted=sum(work.inserted.rows for work in works if isinstance(work, Append)))
    return change.counts


def describe(step: Step, *, counts: Counts | None = None) -> Version:
    """A step as people see it."""
    time = moment(step.time_ms)
    change = step.said
    if change is None:
        return Version(step.position, time, "none", op=step.op)
    counts = counts or change.counts
    return Version(
        version=step.position,
        time=time,
        operation=change.operation,
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        fragments_added=len(change.add) + (0 if step.columns is None else step.columns.num_rows),
        fragments_removed=len(change.remove),
        once=change.once,
        message=change.message,
        op=step.op,
        shards=tuple(sorted(change.shards)),
        indexes=tuple((name, one.id if one else "") for name, one in sorted(change.indexes.items())),
    )


def version_at(state: State, moment_ms: int) -> int:
    """The newest version that was there at a moment. Clocks differ: a version counts as no older than those before."""
    times = np.maximum.accumulate(state.all_versions().column("time_ms").to_numpy())
    count = int(np.searchsorted(times, moment_ms, side="right"))
    if count <= _first(state):
        first = moment(int(times[_first(state)])) if len(times) > _first(state) else "never"
        raise NotFoundError("there was no version at that time", hint=f"the first one was made at {first}")
    return count - 1


def _first(state: State) -> int:
    """The first version of a table: those up to the mark of a drop are of another one."""
    return state.born + 1 if state.born else 0


def unchanged(state: State, version: int) -> Version:
    """A version that an operation found and did not make: it had nothing to do, or was applied before."""
    time_ms = state.all_versions().column("time_ms")[version].as_py()
    return Version(version, moment(time_ms), "none")


def moment(time_ms: int) -> datetime:
    """A time as a writer's clock gave it; one that no calendar has is cut."""
    return datetime.fromtimestamp(min(max(time_ms, 0), TIME_MS_MAX) / 1000, UTC)
