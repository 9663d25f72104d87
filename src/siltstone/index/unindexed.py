"""Fragments that no segment covers: their texts are searched with the same tokens, as if they were indexed.

What must hold:
- Postings of such a fragment are kept where they fit into the cache; else each search makes those of its own terms
  again, chunk by chunk: memory is bounded by the cache, a chunk, and what the search asks for.
- Lengths of documents are kept for as long as the part is: scores need them of all parts.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.index.memory_part import MemoryPart
from siltstone.index.merge import merge
from siltstone.index.part import Pending
from siltstone.locks import ForkLock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from siltstone.index.part import Term
    from siltstone.index.postings import Postings

    Chunks = Callable[[], Iterator[Postings]]

CACHE_BYTES = 256 * 1024 * 1024


class Kept:
    """Postings of fragments, as many as fit. Safe to share between threads."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._lock = ForkLock()
        self._parts: OrderedDict[Hashable, MemoryPart] = OrderedDict()
        self._nbytes = 0

    def get(self, key: Hashable) -> MemoryPart | None:
        """What is kept of a fragment."""
        with self._lock:
            found = self._parts.get(key)
            if found is not None:
                self._parts.move_to_end(key)
            return found

    def put(self, key: Hashable, part: MemoryPart) -> None:
        """Keep it, and let go of what was used least."""
        with self._lock:
            if key not in self._parts:
                self._parts[key] = part
                self._nbytes += part.postings.nbytes
            while self._nbytes > self.limit_bytes and len(self._parts) > 1:
                _, gone = self._parts.popitem(last=False)
                self._nbytes -= gone.postings.nbytes


class UnindexedPart:
    """The documents of one fragment. ``chunks`` gives its postings, piece by piece, as often as it is asked."""

    def __init__(self, key: Hashable, documents: int, chunks: Chunks, kept: Kept) -> None:
        self.documents = documents
        self._key = key
        self._chunks = chunks
        self._kept = kept
        self._lock = ForkLock()
        self._facts: tuple[NDArray[np.uint32], NDArray[np.bool_] | None] | None = None
        self._large = False

    @property
    def tokens(self) -> int:
        return int(self.lengths().sum(dtype=np.int64))

    def lengths(self) -> NDArray[np.uint32]:
        return self._known()[0]

    def present(self) -> NDArray[np.bool_] | None:
        return self._known()[1]

    def find(self, terms: Sequence[bytes], *, lengths: bool = True) -> list[Term | None]:
        return self._part(terms).find(terms, lengths=lengths)

    def begin_find(self, terms: Sequence[bytes], *, lengths: bool = True) -> Pending[list[Term | None]]:
        return Pending(None, (), lambda _: self.find(terms, lengths=lengths))

    def with_prefix(self, prefix: bytes) -> list[bytes]:
        whole = self._whole()
        if whole is not None:
            return whole.with_prefix(prefix)
        found = {term for chunk in self._chunks() for term in MemoryPart(chunk).with_prefix(prefix)}
        return sorted(found)

    def all_terms(self) -> Iterator[pa.Array]:
        whole = self._whole()
        if whole is not None:
            yield from whole.all_terms()
            return
        found = pa.concat_arrays([chunk.terms for chunk in self._chunks()]).unique()
        yield found.sort()

    # -- behind it ---------------------------------------------------------------------------------

    def _known(self) -> tuple[NDArray[np.uint32], NDArray[np.bool_] | None]:
        if self._facts is None:
            part = self._part(())
            self._facts = part.lengths(), part.present()
        return self._facts

    def _whole(self) -> MemoryPart | None:
        """All postings, where they are kept or can be."""
        found = self._kept.get(self._key)
        if found is not None or self._large:
            return found
        with self._lock:
            found = self._kept.get(self._key)
            if found is not None:
                return found
            chunks, nbytes = [], 0
            for chunk in self._chunks():
                chunks.append(chunk)
                nbytes += chunk.nbytes
                if nbytes > self._kept.limit_bytes // 2:
                    self._large = True
                    return None
            found = MemoryPart(chunks[0] if len(chunks) == 1 else merge(chunks, [None] * len(chunks)))
            self._kept.put(self._key, found)
            return found

    def _part(self, terms: Sequence[bytes]) -> MemoryPart:
        return self._whole() or self._restricted(terms)

    def _restricted(self, terms: Sequence[bytes]) -> MemoryPart:
        """The postings of some terms alone."""
        wanted = pa.array(sorted(set(terms)), pa.large_binary())
        chunks = [only(chunk, wanted) for chunk in self._chunks()]
        return MemoryPart(merge(chunks, [None] * len(chunks)))


def only(postings: Postings, wanted: pa.Array) -> Postings:
    """The postings of some terms; documents stay as they are."""
    chosen = pc.is_in(postings.terms, value_set=wanted).to_numpy(zero_copy_only=False)
    counts = np.diff(postings.starts)
    kept = np.repeat(chosen, counts)
    positions = postings.positions
    return postings._replace(
        terms=postings.terms.filter(pa.array(chosen)),
        starts=np.concatenate(([0], np.cumsum(counts[chosen]))),
        docs=postings.docs[kept],
        freqs=postings.freqs[kept],
        positions=None if positions is None else positions[np.repeat(kept, postings.freqs)],
    )
