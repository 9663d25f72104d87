"""The shards of a table, as one handle has them: who reads them, who writes them, and what a fresh read sees.

What must hold:
- A fresh read sees every row that was durable when it began: shards first, then the table's version (``snapshot``).
- Rows of this process's own writers come from their memtables, which saves reading the WAL; only what is durable
  counts, but for the reads of the writer itself. A writer that was fenced does not hide what came after it.
- A read that meets a fragment which its shard let go of since looks again: the rows are in the table by then.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from siltstone import paths
from siltstone.errors import (
    ConflictError,
    CorruptionError,
    InvalidInputError,
    MissingObjectError,
    NotFoundError,
    SiltstoneError,
    UnavailableError,
)
from siltstone.locks import ForkLock
from siltstone.paths import shard_name
from siltstone.shard.fresh import Freshness
from siltstone.shard.fresh_get import fresh_get
from siltstone.shard.fresh_scan import FreshScan, View
from siltstone.shard.manifest import ended
from siltstone.shard.place import Route, ShardPlace
from siltstone.shard.route import shard_numbers
from siltstone.shard.snapshot import ShardReader, Snapshot
from siltstone.shard.split import clear, left_behind
from siltstone.shard.together import together
from siltstone.shard.writer import ShardWriter
from siltstone.table.lookup import get, one_key
from siltstone.table.operations import Append, Upsert
from siltstone.table.schema import key_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from siltstone.format.shard import ShardState
    from siltstone.log import Log
    from siltstone.shard.config import Knobs
    from siltstone.shard.wal_store import OtherWal
    from siltstone.table.checkpoints import Checkpoint
    from siltstone.table.operations import Work
    from siltstone.table.output import Output
    from siltstone.table.scan import Scan
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

T = TypeVar("T")
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


@dataclass(frozen=True)
class Texts:
    """What searches a table with the rows of a writer, and what indexes its rows as they come, by names of indexes."""

    search: Callable[..., Output]
    index: Callable[[Sequence[str], Iterable[pa.Table]], None]


class Shards:
    """One per handle of a table; threads may share it."""

    def __init__(
        self,
        log: Log,
        tools: Tools,
        now: Callable[[], State],
        checkpoint: Callable[..., Checkpoint] | None = None,
        other: OtherWal | None = None,
        *,
        texts: Texts | None = None,
    ) -> None:
        self.checkpoint = checkpoint  # what makes one of the table
        self.texts = texts
        self.other = other  # the store that was given for WALs
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

    def a_place(self, name: str, state: State | None = None) -> ShardPlace:
        """Where a shard is, by a handle of its own; with a state, for one who writes it."""
        return ShardPlace(self._log, name, None if state is None else _route(name, state), self.other)

    def reader(self, name: str, state: State) -> ShardReader:
        """The reader of a shard; it stays, with what it has read."""
        with self._lock:
            found = self._readers.get(name)
            if found is None:
                found = self._readers[name] = ShardReader(self.a_place(name, state))
            return found

    def readers(self, state: State) -> list[ShardReader]:
        """Readers of all shards of a version."""
        with self._lock:
            if len(self._readers) > len(state.shards):  # a split left some behind
                self._readers = {name: one for name, one in self._readers.items() if name in state.shards}
        return [self.reader(name, state) for name in state.shards]

    def left_behind(self, state: State) -> list[str]:
        """Shards from before a split that still have rows."""
        return left_behind(self._log, state.sharding, self.other)

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

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        own: ShardWriter | None = None,
    ) -> Scan:
        """Rows of the table and of its shards."""
        return FreshScan(partial(self.view, own), columns=columns, where=where, limit=limit)

    def view(self, own: ShardWriter | None = None) -> View:
        """The table with what is in its shards: a state, and tools to read it with."""

        def look(state: State, snapshots: Sequence[Snapshot]) -> View:
            tools, seen = self._kept().read(state, snapshots) if snapshots else (self._tools, state)
            return View(tools, seen, partial(self._is_let_go, state, snapshots))

        return self._looked(look, own)

    def get(self, keys: object, columns: Sequence[str] | None, own: ShardWriter | None = None) -> pa.Table:
        """Rows by their keys, those in shards too."""

        def look(state: State, snapshots: Sequence[Snapshot]) -> pa.Table:
            if not snapshots:
                return get(self._tools, state, keys, columns)
            return fresh_get(self._tools, self._kept(), state, snapshots, keys, columns)

        return self._looked(look, own, keys)

    def _looked(
        self, look: Callable[[State, Sequence[Snapshot]], T], own: ShardWriter | None, keys: object = None
    ) -> T:
        """What ``look`` finds, with other snapshots where a shard let go of what these name."""
        for _ in self._log.env.tries():
            state, snapshots = self._snapshots(own, keys)
            try:
                return look(state, snapshots)
            except MissingObjectError as error:
                if not self._is_let_go(state, snapshots, error):
                    raise
        raise UnavailableError("shards were merged all the time while they were read", hint="try again")

    def _is_let_go(self, state: State, snapshots: Sequence[Snapshot], error: MissingObjectError) -> bool:
        """Whether what is missing is a shard's fragment that was merged, and dropped, since a snapshot was taken."""
        for snapshot in snapshots:
            found = [
                one for one in snapshot.state.fragments if paths.data(one.fragment.name) == error.facts.get("object")
            ]
            if found:
                return not self.reader(snapshot.shard, state).names(found)
        return False

    def _kept(self) -> Freshness:
        if self._freshness is None:
            self._freshness = Freshness(self._tools)
        return self._freshness

    def _snapshots(self, own: ShardWriter | None, keys: object = None) -> tuple[State, list[Snapshot]]:
        before = self._now()
        if not before.shards:
            return before, []
        for _ in self._log.env.tries():
            try:
                snapshots = self._each(before, self._concerned(before, keys), own)
            except (CorruptionError, InvalidInputError):
                # Rows of the columns of now can't be read with those of before.
                if (state := self._now()).schema == before.schema:
                    raise
            else:
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
            mine = own is not None and own.place.name == name
            writer = own if mine else self._writers.get(name)
            found = None if writer is None else _of_writer(writer, state, durable_only=not mine)
            if writer is not None and found is not None and _is_behind(reader, found):
                if mine:
                    writer.check_mine()  # else it is an entry of its own, under way
                else:
                    found = None
            return found or reader.snapshot(state.schema, state.shards[name])

        return together(take, readers, self._log.store)

    # -- writing -----------------------------------------------------------------------------------

    def open_writer(
        self, name: str, state: State, knobs: Knobs, *, writer: str, background: bool = True
    ) -> ShardWriter:
        """Take a shard over. Without ``background`` no threads are started: the caller flushes."""
        made = ShardWriter(self.a_place(name, state), self._now, knobs, name=writer, shards=self, background=background)
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
        clear(self._log, state, self.other)

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
    manifest = reader.place.manifest()
    found = None if manifest is None else manifest.read()
    end = 0 if found is None else _wal_end(reader, found)
    merged = state.shards[name].position
    left = [one for one in found.fragments if one.until > merged] if found else []
    return ShardStatus(
        name=name,
        epoch=found.epoch if found else 0,
        writer=found.writer if found else "",
        claimed_ms=found.claimed_ms if found else 0,
        merged_until=merged,
        replay_from=found.replay_from.position if found else 0,
        wal_end=end,
        fragments=len(left),
        fragment_rows=sum(one.fragment.rows for one in left),
        sealed=found.sealed if found else False,
        last_error=found.error if found else "",
    )


def _wal_end(reader: ShardReader, state: ShardState) -> int:
    """Where the WAL ends, which is not looked at where it is not needed: its store may not have been given."""
    end = ended(state)
    if end is not None:
        return end.position
    logs = reader.place.read()
    return 0 if logs is None else logs.wal.tip().position


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
