"""A shard as a reader sees it: the fragments that its manifest names, and the rows of its WAL behind them.

What must hold:
- Every row that was acknowledged before the snapshot was begun is in it, or in the table as it is *afterwards*: read
  the manifest, then the WAL, then the table's version. What was merged and dropped meanwhile is in that version.
- A reader writes nothing, and reads of the WAL only what is new since it looked last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import TruncatedError, UnavailableError
from siltstone.format.shard import ShardState
from siltstone.locks import ForkLock
from siltstone.log import Mark
from siltstone.shard.manifest import ended, later, to_mark
from siltstone.shard.rows import ids_of
from siltstone.shard.wal import WalTailer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from siltstone.format.table import Cursor, Schema, ShardFragment
    from siltstone.log import Log
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.manifest import Manifest
    from siltstone.shard.place import Logs, ShardPlace
    from siltstone.store.base import Store
    from siltstone.table.once import Once


@dataclass(frozen=True)
class Snapshot:
    """What a shard holds beyond the table, or some of it twice: positions tell."""

    shard: str
    state: ShardState
    store: Store = field(repr=False)  # of its fragments
    tail: tuple[Chunk, ...] = field(repr=False)  # rows of the WAL, ascending positions
    until: Mark | None  # behind the last entry that was read; None where the shard was never written to


class ShardReader:
    """Snapshots of one shard; keeps the rows of the WAL that it has read. Threads may share it."""

    def __init__(self, place: ShardPlace) -> None:
        self.place = place
        self._lock = ForkLock()
        self._schema: Schema | None = None
        self._tail: tuple[Chunk, ...] = ()
        self._tailer: WalTailer | None = None
        self._from = 0  # where the tailer began
        self._ids: list[tuple[int, list[Once]]] = []  # of puts that count once, by the positions of their entries

    def snapshot(self, schema: Schema, merged: Cursor) -> Snapshot:
        """The shard now; rows before ``merged``, which are in the table, are left out."""
        manifest = self._manifest(merged)
        if manifest is None:
            return Snapshot(self.place.name, ShardState(), self.place.store, (), None)
        with self._lock:
            for _ in self.place.log.env.tries():
                state = manifest.read()
                if (end := ended(state)) is not None:  # a writer would have claimed it before it put anything
                    return Snapshot(self.place.name, state, self.place.store, (), _as_mark(end))
                logs = self.place.read()
                if logs is None:  # its first writer is about to make it
                    return Snapshot(self.place.name, ShardState(), self.place.store, (), None)
                try:
                    return self._follow(logs, state, schema, later(state.replay_from, merged))
                except TruncatedError:  # flushed or merged since: the manifest says so by now
                    continue
        raise UnavailableError(f"shard {self.place.name} was flushed all the time while it was read", hint="try again")

    def end(self, merged: Cursor) -> Mark | None:
        """The mark behind the last entry of the WAL; None where the shard was never written to."""
        manifest = self._manifest(merged)
        if manifest is None:
            return None
        if (end := ended(manifest.read())) is not None:
            return _as_mark(end)
        logs = self.place.read()
        return None if logs is None else logs.wal.tip(to_mark(merged, logs.wal))

    def ids(self, wal: Log, after: Cursor, until: Cursor) -> list[Once] | None:
        """Ids of the puts in some entries of a WAL; None where this reader has not read all of them."""
        with self._lock:
            tailer = self._tailer
            if tailer is None or tailer.log is not wal or self._schema is None:
                return None
            if after.position < self._from or tailer.end.position < until.position:
                return None
            return [one for at, some in self._ids if after.position <= at < until.position for one in some]

    def _manifest(self, merged: Cursor) -> Manifest | None:
        manifest = self.place.manifest()
        if manifest is None and merged.position:
            raise self.place.lost(paths.shard(self.place.name) + paths.MANIFEST + paths.IDENTITY)
        return manifest

    def names(self, fragments: Iterable[ShardFragment]) -> bool:
        """Whether the manifest still names some fragments, all of them."""
        manifest = self.place.manifest()
        there = () if manifest is None else manifest.read().fragments
        return {one.fragment.name for one in fragments} <= {one.fragment.name for one in there}

    def _follow(self, logs: Logs, state: ShardState, schema: Schema, start: Cursor) -> Snapshot:
        tailer = self._tailer
        moved = tailer is not None and tailer.log is not logs.wal
        if tailer is None or moved or schema != self._schema or tailer.end.position < start.position:
            tailer = self._tailer = WalTailer(logs.wal, after=start)
            self._tail, self._schema = (), schema
            self._from, self._ids = start.position, []
        try:
            found = list(tailer.read(schema))
        except BaseException:
            self._tailer = None  # it is past entries whose rows are not kept
            raise
        news = [one.chunk for one in found]
        self._ids += [(one.position, ids) for one in found if (ids := ids_of(one.header))]
        kept = self._tail
        if kept and kept[0].position < start.position:
            kept = tuple(one for one in kept if one.position >= start.position)
            self._from = start.position
            self._ids = [one for one in self._ids if one[0] >= start.position]
        self._tail = (*kept, *news) if news else kept
        return Snapshot(self.place.name, state, self.place.store, self._tail, tailer.end)


def _as_mark(cursor: Cursor) -> Mark:
    return Mark(cursor.position, cursor.epoch, cursor.digest)
