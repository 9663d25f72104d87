"""What text is fit for DataFusion's parser, from its words alone.

What must hold:
- No text takes the process down or keeps it busy: chains and brackets become the parser's stack, and where a word
  has a meaning of its own (``NOT``, ``CAST``, ``CASE``) and what follows is wrong, the parser tries it again as a
  name, which doubles the work with each level.
- Text is split into words as the parser does it; what could be split in another way is refused.
"""

from __future__ import annotations

import re

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.table.types import shown

TEXT_BYTES_MAX = 64 * 1024
WORDS_MAX = 6_000  # and operators
NESTING_MAX = 50
RETRIED_MAX = 10  # words that the parser may try twice, one inside of the other

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|--[^\n]*|/\*(?:(?!/\*|\*/).)*\*/)
    |(?P<value>[eE]'(?:[^'\\]|\\.|'')*'|[xXnNbB]?'(?:[^']|'')*'|"(?:[^"]|"")*"|\d[\w.]*|\$\d+)
    |(?P<word>[^\W\d]\w*)
    |(?P<open>[(\[{])|(?P<close>[)\]}])
    |(?P<unusual>['"`$]|/\*)
    |(?P<operator>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_RETRIED = frozenset({
    "ARRAY", "CAST", "CEIL", "CEILING", "CONVERT", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "EXISTS",
    "EXTRACT", "FLOOR", "INTERVAL", "LOCALTIME", "LOCALTIMESTAMP", "MAP", "MATCH", "NOT", "OVERLAY", "POSITION",
    "PRIOR", "ROW", "SAFE_CAST", "STRUCT", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST", "TRY_CONVERT",
})  # fmt: skip
# What binds less than NOT: what comes after is not inside of what came before.
_APART = frozenset({
    "AND", "AS", "BY", "ELSE", "EXCEPT", "FROM", "HAVING", "INTERSECT", "JOIN", "LIMIT", "ON", "OR", "SELECT", "THEN",
    "UNION", "USING", "VALUES", "WHEN", "WHERE", "WITH", "XOR",
})  # fmt: skip


class _Level:
    """What is between two brackets, or between CASE and END."""

    def __init__(self, *, case: bool = False) -> None:
        self.case = case
        self.retried = 0
        self.betweens = 0


def check_text(text: str, *, what: str, bytes_max: int = TEXT_BYTES_MAX) -> None:
    """Refuse what is no text, or none that can be parsed in a short time; ``what`` is how errors call it."""
    if not isinstance(text, str):
        raise InvalidInputError(
            f"{what} must be SQL in a str, got {type(text).__name__}", hint="write text values as \"'value'\""
        )
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInputError(f"{what} {shown(text)} is not valid UTF-8", hint="remove the lone surrogates") from None
    if length > bytes_max:
        raise LimitExceededError(
            f"{what} has {length} bytes, over the limit of {bytes_max}",
            hint="split it, or join with a table of the values",
        )
    if "\0" in text:
        raise InvalidInputError(f"{what} {shown(text)} holds a null character", hint="remove it")
    _check_words(text, what)


def _check_words(text: str, what: str) -> None:
    words = 0
    levels = [_Level()]
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup, match[0]
        if kind == "unusual":
            raise InvalidInputError(
                f"{what} {shown(text)} is not SQL: {shown(found)} is left open, or has no meaning here",
                hint="write odd names in double quotes and text in single quotes",
            )
        if kind == "open":
            levels.append(_Level())
        elif kind == "close":
            _leave(levels, case=False)
        elif kind == "word":
            words += 1
            _word(levels, found.upper())
        elif kind == "operator":
            words += found != ","
            if found in ",;":
                levels[-1].retried = 0
        if words > WORDS_MAX:
            raise LimitExceededError(
                f"{what} {shown(text)} has more than {WORDS_MAX} words and operators",
                hint="write column IN (value, ...) for many values of one column",
            )
        if len(levels) - 1 > NESTING_MAX or sum(level.retried for level in levels) > RETRIED_MAX:
            raise nested(text, what)


def _word(levels: list[_Level], word: str) -> None:
    level = levels[-1]
    if word == "CASE":
        level.retried += 1
        levels.append(_Level(case=True))
    elif word == "END":
        _leave(levels, case=True)
    elif word in _RETRIED:
        level.retried += 1
    elif word == "BETWEEN":
        level.betweens += 1
    elif word == "AND" and level.betweens:
        level.betweens -= 1
    elif word in _APART:
        level.retried = 0


def _leave(levels: list[_Level], *, case: bool) -> None:
    if len(levels) > 1 and levels[-1].case == case:
        levels.pop()


def nested(text: str, what: str) -> LimitExceededError:
    """The error for text that is nested too deeply."""
    return LimitExceededError(
        f"{what} {shown(text)} is nested too deeply: at most {NESTING_MAX} brackets, or {RETRIED_MAX} of NOT, CAST, "
        "CASE and the like inside of each other",
        hint="use fewer brackets",
    )
