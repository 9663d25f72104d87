"""A column's index as a search sees it: the live documents of all its parts as one, and what counts in them.

What must hold:
- Documents that are not alive are nowhere in it: not in how many there are, not in their average length, not in how
  many have a term. So a row's score is the same whichever parts have it and its neighbours.
- The postings of all terms that are asked for together take one round to find and one to read.
- What is kept for the next search is bounded in bytes; arrays are shared, and nobody writes to them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from siltstone.index.cache import Cache
from siltstone.index.match import as_rows, check_live, order_of
from siltstone.index.memory_part import no_positions
from siltstone.index.part import find_each, find_terms, read_terms
from siltstone.index.score import idf, norms, saturation

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from siltstone.format.text import Analyzer
    from siltstone.index.match import Live, Rows, Scores
    from siltstone.index.part import Part, Read, Term

    Numbers = NDArray[Any]
    Found = tuple[dict[bytes, "Posting"], dict[bytes, "Places"]]

CACHE_BYTES = 128 * 1024 * 1024
GROUP_DOCUMENTS = 2_000_000  # of parts that are searched at once, unless one part has more
TOPS = 128  # how many of a term's highest scores are known
POSITION_BITS = 32
_GROUPS = 2048
_DFS_MOST = 100_000
_SPARSE = 16
_NO_KEYS = np.empty(0, np.int64)


class Statistics(NamedTuple):
    """What scores rest on."""

    documents: int  # live ones that are not null
    average_length: float  # tokens in one of them


class Posting:
    """The rows that have a term (or terms that count as one), and what it counts in each before its weight."""

    __slots__ = ("_tops", "idf", "most", "rows", "values")

    def __init__(self, rows: Rows, values: Scores, idf: float) -> None:
        self.rows = rows
        self.values = values
        self.idf = idf
        self.most = float(values.max()) if len(values) else 0.0
        self._tops: NDArray[np.float64] | None = None

    def at_least(self, rank: int) -> float:
        """A value that at least ``rank`` rows reach; 0 where that is not known."""
        if rank > min(TOPS, len(self.rows)):
            return 0.0
        if self._tops is None:
            self._tops = highest(self.values, TOPS)
        return float(self._tops[rank - 1]) if rank <= len(self._tops) else 0.0

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return self.rows.nbytes + self.values.nbytes + TOPS * 8


class Places(NamedTuple):
    """Where a term is: row and position in one number, ascending."""

    keys: NDArray[np.int64]
    idf: float

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return self.keys.nbytes


class Column:
    """The index of a column over the documents that are alive. Safe to share between threads.

    Columns may share a cache: what was looked up in one that is used no more makes place for others.
    """

    def __init__(
        self,
        lives: Sequence[Live],
        analyzer: Analyzer,
        *,
        cache: Cache[object] | None = None,
        group_documents: int = GROUP_DOCUMENTS,
    ) -> None:
        for live in lives:
            check_live(live)
        self.lives = tuple(lives)
        self.analyzer = analyzer
        self.parts = tuple(live.part for live in lives)
        self._cache: Cache[object] = Cache(CACHE_BYTES) if cache is None else cache
        self._id = object()  # what others keep in the same cache is of other documents
        self._whole: Column | None = None  # where this is a group of its parts
        self._group_documents = group_documents

    @cached_property
    def groups(self) -> tuple[Column, ...]:
        """Columns of some parts each, that score as this one: who goes through them needs less memory."""
        if self._whole is not None or sum(part.documents for part in self.parts) <= self._group_documents:
            return (self,)
        lives: list[list[Live]] = []
        size = 0
        for live in self.lives:
            size += live.part.documents
            if not lives or size > self._group_documents:
                lives.append([])
                size = live.part.documents
            lives[-1].append(live)
        return tuple(map(self._group, lives))

    def _group(self, lives: Sequence[Live]) -> Column:
        group = Column(lives, self.analyzer, cache=self._cache)
        group._whole = self
        return group

    @cached_property
    def end(self) -> int:
        """The first row behind all documents."""
        return max((live.end for live in self.lives), default=0)

    @cached_property
    def statistics(self) -> Statistics:
        """How many documents are alive, and how long they are."""
        if self._whole is not None:
            return self._whole.statistics
        documents = tokens = 0
        for part, alive, *_ in self.lives:
            present = part.present()
            if alive is None:
                documents += part.documents if present is None else int(np.count_nonzero(present))
                tokens += part.tokens
            else:
                documents += int(np.count_nonzero(alive if present is None else alive & present))
                tokens += int(part.lengths()[alive].sum(dtype=np.int64))
        return Statistics(documents, tokens / documents if documents else 0.0)

    def dfs(self, terms: Sequence[bytes]) -> dict[bytes, int]:
        """How many live documents have each of some terms, without keeping what is read for that."""
        known = {term: count for term in terms if (count := self._dfs.get(term)) is not None}
        missing = list(dict.fromkeys(term for term in terms if term not in known))
        if missing:
            counts = dict.fromkeys(missing, 0)
            for live, found in zip(self.lives, find_terms(self.parts, missing), strict=True):
                for name, term in zip(missing, found, strict=True):
                    counts[name] += 0 if term is None else _df(term, live.alive)
            if len(self._dfs) > _DFS_MOST:
                self._dfs.clear()
            self._dfs.update(counts)
            known |= counts
        return known

    @cached_property
    def _dfs(self) -> dict[bytes, int]:
        return {}

    def look_up(self, words: Iterable[bytes], placed: Iterable[bytes] = ()) -> Found:
        """Which rows have some terms, and where others are; also of terms that are nowhere.

        Raises:
            InvalidInputError: places are asked for, and the index has no positions.
        """
        postings: dict[bytes, Posting] = {}
        places: dict[bytes, Places] = {}
        missing: dict[tuple[bytes, bool], None] = {}  # terms, and whether their places are wanted
        for term in words:
            kept = self._cache.get((self._id, term, False))
            if isinstance(kept, Posting):
                postings[term] = kept
            else:
                missing[term, False] = None
        for term in placed:
            kept = self._cache.get((self._id, term, True))
            if isinstance(kept, Places):
                places[term] = kept
            else:
                missing[term, True] = None
        if missing:
            self._fill(list(missing), postings, places)
        return postings, places

    def _fill(
        self, missing: Sequence[tuple[bytes, bool]], postings: dict[bytes, Posting], places: dict[bytes, Places]
    ) -> None:
        """Read terms, or their places, and keep them."""
        dfs = None if self._whole is None else self._whole.dfs([term for term, _ in missing])
        for (term, positions), read in zip(missing, self._read(missing), strict=True):
            df = None if dfs is None else dfs[term]
            found: Posting | Places
            if positions:
                found = places[term] = self._places(read, df)
            else:
                found = postings[term] = self._posting(read, df)
            self._cache.put((self._id, term, positions), found, found.nbytes)

    def together(self, key: Hashable, terms: Callable[[Part], list[tuple[bytes, float]]]) -> Posting:
        """Terms that count as one, each occurrence by the term's weight; which ones says each part for itself."""
        kept = self._cache.get((self._id, key))
        if isinstance(kept, Posting):
            return kept
        weighted = [terms(part) for part in self.parts]
        found = find_each([(part, [term for term, _ in own]) for part, own in zip(self.parts, weighted, strict=True)])
        wanted = [
            (number, weight, term)
            for number, (own, there) in enumerate(zip(weighted, found, strict=True))
            for (_, weight), term in zip(own, there, strict=True)
            if term is not None
        ]
        sets: list[list[tuple[Numbers, Numbers]]] = [[] for _ in self.lives]
        for (number, weight, _), read in zip(
            wanted, read_terms([(term, None, False) for *_, term in wanted]), strict=True
        ):
            sets[number].append((read.docs, read.freqs * weight))
        scored = [
            (number, *_alive(live, *_counted_together(own, live.part.documents)))
            for number, (live, own) in enumerate(zip(self.lives, sets, strict=True))
            if own
        ]
        posting = self._scored(scored, None)
        self._cache.put((self._id, key), posting, posting.nbytes)
        return posting

    def counted(self, rows: Rows, freqs: NDArray[np.int64], weight: float) -> Posting:
        """What something counts that is so often in rows, with a weight of its own."""
        values = saturation(freqs, norms(self._lengths_of(rows), self.statistics.average_length))
        return Posting(rows, values, weight)

    def _read(self, terms: Sequence[tuple[bytes, bool]]) -> list[list[tuple[int, Read]]]:
        """For each term, with positions or without, what the parts have of it."""
        wanted: list[tuple[Term, None, bool]] = []
        places: list[tuple[int, int]] = []
        for number, found in enumerate(find_terms(self.parts, [term for term, _ in terms])):
            for place, term in enumerate(found):
                if term is None:
                    continue
                if terms[place][1] and not term.has_positions:
                    raise no_positions()
                wanted.append((term, None, terms[place][1]))
                places.append((place, number))
        out: list[list[tuple[int, Read]]] = [[] for _ in terms]
        for (place, number), read in zip(places, read_terms(wanted), strict=True):
            out[place].append((number, read))
        return out

    def _posting(self, read: list[tuple[int, Read]], df: int | None) -> Posting:
        return self._scored([(number, *_alive(self.lives[number], one.docs, one.freqs)) for number, one in read], df)

    def _scored(self, found: Sequence[tuple[int, Numbers, Numbers]], df: int | None) -> Posting:
        """A posting of live documents and frequencies, part after part."""
        lives = [self.lives[number] for number, _, _ in found]
        rows, slices = as_rows(lives, [docs for _, docs, _ in found])
        values = np.empty(len(rows), np.float64)
        for live, place, (_, docs, freqs) in zip(lives, slices, found, strict=True):
            norm = norms(live.part.lengths()[docs], self.statistics.average_length)
            values[place] = saturation(freqs, norm)
        order = order_of(rows)
        if order is not None:
            rows, values = rows[order], values[order]
        return Posting(rows, values, idf(len(rows) if df is None else df, self.statistics.documents))

    def _places(self, read: list[tuple[int, Read]], df: int | None) -> Places:
        parts = [_NO_KEYS]
        count = 0
        for number, (docs, freqs, positions) in read:
            live = self.lives[number]
            if positions is None:
                raise no_positions()
            keys = np.repeat(live.rows(docs) << POSITION_BITS, freqs)
            keys += positions
            if live.alive is None:
                count += len(docs)
            else:
                alive = live.alive[docs]
                count += int(np.count_nonzero(alive))
                keys = keys[np.repeat(alive, freqs)]
            parts.append(keys)
        joined = np.concatenate(parts)
        order = order_of(joined)
        sure = idf(count if df is None else df, self.statistics.documents)
        return Places(joined if order is None else joined[order], sure)

    def _lengths_of(self, rows: Rows) -> NDArray[np.uint32]:
        """The lengths of the documents that are these rows."""
        bases, shifts, numbers = self._runs
        run = np.searchsorted(bases, rows, side="right") - 1
        docs, number = rows - shifts[run], numbers[run]
        lengths = np.empty(len(rows), np.uint32)
        for one in np.unique(number).tolist():
            own = number == one
            lengths[own] = self.lives[one].part.lengths()[docs[own]]
        return lengths

    @cached_property
    def _runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Runs of documents with a live one, by row: the first row, how far rows are before documents, the part."""
        runs = [np.empty((3, 0), np.int64)]
        for number, live in enumerate(self.lives):
            every = np.stack((live.bases, live.bases - live.starts, np.full(len(live.bases), number)))
            runs.append(every[:, live.runs_alive()])
        joined = np.concatenate(runs, axis=1)
        bases, shifts, numbers = joined[:, np.argsort(joined[0], kind="stable")]
        return bases, shifts, numbers


def _alive(live: Live, docs: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    if live.alive is None:
        return docs, counts
    keep = live.alive[docs]
    return docs[keep], counts[keep]


def _counted_together(sets: Sequence[tuple[Numbers, Numbers]], documents: int) -> tuple[Numbers, Numbers]:
    """The documents of a part that are in any of the sets, and their frequencies added in the order given."""
    docs = np.concatenate([docs for docs, _ in sets]).astype(np.int64)
    freqs = np.concatenate([freqs for _, freqs in sets])
    if len(docs) * _SPARSE < documents:
        numbers, place = np.unique(docs, return_inverse=True)
        return numbers, np.bincount(place, weights=freqs)
    dense = np.bincount(docs, weights=freqs)
    numbers = np.flatnonzero(dense)  # each has something
    return numbers, dense[numbers]


def _df(term: Term, alive: NDArray[np.bool_] | None) -> int:
    """How many live documents have a term: blocks are read only where some of theirs may not be alive."""
    if alive is None:
        return term.df
    blocks = term.blocks
    dead = np.concatenate(([0], np.cumsum(~alive)))
    touched = dead[blocks.last_doc + 1] > dead[blocks.first_doc]
    sure = int(blocks.count[~touched].sum())
    if not touched.any():
        return sure
    docs, _ = term.read(np.flatnonzero(touched))
    return sure + int(np.count_nonzero(alive[docs]))


def highest(values: Scores, count: int) -> NDArray[np.float64]:
    """Values, descending: the n-th is reached by n or more of these. They are fewer than asked where there are few."""
    if len(values) > 4 * _GROUPS:
        # The highest of each of many groups: each is one of the values, and it takes one fast pass.
        height = len(values) // _GROUPS
        values = values[: height * _GROUPS].reshape(height, _GROUPS).max(axis=0)
    if len(values) > count:
        values = np.partition(values, len(values) - count)[len(values) - count :]
    return np.sort(values)[::-1]
