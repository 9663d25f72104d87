"""What a version changes of a table's indexes.

What must hold:
- An index has one name and an id of its own: what was built for one never becomes part of another of the same name.
- A segment takes the place of those that it was made from, all of them or it is refused. No fragment is in two
  segments: one that another build indexed meanwhile is a conflict.
- A build becomes part of a table once: whoever commits it gives the transaction the build's own id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from siltstone import paths
from siltstone.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from siltstone.index.making import field_of
from siltstone.table.operations import Work
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from siltstone.format.text import Marker, Segment, TextIndex
    from siltstone.index.build import Finished
    from siltstone.table.draft import Draft
    from siltstone.table.state import State


class AddIndex(Work):
    """A new index, with the segment that was built for it."""

    operation = "index"

    def __init__(self, name: str, index: TextIndex) -> None:
        self._name = name
        self._index = index

    def run(self, draft: Draft) -> None:
        """Refused where the name is taken, or the column is gone."""
        check_free(draft.state, self._name)
        field_of(draft.state, self._index.field)
        draft.set_index(self._name, self._index)


class ReplaceSegments(Work):
    """Segments of an index give way to one that was built since."""

    operation = "index"

    def __init__(
        self,
        name: str,
        index: TextIndex,
        *,
        add: Finished,
        remove: Iterable[Segment],
        marker_of: Callable[[Segment], Marker],
    ) -> None:
        self._name = name
        self._index = index
        self._add = add
        self._remove = frozenset(one.build for one in remove)
        self._marker_of = marker_of

    def run(self, draft: Draft) -> None:
        """Refused where the index is another one by now, or another build took over the same segments or fragments."""
        now = found(draft.state, self._name)
        if now.id != self._index.id:
            raise ConflictError(
                f"index {shown(self._name)} was dropped and created again meanwhile", hint="nothing was changed"
            )
        kept = tuple(one for one in now.segments if one.build not in self._remove)
        mine = fragments_of(self._add.marker)
        replaced = len(now.segments) - len(kept) < len(self._remove)
        if replaced or any(mine & fragments_of(self._marker_of(one)) for one in kept):
            raise ConflictError(
                f"segments of index {shown(self._name)} were replaced by another build meanwhile",
                hint="nothing was changed; this build is of no more use: begin another one",
            )
        added = (self._add.segment,) if self._add.segment.parts else ()
        draft.set_index(self._name, msgspec.structs.replace(now, segments=(*kept, *added)))


class DropIndex(Work):
    """An index goes; its files stay for versions that have it."""

    operation = "index"

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, draft: Draft) -> None:
        """Refused where there is none."""
        found(draft.state, self._name)
        draft.set_index(self._name, None)


def fragments_of(marker: Marker) -> frozenset[str]:
    """The fragments of a segment, by their names in the table that they are in."""
    return frozenset(paths.bare(one.name) for part in marker.parts for one in part.fragments)


def found(state: State, name: str) -> TextIndex:
    """The index of a name."""
    if not isinstance(name, str):
        raise InvalidInputError(
            f"an index is named by a string, got {type(name).__name__}", hint="indexes() shows those that there are"
        )
    index = state.indexes.get(name)
    if index is None:
        there = ", ".join(sorted(state.indexes)) or "none"
        raise NotFoundError(
            f"there is no index {shown(name)} (there: {there})", hint="create it with create_text_index()"
        )
    return index


def check_free(state: State, name: str) -> None:
    """Refuse a name that is taken."""
    if name in state.indexes:
        raise AlreadyExistsError(
            f"there is an index {shown(name)} already",
            hint="drop it first, or optimize_index() it to take in new rows",
        )
