"""Parts in a store: what a search needs of them is read by ranges, and kept in decoded form.

What must hold:
- Finding terms takes one round of requests: dictionary pages and the lengths of documents. Reading postings takes
  another one. Ranges that are near each other are one request, and what is kept takes none.
- Every piece is checked before it is used. An object that is cut, changed or gone is a CorruptionError that names it.
- A read has all it needs in hand: what the cache drops meanwhile changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siltstone.errors import MissingObjectError, NotFoundError, UnavailableError
from siltstone.format.text_part import (
    PageTable,
    checked,
    damaged,
    decode_docs,
    decode_lengths,
    decode_page,
    decode_positions,
    from_floor,
)
from siltstone.index.lexicon import Lexicon, after_prefix
from siltstone.index.memory_part import no_positions
from siltstone.index.part import Blocks, Pending, Read, Term, together
from siltstone.index.stored import block_heads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from siltstone.format.text import PartFacts
    from siltstone.format.text_part import Bytes
    from siltstone.index.cache import Cache
    from siltstone.index.part import Chosen, Range
    from siltstone.store.base import Store

NEAR_BYTES = 64 * 1024  # ranges that are no farther apart are read as one
PAGES_AT_ONCE = 64

DOCS, POSITIONS = "docs", "positions"


class PartObject:
    """The object of a part."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self.key = key
        self.overlaps = store.traits.overlaps

    def fetch(self, ranges: Sequence[Range]) -> list[Bytes]:
        """The bytes of some ranges, in the order asked for."""
        joined = join_near(ranges)
        found = self._get(joined)
        for part, (start, end) in zip(found, joined, strict=True):
            if len(part) != end - start:
                raise damaged(f"it ends before byte {end}", self.key)
        starts = [start for start, _ in joined]
        views = [memoryview(part) for part in found]
        return [
            views[place][start - starts[place] : end - starts[place]]
            for start, end in ranges
            for place in (bisect_right(starts, start) - 1,)
        ]

    def _get(self, ranges: Sequence[Range]) -> list[bytes]:
        try:
            return self._store.get_ranges(self.key, ranges)
        except NotFoundError as error:
            raise MissingObjectError(
                f"the part {self.key} of a text index is gone from {self._store.uri}",
                hint="restore it from a copy, or index anew",
                object=self.key,
            ) from error
        except UnavailableError as error:
            # Most stores refuse a range that begins past the end.
            info = self._store.head(self.key)
            if info is not None and info.size < max(end for _, end in ranges):
                raise damaged(f"it has only {info.size} bytes", self.key) from error
            raise


def join_near(ranges: Sequence[Range]) -> list[Range]:
    """The ranges in order, those that are near each other as one."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start - joined[-1][1] <= NEAR_BYTES:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


class _Dictionary:
    """A dictionary page, ready to be searched."""

    def __init__(self, number: int, table: PageTable) -> None:
        self.number = number
        self.table = table
        self.lexicon = Lexicon(table.term_offsets, table.term_bytes)
        self.starts = _sums(table.df)  # of the postings of each term
        self.edges = _sums(table.blocks.postings)  # of the postings of each block
        docs, positions = _sums(table.blocks.docs_bytes), _sums(table.blocks.positions_bytes)
        self._docs = (docs + table.offset).tolist()
        self._positions = (positions + (table.offset + docs[-1])).tolist()
        self._starts = memoryview(self.starts)  # type: ignore[arg-type]  # gives Python's numbers
        self._edges = self.edges.tolist()
        numbers = [*table[1:], *table.blocks]
        self.nbytes = 4 * self.starts.nbytes + sum(getattr(one, "nbytes", 0) for one in numbers) + len(table.term_bytes)

    def find(self, term: bytes) -> _Place | None:
        number = self.lexicon.find(term)
        if number < 0:
            return None
        start, end = self._starts[number], self._starts[number + 1]
        return _Place(number, start, end, bisect_right(self._edges, start) - 1, bisect_left(self._edges, end))

    def range_of(self, block: int, kind: str) -> Range:
        ends = self._docs if kind == DOCS else self._positions
        return ends[block], ends[block + 1]

    def heads(self, block: int) -> NDArray[np.int64]:
        return block_heads(self.starts, self._edges[block], self._edges[block + 1])

    def inside(self, block: int, place: _Place) -> tuple[int, int]:
        """Where a term's postings are in a block."""
        begin = self._edges[block]
        return max(place.start - begin, 0), min(place.end, self._edges[block + 1]) - begin


class _Place(NamedTuple):
    """Where a term is in its page: its number, its postings and its blocks."""

    number: int
    start: int
    end: int
    first: int
    last: int


class _Docs(NamedTuple):
    docs: NDArray[np.uint32]
    freqs: NDArray[np.uint32]


class _Positions(NamedTuple):
    positions: NDArray[np.uint32]
    ends: NDArray[np.int64]  # of those of each posting


class StoredPart:
    """A part in a store, by its record. Safe to share between threads, as the cache is."""

    def __init__(self, store: Store, key: str, facts: PartFacts, cache: Cache[object]) -> None:
        self.facts = facts
        self.documents = facts.documents
        self.tokens = facts.tokens
        self.object = PartObject(store, key)
        self.cache = cache
        self._id = (store.location, key)
        self._firsts = [page.first for page in facts.pages]

    def lengths(self) -> NDArray[np.uint32]:
        return self._lengths()[0]

    def present(self) -> NDArray[np.bool_] | None:
        return self._lengths()[1] if self.facts.nulls else None

    def find(self, terms: Sequence[bytes], *, lengths: bool = True) -> list[Term | None]:
        return together([self.begin_find(terms, lengths=lengths)])[0]

    def begin_find(self, terms: Sequence[bytes], *, lengths: bool = True) -> Pending[list[Term | None]]:
        of_terms = [bisect_right(self._firsts, term) - 1 for term in terms]
        pages = self._begin_pages({page for page in of_terms if page >= 0})
        ranges = [*pages.ranges]
        if lengths and self._kept("lengths") is None:
            ranges.append(self._lengths_range)

        def finish(data: Sequence[Bytes]) -> list[Term | None]:
            if len(data) > len(pages.ranges):
                self._keep_lengths(data[-1])
            found = pages.finish(data[: len(pages.ranges)])
            return [
                self._term(found[page], term) if page >= 0 else None for page, term in zip(of_terms, terms, strict=True)
            ]

        return Pending(self.object if ranges else None, ranges, finish)

    def with_prefix(self, prefix: bytes) -> list[bytes]:
        after = after_prefix(prefix)
        end = len(self._firsts) if after is None else bisect_left(self._firsts, after)
        wanted = range(max(bisect_right(self._firsts, prefix) - 1, 0), end)
        pages = together([self._begin_pages(wanted)])[0]
        return [term for number in wanted for term in pages[number].lexicon.with_prefix(prefix)]

    def all_terms(self) -> Iterator[pa.Array]:
        for start in range(0, len(self._firsts), PAGES_AT_ONCE):
            pages = together([self._begin_pages(range(start, min(start + PAGES_AT_ONCE, len(self._firsts))))])[0]
            for number in sorted(pages):
                yield pages[number].lexicon.array()

    def kept_block(self, page: int, block: int, kind: str) -> object:
        """A block that is kept, decoded."""
        return self.cache.get((self._id, page, block, kind))

    def keep_block(self, page: int, block: int, kind: str, decoded: _Docs | _Positions) -> None:
        """Keep a block."""
        for one in decoded:
            one.flags.writeable = False  # many reads share it
        self.cache.put((self._id, page, block, kind), decoded, sum(one.nbytes for one in decoded))

    def _kept(self, what: str | int) -> object:
        return self.cache.get((self._id, what))

    def _term(self, page: _Dictionary, term: bytes) -> Term | None:
        place = page.find(term)
        return None if place is None else StoredTerm(self, page, place)

    def _begin_pages(self, numbers: Iterable[int]) -> Pending[dict[int, _Dictionary]]:
        found: dict[int, _Dictionary] = {}
        missing: list[int] = []
        for number in numbers:
            kept = self._kept(number)
            if isinstance(kept, _Dictionary):
                found[number] = kept
            else:
                missing.append(number)
        pages = [self.facts.pages[number] for number in missing]

        def finish(data: Sequence[Bytes]) -> dict[int, _Dictionary]:
            return found | {
                number: self._dictionary(number, piece) for number, piece in zip(missing, data, strict=True)
            }

        ranges = [(page.offset, page.offset + page.length) for page in pages]
        return Pending(self.object if missing else None, ranges, finish)

    def _dictionary(self, number: int, data: Bytes) -> _Dictionary:
        key, page = self.object.key, self.facts.pages[number]
        checked(data, page.check, what="a dictionary page", name=key)
        made = _Dictionary(number, decode_page(data, facts=self.facts, name=key))
        if made.lexicon[0] != page.first:
            raise damaged("a dictionary page is not the one that its record says", key)
        self.cache.put((self._id, number), made, made.nbytes)
        return made

    @property
    def _lengths_range(self) -> Range:
        offset, size, _ = self.facts.lengths
        return offset, offset + size

    def _lengths(self) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        kept = self._kept("lengths")
        if isinstance(kept, tuple):
            return kept
        return self._keep_lengths(self.object.fetch([self._lengths_range])[0])

    def _keep_lengths(self, data: Bytes) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        found = decode_lengths(data, facts=self.facts, name=self.object.key)
        for one in found:
            one.flags.writeable = False
        self.cache.put((self._id, "lengths"), found, sum(one.nbytes for one in found))
        return found


class StoredTerm:
    """A term of a part in a store."""

    def __init__(self, part: StoredPart, page: _Dictionary, place: _Place) -> None:
        self._part = part
        self._page = page
        self._place = place
        self.df = place.end - place.start
        self.has_positions = part.facts.positions

    @property
    def max_freq(self) -> int:
        return int(self._page.table.max_freq[self._place.number])

    @property
    def min_length(self) -> int:
        if self._place.last - self._place.first > 1:
            return int(self.blocks.min_length.min())
        return from_floor(int(self._page.table.min_length[self._place.number]))

    @cached_property
    def blocks(self) -> Blocks:
        table, own = self._page.table.blocks, slice(self._place.first, self._place.last)
        if self._place.last - self._place.first > 1:
            return Blocks(
                table.first_doc[own],
                table.last_doc[own],
                table.max_freq[own],
                table.min_length[own],
                table.postings[own],
            )
        mine = np.array([[self.max_freq], [self.min_length], [self.df]])
        return Blocks(table.first_doc[own], table.last_doc[own], mine[0], mine[1], mine[2])

    def read(self, chosen: Chosen = None) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        docs, freqs, _ = together([self.begin_read(chosen, positions=False)])[0]
        return docs, freqs

    def read_positions(self, chosen: Chosen = None) -> NDArray[np.uint32]:
        positions = together([self.begin_read(chosen, positions=True)])[0].positions
        return positions if positions is not None else np.empty(0, np.uint32)

    def begin_read(self, chosen: Chosen, *, positions: bool) -> Pending[Read]:
        if positions and not self.has_positions:
            raise no_positions()
        first, last = self._place.first, self._place.last
        blocks = range(first, last) if chosen is None else [first + int(number) for number in chosen]
        wanted = [(block, kind) for kind in ((DOCS, POSITIONS) if positions else (DOCS,)) for block in blocks]
        number = self._page.number
        kept = {one: self._part.kept_block(number, *one) for one in wanted}
        missing = [one for one in wanted if kept[one] is None]

        def finish(data: Sequence[Bytes]) -> Read:
            for one, piece in zip(missing, data, strict=True):  # documents come first: positions need frequencies
                shared = self._part.kept_block(number, *one)  # terms of one block are often read together
                kept[one] = self._decode(*one, piece, kept) if shared is None else shared
            return self._read(blocks, kept, positions=positions)

        ranges = [self._page.range_of(*one) for one in missing]
        return Pending(self._part.object if missing else None, ranges, finish)

    def _decode(self, block: int, kind: str, data: Bytes, kept: dict[tuple[int, str], object]) -> object:
        table, name = self._page.table.blocks, self._part.object.key
        decoded: _Docs | _Positions
        if kind == DOCS:
            decoded = _Docs(*decode_docs(data, table, block, self._page.heads(block), name=name))
        else:
            docs = kept[block, DOCS]
            ends = np.cumsum(docs.freqs if isinstance(docs, _Docs) else (), dtype=np.int64)
            decoded = _Positions(decode_positions(data, table, block, ends, name=name), ends)
        self._part.keep_block(self._page.number, block, kind, decoded)
        return decoded

    def _read(self, blocks: Sequence[int], kept: dict[tuple[int, str], object], *, positions: bool) -> Read:
        docs, freqs, places = [], [], []
        for block in blocks:
            start, end = self._page.inside(block, self._place)
            found = kept[block, DOCS]
            if isinstance(found, _Docs):
                docs.append(found.docs[start:end])
                freqs.append(found.freqs[start:end])
            at = kept[block, POSITIONS] if positions else None
            if isinstance(at, _Positions):
                places.append(at.positions[at.ends[start - 1] if start else 0 : at.ends[end - 1]])
        return Read(_joined(docs), _joined(freqs), _joined(places) if positions else None)


def _joined(parts: Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.uint32)


def _sums(counts: NDArray[np.int64] | NDArray[np.uint32]) -> NDArray[np.int64]:
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums
