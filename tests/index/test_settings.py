"""Analyzers that can be asked for: defaults that fit the tokenizer, and errors that say what to do."""

from __future__ import annotations

import pytest

from siltstone.errors import InvalidInputError
from siltstone.format.text import Analyzer
from siltstone.index.settings import check_analyzer

PLAIN = {"stem": False, "stop_words": False}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Analyzer()),
        ({"language": "german"}, Analyzer(language="german")),
        ({"language": "polish"}, Analyzer(language="polish", stop_words=False)),
        ({"lower": False}, Analyzer(lower=False, **PLAIN)),
        ({"lower": False, "stop_words": True}, Analyzer(lower=False, stem=False)),
        ({"stem": False}, Analyzer(stem=False)),
        (
            {"stop_words": False, "fold": False, "positions": False},
            Analyzer(stop_words=False, fold=False, positions=False),
        ),
        ({"max_token_bytes": 40}, Analyzer(max_token_bytes=40)),
        ({"tokenizer": "whitespace"}, Analyzer(tokenizer="whitespace", **PLAIN)),
        ({"tokenizer": "whitespace", "stem": True, "stop_words": True}, Analyzer(tokenizer="whitespace")),
        ({"tokenizer": "raw"}, Analyzer(tokenizer="raw", lower=False, fold=False, **PLAIN)),
        ({"tokenizer": "raw", "lower": True, "fold": True}, Analyzer(tokenizer="raw", **PLAIN)),
        ({"tokenizer": "ngram"}, Analyzer(tokenizer="ngram", **PLAIN)),
        ({"tokenizer": "ngram", "stop_words": True}, Analyzer(tokenizer="ngram", stem=False)),
        ({"tokenizer": "ngram", "ngram_min": 2}, Analyzer(tokenizer="ngram", ngram_min=2, **PLAIN)),
        ({"tokenizer": "ngram", "ngram_min": 5}, Analyzer(tokenizer="ngram", ngram_min=5, ngram_max=5, **PLAIN)),
        ({"tokenizer": "ngram", "ngram_max": 2}, Analyzer(tokenizer="ngram", ngram_min=2, ngram_max=2, **PLAIN)),
        (
            {"tokenizer": "ngram", "ngram_min": 1, "ngram_max": 16},
            Analyzer(tokenizer="ngram", ngram_min=1, ngram_max=16, **PLAIN),
        ),
    ],
)
def test_check_analyzer__options__are_filled_up_by_the_tokenizer(given, expected):
    assert check_analyzer(**given) == expected


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"tokenizer": "words"}, "tokenizer 'words' is not known", "simple, whitespace, raw, ngram"),
        ({"tokenizer": None}, "tokenizer None is not known", "simple"),
        ({"tokenizer": ["simple"]}, "is not known", "simple"),
        ({"language": "klingon"}, "language 'klingon' is not known", "english"),
        ({"language": None}, "language None is not known", "english"),
        ({"lower": 1}, "lower must be True or False, got 1", "one of the two"),
        ({"stem": "yes"}, "stem must be True or False", "one of the two"),
        ({"stop_words": ["the"]}, "stop_words must be True or False", "one of the two"),
        ({"fold": 0}, "fold must be True or False", "one of the two"),
        ({"positions": None}, "positions must be True or False", "one of the two"),
        ({"language": "polish", "stop_words": True}, "no stop words for polish", "stop_words=False"),
        ({"lower": False, "stem": True}, "lower case only", "leave out one"),
        ({"tokenizer": "raw", "stem": True}, "have no stem", "stem=False"),
        ({"tokenizer": "ngram", "stem": True}, "have no stem", "stem=False"),
        ({"tokenizer": "raw", "stop_words": True}, "whole values", "stop_words=False"),
        ({"ngram_min": 3}, "mean nothing to the tokenizer simple", 'tokenizer="ngram"'),
        ({"tokenizer": "raw", "ngram_max": 3}, "mean nothing to the tokenizer raw", 'tokenizer="ngram"'),
        ({"tokenizer": "ngram", "ngram_min": 4, "ngram_max": 3}, "ngram_min is 4", "shorter"),
        ({"tokenizer": "ngram", "ngram_min": 0}, "ngram_min must be a whole number from 1 to 16, got 0", "such a"),
        ({"tokenizer": "ngram", "ngram_max": 17}, "ngram_max must be a whole number from 1 to 16, got 17", "such a"),
        ({"tokenizer": "ngram", "ngram_max": 2.0}, "ngram_max must be a whole number", "such a"),
        ({"tokenizer": "ngram", "ngram_min": True}, "ngram_min must be a whole number", "such a"),
        ({"max_token_bytes": 0}, "max_token_bytes must be a whole number from 1 to 255, got 0", "such a"),
        ({"max_token_bytes": 256}, "got 256", "such a"),
        ({"max_token_bytes": "40"}, "got '40'", "such a"),
        ({"max_token_bytes": None}, "got None", "such a"),
        ({"max_token_bytes": 10**6000}, "max_token_bytes must be", "such a"),
    ],
)
def test_check_analyzer__bad_option__is_refused_with_a_hint(given, message, hint):
    with pytest.raises(InvalidInputError) as refused:
        check_analyzer(**given)
    assert message in refused.value.message
    assert hint in refused.value.hint
