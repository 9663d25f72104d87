"""Removing the beginning of a log.

What must hold:
- The floor goes up before anything is deleted; it is the highest of objects that only add up, so two
  collectors can't lower it.
- Only what lies below a floor that is older than twice ``trust_ms``, by the store's own clock, is deleted: a
  writer that trusts a look at the floor of up to ``trust_ms`` ago could else win a place that was removed.
- Where witnesses are left, those of the range are compared with what was folded before any of them goes.
- Claims go first (the registry then refuses the range), then staged bytes, then witnesses, then entries: with
  only the published ones gone, a reader would publish staged ones anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.commit.external import External
from siltstone.errors import InvalidInputError, MissingObjectError, NotFoundError
from siltstone.format.frame import digest
from siltstone.format.records import Floor, encode_floor
from siltstone.log import outcomes
from siltstone.log.aside import set_aside

if TYPE_CHECKING:
    from siltstone.log.marks import Mark
    from siltstone.log.reader import LogReader

CLOCK_GRAIN_MS = 1000  # stores tell the time of a write in whole seconds
BATCH = 1000


class Truncation(NamedTuple):
    """What a truncation did: the floor now, and the position below which everything was deleted."""

    floor: int
    deleted_below: int
    deleted_objects: int
    deleted_bytes: int = 0


def truncate(log: LogReader, until: Mark) -> Truncation:
    """Raise the floor to ``until`` and delete what may go.

    Raises UnsafeStoreError, with all of that done, where operations had been overwritten before anyone noticed.
    """
    floor = _raise_floor(log, until)
    below = _deletable(log)
    if below == 0:
        return Truncation(floor, 0, 0)
    try:
        mark = log.floor_mark(below)
    except NotFoundError:  # another collector deletes below a higher floor at this moment
        return Truncation(floor, 0, 0)
    if isinstance(log.commits, External):
        log.commits.registry.truncate(log.scope, below=below, digest=mark.digest)
    lost = set_aside(log, mark) if log.identity.guard == "witness" else []
    done = Truncation(floor, below, *_delete_below(log, below))
    if lost:
        raise outcomes.overwritten(log.store.uri, log.root, lost)
    return done


def _raise_floor(log: LogReader, until: Mark) -> int:
    floors = log.floors()
    present = floors[-1].position if floors else 0
    if until.position <= present:
        return present
    data = log.published(until.position - 1)
    if data is None or digest(data) != until.digest:
        passed = log.floor_now(trust_ms=0)
        if passed >= until.position:  # another collector came first
            return passed
        raise InvalidInputError(
            f"position {until.position - 1} does not hold the entry that the mark names",
            hint="truncate at a mark that append, tip or entries returned",
        )
    record = Floor(log=log.identity.log, position=until.position, epoch=until.epoch, digest=until.digest)
    log.store.put(paths.floor(log.root, until.position), encode_floor(record))
    return until.position


def _deletable(log: LogReader) -> int:
    """The highest floor that is old enough."""
    floors = log.floors()
    if not log.identity.trust_ms:
        return floors[-1].position if floors else 0
    keep_ms = 2 * log.identity.trust_ms + CLOCK_GRAIN_MS
    now_ms = store_now_ms(log)
    return max((f.position for f in floors if now_ms - f.modified_ms >= keep_ms), default=0)


def store_now_ms(log: LogReader) -> int:
    """The time by the store's clock: that of an object written just now."""
    key = f"{log.root}{paths.CLOCK}"
    log.store.put(key, b"")
    info = log.store.head(key)
    if info is None:
        raise MissingObjectError(f"{key} is gone right after it was written", object=key)
    return info.modified_ms


def _delete_below(log: LogReader, below: int) -> tuple[int, int]:
    """How many objects were deleted, and how many bytes; of floors these are not counted."""
    doomed: list[str] = []
    size = 0
    for folder, parse in (
        (paths.STAGED, paths.parse_staged),
        (paths.WITNESS, paths.parse_witness),
        (paths.ENTRIES, paths.parse_entry),
    ):
        for info in log.store.list(f"{log.root}{folder}"):
            parsed = parse(log.root, info.key)
            if parsed is not None and parsed[0] >= below:
                break
            if parsed is not None:
                doomed.append(info.key)
                size += info.size
    doomed += [paths.floor(log.root, f.position) for f in log.floors() if f.position < below]
    for start in range(0, len(doomed), BATCH):
        log.store.delete(doomed[start : start + BATCH])
    return len(doomed), size
