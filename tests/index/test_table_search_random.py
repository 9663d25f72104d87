"""Random tables: a search finds exactly the rows whose texts match, with the scores of a reference, in every coverage.

What matches is told by a slow analyzer of its own (``reference``); scores of words by bm25s, those of other queries by
an oracle that goes through the documents one by one.
"""

from __future__ import annotations

import random

import bm25s
import numpy as np
import pytest

from build_worlds import World, found
from index.reference import analyzed
from siltstone.format.text import Analyzer
from siltstone.index import making, planning
from siltstone.index.parse import parse
from siltstone.index.query import Match
from siltstone.index.unindexed import CACHE_BYTES, Kept
from siltstone.table import layout
from text_oracle import Documents, answer

WORDS = (
    "slow late delivery deliveries delivered refund refunds colour colours the a and Fast ÜBER über naïve box boxes "
    "again 42 running runs run x " + "y" * 300
).split()
WEIGHTS = [1 / (1 + place) for place in range(len(WORDS))]
QUERIES = (
    "slow",
    "slow late delivery",
    "delivery delivery run",
    "uber 42 nothing",
    "the",
    "",
    '"late delivery"',
    '"slow late"~2 refund^3',
    "+slow -late run",
    "deliv* box",
    "colr~ +run",
)
ENGLISH = Analyzer()


def text_of(chance):
    if chance.random() < 0.08:
        return chance.choice([None, "", " .,- "])
    return chance.choice([" ", ", ", "-"]).join(chance.choices(WORDS, WEIGHTS, k=chance.randint(1, 12)))


class Reference:
    """What must be found among some rows."""

    def __init__(self, rows, analyzer):
        self.analyzer = analyzer
        self.texts = {row["id"]: row["body"] for row in rows}
        self.oracle = Documents(self.texts, analyzer)
        self.oracle.tokens = {id_: analyzed(text, analyzer) for id_, text in self.texts.items() if text is not None}
        self.ids = [*self.oracle.tokens]
        self.scorer = None
        if any(self.oracle.tokens.values()):
            self.scorer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
            self.scorer.index([self._words(id_) for id_ in self.ids], show_progress=False)

    def _words(self, id_):
        return [term.decode() for term, _ in self.oracle.tokens[id_]]

    def of_words(self, text):
        """Rows that have one of some words, with what bm25s gives them."""
        words = [term.decode() for term, _ in analyzed(text, self.analyzer)]
        known = {word for id_ in self.ids for word in self._words(id_)}
        asked = [word for word in words if word in known]
        if not asked or self.scorer is None:
            return {}
        scores = np.sum([self.scorer.get_scores([word]) for word in asked], axis=0)
        return {id_: score for id_, score in zip(self.ids, scores, strict=True) if set(asked) & {*self._words(id_)}}

    def of_query(self, query):
        return answer({"body": self.oracle}, query, "body") or {}


def check(table, analyzer, seen, **options):
    """Every query finds what it must; with ``seen`` the scores of another coverage of the same rows."""
    rows = table.scan(fresh=options.get("fresh", False)).to_arrow().to_pylist()
    stars = {row["id"]: row["stars"] for row in rows}
    reference = Reference(rows, analyzer)
    assert len(reference.texts) == len(rows)
    for text in QUERIES:
        query = parse(text)
        expected = reference.of_words(text) if isinstance(query, Match) else reference.of_query(query)
        got = found(table, text, **options)
        assert len(got) == len(dict(got)), "a row was found twice"
        assert dict(got) == pytest.approx(expected, abs=1e-5), text
        assert [score for _, score in got] == sorted((score for _, score in got), reverse=True)
        assert table.search("body", text, limit=None, **options).count() == len(expected)
        assert found(table, text, where="stars >= 2", **options) == [one for one in got if stars[one[0]] >= 2]
        key = text, tuple(sorted(reference.texts.items()))
        assert dict(got) == seen.setdefault(key, dict(got)), "the same rows have other scores"


class Life:
    """What may happen to a table."""

    def __init__(self, chance):
        self.chance = chance
        self.world = World()
        self.table = self.world.create(shards=2)
        self.writer = self.table.writer()
        self.ids = 0

    def rows(self, *, new):
        count = self.chance.randint(1, 8)
        ids = [*range(self.ids, self.ids + count)] if new else self.chance.sample(range(max(self.ids, 8)), count)
        self.ids = max(self.ids, *(id_ + 1 for id_ in ids))
        return [{"id": id_, "body": text_of(self.chance), "stars": self.chance.randint(0, 4)} for id_ in ids]

    def put(self):
        self.writer.put(self.rows(new=False))

    def upsert(self):
        self.table.upsert(self.rows(new=False))

    def delete(self):
        self.table.delete(f"id % 7 = {self.chance.randint(0, 6)}")

    def update(self):
        self.table.update({"body": "body || ' late delivery'"}, where="stars = 1")

    def compact(self):
        self.table.compact()

    def merge(self):
        self.table.merge_shards()

    def create(self):
        if not self.table.indexes():
            self.table.create_text_index("body")

    def optimize(self):
        if self.table.indexes():
            self.table.optimize_index("body", whole=self.chance.random() < 0.5)

    def drop(self):
        if self.table.indexes() and self.chance.random() < 0.3:
            self.table.drop_index("body")


STEPS = (
    *(Life.put, Life.put, Life.upsert, Life.upsert, Life.upsert, Life.delete, Life.update, Life.compact),
    *(Life.merge, Life.create, Life.create, Life.optimize, Life.optimize, Life.drop),
)


@pytest.mark.parametrize("seed", range(6))
def test_search__random_table_in_every_coverage__rows_and_scores_are_those_of_the_reference(seed, monkeypatch):
    chance = random.Random(f"search {seed}")
    monkeypatch.setattr(making, "CHUNK_BYTES", chance.choice([50, 10**6]))
    monkeypatch.setattr(layout, "GROUP_ROWS", chance.choice([5, 10**5]))
    monkeypatch.setattr(planning, "SMALL_TOKENS", chance.choice([0, 10**6]))
    monkeypatch.setattr(planning, "MERGED_TOKENS", chance.choice([60, 10**6]))
    monkeypatch.setitem(making.Maker.__init__.__kwdefaults__, "part_bytes", chance.choice([200, 10**9]))
    monkeypatch.setattr(Kept.__init__, "__defaults__", (chance.choice([1, 3000, CACHE_BYTES]),))
    life = Life(chance)
    seen = {}
    for step in range(40):
        chance.choice(STEPS)(life)
        if step % 8 == 7:
            version = life.table.version
            check(life.table, ENGLISH, seen)
            check(chance.choice([life.table, life.world.open()]), ENGLISH, seen, fresh=True)
            check(life.world.open().at(version=chance.randint(max(version - 5, 0), version)), ENGLISH, seen)
    check(life.table, ENGLISH, seen, fresh=True)
    life.table.merge_shards()
    life.create()
    check(life.table, ENGLISH, seen)
    life.table.optimize_index("body", whole=True)
    assert life.table.indexes()[0].unindexed_rows == 0
    check(life.table, ENGLISH, seen)
    life.table.drop_index("body")
    check(life.table, ENGLISH, seen)
