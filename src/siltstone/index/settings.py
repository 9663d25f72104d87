"""The analyzers that can be asked for.

What must hold: an option that would have no effect, or only a surprising one, is refused; what was not given is
chosen so that it fits the rest.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, get_args

from siltstone.errors import InvalidInputError
from siltstone.format.text import NGRAM_MAX, TOKEN_BYTES_MAX, Analyzer, Tokenizer
from siltstone.index.languages import check_language, stop_words_of
from siltstone.index.stop_words import STOP_WORDS
from siltstone.table.arguments import check_flag, shown_object

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENIZERS: tuple[Tokenizer, ...] = get_args(Tokenizer)
_NGRAM = 3  # characters, where nothing is said


def check_analyzer(
    *,
    tokenizer: object = "simple",
    language: object = "english",
    lower: object = None,
    stem: object = None,
    stop_words: object = None,
    fold: object = None,
    positions: object = True,
    ngram_min: object = None,
    ngram_max: object = None,
    max_token_bytes: object = TOKEN_BYTES_MAX,
) -> Analyzer:
    """The analyzer that was asked for. The tokenizer decides about what is None.

    - ``simple`` (runs of letters and digits): in lower case, without accents, stemmed, without stop words. All words
      stay where the language has no stop words; with ``lower=False`` they all stay, and as they are.
    - ``whitespace`` (runs of anything else than white space, such as ``C++``): in lower case, without accents. Words
      keep their punctuation, so that stems and stop words are used only if asked for.
    - ``ngram`` (the parts of words that have ``ngram_min`` to ``ngram_max`` characters, 3 if nothing is said): in lower
      case, without accents. Words with fewer characters can't be found.
    - ``raw`` (the whole value): as it is.

    Raises:
        InvalidInputError: an option is unknown, out of range, or contradicts another.
    """
    kind = _tokenizer(tokenizer)
    name = check_language(language)
    lowered = _flag(lower, "lower", default=kind != "raw")
    by_word = kind == "simple" and lowered
    low, high = _ngram_sizes(kind, ngram_min, ngram_max)
    return Analyzer(
        tokenizer=kind,
        language=name,
        lower=lowered,
        stem=_stem(stem, kind, lower=lowered, default=by_word),
        stop_words=_stop_words(stop_words, kind, name, default=by_word and name in STOP_WORDS),
        fold=_flag(fold, "fold", default=kind != "raw"),
        positions=check_flag(positions, "positions"),
        ngram_min=low,
        ngram_max=high,
        max_token_bytes=_number(max_token_bytes, "max_token_bytes", TOKEN_BYTES_MAX),
    )


def analyzer_of(options: Mapping[str, object]) -> Analyzer:
    """The analyzer that keywords of a call ask for."""
    known = inspect.signature(check_analyzer).parameters
    unknown = [name for name in options if name not in known]
    if unknown:
        raise InvalidInputError(
            f"there is no option {shown_object(unknown[0])} of an index", hint=f"there are {', '.join(known)}"
        )
    return check_analyzer(**options)


def _tokenizer(tokenizer: object) -> Tokenizer:
    for known in TOKENIZERS:
        if isinstance(tokenizer, str) and tokenizer == known:
            return known
    raise InvalidInputError(
        f"the tokenizer {shown_object(tokenizer)} is not known", hint=f"use one of {', '.join(TOKENIZERS)}"
    )


def _flag(flag: object, what: str, *, default: bool) -> bool:
    return default if flag is None else check_flag(flag, what)


def _stem(stem: object, tokenizer: Tokenizer, *, lower: bool, default: bool) -> bool:
    chosen = _flag(stem, "stem", default=default)
    if chosen and tokenizer in ("raw", "ngram"):
        whole = "whole values" if tokenizer == "raw" else "parts of words"
        raise InvalidInputError(
            f"stem=True is given, and the tokenizer {tokenizer} makes terms of {whole}, which have no stem",
            hint="pass stem=False, or another tokenizer",
        )
    if chosen and not lower:
        raise InvalidInputError(
            "stem=True is given with lower=False, and stems are known of words in lower case only",
            hint="leave out one of the two",
        )
    return chosen


def _stop_words(stop_words: object, tokenizer: Tokenizer, language: str, *, default: bool) -> bool:
    chosen = _flag(stop_words, "stop_words", default=default)
    if chosen and tokenizer == "raw":
        raise InvalidInputError(
            "stop_words=True is given, and the tokenizer raw makes terms of whole values",
            hint="pass stop_words=False, or another tokenizer",
        )
    if chosen:
        stop_words_of(language)  # raises where there are none
    return chosen


def _ngram_sizes(tokenizer: Tokenizer, ngram_min: object, ngram_max: object) -> tuple[int, int]:
    """How long n-grams are; where one bound is given the other follows it."""
    if tokenizer != "ngram" and (ngram_min is not None or ngram_max is not None):
        raise InvalidInputError(
            f"ngram_min and ngram_max mean nothing to the tokenizer {tokenizer}",
            hint='leave them out, or pass tokenizer="ngram"',
        )
    low = None if ngram_min is None else _number(ngram_min, "ngram_min", NGRAM_MAX)
    high = None if ngram_max is None else _number(ngram_max, "ngram_max", NGRAM_MAX)
    if low is None:
        low = _NGRAM if high is None else min(_NGRAM, high)
    if high is None:
        high = max(_NGRAM, low)
    if low > high:
        raise InvalidInputError(
            f"ngram_min is {low}, which is more than ngram_max, {high}", hint="pass the shorter length as ngram_min"
        )
    return low, high


def _number(number: object, what: str, highest: int) -> int:
    if type(number) is not int or not 1 <= number <= highest:
        raise InvalidInputError(
            f"{what} must be a whole number from 1 to {highest}, got {shown_object(number)}", hint="pass such a number"
        )
    return number
