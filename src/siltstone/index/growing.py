"""Parts of rows that are in memory alone and keep coming: each chunk of them is indexed once.

What must hold:
- A document is a row as it came, whether it counts now or not: who searches says which are alive.
- Chunks that come later make no part of earlier ones void. Parts are merged with their neighbours as they grow, so
  that there are few, and each row is merged a few times only.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from siltstone.index.making import postings_of_texts
from siltstone.index.memory_part import MemoryPart
from siltstone.index.merge import merge
from siltstone.locks import ForkLock

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from siltstone.format.text import Analyzer
    from siltstone.index.postings import Postings

GROWTH = 4  # a part is merged with the one behind it where that is at least a quarter as large


class Warm:
    """Postings of chunks that were indexed as they came, each kept as long as its rows are. Threads may share it."""

    def __init__(self, column: str, analyzer: Analyzer) -> None:
        self.column = column
        self.analyzer = analyzer
        self._made: dict[int, tuple[weakref.ref[pa.Table], Postings]] = {}

    def add(self, rows: pa.Table) -> None:
        """Index a chunk."""
        place = id(rows)
        made = postings_of_texts(rows.column(self.column), self.analyzer)
        self._made[place] = weakref.ref(rows, lambda _: self._made.pop(place, None)), made

    def postings(self, rows: pa.Table) -> Postings:
        """Those of a chunk, made now where they are not there."""
        found = self._made.get(id(rows))
        if found is not None and found[0]() is rows:
            return found[1]
        return postings_of_texts(rows.column(self.column), self.analyzer)

    def __len__(self) -> int:
        return len(self._made)


class Run(NamedTuple):
    """A part of some chunks, and where its first document is among all."""

    first: int
    chunks: int
    part: MemoryPart


class Growing:
    """The parts of chunks that came so far. Safe to share between threads."""

    def __init__(self, warm: Warm) -> None:
        self._warm = warm
        self._lock = ForkLock()
        self._runs: list[Run] = []

    def runs(self, chunks: Sequence[pa.Table]) -> list[Run]:
        """The parts of some chunks: all that were seen before, or those and more. They may go beyond."""
        with self._lock:
            known = sum(one.chunks for one in self._runs)
            fresh = chunks[known:]
            if fresh:
                first = self._runs[-1].first + self._runs[-1].part.documents if self._runs else 0
                made = [self._warm.postings(one) for one in fresh]
                part = MemoryPart(made[0] if len(made) == 1 else merge(made, [None] * len(made)))
                self._runs.append(Run(first, len(fresh), part))
                self._shrink()
            return list(self._runs)

    def _shrink(self) -> None:
        while len(self._runs) > 1 and self._runs[-2].part.documents < GROWTH * self._runs[-1].part.documents:
            last, before = self._runs.pop(), self._runs.pop()
            part = MemoryPart(merge([before.part.postings, last.part.postings], [None, None]))
            self._runs.append(Run(before.first, before.chunks + last.chunks, part))
