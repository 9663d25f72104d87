"""The shards of a table, as one handle has them: who reads them, who writes them, and what a fresh read sees.

What must hold:
- A fresh read sees every row that was durable when it began: shards first, then the table's version (``snapshot``).
- Rows of this process's own writers come from their memtables, which saves reading the WAL; only what is durable
  counts, but for the reads of the writer itself. A writer that was fenced does not hide what came after it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.errors import ConflictError, InvalidInputError, NotFoundError, SiltstoneError
from siltstone.locks import ForkLock
from siltstone.paths import shard_name
from siltstone.shard.fresh import Freshness
from siltstone.shard.fresh_get import fresh_get
from siltstone.shard.place import Route, ShardPlace
from siltstone.shard.route import shard_numbers
from siltstone.shard.snapshot import ShardReader, Snapshot
from siltstone.shard.split import clear
from siltstone.shard.together import together
from siltstone.shard.writer import ShardWriter
from siltstone.table.lookup import get, one_key
from siltstone.table.operations import Append, Upsert
from siltstone.table.schema import key_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.log import Log
    from siltstone.shard.config import Knobs
    from siltstone.table.operations import Work
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

TOUCHED_KEYS_MAX = 10_000  # more than so many keys are taken to be in all shards


@dataclass(frozen=True)
class ShardStatus:
    """What a shard's manifest and WAL say of it."""

    name: str
    epoch: int
    writer: str
    claimed_ms: int
    merged_until: int  # positions before it are in the table
    replay_from: int  # positions before it are in fragments, or in the table
    wal_end: int  # the position of the next entry
    fragments: int  # of the shard, not merged yet
    fragment_rows: int
    sealed: bool
    last_error: str

    @property
    def wal_lag(self) -> int:
        """Entries of the WAL that are neither flushed nor merged."""
        return max(0, self.wal_end - max(self.replay_from, self.merged_until))


class Shards:
    """One per handle of a table; threads may share it."""

    def __init__(self, log: Log, tools: Tools, now: Callable[[], State]) -> None:
        self._log = log
        self._tools = tools
        self._now = now
        self._lock = ForkLock()
        self._readers: dict[str, ShardReader] = {}
        self._opened: weakref.WeakSet[ShardWriter] = weakref.WeakSet()
        self._writers: weakref.WeakValueDictionary[str, ShardWriter] = weakref.WeakValueDictionary()  # the last of each
        self._freshness: Freshness | None = None

    # -- which there are ---------------------------------------------------------------------------

    def name_of(self, shard: object, state: State) -> str:
        """The name of the shard that a user asks for: a number where the table has a key, else a name."""
        if state.sharding is not None:
            count = state.sharding.count
            if type(shard) is not int or not 0 <= shard < count:
                raise NotFoundError(f"there is no shard {shard!a}", hint=f"this table has the shards 0 to {count - 1}")
            return shard_name(state.sharding.map, shard)
        if state.schema.key:
            raise InvalidInputError(
                "this table has no shards", hint="create it with shards=, or give it some with split_shards()"
            )
        if not isinstance(shard, str):
            raise InvalidInputError(
                f"shards of a table without a key have names, got {type(shard).__name__}",
                hint="such as shard('worker-1')",
            )
        return shard

    def reader(self, name: str, state: State) -> ShardReader:
        """The reader of a shard; it stays, with what it has read."""
        with self._lock:
            found = self._readers.get(name)
            if found is None:
                found = self._readers[name] = ShardReader(ShardPlace(self._log, name, _route(name, state)))
            return found

    def readers(self, state: State) -> list[ShardReader]:
        """Readers of all shards of a version."""
        with self._lock:
            if len(self._readers) > len(state.shards):  # a split left some behind
                self._readers = {name: one for name, one in self._readers.items() if name in state.shards}
        return [self.reader(name, state) for name in state.shards]

    def touched(self, works: Sequence[Work], state: State) -> list[ShardReader]:
        """Readers of the shards whose rows some operations look at: those of their keys, where these are few."""
        sharding = state.sharding
        if sharding is None or not all(isinstance(work, Append | Upsert) for work in works):
            return self.readers(state)
        keyed = [work for work in works if isinstance(work, Append | Upsert)]
        if sum(work.inserted.rows for work in keyed) > TOUCHED_KEYS_MAX:
            return self.readers(state)
        numbers: set[int] = set()
        for work in keyed:
            for number in range(len(work.inserted.key_rows)):
                numbers.update(shard_numbers(work.keys(number, state.schema), sharding.count).tolist())
        return [self.reader(shard_name(sharding.map, number), state) for number in sorted(numbers)]

    # -- reading -----------------------------------------------------------------------------------

    def view(self, own: ShardWriter | None = None) -> tuple[Tools, State]:
        """The table with what is in its shards: a state, and tools to read it with."""
        state, snapshots = self._snapshots(own)
        return self._kept().read(state, snapshots) if snapshots else (self._tools, state)

    def get(self, keys: object, columns: Sequence[str] | None, own: ShardWriter | None = None) -> pa.Table:
        """Rows by their keys, those in shards too."""
        state, snapshots = self._snapshots(own, keys)
        if not snapshots:
            return get(self._tools, state, keys, columns)
        return fresh_get(self._tools, self._kept(), state, snapshots, keys, columns)

    def _kept(self) -> Freshness:
        if self._freshness is None:
            self._freshness = Freshness(self._tools)
        return self._freshness

    def _snapshots(self, own: ShardWriter | None, keys: object = None) -> tuple[State, list[Snapshot]]:
        before = self._now()
        if not before.shards:
            return before, []
        for _ in self._log.env.tries():
            snapshots = self._each(before, self._concerned(before, keys), own)
            state = self._now()
            if state.schema == before.schema and state.shards.keys() == before.shards.keys():
                return state, snapshots
            before = state
        raise ConflictError("columns or shards were changed all the time while they were read", hint="try again")

    def _concerned(self, state: State, keys: object) -> list[ShardReader]:
        """Readers of the shards that may have some keys, None being all."""
        sharding, key = state.sharding, key_fields(state.schema)
        # Where a look at a shard costs a request, finding out which one a key is in is cheaper.
        if sharding is not None and self._log.store.traits.overlaps and len(key) == 1:
            one = one_key(keys, key[0])
            if one is not None:
                number = int(shard_numbers(pa.table([one.array], names=[key[0].name]), sharding.count)[0])
                return [self.reader(shard_name(sharding.map, number), state)]
        return self.readers(state)

    def _each(self, state: State, readers: Sequence[ShardReader], own: ShardWriter | None) -> list[Snapshot]:
        def take(reader: ShardReader) -> Snapshot:
            name = reader.place.name
            if own is not None and own.place.name == name:
                found = _of_writer(own, state, durable_only=False)
            else:
                writer = self._writers.get(name)
                found = None if writer is None else _of_writer(writer, state, durable_only=True)
                if found is not None and _is_behind(reader, found):
                    found = None
            return found or reader.snapshot(state.schema, state.shards[name])

        return together(take, readers, self._log.store)

    # -- writing -----------------------------------------------------------------------------------

    def open_writer(
        self, name: str, state: State, knobs: Knobs, *, writer: str, background: bool = True
    ) -> ShardWriter:
        """Take a shard over. Without ``background`` no threads are started: the caller flushes."""
        place = ShardPlace(self._log, name, _route(name, state))
        made = ShardWriter(place, self._now, knobs, name=writer, shards=self, background=background)
        self._opened.add(made)
        self._writers[name] = made
        return made

    # -- looking -----------------------------------------------------------------------------------

    def status(self) -> list[ShardStatus]:
        """All shards."""
        state = self._now()
        return together(partial(_status, state), self.readers(state), self._log.store)

    def clear(self, state: State) -> None:
        """Let shards from before a split go of their rows."""
        clear(self._log, state)

    def close(self) -> None:
        """End the writers that are open; where rows of theirs could not be made durable, the first error is raised."""
        failed: SiltstoneError | None = None
        for writer in list(self._opened):
            try:
                writer.close()
            except SiltstoneError as error:
                failed = failed or error
        if failed is not None:
            raise failed


def _route(name: str, state: State) -> Route | None:
    if state.sharding is None:
        return None
    return Route(int(name.rpartition("-")[2]), state.sharding.count)


def _status(state: State, reader: ShardReader) -> ShardStatus:
    name = reader.place.name
    logs = reader.place.read()
    found = None if logs is None else logs.manifest.read()
    end = 0 if logs is None else logs.wal.tip().position
    return ShardStatus(
        name=name,
        epoch=found.epoch if found else 0,
        writer=found.writer if found else "",
        claimed_ms=found.claimed_ms if found else 0,
        merged_until=state.shards[name].position,
        replay_from=found.replay_from.position if found else 0,
        wal_end=end,
        fragments=len(found.fragments) if found else 0,
        fragment_rows=sum(one.fragment.rows for one in found.fragments) if found else 0,
        sealed=found.sealed if found else False,
        last_error=found.error if found else "",
    )


def _is_behind(reader: ShardReader, found: Snapshot) -> bool:
    """Whether entries are behind what a writer of this process knows: another may have fenced it, unnoticed so far."""
    logs = reader.place.read()
    if logs is None or found.until is None:
        return True
    end, wal = found.until.position, logs.wal
    # What came behind may have been flushed and truncated; it stays for longer than a look at the floor counts.
    return wal.is_taken(end) or wal.floor_now(trust_ms=wal.identity.trust_ms) > end


def _of_writer(writer: ShardWriter, state: State, *, durable_only: bool) -> Snapshot | None:
    """What a writer of this process holds; None where it is of no use for that."""
    if not writer.knobs.enable_memtable or writer.is_stopped:
        return None
    found, chunks, end = writer.chunks(state.schema, durable_only=durable_only)
    return Snapshot(writer.place.name, found, writer.place.store, tuple(chunks), end)
