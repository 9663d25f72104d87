"""Text that DataFusion's parser can't take, or not in a short time, does not reach it."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from every_type import SCHEMA, TABLE
from moments import ends_soon
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.table.predicate import parse_predicate


def chosen(text, table=TABLE):
    return parse_predicate(text, table.schema).mask(table).to_pylist()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s = '" + "x" * 70_000 + "'", "bytes"),
        ("(" * 60 + "flag" + ")" * 60, "nested"),
        ("NOT (" * 24 + "flag" + ")" * 24, "nested"),
        ("NOT (" * 24 + "flag 5 5" + ")" * 24, "nested"),
        ("NOT i = " * 24 + "i 5 5", "nested"),
        ("NOT i BETWEEN 1 AND " * 24 + "i 5 5", "nested"),
        ("CAST(" * 24 + "i" + ")" * 24, "nested"),
        ("CASE " * 24 + "i 5" + " END" * 24, "nested"),
        ("NOT /* ' */ (" * 24 + "flag 5 5 /* ' */" + ")" * 24, "nested"),
        ("NOT e'\\'' = " * 24 + "s 5 5", "nested"),
        (" OR ".join(["i = 1"] * 600), "deep"),
        ("i" + "+1" * 2_000 + " = 1", "deep"),
        ("i" + "+1" * 20_000 + " = 1", "words"),
        ("i" + "::int" * 10_000 + " = 1", "words"),
        (" OR ".join(["flag"] * 8_000), "words"),
        ("s = e'\\'' || " + "'' || " * 9_000 + "''", "words"),
        ("-- it's\n i" + "+1" * 20_000 + " = 1 -- '", "words"),
    ],
)
def test_parse_predicate__text_that_would_overflow_or_busy_the_parser__is_refused(text, told):
    with pytest.raises(LimitExceededError, match=told):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    "text", ["s = 'open", 's = "open', "i = 1 /* open", "/* /* */ i = 1 */", "`i` = 1", "s = $$a$$"]
)
def test_parse_predicate__text_that_may_be_split_in_two_ways__is_refused(text):
    with pytest.raises(InvalidInputError, match="is left open, or has no meaning here"):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("NOT (", ")"), ("NOT i = ", ""), ("CAST(", " AS INT)"), ("CAST(", ")"), ("POSITION((", ") IN s)"),
        ("ROW(", ")"),
        ("CASE (", ") WHEN 1 THEN 1 END"), ("CASE WHEN (", ") THEN true END"), ("ARRAY[", "]"), ("OVERLAY(", ")"),
        ("TRY_CAST((", ") AS INT)"), ("CONVERT((", "), INT)"), ("abs(", ")"), ("(flag OR NOT (", "))"), ("(", ")"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inner", ["i", "flag", "i 5 5", "i AS"])
@pytest.mark.parametrize("levels", [9, 10, 23, 49])
def test_parse_predicate__nested_text__is_answered_in_a_short_time(before, after, inner, levels):
    with ends_soon(), suppress(InvalidInputError):
        parse_predicate(before * levels + inner + after * levels, SCHEMA)


def test_parse_predicate__many_values_in_a_list__are_fine():
    values = ", ".join(f"'{n:032x}-{n:x}-or-and'" for n in range(1_200))
    assert chosen(f"s IN ({values}, 'apple')") == [True, False, False]


def test_parse_predicate__the_longest_chain_allowed__is_evaluated_in_a_thread():
    text = " OR ".join(f"i = {n} AND s = 'apple'" for n in range(400))
    found = []
    thread = threading.Thread(target=lambda: found.append(chosen(text)))
    thread.start()
    thread.join()
    assert found == [[True, False, False]]
