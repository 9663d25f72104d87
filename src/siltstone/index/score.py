"""BM25: what a term in a document counts.

What must hold:
- A score follows from the frequency, the length and the statistics of the live documents alone, bit for bit: not from
  the part that has the document, nor from what else was searched.
- What a term counts in a document is not negative and under its weight; it grows with the frequency and falls with
  the length, so bounds of blocks are bounds of scores.
- Scores are ordered as they are shown, in 32 bits; equal ones by row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1 = 1.2
B = 0.75


def idf(df: int, documents: int) -> float:
    """How much a term says that ``df`` of the documents have."""
    return math.log(1.0 + (documents - df + 0.5) / (df + 0.5))


def norms(lengths: NDArray[Any], average_length: float) -> NDArray[np.float64]:
    """What is held against documents of these lengths."""
    per_token = K1 * B / average_length if average_length else 0.0
    return lengths * per_token + K1 * (1.0 - B)


def saturation(freqs: NDArray[Any], norm: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a term's frequencies count, from 0 up to 1."""
    return freqs / (freqs + norm)


def lowest_equal(score: float) -> float:
    """A bound that every score passes that is shown as this one or a higher one."""
    return float(np.nextafter(np.float32(score), np.float32(-np.inf)))
