"""Texts to tokens: what a text index keeps of a column, and what a query's words become.

What must hold:
- The tokens of a text depend on it and the analyzer alone: a column cut anywhere between rows gives the same ones, and
  ``terms_of`` and ``spans_of`` follow the same rules as ``tokenize``.
- A word that is left out keeps its position, so that a phrase does not close over it.
- No Python code runs for each token or text of a column, only for each distinct word.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import InvalidInputError
from siltstone.index.analyze_split import Piece, Split, split
from siltstone.index.analyze_words import gram_places, grams, spans, spelled, split_apart, terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from siltstone.format.text import Analyzer


class Tokens(NamedTuple):
    """The tokens of one chunk of a column, by text and place in it."""

    terms: pa.Array  # large_binary: distinct, in the order of their bytes
    term: NDArray[np.uint32]  # for each token, its place in terms
    doc: NDArray[np.uint32]  # for each token, ascending
    position: NDArray[np.uint32]  # for each token, ascending inside a text; empty where none were asked for
    lengths: NDArray[np.uint32]  # for each text, its tokens; 0 for a null
    present: NDArray[np.bool_]  # for each text: it is not null


def tokenize(texts: pa.ChunkedArray | pa.Array, analyzer: Analyzer, *, positions: bool = True) -> Tokens:
    """The tokens of a column of strings.

    Raises:
        InvalidInputError: the column has no texts, or a text is not UTF-8.
    """
    found = split(texts, analyzer.tokenizer, lower=analyzer.lower)
    words, first, sizes = _spelled(found.words, analyzer)
    named = terms(words, analyzer)
    if analyzer.tokenizer == "ngram":
        ordered, made = _cut(named, first, sizes, analyzer)
    else:
        ordered, number = _numbered(named)
        made = _Words(number, first, sizes)
    return _gathered(found, ordered, made, positions=positions)


class _Words(NamedTuple):
    """What distinct candidates become: candidate c is the terms ``number[first[c] : first[c] + sizes[c]]``."""

    number: NDArray[np.int32]  # of a term; -1 for what is left out
    first: NDArray[np.int64]
    sizes: NDArray[np.int64]


def _gathered(found: Split, ordered: pa.Array, words: _Words, *, positions: bool) -> Tokens:
    """The tokens, piece by piece."""
    term_of = np.full(len(words.sizes), -1, np.int32)  # of candidates that are one word
    single = words.sizes == 1
    term_of[single] = words.number[words.first[single]]
    others = [np.flatnonzero(~single[piece.own][piece.word]) for piece in found.pieces]
    total = sum(_size(piece, other, words) for piece, other in zip(found.pieces, others, strict=True))
    # The ends of these stay untouched where tokens are left out, and memory that is not touched is not taken.
    term, doc = np.empty(total, np.uint32), np.empty(total, np.uint32)
    position = np.empty(total if positions else 0, np.uint32)
    lengths = np.empty(len(found.present), np.uint32)
    end = document = 0
    for piece, other in zip(found.pieces, others, strict=True):
        named, bounds = term_of[piece.own][piece.word], piece.bounds
        if len(other):
            named, bounds = _expanded(named, piece, other, words)
        kept = np.flatnonzero(named >= 0)
        begin, end = end, end + len(kept)
        counts = np.diff(np.searchsorted(kept, bounds))
        term[begin:end] = named[kept]
        doc[begin:end] = np.repeat(np.arange(document, document + len(counts), dtype=np.uint32), counts)
        if positions:
            position[begin:end] = kept - np.repeat(bounds[:-1], counts)
        lengths[document : document + len(counts)] = counts
        document += len(counts)
    return Tokens(ordered, term[:end], doc[:end], position[:end], lengths, found.present)


def _size(piece: Piece, other: NDArray[np.intp], words: _Words) -> int:
    """How many words a piece has; ``other`` are its candidates that are not one."""
    return len(piece.word) - len(other) + int(words.sizes[piece.own[piece.word[other]]].sum())


def _expanded(
    named: NDArray[np.int32], piece: Piece, other: NDArray[np.intp], words: _Words
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """A piece's terms with the words in place of each candidate that is not one, and where each text begins in them."""
    candidate = piece.own[piece.word[other]]
    sizes = words.sizes[candidate]
    ends = np.cumsum(sizes)
    within = np.arange(len(sizes) and ends[-1]) - np.repeat(ends - sizes, sizes)
    added = np.concatenate([[0], ends - np.arange(1, len(other) + 1)])  # by how much what follows moves up
    places = np.repeat(other + added[:-1], sizes) + within
    single = np.ones(len(named), np.bool_)
    single[other] = False
    filled = np.ones(len(named) + added[-1], np.bool_)
    filled[places] = False
    spread = np.empty(len(filled), np.int32)
    spread[filled] = named[single]
    spread[places] = words.number[np.repeat(words.first[candidate], sizes) + within]
    return spread, piece.bounds + added[np.searchsorted(other, piece.bounds)]


def _spelled(words: pa.Array, analyzer: Analyzer) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """The spelled words of the candidates; for each candidate, where its own begin and how many there are."""
    strings = words.view(pa.large_string())
    plain = pc.string_is_ascii(strings).to_numpy(zero_copy_only=False)
    ascii_words = strings.filter(pa.array(plain))
    # Candidates of ASCII are words. Their letters are in lower case already, but for whole texts.
    found = (pc.ascii_lower(ascii_words) if analyzer.lower else ascii_words).to_pylist()
    first = np.empty(len(words), np.int64)
    sizes = np.ones(len(words), np.int64)
    first[plain] = np.arange(len(found))
    others = [split_apart(text, analyzer) for text in _decoded(strings.filter(pa.array(~plain)))]
    sizes[~plain] = [len(own) for own in others]
    first[~plain] = len(found) + np.cumsum(sizes[~plain]) - sizes[~plain]
    return found + spelled(list(chain.from_iterable(others)), analyzer), first, sizes


def _decoded(texts: pa.Array) -> list[str]:
    try:
        found: list[str] = texts.to_pylist()
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"a text is not UTF-8: {error.object[max(error.start - 16, 0) : error.end + 16]!r}",
            hint="decode the column with its own encoding before it is written",
        ) from error
    return found


def _cut(
    named: list[str], first: NDArray[np.int64], sizes: NDArray[np.int64], analyzer: Analyzer
) -> tuple[pa.Array, _Words]:
    """The distinct n-grams in order, and those that the candidates become."""
    lengths = np.array([len(term) for term in named], np.int64)
    counts = np.zeros(len(named), np.int64)
    for size in range(analyzer.ngram_min, analyzer.ngram_max + 1):
        counts += np.maximum(lengths - size + 1, 0)
    ends = np.cumsum(np.concatenate([[0], np.where(lengths == 0, 1, counts)]))
    met: dict[str, int] = {}
    every = (met.setdefault(gram, len(met)) for term in named for gram in grams(term, analyzer))
    gram = np.fromiter(every, np.int32, count=int(ends[-1]))
    ordered, number = _numbered(list(met))
    return ordered, _Words(number[gram], ends[first], ends[first + sizes] - ends[first])


def _numbered(named: list[str]) -> tuple[pa.Array, NDArray[np.int32]]:
    """The distinct names in the order of their bytes, and for each name its place in them; -1 for no name."""
    encoded = pa.array(named, pa.large_string()).dictionary_encode()
    distinct = encoded.dictionary.cast(pa.large_binary())
    order = pc.sort_indices(distinct)
    empty = int(len(order) > 0 and not distinct[order[0].as_py()].as_py())  # no name comes first
    rank = np.empty(len(order), np.int32)
    rank[order.to_numpy()] = np.arange(-empty, len(order) - empty)
    return distinct.take(order.slice(empty)), rank[encoded.indices.to_numpy()]


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(f"a text must be a str, got {type(text).__name__}", hint="decode bytes first")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"the text has half a character at {error.start}", hint="pass text that can be written as UTF-8"
        ) from error
    return text


def terms_of(text: str, analyzer: Analyzer) -> list[tuple[bytes, int]]:
    """The terms of a query's text and their positions."""
    return [(term.encode(), at) for at, (term, _, _) in enumerate(_placed(text, analyzer)) if term]


def is_left_out(text: str, analyzer: Analyzer) -> bool:
    """Whether the last word of a query's text is none that is indexed."""
    found = _placed(text, analyzer)
    return bool(found) and not found[-1][0]


def spans_of(text: str, analyzer: Analyzer) -> list[tuple[bytes, int, int]]:
    """The terms of a text and where each begins and ends in it, in characters."""
    return [(term.encode(), begin, end) for term, begin, end in _placed(text, analyzer) if term]


def _placed(text: str, analyzer: Analyzer) -> list[tuple[str, int, int]]:
    """Each token of a text and where it is; those that are left out as ``""``."""
    places = spans(_checked(text), analyzer)
    words = spelled([text[begin:end] for begin, end in places], analyzer)
    named = [(term, begin, end) for term, (begin, end) in zip(terms(words, analyzer), places, strict=True)]
    if analyzer.tokenizer != "ngram":
        return named
    return [
        (gram, *place)
        for word, (term, begin, end) in zip(words, named, strict=True)
        for gram, place in zip(grams(term, analyzer), _gram_spans(word, term, begin, end, analyzer), strict=False)
    ]


def _gram_spans(word: str, term: str, begin: int, end: int, analyzer: Analyzer) -> Iterator[tuple[int, int]]:
    """Where a term's n-grams are; where its letters stand for others, each is the whole word's."""
    if term and len(word) == end - begin and word.startswith(term):
        return ((begin + low, begin + high) for low, high in gram_places(len(term), analyzer))
    return repeat((begin, end))
