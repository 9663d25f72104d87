"""Which rows: documents of parts as rows of a table, and sets of rows as sorted arrays.

What must hold:
- A row's number is its place in the table's version, whatever part has its document; so all columns and parts speak of
  the same rows, and an order by number is the order of the table.
- Arrays of rows ascend and have each row once.
- Each call is a few passes over arrays; none looks at rows one by one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siltstone.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.index.part import Part

    Rows = NDArray[np.int64]
    Scores = NDArray[np.float64]

# A look-up by halving costs about as much as passing over this many rows.
_HALVING_COST = 20


class Live(NamedTuple):
    """A part, which of its documents are alive, and which rows they are.

    Documents from ``starts[i]`` up to ``starts[i + 1]`` are the rows from ``bases[i]`` on: one run for each fragment of
    the part. Of a fragment that is gone no document is alive, and its base says nothing; all others are rows of their
    own, which no other part of the column has.
    """

    part: Part
    alive: NDArray[np.bool_] | None = None  # None: all of them
    starts: NDArray[np.int64] = np.zeros(1, np.int64)
    bases: NDArray[np.int64] = np.zeros(1, np.int64)

    def rows(self, docs: NDArray[np.uint32]) -> Rows:
        """The rows of some documents, in their order."""
        rows = docs.astype(np.int64)
        if len(self.starts) == 1:
            rows += self.bases[0] - self.starts[0]
            return rows
        # Documents ascend: where each run begins among them is found by halving, not the run of each.
        cuts = np.searchsorted(rows, self.starts[1:])
        counts = np.diff(cuts, prepend=0, append=len(docs))
        rows += np.repeat(self.bases - self.starts, counts)
        return rows

    def runs_alive(self) -> NDArray[np.bool_]:
        """For each run, whether a document of it is alive."""
        bounds = np.append(self.starts, self.part.documents)
        if self.alive is not None:
            bounds = np.concatenate(([0], np.cumsum(self.alive)))[bounds]
        there: NDArray[np.bool_] = np.diff(bounds) > 0
        return there

    @property
    def end(self) -> int:
        """The first row behind all runs with a live document."""
        sizes = np.diff(self.starts, append=self.part.documents)
        return int((self.bases + sizes)[self.runs_alive()].max(initial=0))


def check_live(live: Live) -> None:
    """Refuse a part whose documents can't all be rows, or whose mask is another's."""
    starts, bases, documents = live.starts, live.bases, live.part.documents
    fits = len(starts) == len(bases) > 0 and starts[0] == 0 and not (np.diff(starts) < 0).any()
    if not fits or (documents and starts[-1] > documents) or (live.alive is not None and len(live.alive) != documents):
        raise InternalError(f"{len(starts)} runs and {len(bases)} bases do not fit a part of {documents} documents")


def as_rows(lives: Sequence[Live], docs: Sequence[NDArray[np.uint32]]) -> tuple[Rows, list[slice]]:
    """Documents of several parts as rows, part after part, and where each part's are."""
    ends = np.cumsum([0, *map(len, docs)]).tolist()
    slices = [slice(begin, end) for begin, end in itertools.pairwise(ends)]
    rows = np.empty(ends[-1], np.int64)
    for live, one, place in zip(lives, docs, slices, strict=True):
        rows[place] = live.rows(one)
    return rows, slices


def order_of(rows: Rows) -> NDArray[np.intp] | None:
    """The order that sorts rows; None where they are sorted."""
    if len(rows) < 2 or (rows[1:] > rows[:-1]).all():
        return None
    return np.argsort(rows, kind="stable")  # fast on a few sorted runs one behind the other


def places(rows: Rows, wanted: Rows) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """For each wanted row a place in ``rows``, and whether it is there."""
    at = np.searchsorted(rows, wanted)
    np.minimum(at, len(rows) - 1, out=at)
    return at, rows[at] == wanted


def few(wanted: Rows, rows: Rows) -> bool:
    """Whether to look up each wanted row takes less than to pass over all."""
    span = int(max(rows[-1], wanted[-1]) - min(rows[0], wanted[0]))
    return len(wanted) * _HALVING_COST < len(rows) + span // 8


def member(wanted: Rows, rows: Rows) -> NDArray[np.bool_]:
    """For each wanted row, whether it is in ``rows``."""
    if not len(rows) or not len(wanted):
        return np.zeros(len(wanted), np.bool_)
    if few(wanted, rows):
        return places(rows, wanted)[1]
    low = int(rows[0])
    marked = np.zeros(int(rows[-1]) - low + 2, np.bool_)  # the last one is for what lies outside
    marked[rows - low] = True
    shifted = wanted - low
    outside = (shifted < 0) | (shifted >= len(marked) - 1)
    shifted[outside] = len(marked) - 1
    return marked[shifted]


def intersect(sets: Sequence[Rows]) -> Rows:
    """The rows that are in all of them."""
    fewest, *others = sorted(sets, key=len)
    for other in others:
        fewest = fewest[member(fewest, other)]
    return fewest


def union(sets: Sequence[Rows]) -> Rows:
    """The rows that are in any of them."""
    sets = [one for one in sets if len(one)]
    if len(sets) < 2:
        return sets[0] if sets else np.empty(0, np.int64)
    rows = np.sort(np.concatenate(sets), kind="stable")
    return rows[np.concatenate(([True], rows[1:] != rows[:-1]))]


def without(rows: Rows, excluded: Rows) -> Rows:
    """The rows of the first that are not in the second."""
    return rows[~member(rows, excluded)] if len(excluded) else rows


def summed(sets: Sequence[tuple[Rows, Scores]]) -> tuple[Rows, Scores, NDArray[np.int64]]:
    """The rows that are in any, their scores added in the order given, and in how many each row is."""
    if len(sets) == 1:
        rows, scores = sets[0]
        return rows, scores, np.ones(len(rows), np.int64)
    joined = np.concatenate([rows for rows, _ in sets])
    order = np.argsort(joined, kind="stable")
    rows = joined[order]
    first = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    group = np.cumsum(first) - 1
    # It adds one after the other, as everything here does: so no score depends on how it was found.
    sums: Scores = np.bincount(group, weights=np.concatenate([scores for _, scores in sets])[order]).astype(np.float64)
    return rows[first], sums, np.bincount(group)
