"""Are the text indexes whole that a version names, and do they say what is so of its fragments?

What must hold: a segment whose marker or parts are missing, cut or changed is named, and so is one whose numbers don't
add up; a search would meet it, or give another answer than the texts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.cli.fragment_check import size_of, sizes_below, wrong_bytes
from siltstone.errors import CorruptionError, MissingObjectError
from siltstone.index.build import read_marker, segment_of
from siltstone.verify import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from siltstone.format.text import Marker, Segment, TextIndex
    from siltstone.store.base import Store
    from siltstone.table.state import State


def check_indexes(store: Store, state: State, *, deep: bool, missing: frozenset[int]) -> list[Problem]:
    """Check the indexes of a version; what is in tables that can't be read (``missing``) is passed over."""
    if not state.indexes:
        return []
    sizes = sizes_below(store, paths.INDEXES)
    rows = {paths.bare(live.fragment.name): live.fragment.rows for live in state.fragments}
    problems: list[Problem] = []
    for name, index in sorted(state.indexes.items()):
        had: dict[str, str] = {}
        for segment in index.segments:
            if paths.origin_of(segment.build) not in missing:
                problems += _check(store, sizes, (name, index), segment, rows=rows, had=had, deep=deep)
    return problems


def _check(
    store: Store,
    sizes: dict[str, int],
    named: tuple[str, TextIndex],
    segment: Segment,
    *,
    rows: Mapping[str, int],
    had: dict[str, str],
    deep: bool,
) -> Iterator[Problem]:
    """Check a segment; ``had`` has the fragments of those before it, by name, with their builds."""
    name, index = named
    key = paths.index(segment.build, paths.MARKER)
    what = f"of index {name!a}, with {segment.rows} rows,"
    try:
        marker = read_marker(store, segment)
    except MissingObjectError:
        yield Problem("missing", f"the marker {what} is gone", object=key)
        return
    except CorruptionError as error:
        yield Problem("corrupt", f"the marker {what} can't be used: {error.message}", object=key)
        return
    for wrong in (*_wrong(index, segment, marker), *_uncovered(marker, rows, had)):
        yield Problem("corrupt", f"the marker {what} {wrong}", object=key)
    for part in marker.parts:
        place = paths.index(segment.build, part.name)
        one = f"a part of index {name!a}, with {part.documents} rows,"
        size = size_of(store, sizes, place)
        if size is None:
            yield Problem("missing", f"{one} is gone", object=place)
        elif size != part.bytes:
            yield Problem("corrupt", f"{one} has {size} bytes, not the {part.bytes} of its marker", object=place)
        elif deep and (wrong := wrong_bytes(store, place, size, part.sha256)):
            yield Problem("corrupt", f"{one} {wrong}", object=place)


def _wrong(index: TextIndex, segment: Segment, marker: Marker) -> Iterator[str]:
    """What a marker says otherwise than the version that names it."""
    if marker.build != paths.bare(segment.build):
        yield f"is of build {marker.build}"
    if (marker.index, marker.field, marker.analyzer) != (index.id, index.field, index.analyzer):
        yield "is of another index, column or analyzer"
    found = segment_of(marker, marker_bytes=segment.bytes)
    for fact in ("parts", "rows", "stored_bytes", "fragments"):
        has, said = getattr(found, fact), getattr(segment, fact)
        if has != said:
            yield f"has {has} {fact.replace('_', ' ')}, not the {said} that the version names"


def _uncovered(marker: Marker, rows: Mapping[str, int], had: dict[str, str]) -> Iterator[str]:
    """What is wrong with the fragments that it covers. Those that are gone from the version are not looked at."""
    covered: Counter[str] = Counter()
    for part in marker.parts:
        documents = sum(one.rows for one in part.fragments)
        if documents != part.documents:
            yield f"has {documents} rows of fragments in {part.name}, which has {part.documents}"
        for one in part.fragments:
            covered[paths.bare(one.name)] += one.rows
    for fragment, count in covered.items():
        if fragment in rows and count != rows[fragment]:
            yield f"covers {count} rows of fragment {fragment}, which has {rows[fragment]}"
        elif fragment in rows and had.setdefault(fragment, marker.build) != marker.build:
            yield f"covers fragment {fragment}, which build {had[fragment]} covers too"
