"""A column over its live documents: what is counted, and what is kept."""

from __future__ import annotations

import random

import numpy as np
import pytest

from siltstone.index.cache import Cache
from siltstone.index.match import Live
from siltstone.index.statistics import Column, Posting, highest
from text_oracle import PLAIN, column_of, part_of, scattered
from text_queries import WORDS, random_texts


@pytest.mark.parametrize("seed", range(10))
def test_statistics__of_live_documents__are_exact(seed):
    column, documents = scattered(random_texts(random.Random(seed), 50), PLAIN, np.random.default_rng(seed))
    assert column.statistics == (documents.count, pytest.approx(documents.average))
    terms = [word.encode() for word in WORDS]
    expected = {term: len(documents.freqs({term: 1})) for term in terms}
    assert column.dfs(terms) == expected
    assert column.dfs(terms) == expected  # as it is kept
    postings, _ = column.look_up(terms)
    assert {term: len(posting.rows) for term, posting in postings.items()} == expected


def test_dfs__of_a_term_in_many_blocks__counts_what_is_alive():
    rows = 20_000
    alive = np.ones(rows, np.bool_)
    alive[[3, 5_000]] = False
    column = Column([Live(part_of(["alpha"] * rows), alive)], PLAIN)
    assert column.dfs([b"alpha", b"beta", b"alpha"]) == {b"alpha": rows - 2, b"beta": 0}


def test_look_up__again__gives_what_was_kept():
    column = column_of(["alpha beta", "beta"])
    first, _ = column.look_up([b"alpha", b"nowhere"])
    again, _ = column.look_up([b"alpha", b"nowhere"])
    assert again[b"alpha"] is first[b"alpha"]
    assert again[b"nowhere"] is first[b"nowhere"]
    _, placed = column.look_up([], [b"beta"])
    both, again = column.look_up([b"beta"], [b"beta"])
    assert again[b"beta"].keys is placed[b"beta"].keys
    assert placed[b"beta"].keys.tolist() == [1, 1 << 32]
    assert both[b"beta"].rows.tolist() == [0, 1]
    assert both[b"beta"].idf == placed[b"beta"].idf


@pytest.mark.parametrize("cache_bytes", [0, 1_000, 20_000])
def test_look_up__with_little_memory__keeps_no_more_and_answers_all(cache_bytes):
    texts = [f"alpha{number % 50} beta" for number in range(500)]
    column = column_of(texts, cache=Cache(cache_bytes))
    for number in range(50):
        postings, placed = column.look_up([b"alpha%d" % number, b"beta"], [b"beta", b"alpha%d" % number])
        assert len(postings[b"alpha%d" % number].rows) == 10
        assert len(placed[b"beta"].keys) == 500
        assert column._cache.nbytes <= cache_bytes


def test_groups__of_parts__have_all_of_them_and_as_few_documents_as_asked():
    lives = [Live(part_of(["a"] * size), None, np.array([0]), np.array([100 * size])) for size in (3, 3, 5, 1, 1, 9)]
    column = Column(lives, PLAIN, group_documents=6)
    assert [[live.part.documents for live in group.lives] for group in column.groups] == [[3, 3], [5, 1], [1], [9]]
    assert Column(lives, PLAIN).groups[0].lives == tuple(lives)
    assert all(group.statistics == column.statistics for group in column.groups)


@pytest.mark.parametrize("size", [0, 1, 100, 8_192, 8_193, 50_000])
def test_highest__of_many_values__are_reached_by_as_many(size):
    values = np.random.default_rng(size).choice([0.1, 0.5, 0.7, 0.9], size) * np.random.default_rng(1).random(size)
    tops = highest(values, 128)
    assert len(tops) == min(size, 128)
    for rank, value in enumerate(tops.tolist(), 1):
        assert np.count_nonzero(values >= value) >= rank
    posting = Posting(np.arange(size), values, 1.0)
    assert posting.at_least(128) == (tops[127] if size >= 128 else 0.0)
    assert posting.at_least(129) == 0.0
