"""What is marked in a text, and which piece of it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.errors import InvalidInputError
from siltstone.format.text import Analyzer
from siltstone.index.highlight import Highlighter, snippets
from siltstone.index.query import Boolean, Fuzzy, Match, MultiMatch, Phrase
from text_oracle import PLAIN

ENGLISH = Analyzer()
REVIEW = (
    "It was a slow start.\n\nThe delivery was late, and the late delivery of my colour printer made me ask for a refund"
    ". Other words follow here and there without any end to them, so that the text is long enough to be cut somewhere."
)


def marked(query, text, analyzer=ENGLISH, **options):
    return Highlighter(query, analyzer, **options).marked(text, before="<", after=">")


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("deliveries", "a Delivery, delivered", "a <Delivery>, delivered"),
        ("delivered", "deliver delivers", "<deliver> <delivers>"),
        ("the slow", "the slow one", "the <slow> one"),
        ('"late delivery"', "delivery late, late delivery", "delivery late, <late> <delivery>"),
        ('"state of the art"', "art: state of the art", "art: <state> of the <art>"),
        ('"delivery late"~1', "delivery was late", "<delivery> was <late>"),
        ("deliv*", "deliver deli delivery", "<deliver> deli <delivery>"),
        ("recieve~", "receive remain", "<receive> remain"),
        ("slow -refund", "slow refund", "<slow> refund"),
        ("cafe", "Café CAFE", "<Café> <CAFE>"),
        ("", "anything", "anything"),
        (Boolean(must=[Match("a1")], should=[Match("b1")], must_not=[Match("c1")]), "c1 b1 a1", "c1 <b1> <a1>"),
    ],
)
def test_marked__of_a_query__marks_what_was_found(query, text, expected):
    assert marked(query, text) == expected


def test_marked__of_one_column__leaves_the_words_of_others():
    query = Boolean(should=[Match("slow", column="title"), Match("late", column="body"), Match("here")])
    assert marked(query, "slow late here", column="body") == "slow <late> <here>"
    assert marked(query, "slow late here") == "<slow> <late> <here>"
    assert marked(MultiMatch("late", ["title", "body"]), "slow late", column="body") == "slow <late>"


def test_marked__of_ngrams__marks_them_as_one():
    assert marked("deliver", "redelivery", Analyzer(tokenizer="ngram", stem=False)) == "re<deliver>y"


def test_snippet__of_a_long_text__is_the_piece_with_most_words():
    highlighter = Highlighter("colour printer slow", ENGLISH)
    assert highlighter.snippet(REVIEW, length=60, before="<", after=">") == (
        "…late delivery of my <colour> <printer> made me ask for a…"
    )


def test_snippet__of_several_lines__is_one():
    assert Highlighter("start", ENGLISH).snippet("slow\n\n  start\tnow") == "slow **start** now"


@pytest.mark.parametrize("text", ["", "   ", "short"])
def test_snippet__without_a_match__is_the_beginning(text):
    assert Highlighter("nothing", ENGLISH).snippet(text) == text.strip()
    assert Highlighter("nothing", ENGLISH).snippet(REVIEW, length=30) == "It was a slow start. The…"


def test_snippets__of_rows_with_nulls__are_one_each():
    assert snippets(["slow one", None, ""], "slow", ENGLISH, before="[", after="]") == ["[slow] one", "", ""]


@pytest.mark.parametrize("length", [0, -1, 1.5, True, None])
def test_snippet__of_no_length__is_refused(length):
    with pytest.raises(InvalidInputError, match="length is"):
        Highlighter("slow", ENGLISH).snippet("slow", length=length)


@given(
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "a", "x" * 50, "\n", "é"]), max_size=60),
    st.integers(1, 80),
    st.sampled_from([Match("alpha"), Match("beta alpha"), Phrase("alpha beta"), Fuzzy("gamma")]),
)
def test_snippet__of_any_text__is_a_run_of_its_words(words, length, query):
    text = " ".join(words)
    snippet = Highlighter(query, PLAIN).snippet(text, length=length, before="<", after=">")
    plain = snippet.replace("<", "").replace(">", "").strip("…")
    one_line = " ".join(text.split())
    assert plain in one_line
    # It is not longer than asked, but for one long word that matches.
    assert len(plain) <= max(length, 50)
    marks = Highlighter(query, PLAIN).marks(text)
    if marks:
        assert "<" in snippet
