"""A query as what is looked up: its texts analyzed for their columns, its boosts multiplied out.

What must hold:
- A text of a query becomes terms by the rules of the column's index, so what a document's text became is found.
- A clause without words asks for nothing, and a query without words matches nothing.
- Equal clauses side by side become one that counts as often.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.index.analyze import is_left_out, terms_of
from siltstone.index.query import (
    WORDS_MAX,
    Boolean,
    Boost,
    Fuzzy,
    Match,
    MultiMatch,
    Phrase,
    Prefix,
    Query,
    check_total_boost,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from siltstone.format.text import Analyzer


class Word(NamedTuple):
    """Documents with a term."""

    column: str
    term: bytes
    boost: float


class Words(NamedTuple):
    """Documents with terms one behind the other; each has its place from the first."""

    column: str
    terms: tuple[tuple[bytes, int], ...]
    slop: int
    boost: float


class Like(NamedTuple):
    """Documents with any term that begins so (``edits`` is -1), or that a few edits make of this one."""

    column: str
    text: bytes
    also: bytes | None  # a term that counts whatever it looks like
    edits: int
    prefix_length: int
    boost: float


class Both(NamedTuple):
    """Documents that match all of ``must``, ``least`` of ``should`` and none of ``must_not``."""

    must: tuple[Node, ...]
    should: tuple[Node, ...]
    must_not: tuple[Node, ...]
    least: int


class Best(NamedTuple):
    """Documents that match any; the best one counts."""

    nodes: tuple[Node, ...]


Leaf = Word | Words | Like
Node = Leaf | Both | Best


def resolve(query: Query, analyzers: Mapping[str, Analyzer], column: str | None = None) -> Node | None:
    """What a query looks up; None where it has no words. ``column`` is searched where the query names none.

    Raises:
        InvalidInputError: a column has no index, or its index has no positions and a phrase asks for them.
        LimitExceededError: the query has too many words.
    """
    if column is None and len(analyzers) == 1:
        column = next(iter(analyzers))
    resolver = _Resolver(analyzers)
    return resolver.node(query, column, 1.0)


def columns_of(query: Query, column: str | None = None) -> set[str]:
    """The columns that a query searches; ``column`` where it names none.

    Raises:
        InvalidInputError: it names none, and there is no other to search.
    """
    if isinstance(query, Boolean):
        return {name for part in (*query.must, *query.should, *query.must_not) for name in columns_of(part, column)}
    if isinstance(query, MultiMatch):
        return {found for name, _ in query.boosts() for found in columns_of(query.inner(), name)}
    if isinstance(query, Boost):
        return columns_of(query.query, column)
    own = getattr(query, "column", None) or column
    if own is None:
        raise InvalidInputError(f"{query!r} names no column", hint="name it in the query, or in the search")
    return {own}


def leaves_of(node: Node) -> Iterable[Leaf]:
    """All that is looked up in indexes."""
    if isinstance(node, Both):
        for part in (*node.must, *node.should, *node.must_not):
            yield from leaves_of(part)
    elif isinstance(node, Best):
        for part in node.nodes:
            yield from leaves_of(part)
    else:
        yield node


def any_of(nodes: Iterable[Node]) -> Node | None:
    """Documents that match any; scores add up."""
    return _both((), tuple(nodes), (), None)


class _Resolver:
    """The words of one query."""

    def __init__(self, analyzers: Mapping[str, Analyzer]) -> None:
        self.analyzers = analyzers
        self.words = 0

    def node(self, query: Query, column: str | None, boost: float) -> Node | None:
        boost = check_total_boost(boost * getattr(query, "boost", 1.0))
        if isinstance(query, Boolean):
            return self._boolean(query, column, boost)
        if isinstance(query, Boost):
            return self.node(query.query, column, boost)
        if isinstance(query, MultiMatch):
            nodes = [self.node(query.inner(), name, boost * own) for name, own in query.boosts()]
            found = tuple(node for node in nodes if node is not None)
            return Best(found) if query.combine == "best" and len(found) > 1 else any_of(found)
        if isinstance(query, Match | Phrase | Prefix | Fuzzy):
            return self._leaf(query, *self._column(query.column or column, query), boost)
        raise InvalidInputError(
            f"a query is {type(query).__name__}", hint="make it of the classes in siltstone.query, or give a text"
        )

    def _column(self, name: str | None, query: Query) -> tuple[str, Analyzer]:
        if name is None:
            raise InvalidInputError(
                f"{query!r} names no column", hint=f"searched are {', '.join(map(repr, self.analyzers))}: name one"
            )
        analyzer = self.analyzers.get(name)
        if analyzer is None:
            raise InvalidInputError(
                f"column {name!r} has no text index that is searched here", hint="make one with create_text_index"
            )
        return name, analyzer

    def _boolean(self, query: Boolean, column: str | None, boost: float) -> Node | None:
        must, should, must_not = (
            tuple(node for part in parts if (node := self.node(part, column, boost)) is not None)
            for parts in (query.must, query.should, query.must_not)
        )
        return _both(must, should, must_not, query.minimum_should)

    def _leaf(
        self, query: Match | Phrase | Prefix | Fuzzy, column: str, analyzer: Analyzer, boost: float
    ) -> Node | None:
        if isinstance(query, Match):
            words = tuple(Word(column, term, boost) for term, _ in self._count(terms_of(query.text, analyzer)))
            return _both(words, (), (), 0) if query.operator == "and" else any_of(words)
        if isinstance(query, Phrase):
            if not analyzer.positions:
                raise InvalidInputError(
                    f"the index of column {column!r} has no positions, and a phrase asks for them",
                    hint="make the index with positions=True, or use query.Match(..., operator='and')",
                )
            return self._phrase(query, column, analyzer, boost)
        if isinstance(query, Fuzzy):
            if analyzer.tokenizer == "ngram":
                raise InvalidInputError(
                    f"the index of column {column!r} is of parts of words, which are not compared by edits",
                    hint="use query.Match, which finds words by the parts that are alike",
                )
            spelled = self._count(terms_of(query.text, _unstopped(analyzer)))
            return _both(tuple(_fuzzy(query, column, term, boost) for term, _ in spelled), (), (), 0)
        return self._prefix(query, column, analyzer, boost)

    def _phrase(self, query: Phrase, column: str, analyzer: Analyzer, boost: float) -> Node | None:
        terms = self._count(terms_of(query.text, analyzer))
        if len(terms) < 2:
            return Word(column, terms[0][0], boost) if terms else None
        first = terms[0][1]
        return Words(column, tuple((term, at - first) for term, at in terms), query.slop, boost)

    def _prefix(self, query: Prefix, column: str, analyzer: Analyzer, boost: float) -> Node | None:
        plain = self._count(terms_of(query.text, _plain(analyzer)))
        if analyzer.tokenizer == "ngram" and plain:  # it is in the index in parts: all of them
            return _both(tuple(Word(column, term, boost) for term, _ in plain), (), (), 0)
        if analyzer.tokenizer == "ngram":
            plain = terms_of(query.text, _plain(analyzer, tokenizer="simple"))
        if not plain or is_left_out(query.text, _plain(analyzer)):
            return None  # the last word is too long: nothing that is indexed begins so
        # Only the last of several words is the beginning of one: e-mail* is e and mail*.
        begun = plain[-1][0]
        whole = terms_of(query.text, _unstopped(analyzer)) if analyzer.stem else []
        also = whole[-1][0] if whole and not whole[-1][0].startswith(begun) else None
        words = terms_of(query.text, analyzer) if len(plain) > 1 else []
        before = tuple(Word(column, term, boost) for term, at in words if at < plain[-1][1])
        return _both((*before, Like(column, begun, also, -1, 0, boost)), (), (), 0)

    def _count(self, terms: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
        self.words += len(terms)
        if self.words > WORDS_MAX:
            raise LimitExceededError(f"the query has more than {WORDS_MAX:,} words", hint="search for fewer")
        return terms


def _both(
    must: tuple[Node, ...], should: tuple[Node, ...], must_not: tuple[Node, ...], minimum: int | None
) -> Node | None:
    """One node for clauses, flat where that says the same."""
    if not must and not should:
        return None
    least = (0 if must else 1) if minimum is None else min(minimum, len(should))
    if not must and not least:
        least = 1  # to match is to match something
    if len(must) == 1 and not should and not must_not:
        return must[0]
    if len(should) == 1 and not must and not must_not:
        return should[0]
    if least <= 1:
        should = _merged(
            inner for node in should for inner in (node.should if isinstance(node, Both) and _is_any(node) else (node,))
        )
        if len(should) == 1 and not must and not must_not:
            return should[0]
    must = _merged(
        inner for node in must for inner in (node.must if isinstance(node, Both) and _is_all(node) else (node,))
    )
    if len(must) == 1 and not should and not must_not:
        return must[0]
    return Both(must, should, must_not, least)


def _is_any(node: Both) -> bool:
    return not node.must and not node.must_not and node.least == 1


def _is_all(node: Both) -> bool:
    return not node.should and not node.must_not


def _merged(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Leaves that look up the same, as one with their boosts added."""
    found: dict[object, Node] = {}
    for node in nodes:
        if isinstance(node, Both | Best):
            found[object()] = node
            continue
        key = (type(node), node[:-1])
        before = found.get(key)
        if isinstance(before, Word | Words | Like):
            node = node._replace(boost=before.boost + node.boost)  # noqa: PLW2901  # the clause again
        found[key] = node
    return tuple(found.values())


def _fuzzy(query: Fuzzy, column: str, term: bytes, boost: float) -> Like:
    length = len(term.decode())
    edits = query.edits if query.edits is not None else 0 if length < 3 else 1 if length < 6 else 2
    return Like(column, term, None, edits, query.prefix_length, boost)


@lru_cache(maxsize=64)
def _plain(analyzer: Analyzer, tokenizer: str | None = None) -> Analyzer:
    """The rules for the beginning of a word: it is spelled alike, and nothing is cut off or left out."""
    changed = msgspec.structs.replace(analyzer, stem=False, stop_words=False)
    return msgspec.structs.replace(changed, tokenizer=tokenizer) if tokenizer else changed


@lru_cache(maxsize=64)
def _unstopped(analyzer: Analyzer) -> Analyzer:
    """The rules for a word that stands for others: it may look like a stop word."""
    return msgspec.structs.replace(analyzer, stop_words=False)
