"""Queries are checked where they are made, and are values."""

from __future__ import annotations

import pickle

import pytest

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.index import query as queries
from siltstone.index.query import (
    DEPTH_MAX,
    TEXT_BYTES_MAX,
    Boolean,
    Boost,
    Fuzzy,
    Match,
    MultiMatch,
    Phrase,
    Prefix,
)

EVERY_KIND = [
    Match("slow delivery"),
    Match("slow delivery", column="body", operator="and", boost=2),
    Phrase("late delivery", slop=2),
    Prefix("deliv", boost=0.5),
    Fuzzy("recieve", edits=1, prefix_length=2),
    Boolean(must=[Match("a")], should=[Phrase("b c"), Match("d")], must_not=[Prefix("e")], minimum_should=1),
    MultiMatch("slow", ["title", "body"]),
    MultiMatch(Phrase("late delivery"), {"title": 2, "body": 1}, combine="sum"),
    Boost(Match("a"), 3),
]


@pytest.mark.parametrize("query", EVERY_KIND, ids=lambda query: type(query).__name__)
def test_query__pickled_and_shown__is_equal(query):
    assert pickle.loads(pickle.dumps(query)) == query
    assert eval(repr(query), vars(queries)) == query
    assert hash(query) == hash(pickle.loads(pickle.dumps(query)))


def test_operators__between_queries__make_booleans():
    a, b = Match("a"), Match("b")
    assert a & b == Boolean(must=(a, b))
    assert a | b == Boolean(should=(a, b))
    assert a - b == Boolean(must=(a,), must_not=(b,))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Match(3), "the text of Match is int"),
        (lambda: Match(b"slow"), "the text of Match is bytes"),
        (lambda: Match("a\ud800b"), "half of a surrogate pair at character 2"),
        (lambda: Match("a", operator="xor"), "operator of Match is 'xor'"),
        (lambda: Match("a", column=""), "column is ''"),
        (lambda: Match("a", boost=-1), "boost of Match is -1"),
        (lambda: Match("a", boost=float("nan")), "boost of Match is nan"),
        (lambda: Match("a", boost=float("inf")), "boost of Match is inf"),
        (lambda: Match("a", boost=True), "boost of Match is True"),
        (lambda: Match("a", boost="2"), "boost of Match is '2'"),
        (lambda: Phrase("a b", slop=-1), "slop of Phrase is -1"),
        (lambda: Phrase("a b", slop=1.5), "slop of Phrase is 1.5"),
        (lambda: Fuzzy("a", edits=3), "edits of Fuzzy is 3"),
        (lambda: Fuzzy("a", prefix_length=-1), "prefix_length of Fuzzy is -1"),
        (Boolean, "Boolean without clauses"),
        (lambda: Boolean(must_not=[Match("a")]), "only what must not be there"),
        (lambda: Boolean(must=["a"]), "must of Boolean was given str"),
        (lambda: Boolean(should="a"), "should of Boolean is str"),
        (lambda: Boolean(should=[Match("a")], minimum_should=2), "minimum_should of Boolean is 2"),
        (lambda: MultiMatch("a", []), "columns of MultiMatch is []"),
        (lambda: MultiMatch("a", "body"), "columns of MultiMatch is 'body'"),
        (lambda: MultiMatch("a", [1]), "columns of MultiMatch has 1"),
        (lambda: MultiMatch("a", ["x", "x"]), "has a column twice"),
        (lambda: MultiMatch("a", {"x": -1}), "boost of column 'x' is -1"),
        (lambda: MultiMatch(3, ["x"]), "MultiMatch was given int"),
        (lambda: MultiMatch("a", ["x"], combine="all"), "combine of MultiMatch is 'all'"),
        (lambda: Boost("a", 2), "Boost was given str"),
    ],
)
def test_query__made_of_what_it_does_not_take__is_refused_with_a_hint(make, said):
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert said in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("kind", [Match, Phrase, Prefix, Fuzzy])
def test_text__over_the_limit__is_refused(kind):
    assert kind("x" * TEXT_BYTES_MAX).text
    for text in ("x" * (TEXT_BYTES_MAX + 1), "é" * (TEXT_BYTES_MAX // 2 + 1)):
        with pytest.raises(LimitExceededError):
            kind(text)


def test_queries__nested_too_deep__are_refused():
    query = Match("a")
    for _ in range(DEPTH_MAX):
        query = Boost(query, 1)
    with pytest.raises(LimitExceededError, match="nested 33 deep"):
        Boolean(must=[query])
