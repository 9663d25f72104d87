"""What was put into a table through its shards or at the table itself, and what everyone must see of it.

What must hold, on an honest store:
- An edit that was acknowledged stands in the WAL of its shard, or in a version, from then on: once, and whole.
- One that failed for certain stands nowhere. One in doubt stands somewhere or does not, and never twice.
- A fresh read sees a beginning of each shard's WAL with all that was acknowledged when the read began, over a version
  that is as new as any that was told of by then. Of each key it sees the newest row, or none where that is a deletion.
- A plain read sees a version: what is merged in it, and what was done at the table, in that order.
- What is done at the table is newer than all that is merged in the same version, and older than the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from siltstone.errors import FencedError
from siltstone.paths import shard_name
from siltstone.testing.sim.ledger import Ledger, Operation
from siltstone.testing.sim.shard_truth import Row, Seen, Truth, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from siltstone.errors import SiltstoneError
    from siltstone.testing.sim.ledger import Told
    from siltstone.testing.sim.world import World

AT_TABLE = ""


@dataclass
class Edit(Operation):
    """A put or a delete of some keys, in a shard or at the table."""

    keys: tuple[int, ...] = ()
    deleted: bool = False
    overwrites: bool = False  # all other rows go
    shard: str = AT_TABLE

    def rows(self) -> list[Row]:
        """What an entry of a WAL has of it."""
        return [Row(key, None if self.deleted else self.op) for key in self.keys]


class Stands(NamedTuple):
    """Where an edit of a key stands. ``order`` is that of all edits of the key."""

    order: tuple[int, int, int, int]
    shard: str
    at: int  # its position in the shard's WAL, or the version of the table
    label: str | None  # None where the key is deleted


class Began(NamedTuple):
    """What was known when a read began."""

    version: int
    until: dict[str, int]  # by shard: the end of what was acknowledged


class Edits(Ledger):
    """What was said of edits."""

    def _edit(self, label: str) -> Edit:
        found = self.operations[label]
        assert isinstance(found, Edit)  # nothing else is written down here
        return found

    def begin(self, edit: Edit) -> None:
        """Its user runs an edit, for the first time or again."""
        self.operations.setdefault(edit.op, edit)
        self.trying(edit.op)


class Book(Edits):
    """All that was said and written in one world. ``number_of`` gives the shard of a key, of so many shards."""

    def __init__(self, world: World, *, honest: bool, number_of: Callable[[int, int], int]) -> None:
        super().__init__(world, honest=honest)
        self.truth = Truth(hole=self.violation)
        self._number_of = number_of
        self._stands: dict[str, list[tuple[str, int]]] = {}  # by operation
        self._events: dict[int, list[Stands]] = {}  # by key
        self._version = 0
        self._until: dict[str, int] = {}

    # -- what is written -------------------------------------------------------------------------

    def landed(self, key: str, data: bytes) -> None:
        """An object was written to the bucket."""
        found = self.truth.note(key, data)
        if isinstance(found, Written):
            for number, edit in enumerate(self._edits_of(found)):
                order = (_map_of(found.shard), found.position, 1, number)
                self._stand(edit, found.shard, found.position, dict.fromkeys(edit.keys, order))
        elif isinstance(found, Seen):
            version = len(self.truth.versions) - 1
            for label in found.labels:
                edit = self._edit(label)
                keys = dict.fromkeys((*edit.keys, *(self._events if edit.overwrites else ())))
                cursors = {one: found.cursors.get(self._shard_of(one, found), 0) for one in keys}
                orders = {one: (found.map, at, 0, version) for one, at in cursors.items()}
                self._stand(edit, AT_TABLE, version, orders)

    def _stand(self, edit: Edit, shard: str, at: int, orders: dict[int, tuple[int, int, int, int]]) -> None:
        places = self._stands.setdefault(edit.op, [])
        places.append((shard, at))
        if len(places) > 1:
            self.violation(f"{edit.op} stands twice: {_shown(places)}")
        for key, order in orders.items():
            label = edit.op if key in edit.keys and not edit.deleted else None
            self._events.setdefault(key, []).append(Stands(order, shard, at, label))

    def _edits_of(self, entry: Written) -> list[Edit]:
        """The edits that an entry is made of; each must be there as a whole."""
        found: list[Edit] = []
        deletes = (self._edit(label) for label in entry.once)
        deletes = (edit for edit in deletes if edit.deleted)
        rows = list(entry.rows)
        while rows:
            label = rows[0].label
            edit = next(deletes, None) if label is None else self._edit(label)
            if edit is None or rows[: len(edit.keys)] != edit.rows():
                self.violation(f"entry {entry.position} of {entry.shard} has rows that nobody put together: {rows}")
                break
            found.append(edit)
            del rows[: len(edit.keys)]
        return found

    # -- what is said ----------------------------------------------------------------------------

    def done(self, edit: Edit) -> None:
        """Its user was told that an edit is there to stay."""
        edit.trying = False
        self.world.note(f"user: {edit.op} acknowledged")
        self.world.counters["acknowledged"] += 1
        places = self._stands.get(edit.op, [])
        if not places:
            self.violation(f"{edit.op} was acknowledged and stands nowhere")
        for shard, at in places:
            edit.acks.append((at, 0))
            if shard == AT_TABLE:
                self.told_of(at)
            else:
                self._until[shard] = max(self._until.get(shard, 0), at + 1)
                versions = self.truth.versions
                self.told_of(next(number for number, seen in enumerate(versions) if shard in seen.cursors))

    def told(self, op: str, error: SiltstoneError) -> Told:
        """Its user was told otherwise. A fenced writer does not know what became of what it was writing."""
        if isinstance(error, FencedError):
            self.operations[op].doubt = True
        return super().told(op, error)

    def told_of(self, version: int) -> None:
        """Someone was told of a version."""
        self._version = max(self._version, version)

    # -- what is seen ----------------------------------------------------------------------------

    def reading(self) -> Began:
        """Someone begins to read."""
        return Began(self._version, dict(self._until))

    def saw(self, began: Began, rows: Sequence[Row], *, fresh: bool, keys: Iterable[int] | None = None) -> None:
        """Someone saw these rows, of all keys or of those asked for."""
        found: dict[int, str | None] = {}
        for row in rows:
            if row.key in found:
                self.violation(f"row {row.key} is there twice, of {found[row.key]} and of {row.label}")
            found[row.key] = row.label
        asked = set(self._events) if keys is None else set(keys)
        if stray := found.keys() - asked:
            self.violation(f"rows {sorted(stray)} are there, and nobody put them")
        why = ""
        for version in range(began.version, len(self.truth.versions)):
            why = self._misfit(version, asked, found, began, fresh=fresh)
            if not why:
                return
        self.violation(f"a {'fresh' if fresh else 'plain'} read fits no version from {began.version} on: {why}")

    def _misfit(
        self, version: int, keys: Iterable[int], found: dict[int, str | None], began: Began, *, fresh: bool
    ) -> str:
        """Why rows are not what a reader of a version may see; nothing where they are."""
        seen = self.truth.versions[version]
        groups: dict[str, list[int]] = {}
        for key in sorted(keys):
            groups.setdefault(self._shard_of(key, seen), []).append(key)
        for shard, mine in groups.items():
            merged = seen.cursors.get(shard, 0)
            first = max(merged, began.until.get(shard, 0)) if fresh else merged
            last = len(self.truth.wals.get(shard, ())) if fresh and shard in seen.cursors else merged
            ends = range(first, max(first, last) + 1)
            if not any(all(self._expected(key, version, end) == found.get(key) for key in mine) for end in ends):
                there = {key: (found.get(key), self._expected(key, version, last)) for key in mine}
                wrong = ", ".join(f"{key} is of {one}, not of {two}" for key, (one, two) in there.items() if one != two)
                return f"in version {version}, shard {shard or 'none'}, merged until {merged} of {last}: {wrong}"
        return ""

    def _shard_of(self, key: int, seen: Seen) -> str:
        if seen.shards:
            return shard_name(seen.map, self._number_of(key, seen.shards))
        return self._events[key][0].shard if key in self._events else AT_TABLE

    def _expected(self, key: int, version: int, end: int) -> str | None:
        """The newest edit of a key among those up to a version, and up to the end of its shard's WAL that is read."""
        seen = self.truth.versions[version]
        newest: Stands | None = None
        for one in self._events.get(key, ()):
            if one.shard == AT_TABLE:
                counts = one.at <= version
            elif one.shard in seen.cursors:
                counts = one.at < end
            else:
                counts = one.order[0] < seen.map  # its shard was merged and went
            if counts and (newest is None or one.order > newest.order):
                newest = one
        return None if newest is None else newest.label

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Compare what was said with what is written."""
        for edit in self.operations.values():
            places = self._stands.get(edit.op, [])
            if edit.failed and not edit.trying and places:
                self.violation(f"{edit.op} was reported failed and stands: {_shown(places)}")


def _map_of(shard: str) -> int:
    number = shard.partition("-")[0]
    return int(number) if number.isdigit() else 0


def _shown(places: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"at {at} of {shard}" if shard else f"in version {at}" for shard, at in places)
