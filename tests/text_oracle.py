"""What a text search must answer, computed one document at a time, and columns of made-up documents to ask."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from siltstone.format.text import Analyzer
from siltstone.index.analyze import terms_of, tokenize
from siltstone.index.cache import Cache
from siltstone.index.match import Live
from siltstone.index.memory_part import MemoryPart
from siltstone.index.part_read import StoredPart
from siltstone.index.postings import postings_of
from siltstone.index.query import Boolean, Boost, Fuzzy, Match, MultiMatch, Phrase, Prefix
from siltstone.index.statistics import Column
from siltstone.index.stored import encode_part

K1, B = 1.2, 0.75
PLAIN = Analyzer(stem=False, stop_words=False, fold=False)


def unstopped(analyzer):
    return msgspec.structs.replace(analyzer, stop_words=False)


def plain(analyzer):
    return msgspec.structs.replace(analyzer, stop_words=False, stem=False)


def edits_between(one, other):
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
    return row[-1]


@dataclass
class Documents:
    """The live texts of a column by row, and the rules of its index."""

    texts: dict[int, str | None]
    analyzer: Analyzer = PLAIN
    tokens: dict[int, list[tuple[bytes, int]]] = field(init=False)

    def __post_init__(self):
        self.tokens = {row: terms_of(text, self.analyzer) for row, text in self.texts.items() if text is not None}
        self.count = len(self.tokens)
        total = sum(len(tokens) for tokens in self.tokens.values())
        self.average = total / self.count if self.count else 0.0
        self.terms = {term for tokens in self.tokens.values() for term, _ in tokens}

    def idf(self, df):
        return math.log(1 + (self.count - df + 0.5) / (df + 0.5))

    def scored(self, freqs, weight):
        """Scores of rows with these frequencies."""
        out = {}
        for row, freq in freqs.items():
            if freq:
                norm = K1 * (1 - B + B * len(self.tokens[row]) / self.average)
                out[row] = weight * freq / (freq + norm)
        return out

    def freqs(self, weights):
        return {
            row: found
            for row, tokens in self.tokens.items()
            if (found := sum(weights.get(term, 0) for term, _ in tokens))
        }

    def like(self, weights, boost):
        freqs = self.freqs(weights)
        return self.scored(freqs, boost * self.idf(len(freqs)))

    def phrase(self, terms, slop, boost):
        weight = boost * sum(self.idf(len(self.freqs({term: 1}))) for term, _ in terms)
        freqs = {}
        for row, tokens in self.tokens.items():
            places = {}
            for term, at in tokens:
                places.setdefault(term, []).append(at)
            freqs[row] = sum(
                occurs(places, terms, first, slop) for first in places.get(terms[0][0], ()) if len(places) > 0
            )
        return self.scored(freqs, weight)


def occurs(places, terms, first, slop):
    """Whether a phrase begins at a place: each next word at the nearest place that is not too near."""
    at = first
    for (_, before), (term, distance) in itertools.pairwise(terms):
        later = [place for place in places.get(term, ()) if place >= at + distance - before]
        if not later:
            return False
        at = min(later)
    return at - first - (terms[-1][1] - terms[0][1]) <= slop


def added(parts):
    out = {}
    for part in parts:
        for row, score in part.items():
            out[row] = out.get(row, 0.0) + score
    return out


def all_of(parts):
    rows = set.intersection(*map(set, parts))
    return {row: score for row, score in added(parts).items() if row in rows}


def answer(columns, query, column=None):
    """Rows and scores of all that match; None for a query without words."""
    column = getattr(query, "column", None) or column
    if isinstance(query, Boost):
        found = answer(columns, query.query, column)
        return found and {row: score * query.boost for row, score in found.items()}
    if isinstance(query, Boolean):
        return answer_boolean(columns, query, column)
    if isinstance(query, MultiMatch):
        asked = [answer(columns, Boost(query.query, boost), name) for name, boost in query.columns]
        found = [part for part in asked if part is not None]
        if not found:
            return None
        if query.combine == "sum":
            scores = added(found)
        else:
            scores = {row: max(part.get(row, -1) for part in found) for row in set().union(*found)}
        return {row: score * query.boost for row, score in scores.items()}
    return answer_leaf(columns[column], query)


def answer_leaf(documents, query):
    analyzer, boost = documents.analyzer, query.boost
    if isinstance(query, Match):
        terms = [term for term, _ in terms_of(query.text, analyzer)]
        parts = [documents.like({term: 1}, boost) for term in terms]
        if not parts:
            return None
        return all_of(parts) if query.operator == "and" else added(parts)
    if isinstance(query, Phrase):
        terms = terms_of(query.text, analyzer)
        if len(terms) < 2:
            return documents.like({terms[0][0]: 1}, boost) if terms else None
        return documents.phrase(terms, query.slop, boost)
    if isinstance(query, Prefix):
        (begun, _), *more = terms_of(query.text, plain(analyzer)) or [(b"", 0)]
        assert not more, "the oracle knows prefixes of one word"
        if not begun:
            return None
        whole = {term for term, _ in terms_of(query.text, unstopped(analyzer))}
        return documents.like({term: 1 for term in documents.terms if term.startswith(begun) or term in whole}, boost)
    assert isinstance(query, Fuzzy)
    parts = []
    for term, _ in terms_of(query.text, unstopped(analyzer)):
        word = term.decode()
        most = query.edits if query.edits is not None else 0 if len(word) < 3 else 1 if len(word) < 6 else 2
        weights = {}
        for other in documents.terms:
            name = other.decode()
            edits = edits_between(word, name)
            likeness = 1 - edits / max(len(word), len(name))
            if edits <= most and likeness > 0 and name[: query.prefix_length] == word[: query.prefix_length]:
                weights[other] = likeness
        parts.append(documents.like(weights, boost))
    return all_of(parts) if parts else None


def answer_boolean(columns, query, column):
    must, should, must_not = (
        [found for part in parts if (found := answer(columns, part, column)) is not None]
        for parts in (query.must, query.should, query.must_not)
    )
    if not must and not should:
        return None
    least = (0 if must else 1) if query.minimum_should is None else min(query.minimum_should, len(should))
    if not must:
        least = max(least, 1)
    rows = set().union(*must, *should)
    for part in must:
        rows &= set(part)
    rows = {row for row in rows if sum(row in part for part in should) >= least}
    rows -= set().union(*must_not)
    return {row: score * query.boost for row, score in added([*must, *should]).items() if row in rows}


def part_of(texts, analyzer=PLAIN):
    """A part in memory of some texts."""
    column = pa.array(texts, pa.large_string())
    return MemoryPart(postings_of(tokenize(column, analyzer), positions=analyzer.positions))


def as_stored(column, store, **options):
    """The same column with its parts in a store."""
    lives = []
    for number, live in enumerate(column.lives):
        data, facts = encode_part(live.part.postings)
        store.put(f"part_0_{number}.text", data)
        lives.append(live._replace(part=StoredPart(store, f"part_0_{number}.text", facts, Cache())))
    return Column(lives, column.analyzer, **options)


def column_of(texts, analyzer=PLAIN, **options):
    """A column of one part with all rows alive."""
    return Column([Live(part_of(texts, analyzer))], analyzer, **options)


def scattered(texts, analyzer, rng, *, dead=0.3, **options):
    """A column of several parts: fragments in any order, some gone, some rows deleted. With it what is alive."""
    rows = len(texts)
    cuts = sorted({0, rows, *rng.integers(0, rows + 1, rng.integers(0, 8)).tolist()})
    fragments = [(first, last, True) for first, last in itertools.pairwise(cuts)]
    fragments += [(0, int(rng.integers(1, 5)), False) for _ in range(int(rng.integers(0, 3)))]
    rng.shuffle(fragments)
    lives, alive_texts = [], {}
    while fragments:
        taken = [fragments.pop() for _ in range(min(len(fragments), int(rng.integers(1, 4))))]
        own, alive, starts, bases = [], [], [], []
        for first, last, there in taken:
            starts.append(len(own))
            bases.append(first if there else int(rng.integers(0, 1000)))
            own += texts[first:last] if there else ["alpha beta gone"] * last
            alive += (rng.random(last - first) >= dead).tolist() if there else [False] * last
            alive_texts |= {
                first + at: texts[first + at] for at in range(last - first) if there and alive[starts[-1] + at]
            }
        mask = np.array(alive, np.bool_)
        whole = bool(mask.all()) and rng.random() < 0.5
        lives.append(
            Live(part_of(own, analyzer), None if whole else mask, np.array(starts, np.int64), np.array(bases, np.int64))
        )
    return Column(lives, analyzer, **options), Documents(alive_texts, analyzer)
