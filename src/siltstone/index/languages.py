"""The languages a text index knows: their stemmers and their stop words.

What must hold: a language, once known, stems the same way and has the same stop words for good. An index keeps the
terms that it was built with, and a query's words must become the same ones.
"""

from __future__ import annotations

from functools import cache

import Stemmer

from siltstone.errors import InvalidInputError
from siltstone.index.stop_words import STOP_WORDS
from siltstone.table.arguments import shown_object

# Those that have a stemmer. Named here, so that another version of the stemmers adds none by itself.
LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "esperanto", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian",
    "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "serbian", "sesotho", "spanish",
    "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip


def check_language(language: object) -> str:
    """Return ``language`` if it is a known one."""
    if not isinstance(language, str) or language not in LANGUAGES:
        raise InvalidInputError(
            f"the language {shown_object(language)} is not known", hint=f"use one of {', '.join(LANGUAGES)}"
        )
    return language


def stemmer_of(language: str) -> Stemmer.Stemmer:
    """A new stemmer. Threads must not share one: it has a state while it works."""
    return Stemmer.Stemmer(check_language(language), 0)  # without a cache: it is given distinct words


@cache
def stop_words_of(language: str) -> frozenset[str]:
    """The stop words, in lower case."""
    words = STOP_WORDS.get(check_language(language))
    if words is None:
        raise InvalidInputError(
            f"there are no stop words for {language}",
            hint=f"pass stop_words=False; there are some for {', '.join(STOP_WORDS)}",
        )
    return frozenset(words.split())
