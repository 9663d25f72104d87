"""Which fragments a compaction rewrites, and which of them together. Pure: it reads no file.

What must hold:
- A table that was compacted gives an empty plan, and rewriting a group never makes that group again: it has fewer
  fragments, or fewer deleted rows, or key ranges that overlap less.
- A fragment is in one group at most, and no group is over ``group_rows`` rows, unless one fragment alone is.
- In a keyed table a group leaves no key range out that a fragment outside of it covers: its results overlap no
  more of the others than its sources did.

Rows of many fragments where a key may be are estimated: a fragment's rows are spread evenly over the ends of ranges,
of all fragments, that lie within its own. A range that overlaps others a little is not worth the rewriting of
all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from siltstone.table.compact_ranges import Range, exact_ranges
from siltstone.table.fragment import ROWS_PER_FRAGMENT
from siltstone.table.layout import FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from siltstone.format.rollup import Live
    from siltstone.table.state import State

GROUP_ROWS = 4 * 1024 * 1024
GROUP_FRAGMENTS = 1024
GROUP_FILE_BYTES = 8 * FILE_BYTES
SMALL_SHARE = 0.5  # of the target: what is below is small
DELETED_SHARE = 0.2  # of a fragment's rows: where more are gone, it is written anew
OVERLAP_SHARE = 0.2  # of a fragment's rows: where others have as many among its keys, they are merged
ROUNDS_MAX = 32
_NOTHING = 1e-6  # of a row: what sums of parts of rows are off by


class Worth(Enum):
    """Whether a group is to be rewritten."""

    NO = "nothing would be better"
    IF_FEWER = "if fewer fragments come out than went in"
    YES = "deleted rows go, or key ranges overlap less"


@dataclass(frozen=True)
class Limits:
    """What is worth rewriting."""

    rows_target: int = ROWS_PER_FRAGMENT
    deleted_share: float = DELETED_SHARE
    overlap_share: float = OVERLAP_SHARE
    group_rows: int = field(default_factory=lambda: GROUP_ROWS)
    group_fragments: int = field(default_factory=lambda: GROUP_FRAGMENTS)
    group_bytes: int = field(default_factory=lambda: GROUP_FILE_BYTES)

    def small(self, live: Live) -> bool:
        """Whether a fragment is far from what a fragment may hold."""
        return live.rows < SMALL_SHARE * self.rows_target and live.fragment.bytes < SMALL_SHARE * FILE_BYTES

    def worn(self, live: Live) -> bool:
        """Whether too many of a fragment's rows are gone."""
        return live.vector is not None and live.vector.rows > self.deleted_share * live.fragment.rows

    def results(self, lives: Sequence[Live]) -> int:
        """How many fragments come of some, at least."""
        rows, size = sum(live.rows for live in lives), sum(map(left_bytes, lives))
        return max(1, -(-rows // self.rows_target), -(-size // FILE_BYTES))


def plan_compaction(
    state: State,
    *,
    rows_target: int = ROWS_PER_FRAGMENT,
    deleted_share: float = DELETED_SHARE,
    overlap_share: float = OVERLAP_SHARE,
    ranges: Mapping[str, Range] | None = None,
) -> list[list[Live]]:
    """The groups of fragments to rewrite, each into as few as its rows need.

    ``ranges`` gives the keys of fragments where the log's statistics do not, by the fragment's name.
    """
    limits = Limits(rows_target, deleted_share, overlap_share)
    if not state.schema.key:
        return Plan(list(state.fragments), limits, None).groups()
    return Plan(list(state.fragments), limits, {**exact_ranges(state), **(ranges or {})}).groups()


def left_bytes(live: Live) -> int:
    """About how many of a file's bytes are of rows that are left."""
    return live.fragment.bytes * live.rows // live.fragment.rows


@dataclass
class _Group:
    """A group that is being filled."""

    limits: Limits
    lives: list[Live] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0

    def fits(self, live: Live) -> bool:
        return not self.lives or (
            self.rows + live.rows <= self.limits.group_rows
            and self.bytes + live.fragment.bytes <= self.limits.group_bytes
            and len(self.lives) < self.limits.group_fragments
        )

    def add(self, live: Live) -> None:
        self.lives.append(live)
        self.rows += live.rows
        self.bytes += live.fragment.bytes


class Plan:
    """What is worth rewriting of some fragments; ``ranges`` is None in a table without a key."""

    def __init__(self, lives: Sequence[Live], limits: Limits, ranges: Mapping[str, Range] | None) -> None:
        self._limits = limits
        self._placed = ranges is not None
        self._known = [live for live in lives if ranges is None or live.fragment.name in ranges]
        self._unknown = [live for live in lives if ranges is not None and live.fragment.name not in ranges]
        self._slots = _slots(self._known, ranges) if ranges is not None else {}

    def groups(self) -> list[list[Live]]:
        """The groups that are worth it."""
        unplaced = self._unknown if self._placed else self._known
        wanted = [live for live in unplaced if self._limits.small(live) or self._limits.worn(live)]
        found = _filled(wanted, self._limits)
        if self._placed:
            found = [*self._placed_groups(), *found]
        return [lives for lives in found if self.worth(lives) is not Worth.NO]

    def worth(self, lives: Sequence[Live]) -> Worth:
        """Whether it is worth rewriting some fragments together."""
        if any(map(self._limits.worn, lives)):
            return Worth.YES
        placed = [live for live in lives if live.fragment.name in self._slots]
        if len(placed) > 1 and np.count_nonzero(self._crowded(placed)) > 1:
            return Worth.YES
        return Worth.IF_FEWER if self._limits.results(lives) < len(lives) else Worth.NO

    def _placed_groups(self) -> list[list[Live]]:
        """Groups of fragments whose key ranges overlap, or have nothing of others between them."""
        crowd = {live.fragment.name for live in self._crowd()}
        chosen: list[Live] = []
        others: list[Live] = []
        for live in self._known:
            wanted = live.fragment.name in crowd or self._limits.small(live) or self._limits.worn(live)
            (chosen if wanted else others).append(live)
        taken = self._taken(others)
        groups, reach = [_Group(self._limits)], -1
        for live in sorted(chosen, key=lambda one: self._slots[one.fragment.name]):
            start, stop = self._slots[live.fragment.name]
            apart = start > reach and taken[start] > taken[min(reach + 1, start)]
            if groups[-1].lives and (apart or not groups[-1].fits(live)):
                groups.append(_Group(self._limits))
                reach = stop
            groups[-1].add(live)
            reach = max(reach, stop)
        return [group.lives for group in groups if group.lives]

    def _crowd(self) -> list[Live]:
        """The fragments that crowd each other."""
        lives = self._known
        for _ in range(ROUNDS_MAX):
            crowded = self._crowded(lives)
            if crowded.all():
                break
            lives = [live for live, kept in zip(lives, crowded, strict=True) if kept]
        return lives

    def _crowded(self, lives: Sequence[Live]) -> np.ndarray:
        """For each of some fragments, whether the others have many rows among its keys."""
        if not lives:
            return np.zeros(0, bool)
        slots = self._slots_of(lives)
        slots -= slots.min()
        rows = np.array([live.rows for live in lives], float)
        share = rows / (slots[:, 1] - slots[:, 0] + 1)
        before = np.concatenate([[0.0], np.cumsum(_cover(slots, share))])
        others = before[slots[:, 1] + 1] - before[slots[:, 0]] - rows
        found: np.ndarray = others >= max(self._limits.overlap_share, _NOTHING) * rows
        return found

    def _taken(self, lives: Sequence[Live]) -> np.ndarray:
        """For each slot, how many before it some fragments cover."""
        slots = self._slots_of(lives)
        covered = _cover(slots, np.ones(len(slots), np.int64), size=self._slots_of(self._known).max(initial=0) + 1)
        return np.concatenate([[0], np.cumsum(covered > 0)])

    def _slots_of(self, lives: Sequence[Live]) -> np.ndarray:
        return np.array([self._slots[live.fragment.name] for live in lives], np.int64).reshape(-1, 2)


def _cover(slots: np.ndarray, share: np.ndarray, *, size: int = 0) -> np.ndarray:
    """The sum of what fragments have in each of their slots, for all slots."""
    change = np.zeros(max(size, int(slots.max(initial=0)) + 1) + 1, share.dtype)
    np.add.at(change, slots[:, 0], share)
    np.subtract.at(change, slots[:, 1] + 1, share)
    return np.cumsum(change)[:-1]


def _filled(lives: Iterable[Live], limits: Limits) -> list[list[Live]]:
    groups = [_Group(limits)]
    for live in lives:
        if not groups[-1].fits(live):
            groups.append(_Group(limits))
        groups[-1].add(live)
    return [group.lives for group in groups if group.lives]


def _slots(lives: Sequence[Live], ranges: Mapping[str, Range]) -> dict[str, tuple[int, int]]:
    """The first and last slot of each fragment: every end of a range has one, and there is one between any two."""
    ends = sorted({end for live in lives for end in ranges[live.fragment.name]})
    place = {end: 2 * number for number, end in enumerate(ends)}
    return {
        live.fragment.name: (place[ranges[live.fragment.name].low], place[ranges[live.fragment.name].high])
        for live in lives
    }
