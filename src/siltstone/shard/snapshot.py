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
from siltstone.shard.manifest import later, to_mark
from siltstone.shard.wal import WalTailer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from siltstone.format.shard import ShardFragment
    from siltstone.format.table import Cursor, Schema
    from siltstone.log import Mark
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.place import Logs, ShardPlace
    from siltstone.store.base import Store


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

    def snapshot(self, schema: Schema, merged: Cursor) -> Snapshot:
        """The shard now; rows before ``merged``, which are in the table, are left out."""
        logs = self._logs(merged)
        if logs is None:
            return Snapshot(self.place.name, ShardState(), self.place.store, (), None)
        with self._lock:
            for _ in self.place.log.env.tries():
                state = logs.manifest.read()
                try:
                    return self._follow(logs, state, schema, later(state.replay_from, merged))
                except TruncatedError:  # flushed or merged since: the manifest says so by now
                    continue
        raise UnavailableError(f"shard {self.place.name} was flushed all the time while it was read", hint="try again")

    def end(self, merged: Cursor) -> Mark | None:
        """The mark behind the last entry of the WAL; None where the shard was never written to."""
        logs = self._logs(merged)
        return None if logs is None else logs.wal.tip(to_mark(merged, logs.wal))

    def _logs(self, merged: Cursor) -> Logs | None:
        logs = self.place.read()
        if logs is None and merged.position:
            raise self.place.lost(paths.shard(self.place.name) + paths.MANIFEST + paths.IDENTITY)
        return logs

    def names(self, fragments: Iterable[ShardFragment]) -> bool:
        """Whether the manifest still names some fragments, all of them."""
        logs = self.place.read()
        there = () if logs is None else logs.manifest.read().fragments
        return {one.fragment.name for one in fragments} <= {one.fragment.name for one in there}

    def _follow(self, logs: Logs, state: ShardState, schema: Schema, start: Cursor) -> Snapshot:
        tailer = self._tailer
        if tailer is None or schema != self._schema or tailer.end.position < start.position:
            tailer = self._tailer = WalTailer(logs.wal, after=start)
            self._tail, self._schema = (), schema
        try:
            news = [one.chunk for one in tailer.read(schema)]
        except BaseException:
            self._tailer = None  # it is past entries whose rows are not kept
            raise
        kept = self._tail
        if kept and kept[0].position < start.position:
            kept = tuple(one for one in kept if one.position >= start.position)
        self._tail = (*kept, *news) if news else kept
        return Snapshot(self.place.name, state, self.place.store, self._tail, tailer.end)
