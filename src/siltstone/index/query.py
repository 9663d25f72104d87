"""Queries of text indexes, as a user writes them in Python.

What must hold:
- A query is checked when it is made; what is wrong with it is said there, with what to write instead.
- A query is a value: equal ones are equal, it can be pickled, and its repr is the Python that makes it.
- A query knows nothing of tables: a column that is not named is the one that is searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.table.arguments import shown_object

TEXT_BYTES_MAX = 64 * 1024
WORDS_MAX = 1_024  # words that a whole query may look up, before prefixes and misspellings are written out
DEPTH_MAX = 32
BOOST_MAX = 1e6
EDITS_MAX = 2
SLOP_MAX = 1_000


class Query:
    """What all queries are: they join with ``&`` (both), ``|`` (any) and ``-`` (without)."""

    def __and__(self, other: Query) -> Boolean:
        return Boolean(must=(self, other))

    def __or__(self, other: Query) -> Boolean:
        return Boolean(should=(self, other))

    def __sub__(self, other: Query) -> Boolean:
        return Boolean(must=(self,), must_not=(other,))


@dataclass(frozen=True)
class Match(Query):
    """Documents with any of a text's words, or with operator ``"and"`` all of them.

    It takes plain text: no sign in it has a meaning. A word that is given twice counts twice.
    """

    text: str
    column: str | None = field(default=None, kw_only=True)
    operator: Literal["or", "and"] = field(default="or", kw_only=True)
    boost: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        _check_text(self.text, "Match")
        _check_column(self.column)
        _check_boost(self)
        if self.operator not in ("or", "and"):
            raise InvalidInputError(
                f"operator of Match is {shown_object(self.operator)}",
                hint='"or" finds any of the words, "and" all of them',
            )


@dataclass(frozen=True)
class Phrase(Query):
    """Documents with the words of a text in their order, with at most ``slop`` other words between them altogether.

    It counts the places where the first word begins such an occurrence. It needs an index with positions.
    """

    text: str
    column: str | None = field(default=None, kw_only=True)
    slop: int = field(default=0, kw_only=True)
    boost: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        _check_text(self.text, "Phrase")
        _check_column(self.column)
        _check_boost(self)
        _check_number(self.slop, "slop of Phrase", most=SLOP_MAX)


@dataclass(frozen=True)
class Prefix(Query):
    """Documents with a word that begins with the text. All such words count as one.

    In an index of stems these are the stems that begin with it, and the stem of the text itself.
    """

    text: str
    column: str | None = field(default=None, kw_only=True)
    boost: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        _check_text(self.text, "Prefix")
        _check_column(self.column)
        _check_boost(self)


@dataclass(frozen=True)
class Fuzzy(Query):
    """Documents with a word that a few edits make of the text's. All such words count as one, the nearer the more.

    An edit puts in, takes out or changes one character (two that changed places are two edits). Without ``edits`` it is
    none for words under three characters, one up to five, two above. The first ``prefix_length`` characters must be the
    same.
    """

    text: str
    column: str | None = field(default=None, kw_only=True)
    edits: int | None = field(default=None, kw_only=True)
    prefix_length: int = field(default=0, kw_only=True)
    boost: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        _check_text(self.text, "Fuzzy")
        _check_column(self.column)
        _check_boost(self)
        if self.edits is not None:
            _check_number(self.edits, "edits of Fuzzy", most=EDITS_MAX)
        _check_number(self.prefix_length, "prefix_length of Fuzzy", most=TEXT_BYTES_MAX)


@dataclass(frozen=True)
class Boolean(Query):
    """Documents that match all of ``must``, at least ``minimum_should`` of ``should`` and none of ``must_not``.

    Without ``minimum_should`` it is one where nothing is a must, else none. Scores of what matches add up.
    A clause that has no word (stop words alone) asks for nothing.
    """

    must: Sequence[Query] = field(default=(), kw_only=True)
    should: Sequence[Query] = field(default=(), kw_only=True)
    must_not: Sequence[Query] = field(default=(), kw_only=True)
    minimum_should: int | None = field(default=None, kw_only=True)
    boost: float = field(default=1.0, kw_only=True)
    depth: int = field(default=0, init=False, repr=False, compare=False)
    clauses: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("must", "should", "must_not"):
            object.__setattr__(self, name, _clauses(getattr(self, name), name))
        if not self.must and not self.should:
            raise InvalidInputError(
                "Boolean says only what must not be there" if self.must_not else "Boolean without clauses",
                hint="give it something to look for in must or should",
            )
        _check_boost(self)
        if self.minimum_should is not None:
            _check_number(self.minimum_should, "minimum_should of Boolean", most=len(self.should))
        _set_depth(self, (*self.must, *self.should, *self.must_not))


@dataclass(frozen=True)
class MultiMatch(Query):
    """A text (or a query without columns) in several columns; a mapping gives each its boost.

    A document's score is that of its best column, or with combine ``"sum"`` of all of them.
    """

    query: str | Query
    columns: Sequence[str] | Mapping[str, float] | Sequence[tuple[str, float]]
    combine: Literal["best", "sum"] = field(default="best", kw_only=True)
    boost: float = field(default=1.0, kw_only=True)
    depth: int = field(default=0, init=False, repr=False, compare=False)
    clauses: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.query, str):
            object.__setattr__(self, "query", Match(self.query))
        _check_query(self.query, "MultiMatch")
        object.__setattr__(self, "columns", _columns(self.columns))
        _check_boost(self)
        if any(columns_within(self.inner())):
            raise InvalidInputError(
                "the query of MultiMatch names a column",
                hint="leave column= out of it: columns says where it is looked for",
            )
        if self.combine not in ("best", "sum"):
            raise InvalidInputError(
                f"combine of MultiMatch is {shown_object(self.combine)}",
                hint='"best" takes the best column, "sum" adds all',
            )
        _set_depth(self, (self.query,))

    def boosts(self) -> tuple[tuple[str, float], ...]:
        """The columns, each with its boost."""
        return self.columns  # type: ignore[return-value]  # made so when the query was

    def inner(self) -> Query:
        """What is looked for in each column."""
        return self.query  # type: ignore[return-value]  # likewise


@dataclass(frozen=True)
class Boost(Query):
    """A query whose scores are multiplied; by 0 it only says what must match."""

    query: Query
    boost: float
    depth: int = field(default=0, init=False, repr=False, compare=False)
    clauses: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_query(self.query, "Boost")
        _check_boost(self)
        _set_depth(self, (self.query,))


def check_text(text: object, what: str) -> str:
    """A text of a query, of a size that is answered.

    Raises:
        InvalidInputError: it is no text, or no Unicode.
        LimitExceededError: it is too long.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is {type(text).__name__}", hint="give it a str")
    if len(text) * 4 > TEXT_BYTES_MAX or not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{what} has half of a surrogate pair at character {error.start + 1}",
                hint="decode the text as what it is encoded in, then ask again",
            ) from None
        if size > TEXT_BYTES_MAX:
            raise LimitExceededError(
                f"{what} has {size:,} bytes", hint=f"a query has at most {TEXT_BYTES_MAX:,}; search for fewer words"
            )
    return text


def _check_text(text: object, kind: str) -> None:
    check_text(text, f"the text of {kind}")


def _check_column(column: object) -> None:
    if column is not None and (not isinstance(column, str) or not column):
        raise InvalidInputError(f"column is {column!r}", hint="give the name of a column that has a text index")


def _check_boost(query: Match | Phrase | Prefix | Fuzzy | Boolean | MultiMatch | Boost) -> None:
    object.__setattr__(query, "boost", _boost(query.boost, type(query).__name__))


def _boost(value: object, kind: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= BOOST_MAX:
        raise InvalidInputError(
            f"boost of {kind} is {shown_object(value)}",
            hint=f"a boost is a number from 0 to {BOOST_MAX:,.0f}; 1 changes nothing",
        )
    return float(value)


def _check_number(value: object, what: str, *, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidInputError(f"{what} is {shown_object(value)}", hint=f"it is a whole number from 0 to {most:,}")


def _check_query(query: object, kind: str) -> None:
    if not isinstance(query, Query):
        raise InvalidInputError(
            f"{kind} was given {type(query).__name__}", hint="wrap a text in query.Match, or in query.Phrase"
        )


def _clauses(clauses: object, name: str) -> tuple[Query, ...]:
    if isinstance(clauses, Query):
        clauses = (clauses,)
    if isinstance(clauses, str) or not isinstance(clauses, Sequence):
        raise InvalidInputError(
            f"{name} of Boolean is {type(clauses).__name__}", hint="give it a list of queries, e.g. [query.Match(...)]"
        )
    if len(clauses) > WORDS_MAX:
        raise LimitExceededError(f"{name} of Boolean has {len(clauses):,} clauses", hint=f"at most {WORDS_MAX:,}")
    for clause in clauses:
        _check_query(clause, f"{name} of Boolean")
    return tuple(clauses)


def _columns(columns: object) -> tuple[tuple[str, float], ...]:
    if isinstance(columns, Mapping):
        columns = tuple(columns.items())
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise InvalidInputError(
            f"columns of MultiMatch is {columns!r}", hint="give it names of columns, or a dict of name and boost"
        )
    pairs = []
    for column in columns:
        name, boost = column if isinstance(column, tuple) and len(column) == 2 else (column, 1.0)
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"columns of MultiMatch has {name!r}", hint="give names of columns")
        pairs.append((name, _boost(boost, f"column {name!r}")))
    if len({name for name, _ in pairs}) < len(pairs):
        raise InvalidInputError("columns of MultiMatch has a column twice", hint="name each once; a boost weighs it")
    return tuple(pairs)


def _set_depth(query: Boolean | MultiMatch | Boost, inner: Sequence[object]) -> None:
    depth = 1 + max((getattr(clause, "depth", 0) for clause in inner), default=0)
    if depth > DEPTH_MAX:
        raise LimitExceededError(f"queries are nested {depth} deep", hint=f"at most {DEPTH_MAX}; join them flat")
    clauses = sum(getattr(clause, "clauses", 1) for clause in inner)
    if clauses > WORDS_MAX:
        raise LimitExceededError(f"the query has {clauses:,} clauses", hint=f"at most {WORDS_MAX:,} in all")
    object.__setattr__(query, "depth", depth)
    object.__setattr__(query, "clauses", clauses)


def columns_within(query: Query) -> Iterator[str]:
    """The columns that parts of a query name."""
    if isinstance(query, Boolean):
        for clause in (*query.must, *query.should, *query.must_not):
            yield from columns_within(clause)
    elif isinstance(query, Boost):
        yield from columns_within(query.query)
    elif isinstance(query, MultiMatch):
        yield from (name for name, _ in query.boosts())
    elif (column := getattr(query, "column", None)) is not None:
        yield column


def check_total_boost(boost: float) -> float:
    """What a word counts after all boosts around it.

    Raises:
        InvalidInputError: it is too much for a score.
    """
    if boost > BOOST_MAX**2 or not math.isfinite(boost):
        raise InvalidInputError(f"boosts multiply to {boost:g}", hint=f"all together at most {BOOST_MAX**2:g}")
    return boost
