"""Several parts as one: the documents of each behind those of the one before.

What must hold: merging the postings of chunks gives the arrays that the chunks together would give, bit for bit. A
document that is left out takes its postings along, and a term without any goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.text_part import DOCUMENTS_MAX, TOKENS_MAX
from siltstone.index.postings import Postings, position_starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def merge(parts: Sequence[Postings], keep: Sequence[NDArray[np.bool_] | None]) -> Postings:
    """One part of several. ``keep`` has for each of them which documents stay, or None for all."""
    if not parts:
        raise InvalidInputError("there is nothing to merge", hint="pass at least one part")
    left = [_only(part, mask) for part, mask in zip(parts, keep, strict=True)]
    if len(left) == 1:
        return left[0]
    with_positions = {part.positions is not None for part in left if len(part.docs)} or {
        all(part.positions is not None for part in left)
    }
    if len(with_positions) > 1:
        raise InvalidInputError(
            "some parts have positions, and some have none", hint="merge parts that were made by one analyzer"
        )
    if sum(len(part.lengths) for part in left) > DOCUMENTS_MAX:
        raise LimitExceededError(f"a part holds at most {DOCUMENTS_MAX} documents", hint="merge fewer parts")
    if sum(int(part.lengths.sum(dtype=np.int64)) for part in left) > TOKENS_MAX:
        raise LimitExceededError(f"a part holds at most {TOKENS_MAX} tokens", hint="merge fewer parts")
    terms, numbers = _union([part.terms for part in left])
    starts, docs, freqs = _merge_docs(left, numbers, len(terms))
    return Postings(
        terms,
        starts,
        docs,
        freqs,
        positions=_merge_positions(left, numbers, len(terms)) if with_positions.pop() else None,
        lengths=np.concatenate([part.lengths for part in left]),
        present=np.concatenate([part.present for part in left]),
    )


def _only(part: Postings, keep: NDArray[np.bool_] | None) -> Postings:
    """A part without the documents that are not kept."""
    if keep is None:
        return part
    if len(keep) != len(part.lengths):
        raise InvalidInputError(
            f"the mask has {len(keep)} documents, the part {len(part.lengths)}", hint="pass one bit for each document"
        )
    if keep.all():
        return part
    moved = (np.cumsum(keep, dtype=np.int64) - 1).astype(np.uint32)
    stays = keep[part.docs]
    before = np.zeros(len(stays) + 1, np.int64)
    np.cumsum(stays, out=before[1:])
    starts = before[part.starts]
    used = starts[1:] > starts[:-1]
    return Postings(
        part.terms.filter(pa.array(used)),
        np.concatenate((starts[:1], starts[1:][used])),
        docs=moved[part.docs[stays]],
        freqs=part.freqs[stays],
        positions=None if part.positions is None else part.positions[np.repeat(stays, part.freqs)],
        lengths=part.lengths[keep],
        present=part.present[keep],
    )


def _union(terms: Sequence[pa.Array]) -> tuple[pa.Array, list[NDArray[np.int64]]]:
    """All terms in order, and of each array the numbers that its terms have among them."""
    found = pa.chunked_array(terms, pa.large_binary()).combine_chunks().dictionary_encode()
    order = pc.sort_indices(found.dictionary).to_numpy()
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    which = number[found.indices.to_numpy()]
    ends = np.cumsum([len(one) for one in terms])[:-1]
    return found.dictionary.take(pa.array(order)), np.split(which, ends)


def _merge_docs(
    parts: Sequence[Postings], numbers: Sequence[NDArray[np.int64]], terms: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    starts = _joined_starts([part.starts for part in parts], numbers, terms)
    docs, freqs = np.empty(starts[-1], np.uint32), np.empty(starts[-1], np.uint32)
    free = starts[:-1].copy()  # where the next posting of each term goes
    base = 0
    for part, which in zip(parts, numbers, strict=True):
        places = _places(part.starts, which, free)
        docs[places] = part.docs + np.uint32(base)
        freqs[places] = part.freqs
        base += len(part.lengths)
    return starts, docs, freqs


def _merge_positions(parts: Sequence[Postings], numbers: Sequence[NDArray[np.int64]], terms: int) -> NDArray[np.uint32]:
    theirs = [position_starts(part) for part in parts]
    starts = _joined_starts(theirs, numbers, terms)
    positions = np.empty(starts[-1], np.uint32)
    free = starts[:-1].copy()
    for part, which, own in zip(parts, numbers, theirs, strict=True):
        if part.positions is not None:
            positions[_places(own, which, free)] = part.positions
    return positions


def _joined_starts(
    starts: Sequence[NDArray[np.int64]], numbers: Sequence[NDArray[np.int64]], terms: int
) -> NDArray[np.int64]:
    joined = np.zeros(terms + 1, np.int64)
    for own, which in zip(starts, numbers, strict=True):
        joined[1:][which] += np.diff(own)  # a term is in a part once
    return np.cumsum(joined, out=joined)


def _places(own: NDArray[np.int64], which: NDArray[np.int64], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each value of a part goes; what is free begins behind them then."""
    counts = np.diff(own)
    places = np.repeat(free[which] - own[:-1], counts)
    places += np.arange(len(places))
    free[which] += counts
    return places
