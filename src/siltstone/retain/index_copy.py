"""Segments of indexes under new names: a table that gets fragments of its own keeps what was indexed of them.

What must hold:
- A copy is a build of its own: the same parts, byte for byte, and a marker that names the fragments as they are called
  now. A part has no name of a fragment inside. The copy has no log, and needs none: the log of a build decides what its
  marker says, and this marker says what the one that was copied says. It keeps the digest of the plan that made it.
- Parts come before the marker, and the marker before the version that names it. What was cut off is named by nothing,
  and a collection removes it.
- Nothing is copied of parts that have no fragment of the version. A segment of which nothing is left, or that is not
  what was written, has no copy: its rows are found in their texts, until the index is optimized.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from siltstone import paths
from siltstone.errors import CorruptionError, MissingObjectError
from siltstone.format.frame import digest
from siltstone.format.text import encode
from siltstone.index.build import read_marker, segment_of
from siltstone.index.making import read_part
from siltstone.shard.together import together
from siltstone.table.upload import upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from siltstone.format.text import Covered, Marker, PartFile, Segment
    from siltstone.table.state import State
    from siltstone.table.tools import Tools


@dataclass(frozen=True)
class Stale:
    """A segment that can't stay as it is. ``marker`` has the parts that are of use; None where it can't be read."""

    index: str
    segment: Segment
    marker: Marker | None

    @property
    def parts(self) -> tuple[PartFile, ...]:
        """What is to be copied."""
        return () if self.marker is None else self.marker.parts

    @property
    def bytes(self) -> int:
        """How much that is."""
        return sum(part.bytes for part in self.parts)


def stale_segments(tools: Tools, state: State, renamed: Iterable[str]) -> list[Stale]:
    """Segments that are in other tables, or cover fragments that get other names (``renamed``: as they are now)."""
    new = {paths.bare(name) for name in renamed}
    there = {paths.bare(live.fragment.name) for live in state.fragments}
    pairs = [(name, segment) for name, index in state.indexes.items() for segment in index.segments]

    def look(pair: tuple[str, Segment]) -> Stale | None:
        name, segment = pair
        try:
            marker = read_marker(tools.store, segment)
        except (CorruptionError, MissingObjectError):
            return Stale(name, segment, None) if paths.origin_of(segment.build) else None
        covered = {paths.bare(one.name) for part in marker.parts for one in part.fragments}
        if not paths.origin_of(segment.build) and not covered & new:
            return None
        parts = tuple(part for part in marker.parts if any(paths.bare(one.name) in there for one in part.fragments))
        return Stale(name, segment, msgspec.structs.replace(marker, parts=parts))

    return [one for one in together(look, pairs, tools.store) if one is not None]


def copied(
    tools: Tools, stale: Stale, names: Mapping[str, str], *, base: int, done: Callable[[int], None]
) -> Segment | None:
    """A copy of a segment, written on top of version ``base``; None where there can be none.

    ``names`` has the names that fragments get, by those that they have in the table that they are in.
    """
    if stale.marker is None or not stale.parts:
        return None
    build = paths.name(base, tools.env.ids.new())

    def copy(part: PartFile) -> bool:
        try:
            data = read_part(tools, paths.index(stale.segment.build, part.name), part)
            upload(tools.store, paths.index(build, part.name), data, sha256=part.sha256, env=tools.env)
        except (CorruptionError, MissingObjectError):
            return False
        finally:
            done(part.bytes)
        return True

    if not all(together(copy, stale.parts, tools.store)):
        return None
    marker = renamed_marker(stale.marker, names, build=build)
    data = encode(marker)
    upload(tools.store, paths.index(build, paths.MARKER), data, sha256=digest(data), env=tools.env)
    return segment_of(marker, marker_bytes=len(data))


def renamed_marker(marker: Marker, names: Mapping[str, str], *, build: str) -> Marker:
    """A marker of the same parts in another build, with the names that fragments have now."""

    def renamed(one: Covered) -> Covered:
        own = paths.bare(one.name)
        return msgspec.structs.replace(one, name=names.get(own, own))

    parts = (
        msgspec.structs.replace(part, fragments=tuple(renamed(one) for one in part.fragments)) for part in marker.parts
    )
    return msgspec.structs.replace(marker, build=build, parts=tuple(parts))
