"""What a search asks of a part, whether it is in memory or in a store.

What must hold:
- Finding terms takes one round of requests, and reading postings takes one, however many parts and terms there are.
- Bounds are true, and may be loose: no posting of a term has a higher frequency or a shorter document than they say.
- Arrays that a part gives out are shared: nobody writes to them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from siltstone.format.text_part import Bytes

    Chosen = NDArray[np.intp] | None  # numbers of blocks, ascending; None for all
    Range = tuple[int, int]

OBJECTS_IN_FLIGHT = 16

T = TypeVar("T")


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """The blocks that hold the postings of a term, in order of documents."""

    first_doc: NDArray[np.int64]  # none of the term in the block is before it, and
    last_doc: NDArray[np.int64]  # none is after it
    max_freq: NDArray[np.int64]
    min_length: NDArray[np.int64]  # of the documents
    count: NDArray[np.int64]  # of the term's postings


class Read(NamedTuple):
    """Postings that were read."""

    docs: NDArray[np.uint32]
    freqs: NDArray[np.uint32]
    positions: NDArray[np.uint32] | None  # posting after posting; None where they were not asked for


class Source(Protocol):
    """An object that ranges are read from."""

    @property
    def overlaps(self) -> bool:
        """Whether requests to several objects at once take less time than one after the other."""

    def fetch(self, ranges: Sequence[Range]) -> list[Bytes]:
        """The bytes of some ranges, in one round."""


class Pending(NamedTuple, Generic[T]):
    """What is still to be fetched for an answer, and how it is made from the bytes."""

    source: Source | None  # None where nothing is missing
    ranges: Sequence[Range]
    finish: Callable[[Sequence[Bytes]], T]


class Term(Protocol):
    """A term of a part."""

    @property
    def df(self) -> int:
        """How many documents have it."""

    @property
    def max_freq(self) -> int:
        """At least how often any of them has it."""

    @property
    def min_length(self) -> int:
        """At most the length of the shortest of them."""

    @property
    def has_positions(self) -> bool:
        """Whether it is known where in a document it is."""

    @property
    def blocks(self) -> Blocks:
        """Where its postings are."""

    def read(self, chosen: Chosen = None) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Documents and frequencies of some of its blocks (numbers that ascend), one behind the other."""

    def read_positions(self, chosen: Chosen = None) -> NDArray[np.uint32]:
        """The positions in these documents, from 0 on; they ascend in each."""

    def begin_read(self, chosen: Chosen, *, positions: bool) -> Pending[Read]:
        """What reading them needs."""


class Part(Protocol):
    """The postings of some documents, with numbers from 0 on."""

    @property
    def documents(self) -> int:
        """How many there are."""

    @property
    def tokens(self) -> int:
        """How many tokens they have together."""

    def lengths(self) -> NDArray[np.uint32]:
        """The tokens of each document."""

    def present(self) -> NDArray[np.bool_] | None:
        """Which documents are not null; None where all are there."""

    def find(self, terms: Sequence[bytes], *, lengths: bool = True) -> list[Term | None]:
        """What the part has of some terms. With ``lengths`` these are fetched along."""

    def begin_find(self, terms: Sequence[bytes], *, lengths: bool = True) -> Pending[list[Term | None]]:
        """What finding them needs."""

    def with_prefix(self, prefix: bytes) -> list[bytes]:
        """The terms that begin so, in order."""

    def all_terms(self) -> Iterator[pa.Array]:
        """All terms (large_binary), in order, some at a time."""


def find_terms(parts: Sequence[Part], terms: Sequence[bytes], *, lengths: bool = True) -> list[list[Term | None]]:
    """What each of several parts has of some terms."""
    return together([part.begin_find(terms, lengths=lengths) for part in parts])


def find_each(wanted: Sequence[tuple[Part, Sequence[bytes]]]) -> list[list[Term | None]]:
    """What each of several parts has of terms of its own."""
    return together([part.begin_find(terms) for part, terms in wanted])


def read_terms(wanted: Sequence[tuple[Term, Chosen, bool]]) -> list[Read]:
    """Postings of several terms of any parts: each with its blocks, and whether with positions."""
    return together([term.begin_read(chosen, positions=positions) for term, chosen, positions in wanted])


def together(pending: Sequence[Pending[T]]) -> list[T]:
    """The answers, after one round of requests for all of them."""
    by_source: dict[Source, list[Range]] = {}
    for one in pending:
        if one.source is not None:
            by_source.setdefault(one.source, []).extend(one.ranges)
    if not by_source:
        return [one.finish(()) for one in pending]
    fetched = {source: iter(found) for source, found in zip(by_source, _fetch(by_source), strict=True)}
    parts = [[next(fetched[one.source]) for _ in one.ranges] if one.source is not None else () for one in pending]
    return [one.finish(part) for one, part in zip(pending, parts, strict=True)]


def _fetch(by_source: dict[Source, list[Range]]) -> list[list[Bytes]]:
    if len(by_source) < 2 or not all(source.overlaps for source in by_source):
        return [source.fetch(ranges) for source, ranges in by_source.items()]
    threads = min(OBJECTS_IN_FLIGHT, len(by_source))
    with ThreadPoolExecutor(threads, thread_name_prefix="siltstone-text") as pool:
        return list(pool.map(lambda pair: pair[0].fetch(pair[1]), by_source.items()))
