"""The table's log loses its beginning: entries of versions that nobody can count on, behind a rollup.

What must hold:
- A rollup of the oldest version that is kept, which stands on no other, is there before the floor of the log is
  raised. So whatever becomes of other rollups, and however many collect at once, every version that is kept can be
  read.
- The entry of that version stays, and all behind it: a tag of an old version keeps them.
- Rollups below it go, but for those that later ones are expected to stand on. One that stands on another nevertheless
  is passed over by whoever opens the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.errors import TruncatedError
from siltstone.retain.plan import ENTRY, ROLLUP, Doomed
from siltstone.table.history import LEVEL, ROLLUP_EVERY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.log import Log, Mark
    from siltstone.table.history import History
    from siltstone.table.state import State

_PARSERS = (
    (paths.STAGED, paths.parse_staged),
    (paths.WITNESS, paths.parse_witness),
    (paths.ENTRIES, paths.parse_entry),
)


class Shortened(NamedTuple):
    """What a log lost."""

    objects: int
    bytes: int


def shorten(history: History, state: State) -> Shortened:
    """Truncate the log of a table before the oldest version that is kept.

    Entries stay for a while after the floor of the log passed them; a later call removes them.
    """
    log, oldest = history.log, state.oldest
    until = _before(log, oldest)
    if until is not None:
        try:
            history.write_anchor(state if oldest == state.version else history.at(oldest))
        except TruncatedError:  # another collection went further
            until = None
    until = until or log.first()
    if not until.position:
        return Shortened(0, 0)
    done = log.truncate(until)
    return Shortened(done.deleted_objects, done.deleted_bytes)


def _before(log: Log, version: int) -> Mark | None:
    """The mark before a version's entry; None where the log begins there already, or further on."""
    if version <= log.floor_now(trust_ms=0):
        return None
    data = log.published(version - 1)
    if data is not None:
        return log.read(data, version - 1).end
    if version <= log.floor_now(trust_ms=0):  # another collection came first
        return None
    raise log.lost(version - 1, "later versions are there")


def old_rollups(history: History, state: State) -> Iterator[Doomed]:
    """Rollups that nobody needs, once the log was shortened."""
    anchor = state.oldest + 1
    needed = _stood_on(anchor)
    for info in history.store.list(paths.ROLLUPS, after=paths.rollup(anchor)):
        position = paths.parse_rollup(info.key)
        if position is not None and position < anchor and position not in needed:
            why = f"it ends at version {position - 1}, and {anchor - 1} is the oldest version that is kept"
            yield Doomed(info.key, ROLLUP, why, info.size)


def _stood_on(anchor: int) -> frozenset[int]:
    """Where rollups at or behind a position are expected to begin: one place of each level."""
    found, every = set(), ROLLUP_EVERY * LEVEL
    while every <= anchor:
        found.add(anchor - anchor % every)
        every *= LEVEL
    return frozenset(found)


def old_entries(log: Log, state: State) -> Iterator[Doomed]:
    """What the log would lose, now or when the floor is as old as writers may take it for the newest one."""
    oldest, trust_s = state.oldest, log.identity.trust_ms / 1000
    later = f" for {2 * trust_s:g} s" if trust_s else ""
    for folder, parse in _PARSERS:
        for info in log.store.list(f"{log.root}{folder}"):
            found = parse(log.root, info.key)
            if found is not None and found[0] >= oldest:
                break
            if found is not None:
                why = f"it belongs to version {found[0]}, and goes when {oldest} was the oldest that is kept{later}"
                yield Doomed(info.key, ENTRY, why, info.size)
