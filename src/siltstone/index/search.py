"""Searches: the rows that match a query, best first, or all of them.

What must hold:
- A row matches, and scores, by the query and the live documents alone; a limit and what is left out because of it
  change neither rows nor scores nor their order.
- Scores of clauses are added in one order: nested ones as they stand, then the others from the heaviest down.
- What a query looks up in a column is asked for together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siltstone.errors import InternalError, InvalidInputError
from siltstone.index.fuzzy import like
from siltstone.index.match import intersect, member, summed, union
from siltstone.index.parse import parse
from siltstone.index.phrase import occurrences
from siltstone.index.resolve import Best, Both, Like, Word, Words, leaves_of, resolve
from siltstone.index.score import idf
from siltstone.index.topk import Operand, Top, all_of, any_of, best_first, joined, promising, reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from siltstone.index.match import Rows
    from siltstone.index.part import Part
    from siltstone.index.query import Query
    from siltstone.index.resolve import Leaf, Node
    from siltstone.index.statistics import Column, Places, Posting, Statistics
    from siltstone.index.topk import Keep

    Mask = NDArray[np.bool_]
    Allowed = Mask | Callable[[Rows], Mask]  # by row, or asked for some rows at a time

_MARKED_MOST = 1 << 24
_MORE = 4  # how many times as many rows are looked at where too many were refused


class Hits(NamedTuple):
    """Rows that match, best first; equal scores in the order of the table."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]


def search(
    columns: Mapping[str, Column],
    query: Query | str,
    *,
    limit: int | None,
    allowed: Allowed | None = None,
    column: str | None = None,
) -> Hits:
    """The best rows that match; without a limit all. ``column`` is searched where the query names none.

    Raises:
        InvalidInputError: the query does not fit the columns, or its text can't be read.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInputError(f"limit is {limit!r}", hint="how many rows at most: a whole number from 0 on, or None")
    node = _node(columns, query, column)
    if node is None or limit == 0:
        return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
    if callable(allowed):
        return _asked(columns, node, limit, allowed)
    return Hits(*best_first(_top(columns, node, limit, allowed), limit))


def matches(columns: Mapping[str, Column], query: Query | str, *, column: str | None = None) -> Rows:
    """All rows that match, in the order of the table."""
    node = _node(columns, query, column)
    if node is None:
        return np.empty(0, np.int64)
    return union([one.rows(node) for one in _evaluations(columns, node)])


def _node(columns: Mapping[str, Column], query: Query | str, column: str | None) -> Node | None:
    if isinstance(query, str):
        query = parse(query)
    return resolve(query, {name: one.analyzer for name, one in columns.items()}, column)


def _evaluations(columns: Mapping[str, Column], node: Node) -> Iterator[_Evaluation]:
    """The query on all parts at once; on some at a time where they are many, and of one column."""
    used = {leaf.column for leaf in leaves_of(node)}
    likes = _Likes()
    name = used.pop()
    if used or len(columns[name].groups) == 1:
        yield _Evaluation(columns, node, likes)
        return
    likes.count(columns[name], node)
    for group in columns[name].groups:
        yield _Evaluation({name: group}, node, likes)


def _top(columns: Mapping[str, Column], node: Node, limit: int | None, allowed: Mask | None) -> Top:
    """The rows that can be among the best, ascending."""
    keep = None if allowed is None else _masked(allowed, max(column.end for column in columns.values()))
    top: Top | None = None
    low = 0.0
    for evaluation in _evaluations(columns, node):
        evaluation.keep = keep
        found = evaluation.top(node, limit, low)
        top = found if top is None else joined(top, found)
        if limit is not None:
            low = reached(top.scores, limit)
            top = promising(top, limit, low)
    return top or Top(np.empty(0, np.int64), np.empty(0, np.float64))


def _masked(allowed: Mask, end: int) -> Keep:
    if len(allowed) < end:
        raise InternalError(f"a mask of {len(allowed)} rows is given for {end}")
    return lambda rows: allowed[rows]


def _asked(columns: Mapping[str, Column], node: Node, limit: int | None, allowed: Callable[[Rows], Mask]) -> Hits:
    """The best rows that pass: more and more of the best are asked about, until enough do."""
    asked, most = 0, limit
    passed = np.empty(0, np.bool_)
    while True:
        rows, scores = best_first(_top(columns, node, most, None), most)
        passed = np.concatenate((passed, allowed(rows[asked:])))
        if most is None or limit is None or len(rows) < most or np.count_nonzero(passed) >= limit:
            chosen = np.flatnonzero(passed)[:limit]
            return Hits(rows[chosen], scores[chosen])
        asked, most = len(rows), most * _MORE


class _Likes:
    """The rows with any of the terms that a word stands for, in all parts of a column."""

    def __init__(self) -> None:
        self._counts: dict[Like, int] = {}

    def idf(self, leaf: Like, posting: Posting, statistics: Statistics) -> float:
        """How much the terms say together."""
        count = self._counts.get(leaf)
        return posting.idf if count is None else idf(count, statistics.documents)

    def count(self, column: Column, node: Node) -> None:
        """Count the rows of all groups, which none of them knows."""
        for leaf in leaves_of(node):
            if isinstance(leaf, Like):
                self._counts[leaf] = sum(len(_like(group, leaf).rows) for group in column.groups)


def _like(column: Column, leaf: Like) -> Posting:
    """The terms that a word stands for, as one."""

    def terms(part: Part) -> list[tuple[bytes, float]]:
        if leaf.edits >= 0:
            return like(part, leaf.text.decode(), edits=leaf.edits, prefix_length=leaf.prefix_length)
        found = part.with_prefix(leaf.text)
        return [(term, 1.0) for term in found] + ([(leaf.also, 1.0)] if leaf.also is not None else [])

    return column.together(leaf[:-1], terms)


class _Evaluation:
    """One query on its columns."""

    def __init__(self, columns: Mapping[str, Column], node: Node, likes: _Likes) -> None:
        self.columns = columns
        self._likes = likes
        self.keep: Keep | None = None
        self._postings: dict[tuple[str, bytes], Posting] = {}
        self._placed: dict[tuple[str, bytes], Places] = {}
        self._found: dict[Leaf, Posting] = {}
        self._load(node)

    def top(self, node: Node, limit: int | None, low: float = 0.0) -> Top:
        """The rows that can be among the best, ascending; ``low`` is a score that so many rows are known to reach."""
        if isinstance(node, Best):
            return _best([self.top(one, limit, low) for one in node.nodes])
        if not isinstance(node, Both):
            return any_of([self._operand(node)], limit, keep=self.keep, low=low)
        keep = self._without(node.must_not)
        if not node.must and node.least <= 1:
            return any_of(self._operands(node.should), limit, keep=keep, low=low)
        rows = self._rows(node.must, node.should, node.least)
        if keep is not None:
            rows = rows[keep(rows)]
        return Top(rows, all_of(self._operands((*node.must, *node.should)), rows))

    def rows(self, node: Node) -> Rows:
        """The rows that match, ascending."""
        if isinstance(node, Best):
            return union([self.rows(one) for one in node.nodes])
        if not isinstance(node, Both):
            return self._posting(node).rows
        rows = self._rows(node.must, node.should, node.least)
        for one in node.must_not:
            rows = rows[~member(rows, self.rows(one))]
        return rows

    def _rows(self, must: Sequence[Node], should: Sequence[Node], least: int) -> Rows:
        sets = [self.rows(one) for one in must]
        if least == 1:
            sets.append(union([self.rows(one) for one in should]))
        elif least:
            found = [self.rows(one) for one in should]
            rows, _, counts = summed([(one, np.zeros(len(one), np.float64)) for one in found])
            sets.append(rows[counts >= least])
        return intersect(sets)

    def _without(self, nodes: Sequence[Node]) -> Keep | None:
        if not nodes:
            return self.keep
        keep, also = _not_in(union([self.rows(one) for one in nodes])), self.keep
        return keep if also is None else lambda rows: keep(rows) & also(rows)

    def _operands(self, nodes: Sequence[Node]) -> list[Operand]:
        nested = [Operand.plain(*self.top(node, None)) for node in nodes if isinstance(node, Both | Best)]
        leaves = [(self._operand(node), node) for node in nodes if not isinstance(node, Both | Best)]
        if len(leaves) > 1:
            leaves.sort(key=lambda pair: (-pair[0].weight, str(pair[1][1:]), pair[1][0]))
        return nested + [operand for operand, _ in leaves]

    def _operand(self, leaf: Leaf) -> Operand:
        posting = self._posting(leaf)
        own = posting.idf
        if isinstance(leaf, Like):
            own = self._likes.idf(leaf, posting, self.columns[leaf.column].statistics)
        return Operand.of(posting, leaf.boost * own)

    def _posting(self, leaf: Leaf) -> Posting:
        if isinstance(leaf, Word):
            return self._postings[leaf.column, leaf.term]
        found = self._found.get(leaf)
        if found is None:
            found = self._found[leaf] = (
                self._phrase(leaf) if isinstance(leaf, Words) else _like(self.columns[leaf.column], leaf)
            )
        return found

    def _phrase(self, leaf: Words) -> Posting:
        placed = [self._placed[leaf.column, term] for term, _ in leaf.terms]
        keys = [(places.keys, distance) for places, (_, distance) in zip(placed, leaf.terms, strict=True)]
        rows, counts = occurrences(keys, leaf.slop)
        return self.columns[leaf.column].counted(rows, counts, sum(places.idf for places in placed))

    def _load(self, node: Node) -> None:
        """Look all terms up that the query names."""
        words: dict[str, list[bytes]] = {}
        placed: dict[str, list[bytes]] = {}
        for leaf in leaves_of(node):
            if isinstance(leaf, Word):
                words.setdefault(leaf.column, []).append(leaf.term)
            elif isinstance(leaf, Words):
                placed.setdefault(leaf.column, []).extend(term for term, _ in leaf.terms)
        for name in {**words, **placed}:
            postings, places = self.columns[name].look_up(words.get(name, ()), placed.get(name, ()))
            self._postings.update({(name, term): posting for term, posting in postings.items()})
            self._placed.update({(name, term): found for term, found in places.items()})


def _not_in(excluded: Rows) -> Keep:
    end = int(excluded[-1]) + 1 if len(excluded) else 0
    if end > _MARKED_MOST:
        return lambda rows: ~member(rows, excluded)
    kept = np.ones(end + 1, np.bool_)  # the last one stands for all behind it
    kept[excluded] = False
    return lambda rows: kept[np.minimum(rows, end)]


def _best(tops: Sequence[Top]) -> Top:
    """Rows of any, each with its highest score."""
    rows = np.concatenate([top.rows for top in tops])
    order = np.argsort(rows, kind="stable")
    rows, scores = rows[order], np.concatenate([top.scores for top in tops])[order]
    if not len(rows):
        return Top(rows, scores)
    heads = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    return Top(rows[heads], np.maximum.reduceat(scores, heads))
