"""Postings: which documents have a term, how often and where, for all terms of a part, as a few arrays.

What must hold:
- Terms are distinct and in the order of their bytes, each with a document; the documents of a term ascend, and so do
  the positions in a document.
- Documents are counted from 0 on; one that is null or empty is counted, too.
- The same tokens give the same arrays, bit for bit, however they were cut into chunks (``merge``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.text_part import TOKENS_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siltstone.index.analyze import Tokens


class Postings(NamedTuple):
    """One part in memory."""

    terms: pa.Array  # large_binary
    starts: NDArray[np.int64]  # the postings of term t are starts[t]:starts[t + 1]
    docs: NDArray[np.uint32]
    freqs: NDArray[np.uint32]
    positions: NDArray[np.uint32] | None  # posting after posting
    lengths: NDArray[np.uint32]  # by document: its tokens
    present: NDArray[np.bool_]  # by document: it is not null

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        arrays = (self.starts, self.docs, self.freqs, self.lengths, self.present)
        places = 0 if self.positions is None else self.positions.nbytes
        return int(self.terms.nbytes) + places + sum(one.nbytes for one in arrays)


def postings_of(tokens: Tokens, *, positions: bool = True) -> Postings:
    """The postings of one chunk's tokens; without ``positions`` they are left out."""
    count = len(tokens.term)
    if count > TOKENS_MAX:
        raise LimitExceededError(
            f"{count} tokens are over the {TOKENS_MAX} that a part can hold", hint="index fewer rows at a time"
        )
    if positions and len(tokens.position) != count:
        raise InvalidInputError(
            f"there are {len(tokens.position)} positions for {count} tokens", hint="tokenize with positions=True"
        )
    order = _by_term(tokens.term, len(tokens.terms))
    doc = tokens.doc[order]
    ends = np.cumsum(np.bincount(tokens.term, minlength=len(tokens.terms)))  # of the tokens of each term
    first = np.ones(count, np.bool_)  # of a posting
    np.not_equal(doc[1:], doc[:-1], out=first[1:])
    first[ends[ends < count]] = True
    heads = np.flatnonzero(first)
    del first
    starts = np.zeros(len(tokens.terms) + 1, np.int64)
    starts[1:] = np.searchsorted(heads, ends)
    terms = tokens.terms.cast(pa.large_binary())
    used = starts[1:] > starts[:-1]
    if not used.all():
        terms, starts = terms.filter(pa.array(used)), np.concatenate((starts[:1], starts[1:][used]))
    return Postings(
        terms,
        starts,
        docs=doc[heads],
        freqs=np.diff(heads, append=count).astype(np.uint32),
        positions=tokens.position[order] if positions else None,
        lengths=tokens.lengths,
        present=tokens.present,
    )


def position_starts(postings: Postings) -> NDArray[np.int64]:
    """Where the positions of each term begin, and where the last ones end."""
    per_term = np.zeros(len(postings.starts), np.int64)
    if len(postings.docs):
        np.add.reduceat(postings.freqs, postings.starts[:-1], dtype=np.int64, out=per_term[1:])
    return np.cumsum(per_term, out=per_term)


def _by_term(term: NDArray[np.uint32], terms: int) -> NDArray[np.intp]:
    """The order of tokens by term, those of one term as they came."""
    # numpy sorts 16 bits in a pass over the data, and anything longer several times slower.
    order = np.argsort(term.astype(np.uint16), kind="stable")
    if terms > 1 << 16:
        upper = (term >> 16).astype(np.uint16)
        order = order[np.argsort(upper[order], kind="stable")]
    return order
