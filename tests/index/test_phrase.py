"""Phrases: words in their order, with few others between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.format.text import Analyzer
from siltstone.index.phrase import common, occurrences
from siltstone.index.query import Phrase
from siltstone.index.search import matches, search
from siltstone.index.statistics import POSITION_BITS
from text_oracle import PLAIN, column_of, occurs

numbers = st.sets(st.integers(-5, 400) | st.integers(2**40, 2**40 + 9), max_size=120).map(
    lambda values: np.array(sorted(values), np.int64)
)


@given(numbers, numbers, st.integers(-3, 3))
def test_common__of_two_sorted_arrays__is_what_both_have(found, keys, move):
    assert common(found, keys, move).tolist() == sorted(set(found.tolist()) & {key + move for key in keys.tolist()})


def test_common__of_few_and_many__is_what_both_have():
    many, few = np.arange(0, 30_000, 2), np.array([-4, 0, 1, 2_000, 29_998, 30_000])
    assert common(few, many, 0).tolist() == common(many, few, 0).tolist() == [0, 2_000, 29_998]


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=12), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2)), min_size=2, max_size=4),
    st.integers(0, 3),
)
def test_occurrences__of_any_phrase__are_counted_from_each_first_word(texts, phrase, slop):
    distances = np.cumsum([0, *(gap for _, gap in phrase[1:])]).tolist()
    terms = [(word, distance) for (word, _), distance in zip(phrase, distances, strict=True)]
    keys = {
        word: np.array(
            [
                (row << POSITION_BITS) + at
                for row, text in enumerate(texts)
                for at, own in enumerate(text)
                if own == word
            ],
            np.int64,
        )
        for word in "abc"
    }
    rows, counts = occurrences([(keys[word], distance) for word, distance in terms], slop)
    expected = {}
    for row, text in enumerate(texts):
        places = {word: [at for at, own in enumerate(text) if own == word] for word in "abc"}
        count = sum(occurs(places, terms, first, slop) for first in places[terms[0][0]])
        if count:
            expected[row] = count
    assert dict(zip(rows.tolist(), counts.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("text", "slop", "expected"),
    [
        ("late delivery", 0, [0, 3]),
        ("delivery late", 0, []),
        ("delivery late", 1, [1]),
        ("late delivery", 1, [0, 2, 3]),
        ("late late", 0, [3]),
        ("late very delivery", 0, [2]),
    ],
)
def test_phrase__of_words_in_order__matches_within_its_slop(text, slop, expected):
    columns = {
        "a": column_of(
            [
                "a late delivery",
                "delivery was late",
                "late very delivery",
                "late late delivery",
                "late. And early",
                None,
            ]
        )
    }
    assert matches(columns, Phrase(text, slop=slop)).tolist() == expected


def test_phrase__over_a_stop_word__keeps_its_gap():
    columns = {"a": column_of(["state of the art", "state art", "state big old art"], Analyzer())}
    assert matches(columns, Phrase("state of the art")).tolist() == [0, 2]
    assert matches(columns, Phrase("state art")).tolist() == [1]
    assert matches(columns, Phrase("state art", slop=2)).tolist() == [0, 1, 2]


def test_phrase__across_two_rows__is_none():
    columns = {"a": column_of(["early late", "delivery late"])}
    assert matches(columns, Phrase("late delivery", slop=1_000)).tolist() == []


def test_phrase__more_often_in_a_text__scores_more():
    columns = {"a": column_of(["a b a b x x", "a b x x a x", "a x b x a b"], PLAIN)}
    hits = search(columns, Phrase("a b"), limit=None)
    assert hits.rows.tolist() == [0, 1, 2]
    assert hits.scores[0] > hits.scores[1] == hits.scores[2]
