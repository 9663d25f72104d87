"""The best rows of several terms, without looking at rows that can't be among them.

What must hold:
- What is left out can't be among the best, equal scores included: rows are kept as long as what they can still reach
  is shown as the lowest of the best or higher.
- A score is added up in the order of the operands, whatever was left out on the way: so it is the same to the last bit.
- Memory beside the operands is bounded: a table is gone through in windows of rows.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siltstone.index.match import few, places, summed
from siltstone.index.score import lowest_equal
from siltstone.index.statistics import TOPS, highest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from siltstone.index.match import Rows, Scores
    from siltstone.index.statistics import Posting

    Keep = Callable[[Rows], NDArray[np.bool_]]

WINDOW_ROWS = 1 << 18
_SPARSE = 16  # a window costs about as much as this share of its rows in postings
_LEAST_WEIGHT = 1e-150  # under it a product may be 0, which in a window stands for no match


class Operand(NamedTuple):
    """Rows, and what each is given: the values times the weight."""

    rows: Rows
    values: Scores
    weight: float
    most: float  # no value is above it
    positive: bool  # each row is given something
    posting: Posting | None = None  # where these are its rows, all of them

    @classmethod
    def of(cls, posting: Posting, weight: float) -> Operand:
        """A posting with its weight."""
        return cls(posting.rows, posting.values, weight, posting.most, weight >= _LEAST_WEIGHT, posting)

    @classmethod
    def plain(cls, rows: Rows, scores: Scores) -> Operand:
        """Scores as they are."""
        return cls(rows, scores, 1.0, float(scores.max(initial=0.0)), bool(scores.min(initial=1.0) > 0))

    def kept(self, keep: Keep | None) -> Operand:
        """The same with some of the rows."""
        if keep is None or not len(self.rows):
            return self
        mask = keep(self.rows)
        return Operand(self.rows[mask], self.values[mask], self.weight, self.most, self.positive)

    def at_least(self, rank: int) -> float:
        """A score that so many rows reach; 0 where that is not known."""
        if self.posting is not None:
            return self.posting.at_least(rank) * self.weight
        return reached(self.values, rank) * self.weight

    def at(self, rows: Rows) -> Scores:
        """What it gives each of some rows; 0 where it has them not."""
        if not len(self.rows) or not len(rows):
            return np.zeros(len(rows), np.float64)
        if few(rows, self.rows):
            at, found = places(self.rows, rows)
            given = self.values[at]
            given[~found] = 0.0
        else:
            given = np.empty(len(rows), np.float64)
            for first, size, (own, asked) in _windows([self.rows, rows]):
                sums = _scratch(size)
                sums[_moved(self.rows[own], first)] = self.values[own]
                given[asked] = sums[_moved(rows[asked], first)]
        given *= self.weight
        return given


class Top(NamedTuple):
    """Rows, ascending, with their scores: all that can be among the best."""

    rows: Rows
    scores: Scores


def reached(scores: Scores, rank: int) -> float:
    """A score that at least ``rank`` of them reach; 0 where there are fewer."""
    if rank > len(scores):
        return 0.0
    if rank > TOPS:
        return float(np.partition(scores, len(scores) - rank)[len(scores) - rank])
    return float(highest(scores, rank)[rank - 1])


def any_of(operands: Sequence[Operand], limit: int | None, *, keep: Keep | None = None, low: float = 0.0) -> Top:
    """The best rows that are in any of the operands, scores added up; without a limit all.

    ``low`` is a score that so many rows are known to reach already.
    """
    if limit is None:
        rows, scores, _ = summed([(one.rows, one.values * one.weight) for one in (o.kept(keep) for o in operands)])
        return Top(rows, scores)
    rest = _suffix_sums(operands)
    if keep is None:
        low = max(low, *(one.at_least(limit) for one in operands))
    needed: list[Operand] = []
    for one, after in zip(operands, rest, strict=True):
        if needed and after < lowest_equal(low):
            break
        own = one.kept(keep)
        if keep is not None:
            low = max(low, own.at_least(limit))
        needed.append(own)
    top = _sum_all(needed, limit, low, rest[len(needed)] if len(needed) < len(rest) else 0.0)
    return _add_rest(top, operands[len(needed) :], limit, low)


def _suffix_sums(operands: Sequence[Operand]) -> list[float]:
    """The most that each operand and those behind it can give together."""
    sums = []
    total = 0.0
    for one in reversed(operands):
        total += one.weight * one.most
        sums.append(total * (1.0 + 1e-12))  # above every sum of them, however it is rounded
    return sums[::-1]


def _sum_all(operands: Sequence[Operand], limit: int, low: float, rest: float) -> Top:
    """Rows of any of these that can be among the best with what the rest may add."""
    if len(operands) == 1:
        one = operands[0]
        return promising(Top(one.rows, one.values * one.weight), limit, low, rest)
    there = [one.rows for one in operands if len(one.rows)]
    span = max(int(rows[-1]) for rows in there) - min(int(rows[0]) for rows in there) if there else 0
    if sum(map(len, there)) * _SPARSE < span or not all(one.positive for one in operands):
        rows, scores, _ = summed([(one.rows, one.values * one.weight) for one in operands])
        return promising(Top(rows, scores), limit, low, rest)
    tops = []
    for first, size, slices in _windows([one.rows for one in operands]):
        sums = _scratch(size)
        for place, (one, own) in enumerate(zip(operands, slices, strict=True)):
            _add(sums, _moved(one.rows[own], first), one.values[own] * one.weight, fresh=not place)
        low = max(low, reached(sums, limit))
        floor = lowest_equal(low) - rest
        at = np.flatnonzero(sums >= floor if floor > 0 else sums)
        tops.append(Top(at + first, sums[at]))
    if not tops:
        return Top(operands[0].rows[:0], operands[0].values[:0])
    if len(tops) == 1:
        return tops[0]
    rows, scores = np.concatenate([top.rows for top in tops]), np.concatenate([top.scores for top in tops])
    return promising(Top(rows, scores), limit, low, rest)


def _windows(sets: Sequence[Rows]) -> Iterator[tuple[int, int, list[slice]]]:
    """Windows that have all rows: the first row of each, how many it has, and where these are in each set."""
    there = [rows for rows in sets if len(rows)]
    if not there:
        return
    end = max(int(rows[-1]) for rows in there) + 1
    if end <= WINDOW_ROWS:
        yield 0, end, [slice(0, len(rows)) for rows in sets]
        return
    start = min(int(rows[0]) for rows in there)
    firsts = np.arange(start, end + WINDOW_ROWS, WINDOW_ROWS)
    cuts = [np.searchsorted(rows, firsts).tolist() for rows in sets]
    for number, first in enumerate(range(start, end, WINDOW_ROWS)):
        yield first, min(WINDOW_ROWS, end - first), [slice(*cut[number : number + 2]) for cut in cuts]


def _moved(rows: Rows, first: int) -> Rows:
    return rows - first if first else rows


def _add(sums: Scores, rows: Rows, scores: Scores, *, fresh: bool) -> None:
    if not fresh:
        scores += sums[rows]
    sums[rows] = scores


def promising(top: Top, limit: int, low: float, rest: float = 0.0) -> Top:
    """Rows that can be among the best with what the rest may add."""
    low = max(low, reached(top.scores, limit))
    floor = lowest_equal(low) - rest
    if floor <= 0:
        return top
    at = np.flatnonzero(top.scores >= floor)
    return Top(top.rows[at], top.scores[at])


def joined(one: Top, other: Top) -> Top:
    """Both, which have no row in common."""
    rows, scores, _ = summed([one, other])
    return Top(rows, scores)


def _add_rest(top: Top, operands: Sequence[Operand], limit: int, low: float) -> Top:
    """Add what operands give to rows that are found."""
    rests = [*_suffix_sums(operands)[1:], 0.0]
    for one, rest in zip(operands, rests, strict=False):
        top = promising(Top(top.rows, top.scores + one.at(top.rows)), limit, low, rest)
    return top


def all_of(operands: Sequence[Operand], rows: Rows) -> Scores:
    """What operands give to rows, added up."""
    scores = np.zeros(len(rows), np.float64)
    for one in operands:
        scores += one.at(rows)
    return scores


def best_first(top: Top, limit: int | None) -> tuple[Rows, NDArray[np.float32]]:
    """The rows in order of their scores as they are shown, equal ones by row."""
    rows, shown = top.rows, top.scores.astype(np.float32)
    if limit is not None and len(rows) > limit:
        last = np.partition(shown, len(shown) - limit)[len(shown) - limit]
        above = np.flatnonzero(shown > last)
        level = np.flatnonzero(shown == last)[: limit - len(above)]
        chosen = np.concatenate((above, level))
        chosen.sort()
        rows, shown = rows[chosen], shown[chosen]
    order = np.argsort(-shown, kind="stable")
    return rows[order], shown[order]


class _Local(threading.local):
    """Sums of one window, made once for each thread."""

    sums: Scores | None = None


_local = _Local()


def _scratch(size: int) -> Scores:
    """Zeros, good until the next call in this thread."""
    kept = _local.sums
    if kept is None or len(kept) < size:
        kept = _local.sums = np.empty(min(max(size, 1024) * 2, max(size, WINDOW_ROWS)), np.float64)
    sums = kept[:size]
    sums.fill(0.0)
    return sums
