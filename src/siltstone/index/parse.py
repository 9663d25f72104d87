"""The text syntax of queries: ``slow "late delivery" -refund +paid colour^2 deliv* recieve~ (a b)``.

What must hold:
- Every text is a query, or is refused with the character where it went wrong; nothing is guessed.
- A text is read once from left to right, whatever is in it.
- A backslash takes the meaning from the sign behind it, so that every word can be looked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.index.query import (
    BOOST_MAX,
    DEPTH_MAX,
    EDITS_MAX,
    SLOP_MAX,
    WORDS_MAX,
    Boolean,
    Boost,
    Fuzzy,
    Match,
    Phrase,
    Prefix,
    Query,
    check_text,
)

_PLAIN_HINT = "put a backslash before a sign that is part of a word; query.Match takes plain text"
# A word runs until white space or a sign that has a meaning inside or behind words.
_WORD = re.compile(r'(?:[^\s"()^~*\\]|\\.)+', re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_SPACE = re.compile(r"\s+")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NAMES = {"*": "star", "~": "tilde", "^": "caret", ")": "closing parenthesis"}


@dataclass
class _Group:
    """Clauses inside one pair of parentheses, and the sign and place of its beginning."""

    sign: str
    place: int
    words: list[str] = field(default_factory=list)  # plain ones, which are one Match together
    must: list[Query] = field(default_factory=list)
    should: list[Query] = field(default_factory=list)
    must_not: list[Query] = field(default_factory=list)

    def add(self, sign: str, query: Query) -> None:
        """Put a clause where its sign says."""
        {"+": self.must, "-": self.must_not, "": self.should}[sign].append(query)

    def query(self) -> Query:
        """The clauses as one query."""
        plain = (Match(" ".join(self.words)),) if self.words else ()
        should: tuple[Query, ...] = (*plain, *self.should)
        if len(should) == 1 and not self.must and not self.must_not:
            return should[0]
        return Boolean(must=tuple(self.must), should=should, must_not=tuple(self.must_not))

    @property
    def negative(self) -> bool:
        """Whether it says only what must not be there."""
        return not (self.words or self.must or self.should) and bool(self.must_not)


def parse(text: str) -> Query:
    """The query that a text is. A text without words is one that matches nothing.

    Raises:
        InvalidInputError: a sign has no meaning where it stands; the message names the character, counted from 1.
        LimitExceededError: the text is too long, has too many words, or parentheses too deep in each other.
    """
    return _Parser(check_text(text, "the text of the query")).run()


class _Parser:
    """One text, and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.open = [_Group("", 0)]
        self.clauses = 0

    def run(self) -> Query:
        while self._skip_space():
            if self.text[self.at] == ")":
                self._close()
            else:
                self._clause()
        if len(self.open) > 1:
            raise self._wrong("the parenthesis is not closed", self.open[-1].place)
        top = self.open[0]
        if top.negative:
            raise InvalidInputError(
                "the query says only what must not be there", hint="give it a word to look for, and then -others"
            )
        return top.query() if self.clauses else Match("")

    def _skip_space(self) -> bool:
        space = _SPACE.match(self.text, self.at)
        if space:
            self.at = space.end()
        return self.at < len(self.text)

    def _clause(self) -> None:
        start = self.at
        sign = self.text[start] if self.text[start] in "+-" else ""
        self.at += len(sign)
        ahead = self.text[self.at : self.at + 1]
        self.clauses += 1
        if self.clauses > WORDS_MAX:
            raise LimitExceededError(f"the query has more than {WORDS_MAX:,} words", hint="search for fewer")
        if ahead == "(":
            if len(self.open) > DEPTH_MAX - 2:
                raise LimitExceededError(
                    f"the parenthesis at character {self.at + 1} is the {len(self.open)}th inside each other",
                    hint=f"at most {DEPTH_MAX - 2}; join them flat",
                )
            self.open.append(_Group(sign, self.at))
            self.at += 1
        elif ahead == '"':
            self._phrase(sign)
        elif sign and (not ahead or ahead.isspace() or ahead in "+-)"):
            raise self._wrong(f"the sign {sign} stands before nothing", start)
        else:
            self._word(sign)

    def _phrase(self, sign: str) -> None:
        quoted = _QUOTED.match(self.text, self.at)
        if quoted is None:
            raise self._wrong("the quote is not closed", self.at)
        self.at = quoted.end()
        slop = self._suffix_number("~", _WHOLE, most=SLOP_MAX, what="the number of words between")
        boost = self._boost()
        self._end_of_clause()
        self.open[-1].add(sign, Phrase(_plain(quoted[1]), slop=int(slop or 0), boost=boost))

    def _word(self, sign: str) -> None:
        found = _WORD.match(self.text, self.at)
        if found is None:
            here = self.text[self.at]
            raise self._wrong(
                "the backslash stands at the end" if here == "\\" else f"the {_NAMES[here]} has no word before it",
                self.at,
            )
        self.at = found.end()
        word = _plain(found[0])
        ahead = self.text[self.at : self.at + 1]
        query: Query
        if ahead == "*":
            self.at += 1
            query = Prefix(word, boost=self._boost())
        elif ahead == "~":
            edits = self._suffix_number("~", _WHOLE, most=EDITS_MAX, what="the number of edits", needed=False)
            query = Fuzzy(word, edits=None if edits is None else int(edits), boost=self._boost())
        else:
            boost = self._boost()
            if not sign and boost == 1.0:
                self._end_of_clause()
                self.open[-1].words.append(word)
                return
            # A word that is a must may be several to the index (e-mail): all of them, then.
            query = Match(word, operator="and" if sign else "or", boost=boost)
        self._end_of_clause()
        self.open[-1].add(sign, query)

    def _close(self) -> None:
        place = self.at
        if len(self.open) == 1:
            raise self._wrong("the parenthesis was never opened", place)
        group = self.open.pop()
        if group.negative or not (group.words or group.must or group.should):
            said = "only what must not be there" if group.negative else "nothing"
            raise self._wrong(f"the parentheses say {said}", group.place)
        self.at += 1
        boost = self._boost()
        self._end_of_clause()
        query = group.query()
        if boost != 1.0:
            alone = isinstance(query, Boolean) and query.boost == 1.0
            query = replace(query, boost=boost) if alone else Boost(query, boost)  # type: ignore[type-var]
        self.open[-1].add(group.sign, query)

    def _boost(self) -> float:
        found = self._suffix_number("^", _NUMBER, most=BOOST_MAX, what="the boost")
        return 1.0 if found is None else found

    def _suffix_number(
        self, sign: str, form: re.Pattern[str], *, most: float, what: str, needed: bool = True
    ) -> float | None:
        """The number behind a sign, where that sign stands here; None without one."""
        if not self.text.startswith(sign, self.at):
            return None
        found = form.match(self.text, self.at + 1)
        if found is None:
            if needed:
                raise self._wrong(f"a number is missing behind {sign}", self.at)
            self.at += 1
            return None
        if float(found[0]) > most:
            raise self._wrong(f"{what} is {found[0]}, and is at most {most:,.0f}", self.at)
        self.at = found.end()
        return float(found[0])

    def _end_of_clause(self) -> None:
        ahead = self.text[self.at : self.at + 1]
        if ahead and not ahead.isspace() and ahead != ")":
            raise self._wrong(f"{ahead!r} stands where a word should end", self.at)

    def _wrong(self, what: str, place: int) -> InvalidInputError:
        return InvalidInputError(f"{what} (character {place + 1} of the query)", hint=_PLAIN_HINT, character=place + 1)


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text
