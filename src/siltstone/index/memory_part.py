"""A part in memory: rows that no index file covers yet, made searchable on the spot."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from siltstone.errors import InvalidInputError
from siltstone.format.text_part import BLOCK
from siltstone.index.lexicon import Lexicon
from siltstone.index.part import Blocks, Pending, Read, Term

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from siltstone.index.part import Chosen
    from siltstone.index.postings import Postings

TERMS_AT_ONCE = 65536


class MemoryPart:
    """A part over postings. Safe to share between threads."""

    def __init__(self, postings: Postings) -> None:
        self.postings = postings
        self.documents = len(postings.lengths)
        self.tokens = int(postings.lengths.sum(dtype=np.int64))
        self._lexicon = Lexicon.of(postings.terms)
        self._present = None if postings.present.all() else postings.present
        self._starts = memoryview(postings.starts)  # type: ignore[arg-type]  # gives Python's numbers

    def lengths(self) -> NDArray[np.uint32]:
        return self.postings.lengths

    def present(self) -> NDArray[np.bool_] | None:
        return self._present

    def find(self, terms: Sequence[bytes], *, lengths: bool = True) -> list[Term | None]:
        return [self._find(term) for term in terms]

    def begin_find(self, terms: Sequence[bytes], *, lengths: bool = True) -> Pending[list[Term | None]]:
        return Pending(None, (), lambda _: self.find(terms))

    def with_prefix(self, prefix: bytes) -> list[bytes]:
        return self._lexicon.with_prefix(prefix)

    def all_terms(self) -> Iterator[pa.Array]:
        for start in range(0, len(self._lexicon), TERMS_AT_ONCE):
            yield self.postings.terms.slice(start, TERMS_AT_ONCE)

    @cached_property
    def position_ends(self) -> NDArray[np.int64]:
        """Where the positions of each posting end."""
        return np.cumsum(self.postings.freqs, dtype=np.int64)

    def _find(self, term: bytes) -> Term | None:
        number = self._lexicon.find(term)
        return None if number < 0 else MemoryTerm(self, self._starts[number], self._starts[number + 1])


class MemoryTerm:
    """A term of such a part."""

    def __init__(self, part: MemoryPart, start: int, end: int) -> None:
        self._part = part
        self._start = start
        self._end = end
        self.df = end - start
        self.has_positions = part.postings.positions is not None

    @cached_property
    def max_freq(self) -> int:
        return int(self._part.postings.freqs[self._start : self._end].max())

    @cached_property
    def min_length(self) -> int:
        return int(self._lengths().min())

    @cached_property
    def blocks(self) -> Blocks:
        starts = np.arange(0, self.df, BLOCK)
        ends = np.minimum(starts + BLOCK, self.df)
        docs = self._part.postings.docs[self._start : self._end]
        return Blocks(
            docs[starts].astype(np.int64),
            docs[ends - 1].astype(np.int64),
            np.maximum.reduceat(self._part.postings.freqs[self._start : self._end], starts).astype(np.int64),
            np.minimum.reduceat(self._lengths(), starts).astype(np.int64),
            ends - starts,
        )

    def read(self, chosen: Chosen = None) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        postings = self._part.postings
        places = self._places(chosen)
        return postings.docs[places], postings.freqs[places]

    def read_positions(self, chosen: Chosen = None) -> NDArray[np.uint32]:
        postings, ends = self._part.postings, self._part.position_ends
        if postings.positions is None:
            raise no_positions()
        parts = [
            postings.positions[ends[start - 1] if start else 0 : ends[end - 1]] for start, end in self._ranges(chosen)
        ]
        return np.concatenate(parts) if parts else postings.positions[:0]

    def begin_read(self, chosen: Chosen, *, positions: bool) -> Pending[Read]:
        return Pending(None, (), lambda _: Read(*self.read(chosen), self.read_positions(chosen) if positions else None))

    def _lengths(self) -> NDArray[np.uint32]:
        return self._part.postings.lengths[self._part.postings.docs[self._start : self._end]]

    def _ranges(self, chosen: Chosen) -> list[tuple[int, int]]:
        if chosen is None:
            return [(self._start, self._end)]
        starts = [self._start + int(number) * BLOCK for number in chosen]
        return [(start, min(start + BLOCK, self._end)) for start in starts]

    def _places(self, chosen: Chosen) -> slice | NDArray[np.intp]:
        ranges = self._ranges(chosen)
        if len(ranges) == 1:
            return slice(*ranges[0])
        return np.concatenate([np.arange(*one) for one in ranges]) if ranges else np.empty(0, np.intp)


def no_positions() -> InvalidInputError:
    """The error where positions are asked for and were not kept."""
    return InvalidInputError(
        "the index was made without positions", hint="make it with positions=True to search for phrases"
    )
