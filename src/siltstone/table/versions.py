"""The versions of a table, for people: when each was made, by what, and what it did."""

from __future__ import annotations

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


def list_versions(history: History, state: State, *, limit: int | None = None) -> Iterator[Version]:
    """Versions, newest first."""
    stop = state.mark.position
    first = 0 if limit is None else max(0, stop - limit)
    while stop > first:
        start = max(first, stop - READ_TOGETHER)
        found = []
        for position, data in enumerate(history.log.published_many(start, stop), start):
            if data is None:
                if position < history.log.first().position:
                    continue  # truncated: the history begins later now
                raise history.log.lost(position, "later versions are there")
            found.append(to_step(history.log.read(data, position)))
        yield from (describe(step) for step in reversed(found))
        stop = start


READ_TOGETHER = 512
TIME_MS_MAX = 253_402_300_799_000  # the end of the year 9999


def counts_of(works: Sequence[Work], change: Change) -> Counts:
    """What one thread's operations did: appends may have shared a version with those of other threads."""
    if all(type(work) is Append for work in works):
        return Counts(inserted=sum(work.inserted.rows for work in works if isinstance(work, Append)))
    return change.counts


def describe(step: Step, *, counts: Counts | None = None) -> Version:
    """A step as people see it."""
    time = _moment(step.time_ms)
    change = step.change
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
        fragments_added=len(change.add),
        fragments_removed=len(change.remove),
        once=change.once,
        message=change.message,
        op=step.op,
        shards=tuple(sorted(change.shards)),
    )


def version_at(state: State, moment_ms: int) -> int:
    """The newest version that was there at a moment. Clocks differ: a version counts as no older than those before."""
    times = np.maximum.accumulate(state.all_versions().column("time_ms").to_numpy())
    count = int(np.searchsorted(times, moment_ms, side="right"))
    if count == 0:
        first = _moment(int(times[0])) if len(times) else "never"
        raise NotFoundError("there was no version at that time", hint=f"the first one was made at {first}")
    return count - 1


def unchanged(state: State, version: int) -> Version:
    """A version that an operation found and did not make: it had nothing to do, or was applied before."""
    time_ms = state.all_versions().column("time_ms")[version].as_py()
    return Version(version, _moment(time_ms), "none")


def _moment(time_ms: int) -> datetime:
    """A time as a writer's clock gave it; one that no calendar has is cut."""
    return datetime.fromtimestamp(min(max(time_ms, 0), TIME_MS_MAX) / 1000, UTC)
