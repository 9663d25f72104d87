"""Numbers in SQL text, as they are written: those that are compared with decimals, and zero.

DataFusion takes 16.49 for a double, and that for a decimal which is another one: 16.489999999999998. It also looks
values up in a list by their bits, by which -0.0 is no zero.

What must hold:
- A number with a point next to a column of decimals is compared exactly as it is written.
- Where a number can't be followed to what it is compared with, and would be another one there, the text is refused.
- All other text stays as it is, to the letter.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.types as kinds

from siltstone.errors import InvalidInputError
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

DIGITS_MAX = 38

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|[xXnNbB]?'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*"|[^\W\d]\w*)
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<compare><=>|<>|<=|>=|!=|==?|<|>)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REACHES_ON = frozenset("+-*/%|&^~:.[")  # what makes a name or a number a part of something larger
_FOLDED = re.compile(r"Decimal(?:128|256)\(-?([\d.]+),")  # a decimal, as DataFusion shows it


class _Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def is_point(self) -> bool:
        return self.kind == "number" and not self.text.isdigit()


def decimal_names(schemas: Iterable[pa.Schema]) -> frozenset[str]:
    """The columns that hold decimals in each of some tables that has them."""
    decimals: set[str] = set()
    others: set[str] = set()
    for field in (one for schema in schemas for one in schema):
        (decimals if kinds.is_decimal(field.type) else others).add(field.name)
    return frozenset(decimals - others)


def as_written(text: str, names: frozenset[str]) -> str:
    """The text with numbers as decimals where they are compared with a column of these names, and one zero."""
    if not any(one.is_point for one in _tokens(text)):
        return text
    tokens = list(_tokens(text))
    places = {place for start in range(len(tokens)) for place in _compared(tokens, start, names)} if names else set()
    new = {place: exact for place in places if (exact := _exact(tokens[place].text)) is not None}
    new |= dict.fromkeys(_zero_signs(tokens), "")
    parts, end = [], 0
    for place in sorted(new):
        parts += [text[end : tokens[place].start], new[place]]
        end = tokens[place].start + len(tokens[place].text)
    return "".join((*parts, text[end:]))


def check_folded(plan: str, text: str, *, what: str) -> None:
    """Refuse text whose plan has a decimal that was to be a number of the text, and is another one."""
    folded = _FOLDED.findall(plan)
    numbers = {float(one.text): one.text for one in _tokens(text) if one.is_point} if folded else {}
    for found in folded:
        number = numbers.get(float(found))
        if number is not None and Decimal(number) != Decimal(found):
            raise InvalidInputError(
                f"{what} {shown(text)} compares decimals with {number}, which is a double there, and not the same",
                hint=f"write {_exact(number) or f'it with at most {DIGITS_MAX} digits'}",
            )


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield _Token(str(match.lastgroup), match[0], match.start())


def _exact(number: str) -> str | None:
    _, digits, exponent = Decimal(number).as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    return f"CAST('{Decimal(number):f}' AS DECIMAL({precision}, {scale}))" if precision <= DIGITS_MAX else None


def _zero_signs(tokens: Sequence[_Token]) -> Iterator[int]:
    """The places of signs before a zero that is compared, or is in a list."""
    lists: list[bool] = []  # of the brackets that are open, which are those of a list
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else _Token("", "", 0)
        if token.text == "(":
            lists.append(before.text.upper() == "IN")
        elif token.text == ")" and lists:
            lists.pop()
        elif token.text == "-" and place + 1 < len(tokens) and tokens[place + 1].is_point:
            listed = bool(lists) and lists[-1] and before.text in {"(", ","}
            if (listed or before.kind == "compare") and not float(tokens[place + 1].text):
                yield place


# -- what is compared with what --------------------------------------------------------------------


def _compared(tokens: Sequence[_Token], start: int, names: frozenset[str]) -> Iterator[int]:
    """The places of numbers that are compared with the column whose name begins at a token, if there is one."""
    end = _column(tokens, start, names)
    if end is None:
        return
    before = _number_before(tokens, start)
    if before is not None and not _reaches_on(tokens, end):
        yield before
    if start and _reaches_on(tokens, start - 1):
        return
    words = [one.text.upper() for one in tokens[end : end + 4]]
    if end < len(tokens) and tokens[end].kind == "compare":
        yield from _one(tokens, end + 1)
        return
    if words[:1] == ["NOT"]:
        end, words = end + 1, words[1:]
    if words[:2] == ["IN", "("]:
        yield from _list(tokens, end + 2)
    elif words[:1] == ["BETWEEN"]:
        yield from _between(tokens, end + 1)
    elif words[:3] == ["IS", "DISTINCT", "FROM"]:
        yield from _one(tokens, end + 3)
    elif words[:4] == ["IS", "NOT", "DISTINCT", "FROM"]:
        yield from _one(tokens, end + 4)


def _column(tokens: Sequence[_Token], start: int, names: frozenset[str]) -> int | None:
    """Where the name of a column ends that begins at a token, with its table's before it."""
    if tokens[start].kind != "name" or (start and tokens[start - 1].text == "."):
        return None
    end = start + 1
    while [one.text for one in tokens[end : end + 1]] == ["."] and [one.kind for one in tokens[end + 1 : end + 2]] == [
        "name"
    ]:
        end += 2
    last = tokens[end - 1].text
    return end if (last[1:-1].replace('""', '"') if last[0] == '"' else last) in names else None


def _reaches_on(tokens: Sequence[_Token], place: int) -> bool:
    return place < len(tokens) and tokens[place].text in _REACHES_ON


def _number_before(tokens: Sequence[_Token], start: int) -> int | None:
    if start < 2 or tokens[start - 1].kind != "compare" or not tokens[start - 2].is_point:
        return None
    place = start - 2
    before = place - 1
    if before >= 0 and tokens[before].text == "-":  # a sign, or a difference
        before -= 1
        if before >= 0 and (tokens[before].kind in {"number", "text"} or tokens[before].text in ")]"):
            return None
        if before >= 0 and tokens[before].kind == "name" and tokens[before].text.upper() not in _BEFORE_SIGN:
            return None
    return None if before >= 0 and tokens[before].text in _REACHES_ON else place


_BEFORE_SIGN = frozenset({"AND", "OR", "NOT", "WHERE", "WHEN", "ON", "HAVING", "THEN", "ELSE", "SELECT", "CASE", "BY"})


def _signed(tokens: Sequence[_Token], place: int) -> int:
    return place + 1 if place < len(tokens) and tokens[place].text in {"-", "+"} else place


def _one(tokens: Sequence[_Token], place: int) -> Iterator[int]:
    place = _signed(tokens, place)
    if place < len(tokens) and tokens[place].is_point and not _reaches_on(tokens, place + 1):
        yield place


def _between(tokens: Sequence[_Token], place: int) -> Iterator[int]:
    first = _signed(tokens, place)
    if first + 1 < len(tokens) and tokens[first].kind == "number" and tokens[first + 1].text.upper() == "AND":
        yield from _one(tokens, place)
        yield from _one(tokens, first + 2)


def _list(tokens: Sequence[_Token], place: int) -> Iterator[int]:
    while place < len(tokens):
        yield from _one(tokens, place)
        place = _signed(tokens, place) + 1
        if place >= len(tokens) or tokens[place].text != ",":
            return
        place += 1
