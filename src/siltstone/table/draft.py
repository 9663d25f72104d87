"""A draft: a version under construction, on top of the one it was begun from.

What must hold:
- Operations of one transaction see what those before them did.
- Nothing is visible to anyone else until the draft's change is committed; what it wrote until then is abandoned
  with it.
- A fragment that loses its last row is removed, not masked.
- Rows that are in shards, or on their way there, stay readable: columns of a table with shards don't get narrower.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from siltstone.errors import CorruptionError, InternalError, InvalidInputError
from siltstone.format.table import Change, Counts, Vector
from siltstone.format.version import as_held
from siltstone.table.conflict import Footprint
from siltstone.table.evolve import outgrown
from siltstone.table.once import ANYTIME, Once
from siltstone.table.state import differences
from siltstone.table.types import shown
from siltstone.table.vectors import Deleted, write_vectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    import pyarrow as pa

    from siltstone.format.rollup import Live
    from siltstone.format.table import (
        Checkpoint,
        CloneOf,
        Cursor,
        Fragment,
        Operation,
        Origin,
        Schema,
        Sharding,
        WalStore,
    )
    from siltstone.format.text import TextIndex
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

T = TypeVar("T")


class Finished(NamedTuple):
    """A change, with the fragments that it has as columns, and what it depends on."""

    change: Change
    columns: pa.Table | None
    footprint: Footprint


class Draft:
    """Collects what the operations of one transaction change."""

    def __init__(self, tools: Tools, state: State) -> None:
        self.tools = tools
        self.begun = state  # what is there
        self.state = state  # with what was drafted, but for the masks
        self.counts = Counts()
        self.footprint = Footprint()
        self.rewrite = False
        self.revives = False  # rows that were gone may be back
        self._masks: dict[str, Deleted | Vector | None] = {}
        self._tags: dict[str, int | None] = {}
        self._settings: dict[str, str | None] = {}
        self._once: tuple[str, ...] = ()
        self._batches: dict[str, int] = {}
        self._dropped = False
        self._seeded = False

    @property
    def schema(self) -> Schema:
        """The columns as drafted."""
        return self.state.schema

    # -- what operations do ------------------------------------------------------------------------

    def add(self, fragments: Iterable[Fragment]) -> None:
        """Add fragments, which are written already."""
        self._apply(Change(operation="append", add=tuple(fragments)))

    def seed(self, columns: pa.Table) -> None:
        """Add fragments that are columns, with their vectors; the change has all that it adds as columns then."""
        self._seeded = True
        fragments = self.state.fragments.with_columns(columns, name="the draft")
        self.state = replace(self.state, fragments=fragments)

    def remove(self, names: Iterable[str]) -> None:
        """Remove whole fragments."""
        names = tuple(names)
        for name in names:
            self._masks.pop(name, None)
        self._apply(Change(operation="delete", remove=names))

    def delete(self, live: Live, rows: np.ndarray) -> int:
        """Delete rows of a fragment; how many were still there."""
        if live.fragment.name not in self.state.fragments:
            return 0  # it lost its last row to an earlier part of this draft
        before = self.deleted(live)
        after = Deleted.from_numbers(rows, rows=live.fragment.rows)
        after = before.union(after) if before is not None else after
        gone = after.count - (before.count if before is not None else 0)
        if gone:
            if after.count == live.fragment.rows:
                self.remove([live.fragment.name])
            else:
                self._masks[live.fragment.name] = after
        return gone

    def replace_vector(self, name: str, vector: Vector | None) -> None:
        """Give a fragment a vector that is written already, or none."""
        self._masks[name] = vector

    def set_schema(self, schema: Schema) -> None:
        """Change the columns.

        Raises:
            InvalidInputError: rows that are put into shards meanwhile may not fit them.
        """
        if self.state.shards and (names := outgrown(self.schema, schema)):
            raise InvalidInputError(
                f"the table has shards, whose writers may be putting rows that would not fit column {shown(names[0])}",
                hint="columns of a table with shards can't be made narrower; to go back to the rows of a version, pass "
                "them to overwrite()",
                column=names[0],
            )
        self._apply(Change(operation="schema", schema=schema))

    def set_labels(
        self, *, tags: Mapping[str, int | None] | None = None, settings: Mapping[str, str | None] | None = None
    ) -> None:
        """Change tags and settings; what is as it should be stays out of the change."""
        tags, settings = tags or {}, settings or {}
        self.footprint = replace(
            self.footprint,
            tags=self.footprint.tags | tags.keys(),
            settings=self.footprint.settings | settings.keys(),
        )
        tags = {name: value for name, value in tags.items() if self.state.tags.get(name) != value}
        settings = {name: value for name, value in settings.items() if self.state.settings.get(name) != value}
        self._tags.update(tags)
        self._settings.update(settings)
        self._apply(Change(operation="tag", tags=tags, settings=settings))

    def set_shards(self, cursors: Mapping[str, Cursor | None], sharding: Sharding | None = None) -> None:
        """Move shards, add them, remove them (None), spread keys anew; what is as it should be stays out of the change.

        A cursor never goes back: whoever is run again looks at ``state.shards`` first, where another may have been.
        """
        self.depends(shards=cursors.keys() | (self.state.shards.keys() if sharding else frozenset()))
        moves = {name: cursor for name, cursor in cursors.items() if self.state.shards.get(name) != cursor}
        try:
            self._apply(Change(operation="merge", shards=moves, sharding=sharding))
        except CorruptionError as error:  # nothing that was read is wrong
            raise InternalError(f"shards can't be moved like that: {error.message}") from error

    def retain(
        self,
        *,
        floor: int | None = None,
        checkpoints: Mapping[str, Checkpoint | None] | None = None,
        origins: Mapping[str, Origin | None] | None = None,
        clone: CloneOf | None = None,
        wal: WalStore | None = None,
    ) -> None:
        """Change what is kept, and where; whoever depends on what is kept says so with ``depends(kept=True)``."""
        self._apply(
            Change(
                operation="checkpoint",
                floor=floor,
                checkpoints=dict(checkpoints or {}),
                origins=dict(origins or {}),
                clone=clone,
                wal=wal,
            )
        )

    def set_index(self, name: str, index: TextIndex | None) -> None:
        """Add an index, change its segments, or remove it (None)."""
        self.depends(columns=True)
        self.footprint = replace(self.footprint, indexes=self.footprint.indexes | {name})
        self._apply(Change(operation="index", indexes={name: index}))

    def remember(self, *, once: Iterable[str], batches: Mapping[str, int]) -> None:
        """Count ids, and batches of streams, as applied: what a clone takes over of its parent."""
        self._once = (*self._once, *once)
        self._batches |= batches

    def drop(self) -> None:
        """Let the table go; nothing else of the draft counts then."""
        self._dropped = True

    def count(self, *, inserted: int = 0, updated: int = 0, deleted: int = 0) -> None:
        """Note what was done to rows, for people."""
        self.counts = Counts(
            inserted=self.counts.inserted + inserted,
            updated=self.counts.updated + updated,
            deleted=self.counts.deleted + deleted,
        )

    def depends(
        self,
        *,
        rows: bool = False,
        whole: bool = False,
        columns: bool = False,
        rewrites: bool = False,
        shards: Iterable[str] = (),
        kept: bool = False,
        numbered: bool = False,
    ) -> None:
        """Note what the change depends on; ``shards`` are those that were looked at, also where no row was there."""
        had = self.footprint
        self.footprint = replace(
            had,
            rows=had.rows or rows,
            whole=had.whole or whole,
            columns=had.columns or columns,
            rewrites=had.rewrites or rewrites,
            shards=had.shards.union(shards),
            kept=had.kept or kept,
            numbered=had.numbered or numbered,
        )

    # -- what they ask -----------------------------------------------------------------------------

    def deleted(self, live: Live) -> Deleted | None:
        """The rows of a fragment that are gone by now."""
        if live.fragment.name in self._masks:
            mask = self._masks[live.fragment.name]
            return self.tools.vectors.read(mask, live.fragment) if isinstance(mask, Vector) else mask
        return None if live.vector is None else self.tools.vectors.read(live.vector, live.fragment)

    def left(self, live: Live, rows: np.ndarray) -> np.ndarray:
        """Those of ``rows`` that are still there."""
        deleted = self.deleted(live)
        return rows if deleted is None or not len(rows) else rows[~deleted.mask()[rows]]

    # -- the end -----------------------------------------------------------------------------------

    def finish(self, operation: Operation, *, base: int, once: Once = ANYTIME, message: str = "") -> Finished:
        """The change to commit, and what it depends on. Writes the deletion vectors."""
        if self._dropped:
            return Finished(Change(operation=operation, dropped=True, message=message), None, self.footprint)
        new, old = self.state.fragments, self.begun.fragments
        columns = new.columns_since(old) if self._seeded else None
        added = [] if columns is not None else [live.fragment for live in new.since(old)]
        removed = [live.fragment.name for live in old.since(new)]
        fresh = {name: mask for name, mask in self._masks.items() if isinstance(mask, Deleted)}
        mask = write_vectors(self.tools.store, fresh, base=base, env=self.tools.env) if fresh else {}
        mask |= {name: kept for name, kept in self._masks.items() if isinstance(kept, Vector)}
        change = Change(
            operation=operation,
            add=tuple(added),
            remove=tuple(removed),
            mask=mask,
            unmask=tuple(name for name, kept in self._masks.items() if kept is None),
            rewrite=self.rewrite,
            revives=self.revives,
            schema=self.schema if self.schema != self.begun.schema else None,
            tags=self._tags,
            settings=self._settings,
            once=(*self._once, *((once.id,) if once.id else ())),
            batches=self._batches | ({once.stream: once.batch} if once.stream else {}),
            shards=differences(self.begun.shards, self.state.shards),
            sharding=_if_other(self.begun.sharding, self.state.sharding),
            floor=_if_other(self.begun.floor, self.state.floor),
            checkpoints=differences(self.begun.checkpoints, self.state.checkpoints),
            origins=differences(self.begun.origins, self.state.origins),
            clone=_if_other(self.begun.clone, self.state.clone),
            wal=_if_other(self.begun.wal, self.state.wal),
            indexes=differences(self.begun.indexes, self.state.indexes),
            counts=self.counts,
            message=message,
        )
        footprint = replace(self.footprint, touches=frozenset(removed) | frozenset(self._masks))
        return Finished(*as_held(change, columns), footprint)

    def _apply(self, change: Change) -> None:
        self.state = self.state.apply(change, version=self.begun.version + 1)


def _if_other(old: T, new: T) -> T | None:
    return new if new != old else None


def is_empty(change: Change) -> bool:
    """Whether a change changes nothing at all."""
    return not (
        change.add
        or change.remove
        or change.mask
        or change.unmask
        or change.schema
        or change.tags
        or change.settings
        or change.once
        or change.batches
        or change.shards
        or change.sharding
        or change.floor is not None
        or change.checkpoints
        or change.origins
        or change.clone
        or change.wal
        or change.indexes
        or change.dropped
    )
