"""Which rows of a fragment something is true of, in little memory: many fragments' are held, and sent, at once.

What must hold: a set takes the lesser of a bit for each row of the fragment and four bytes for each row of the set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 8 * np.dtype(np.int32).itemsize  # that a row takes as a number


class RowSet(NamedTuple):
    """Rows of one fragment, by their numbers. Made by ``row_set``."""

    packed: NDArray[np.uint8] | NDArray[np.int32]  # bits, the lowest first, or the numbers themselves
    rows: int  # of the fragment, where ``packed`` is bits; else 0

    def numbers(self) -> NDArray[np.int64]:
        """Their numbers, ascending."""
        if not self.rows:
            return self.packed.astype(np.int64)
        bits = np.unpackbits(self.packed.view(np.uint8), count=self.rows, bitorder="little")
        return np.flatnonzero(bits).astype(np.int64, copy=False)


def row_set(numbers: NDArray[np.int64], *, rows: int) -> RowSet:
    """Rows of a fragment that has ``rows``; their numbers ascend."""
    if len(numbers) * _BITS <= rows:
        return RowSet(numbers.astype(np.int32), 0)
    mask = np.zeros(rows, np.bool_)
    mask[numbers] = True
    return RowSet(np.packbits(mask, bitorder="little"), rows)
