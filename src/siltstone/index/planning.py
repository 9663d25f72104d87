"""Which fragments a build indexes, and how the work is cut into items.

What must hold:
- Every fragment of the version is in one item at most: those that a segment has stay with it, or all of its parts are
  taken over.
- A plan follows from the version and its markers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from siltstone import paths
from siltstone.format.text import Covered, Item, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from siltstone.format.rollup import Live
    from siltstone.format.text import Marker, PartFile, Segment
    from siltstone.table.state import State

ITEM_BYTES = 256 * 1024 * 1024  # of files
ITEM_ROWS = 4 * 1024 * 1024
MERGED_TOKENS = 32 * 1024 * 1024  # of a part that is made of others
SMALL_TOKENS = MERGED_TOKENS // 4
WORN_SHARE = 0.25  # of documents that are gone: from here on a segment is made anew

T = TypeVar("T")


@dataclass(frozen=True)
class Work:
    """Items of a build, and the segments that it takes the place of."""

    items: tuple[Item, ...] = ()
    replaces: tuple[Segment, ...] = ()


@dataclass
class Coverage:
    """Which fragments of a version are in which segment."""

    covered: dict[str, Live] = field(default_factory=dict)  # by their names in the table that they are in
    rest: list[Live] = field(default_factory=list)


def coverage(state: State, markers: Iterable[Marker]) -> Coverage:
    """What of a version is indexed, and what is not."""
    names = {paths.bare(one.name) for marker in markers for part in marker.parts for one in part.fragments}
    found = Coverage()
    for live in state.fragments.select(None):
        bare = paths.bare(live.fragment.name)
        if bare in names:
            found.covered[bare] = live
        else:
            found.rest.append(live)
    return found


def text_items(lives: Sequence[Live], *, at_least: int = 1) -> list[Item]:
    """Items that index texts: neighbours together, ``at_least`` so many where there are fragments enough."""
    total = sum(live.fragment.bytes for live in lives)
    most = min(ITEM_BYTES, -(-total // at_least)) if at_least > 1 else ITEM_BYTES
    items: list[Item] = []
    waiting: list[Covered] = []
    size = rows = 0
    for place, live in enumerate(lives):
        one = live.fragment
        few = len(lives) - place < at_least - len(items)  # each that is left must be an item of its own
        if waiting and (few or size + one.bytes > most or rows + one.rows > ITEM_ROWS):
            items.append(Item(fragments=tuple(waiting)))
            waiting, size, rows = [], 0, 0
        waiting.append(Covered(one.name, one.rows))
        size, rows = size + one.bytes, rows + one.rows
    if waiting:
        items.append(Item(fragments=tuple(waiting)))
    return items


def plan_whole(state: State, *, at_least: int = 1) -> Work:
    """Index all there is from its texts."""
    return Work(tuple(text_items(state.fragments.select(None), at_least=at_least)))


def plan_more(state: State, markers: Mapping[Segment, Marker], *, at_least: int = 1, whole: bool = False) -> Work:
    """Index what is not, merge small parts, and leave out fragments that are gone.

    With ``whole`` all segments become one, however large and fresh they are.
    """
    found = coverage(state, markers.values())
    chosen = [segment for segment, marker in markers.items() if whole or _is_due(marker, found)]
    few = len(chosen) == 1 and not found.rest and not _is_worn(markers[chosen[0]], found)
    if few and (not whole or _merge_count(markers[chosen[0]]) == len(markers[chosen[0]].parts)):
        chosen = []  # it would become what it is
    items = _merge_items([(segment, part) for segment in chosen for part in markers[segment].parts], found)
    return Work((*items, *text_items(found.rest, at_least=at_least)), tuple(chosen))


def _is_due(marker: Marker, found: Coverage) -> bool:
    tokens = sum(part.tokens for part in marker.parts)
    return tokens < SMALL_TOKENS or _is_worn(marker, found)


def _is_worn(marker: Marker, found: Coverage) -> bool:
    rows = gone = 0
    for part in marker.parts:
        for one in part.fragments:
            rows += one.rows
            gone += one.rows if paths.bare(one.name) not in found.covered else 0
    return rows == gone or gone > WORN_SHARE * rows


def _merge_count(marker: Marker) -> int:
    return len(list(_groups((part, part.tokens) for part in marker.parts)))


def _merge_items(parts: Sequence[tuple[Segment, PartFile]], found: Coverage) -> list[Item]:
    """Items that merge parts, without fragments that are gone."""
    left = []
    for segment, part in parts:
        kept = tuple(one for one in part.fragments if paths.bare(one.name) in found.covered)
        if kept:
            left.append(((segment, part, kept), part.tokens))
    items = []
    for group in _groups(left):
        fragments = tuple(one for _, _, kept in group for one in kept)
        sources = tuple(Source(segment=segment, part=part.name) for segment, part, _ in group)
        items.append(Item(fragments=fragments, sources=sources))
    return items


def _groups(sized: Iterable[tuple[T, int]]) -> Iterable[list[T]]:
    """Neighbours whose tokens fit into one part."""
    waiting: list[T] = []
    total = 0
    for one, tokens in sized:
        if waiting and total + tokens > MERGED_TOKENS:
            yield waiting
            waiting, total = [], 0
        waiting.append(one)
        total += tokens
    if waiting:
        yield waiting
