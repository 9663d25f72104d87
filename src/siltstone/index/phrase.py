"""Words one behind the other: where terms stand in the order and the distance that a phrase has them.

What must hold:
- A place is a row and a position in one number (``POSITION_BITS``); places of a term ascend.
- Each place of the first word begins at most one occurrence, the shortest; it counts where at most ``slop`` positions
  lie between the words beyond those that the phrase has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siltstone.index.match import places
from siltstone.index.statistics import POSITION_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.index.match import Rows

# A look-up by halving costs about as much as merging this many places.
_HALVING_COST = 16


def occurrences(terms: Sequence[tuple[NDArray[np.int64], int]], slop: int) -> tuple[Rows, NDArray[np.int64]]:
    """The rows with a phrase and how often they have it: of each term the places, and how far it is from the first."""
    # Without its distance in the phrase, each word of an exact occurrence has the same place.
    moved = [(keys, -distance) for keys, distance in terms]
    begins = _exact(moved) if not slop else _within(moved, slop)
    rows = begins >> POSITION_BITS
    first = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    heads = np.flatnonzero(first)
    return rows[heads], np.diff(heads, append=len(rows))


def _exact(terms: Sequence[tuple[NDArray[np.int64], int]]) -> NDArray[np.int64]:
    (fewest, move), *others = sorted(terms, key=lambda term: len(term[0]))
    found = fewest + move
    for keys, other in others:
        found = common(found, keys, other)
    return found


def common(found: NDArray[np.int64], keys: NDArray[np.int64], move: int) -> NDArray[np.int64]:
    """The numbers that are in both, the second ones moved. Both ascend."""
    if not len(found) or not len(keys):
        return found[:0]
    # What lies before the first or behind the last of the others is in none.
    low, high = np.searchsorted(keys, (found[0] - move, found[-1] - move + 1))
    keys = keys[low:high]
    if len(found) * _HALVING_COST < len(keys):
        return found[places(keys, found - move)[1]] if len(keys) else found[:0]
    joined = np.concatenate((found, keys))
    if move:
        joined[len(found) :] += move
    joined.sort(kind="stable")  # two sorted runs are merged
    both: NDArray[np.int64] = joined[:-1][joined[1:] == joined[:-1]]
    return both


def _within(terms: Sequence[tuple[NDArray[np.int64], int]], slop: int) -> NDArray[np.int64]:
    begins, move = terms[0]
    begins = begins + move
    reached = begins
    for keys, other in terms[1:]:
        if not len(begins) or not len(keys):
            return begins[:0]
        at = np.searchsorted(keys, reached - other)
        there = at < len(keys)
        at[~there] = 0
        following = keys[at] + other
        there &= following - begins <= slop
        begins, reached = begins[there], following[there]
    return begins
