"""Where a text matches a query, and the piece of it that shows that best.

What must hold:
- What is marked is what the search found: words of the query by the index's rules, words of a phrase only where the
  phrase is. What must not be there is never marked.
- A snippet is the text's own words in their order; it begins and ends at a word, and a dot-dot-dot says what is cut.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from siltstone.errors import InvalidInputError
from siltstone.format.text import Analyzer
from siltstone.index.analyze import spans_of, terms_of
from siltstone.index.fuzzy import near
from siltstone.index.parse import parse
from siltstone.index.resolve import Best, Both, Like, Word, Words, columns_of, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from siltstone.index.query import Query
    from siltstone.index.resolve import Leaf, Node

LENGTH = 160
_CUT = "…"
_SPACE = re.compile(r"\s+")


class Mark(NamedTuple):
    """A match: from the first character up to the one behind it, and the word of the query that it is for."""

    start: int
    end: int
    word: object


def snippets(
    texts: Sequence[str | None],
    query: Query | str,
    analyzer: Analyzer,
    *,
    column: str | None = None,
    length: int = LENGTH,
    before: str = "**",
    after: str = "**",
) -> list[str]:
    """The best piece of each text, about as long as asked, with matches between ``before`` and ``after``.

    ``column`` is the one that the texts are from; where it is not said, whatever the query looks for is marked.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidInputError(
            f"texts is {type(texts).__name__}", hint="give it a list of texts, also where there is one"
        )
    if not isinstance(analyzer, Analyzer):
        raise InvalidInputError(
            f"analyzer is {type(analyzer).__name__}",
            hint="take that of one of table.indexes(), or search.analyzers[column]",
        )
    if not isinstance(before, str) or not isinstance(after, str):
        raise InvalidInputError("before and after are texts", hint='for example before="<b>", after="</b>"')
    highlighter = Highlighter(query, analyzer, column=column)
    return [highlighter.snippet(text or "", length=length, before=before, after=after) for text in texts]


class Highlighter:
    """The words of one query, looked for in texts."""

    def __init__(self, query: Query | str, analyzer: Analyzer, *, column: str | None = None) -> None:
        query = parse(query) if isinstance(query, str) else query
        name = column or ""
        node = resolve(query, dict.fromkeys(columns_of(query, name), analyzer), name)
        leaves = [] if node is None else [leaf for leaf in _wanted(node) if column in {None, leaf.column}]
        self._analyzer = analyzer
        self._words = {leaf.term for leaf in leaves if isinstance(leaf, Word)}
        self._phrases = [leaf for leaf in leaves if isinstance(leaf, Words)]
        self._likes = [leaf for leaf in leaves if isinstance(leaf, Like)]

    def marks(self, text: str) -> list[Mark]:
        """The matches in a text, in order; none overlaps another."""
        spans = spans_of(text, self._analyzer)
        words = self._word_of({term for term, _, _ in spans})
        found = [Mark(start, end, words[term]) for term, start, end in spans if term in words]
        if self._phrases:
            found += self._in_phrases(text, spans)
        found.sort(key=lambda mark: mark[:2])
        joined: list[Mark] = []
        for mark in found:
            if joined and mark.start < joined[-1].end:
                last = joined.pop()
                joined.append(Mark(last.start, max(last.end, mark.end), last.word))
            else:
                joined.append(mark)
        return joined

    def marked(self, text: str, *, before: str = "**", after: str = "**") -> str:
        """The whole text with its matches marked."""
        return _joined(text, self.marks(text), before, after)

    def snippet(self, text: str, *, length: int = LENGTH, before: str = "**", after: str = "**") -> str:
        """The best piece of a text, in one line."""
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise InvalidInputError(f"length is {length!r}", hint="a snippet has so many characters: 1 or more")
        marks = self.marks(text)
        chosen = _densest(marks, length)
        start, end = _window(text, chosen, length)
        inside = [
            Mark(mark.start - start, min(mark.end, end) - start, mark.word)
            for mark in marks
            if start <= mark.start < end
        ]
        piece = _joined(text[start:end], inside, before, after, one_line=True).strip()
        head = _CUT if text[:start].strip() else ""
        tail = _CUT if text[end:].strip() else ""
        return f"{head}{piece}{tail}"

    def _word_of(self, terms: set[bytes]) -> dict[bytes, object]:
        """The terms that match by themselves, each with the word of the query that it stands for."""
        words: dict[bytes, object] = {}
        for leaf in self._likes:
            if leaf.edits < 0:
                words |= {term: leaf for term in terms if term.startswith(leaf.text) or term == leaf.also}
            else:
                array = pa.array(sorted(terms), pa.large_binary())
                word = leaf.text.decode()
                close = near(array, word, edits=leaf.edits, prefix_length=leaf.prefix_length)
                words |= {term: leaf for term, distance, length in close if distance < max(length, len(word))}
        return words | {term: term for term in terms & self._words}

    def _in_phrases(self, text: str, spans: Sequence[tuple[bytes, int, int]]) -> Iterable[Mark]:
        positions = [at for _, at in terms_of(text, self._analyzer)]
        places: dict[bytes, list[int]] = {}
        span_at: dict[int, tuple[int, int]] = {}
        for (term, start, end), at in zip(spans, positions, strict=True):
            places.setdefault(term, []).append(at)
            span_at[at] = start, end
        for phrase in self._phrases:
            found: dict[int, object] = {}  # once for each place, in however many occurrences it is
            for first in places.get(phrase.terms[0][0], ()):
                for at in _occurrence(phrase, first, places):
                    found.setdefault(at, (phrase, at - first))
            yield from (Mark(*span_at[at], word) for at, word in found.items())


def _wanted(node: Node) -> Iterable[Leaf]:
    """What must or should be there."""
    if isinstance(node, Both):
        for one in (*node.must, *node.should):
            yield from _wanted(one)
    elif isinstance(node, Best):
        for one in node.nodes:
            yield from _wanted(one)
    else:
        yield node


def _occurrence(phrase: Words, first: int, places: dict[bytes, list[int]]) -> list[int]:
    """The positions of the phrase's words where it begins at a place; none where it does not."""
    found = [first]
    before = 0
    for term, distance in phrase.terms[1:]:
        own = places.get(term, [])
        at = bisect_left(own, found[-1] + distance - before)
        if at == len(own):
            return []
        found.append(own[at])
        before = distance
    return found if found[-1] - first - before <= phrase.slop else []


def _densest(marks: Sequence[Mark], length: int) -> Sequence[Mark]:
    """The marks that fit into a piece: of as many words of the query as can be, then as many as can be."""
    best: tuple[int, int] = (0, 0)
    chosen: Sequence[Mark] = ()
    counts: dict[object, int] = {}
    first = 0
    for last, mark in enumerate(marks):
        counts[mark.word] = counts.get(mark.word, 0) + 1
        while first < last and mark.end - marks[first].start > length:
            word = marks[first].word
            counts[word] -= 1
            if not counts[word]:
                del counts[word]
            first += 1
        found = (len(counts), last + 1 - first)
        if found > best:
            best, chosen = found, marks[first : last + 1]
    return chosen


def _window(text: str, marks: Sequence[Mark], length: int) -> tuple[int, int]:
    """From where to where a piece is shown: the marks in the middle, whole words at both ends."""
    if len(text) <= length:
        return 0, len(text)
    first, last = (marks[0].start, marks[-1].end) if marks else (0, 0)
    start = max(0, min(first - max(0, length - (last - first)) // 2, len(text) - length))
    end = max(min(len(text), start + length), min(last, first + length))
    if start and not text[start - 1].isspace():
        space = _SPACE.search(text, start, first)
        start = space.end() if space else start
    if end < len(text) and not text[end].isspace():
        cut = next((at for at in range(end, max(start, min(last, end)), -1) if text[at - 1].isspace()), end)
        end = cut
    return start, end


def _joined(text: str, marks: Sequence[Mark], before: str, after: str, *, one_line: bool = False) -> str:
    pieces = []
    at = 0
    for mark in marks:
        pieces += [_plain(text[at : mark.start], one_line=one_line), before]
        pieces += [_plain(text[mark.start : mark.end], one_line=one_line), after]
        at = mark.end
    pieces.append(_plain(text[at:], one_line=one_line))
    return "".join(pieces)


def _plain(text: str, *, one_line: bool) -> str:
    return _SPACE.sub(" ", text) if one_line else text
