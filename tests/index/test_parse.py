"""The text syntax: every text is a query, or is refused with the place where it went wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moments import ends_soon
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.index.parse import parse
from siltstone.index.query import (
    TEXT_BYTES_MAX,
    WORDS_MAX,
    Boolean,
    Boost,
    Fuzzy,
    Match,
    Phrase,
    Prefix,
    Query,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Match("")),
        (" \t\n", Match("")),
        ("slow", Match("slow")),
        ("slow  delivery", Match("slow delivery")),
        ("e-mail C++ don't a:b", Match("e-mail C++ don't a:b")),
        ('"late delivery"', Phrase("late delivery")),
        ('"a b"~2', Phrase("a b", slop=2)),
        ('"a b"~2^3', Phrase("a b", slop=2, boost=3)),
        ("colour^2", Match("colour", boost=2)),
        ("colour^0.5", Match("colour", boost=0.5)),
        ("deliv*", Prefix("deliv")),
        ("deliv*^2", Prefix("deliv", boost=2)),
        ("recieve~", Fuzzy("recieve")),
        ("recieve~1", Fuzzy("recieve", edits=1)),
        ("recieve~1^2", Fuzzy("recieve", edits=1, boost=2)),
        ("slow -refund", Boolean(should=[Match("slow")], must_not=[Match("refund", operator="and")])),
        ("+slow fast", Boolean(must=[Match("slow", operator="and")], should=[Match("fast")])),
        ('a -"b c"', Boolean(should=[Match("a")], must_not=[Phrase("b c")])),
        ("(a b)", Match("a b")),
        ("((a b))", Match("a b")),
        ("(a b)^2", Boost(Match("a b"), 2)),
        ("+(a b) c", Boolean(must=[Match("a b")], should=[Match("c")])),
        (
            "(a -b)^2 c",
            Boolean(
                should=[
                    Match("c"),
                    Boolean(should=[Match("a")], must_not=[Match("b", operator="and")], boost=2),
                ]
            ),
        ),
        (r"\-a", Match("-a")),
        (r"a\*", Match("a*")),
        (r"\"a \(b\)", Match('"a (b)')),
        (r'"a \"b\" c"', Phrase('a "b" c')),
        (r"a\\b", Match("a\\b")),
        ('""', Phrase("")),
        (
            'slow "late delivery" -refund colour^2 deliv*',
            Boolean(
                should=[Match("slow"), Phrase("late delivery"), Match("colour", boost=2), Prefix("deliv")],
                must_not=[Match("refund", operator="and")],
            ),
        ),
    ],
)
def test_parse__of_a_text__gives_the_query(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "character", "said"),
    [
        ('slow "late', 6, "the quote is not closed"),
        ('a"', 2, "stands where a word should end"),
        ("(a b", 1, "the parenthesis is not closed"),
        ("a (b (c)", 3, "the parenthesis is not closed"),
        ("a b)", 4, "the parenthesis was never opened"),
        ("a^x", 2, "a number is missing behind ^"),
        ("a^", 2, "a number is missing behind ^"),
        ("^x", 1, "the caret has no word before it"),
        ("a ^2", 3, "the caret has no word before it"),
        ("a^2000000", 2, "the boost is 2000000, and is at most 1,000,000"),
        ("a^2x", 4, "'x' stands where a word should end"),
        ("*", 1, "the star has no word before it"),
        ("a*b", 3, "'b' stands where a word should end"),
        ("~1", 1, "the tilde has no word before it"),
        ("a~3", 2, "the number of edits is 3, and is at most 2"),
        ("a~~", 3, "'~' stands where a word should end"),
        ('"a b"~', 6, "a number is missing behind ~"),
        ('"a b"c', 6, "'c' stands where a word should end"),
        ('"a b"*', 6, "'*' stands where a word should end"),
        ("a - b", 3, "the sign - stands before nothing"),
        ("a +", 3, "the sign + stands before nothing"),
        ("(a -)", 4, "the sign - stands before nothing"),
        ("+-a", 1, "the sign + stands before nothing"),
        ("()", 1, "the parentheses say nothing"),
        ("a (-b)", 3, "the parentheses say only what must not be there"),
        ("a(b)", 2, "'(' stands where a word should end"),
        ("a\\", 2, "stands where a word should end"),
        ("\\", 1, "the backslash stands at the end"),
    ],
)
def test_parse__of_a_sign_out_of_place__names_the_character_and_the_way_around(text, character, said):
    with pytest.raises(InvalidInputError) as caught:
        parse(text)
    assert said in caught.value.message
    assert f"character {character} of the query" in caught.value.message
    assert caught.value.facts["character"] == character
    assert "query.Match takes plain text" in caught.value.hint


def test_parse__of_what_must_not_be_there_alone__is_refused():
    with pytest.raises(InvalidInputError, match="only what must not be there"):
        parse('-slow -"late delivery"')


@pytest.mark.parametrize("text", [None, 3, b"slow", ["slow"]])
def test_parse__of_no_text__is_refused(text):
    with pytest.raises(InvalidInputError, match="give it a str"):
        parse(text)


def test_parse__of_half_a_surrogate_pair__is_refused():
    with pytest.raises(InvalidInputError, match="surrogate"):
        parse("slow \udcff")


@pytest.mark.parametrize(
    "text", ["x" * (TEXT_BYTES_MAX + 1), "x " * 500_000, "a " * (WORDS_MAX + 1), "(" * 64 + "a" + ")" * 64]
)
def test_parse__of_too_much__is_refused(text):
    with pytest.raises(LimitExceededError):
        parse(text)


@pytest.mark.parametrize("unit", ['"', "(", ")", "\\", "a\\", '"\\', "^", "~", "*", "-", " ", "a", "é", "(a) ", '"a" '])
def test_parse__of_one_thing_again_and_again__takes_no_more_than_a_moment(unit):
    text = unit * (TEXT_BYTES_MAX // len(unit.encode()))
    with ends_soon():
        try:
            parse(text)
        except InvalidInputError as error:
            assert error.hint  # noqa: PT017  # some are queries


@given(st.text(alphabet=st.sampled_from('ab é"()+-^~*\\12.\n')))
def test_parse__of_any_text__is_a_query_or_refused(text):
    try:
        assert isinstance(parse(text), Query)
    except InvalidInputError as error:
        assert error.hint  # noqa: PT017  # some are queries


@given(st.lists(st.text(min_size=1).filter(lambda word: not any(map(str.isspace, word))), min_size=1, max_size=5))
def test_parse__of_escaped_words__finds_them_as_they_are(words):
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return
    text = " ".join("".join(f"\\{character}" for character in word) for word in words)
    assert parse(text) == Match(" ".join(words))
