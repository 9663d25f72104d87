"""Taking a shard over: the claim, the fence, and what is in the WAL and in no fragment.

What must hold:
- Everything that was acknowledged by the writers before is in the memtables that this makes, in fragments, or in the
  table; nothing is in two memtables.
- Memory stays within the writer's limit, however long the WAL is: what is too much is flushed on the way.
- Whoever merges meanwhile does no harm: what is gone from the WAL is in the table, and the replay begins behind it.
- A WAL moves to the store that the writer was given only when all that the old one holds is in fragments.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from siltstone.errors import InternalError, TruncatedError, UnavailableError, WrongWalStoreError
from siltstone.format.table import Cursor, WalPlace
from siltstone.shard.flush import flush_memtable, fold
from siltstone.shard.ledger import Ledger
from siltstone.shard.manifest import later, to_cursor
from siltstone.shard.memtables import MemTables
from siltstone.shard.place import Logs
from siltstone.shard.rows import header_of
from siltstone.shard.wal import WalAppender, claim, decode, unflushed
from siltstone.shard.wal_store import is_same
from siltstone.telemetry import events, metrics, seams

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.format.shard import ShardState
    from siltstone.log import Entry
    from siltstone.shard.config import Knobs
    from siltstone.shard.place import ShardPlace
    from siltstone.table.state import State


@dataclass(eq=False)
class Takeover:
    """A shard in its new writer's hands."""

    place: ShardPlace
    logs: Logs
    knobs: Knobs
    table: State  # read behind the claim
    state: ShardState
    appender: WalAppender

    def __post_init__(self) -> None:
        self.tables = MemTables(self.table.schema, self.knobs, generation=self.state.generation)
        self.ledger = Ledger(self.state)
        self.replayed_rows = self.replayed_entries = 0
        self.merged = self.table.shards.get(self.place.name, Cursor()).position

    @seams.traced("siltstone.replay", about=seams.of_log, seconds=metrics.REPLAY_SECONDS)
    def replay(self) -> None:
        """Bring back what is in the WAL and in no fragment.

        Raises:
            FencedError: an entry of a higher epoch is there.
            TruncatedError: some of it was merged and removed since the state was read.
        """
        for entry in unflushed(self.logs.wal, self.state, until=self.appender.end):
            self.replayed_entries += 1
            if self.knobs.enable_memtable:
                self._take(entry)
            else:
                self.ledger.replayed(header_of(entry.body, name=_name(self.logs, entry)), entry.position)

    def _take(self, entry: Entry) -> None:
        found = decode(entry, self.table.schema, self.logs.wal)
        self.ledger.replayed(found.header, entry.position)
        if entry.position < self.merged:
            return
        while self.tables.nbytes and self.tables.nbytes + found.chunk.nbytes > self.knobs.max_unflushed_memtable_bytes:
            self._flush_oldest()
        self.tables.replayed(found.chunk, entry.end)
        self.replayed_rows += found.chunk.count

    def move(self, writer: str) -> None:
        """Go on in the WAL store that the writer was given, where the WAL is still in the table's own store."""
        target = self.place.target()
        if is_same(self.state.wal.store, target):
            return
        if self.replayed_entries and not self.knobs.enable_memtable:
            raise WrongWalStoreError(
                f"the WAL of shard {self.place.name} has rows that are not merged, and can't be moved to another store",
                hint="run merge_shards() first, or open the writer once with enable_memtable=True",
            )
        while self.tables.nbytes:
            self._flush_oldest()
        manifest, end = self.logs.manifest, self.appender.end
        where = WalPlace(begins=end.position, store=target)
        wal = self.place.open_wal(where, create=True, begins=end, writer=writer)

        def edit(state: ShardState) -> ShardState | None:
            manifest.check_mine(state, self.appender.epoch)
            if state.wal == where:
                return None
            # What is in the WAL may be merged and not noted: ids of puts in it must not be forgotten with it.
            known = fold(state, self.ledger.before(end.position))
            return msgspec.structs.replace(known, wal=where, replay_from=later(to_cursor(end), state.replay_from))

        try:
            self.state = manifest.change(edit)
        except BaseException:
            wal.close()
            raise
        self.ledger.forget(end.position)
        with contextlib.suppress(UnavailableError):
            self.logs.wal.close()
        self.logs = Logs(manifest, wal, where)
        self.appender = WalAppender(wal, epoch=self.appender.epoch, after=end)

    def _flush_oldest(self) -> None:
        if self.tables.oldest is None:
            self.tables.freeze()
        held = self.tables.oldest
        if held is None or held.end is None:
            raise InternalError("a memtable of replayed rows has no entry of the WAL behind it")
        end = to_cursor(held.end)
        self.state = flush_memtable(
            self.place,
            self.logs,
            held.table,
            epoch=self.appender.epoch,
            end=end,
            merged=self.merged,
            applied=self.ledger.before(end.position),
        )
        self.tables.drop_before(self.state.generation)
        self.ledger.forget(end.position)


def take_over(place: ShardPlace, logs: Logs, now: Callable[[], State], knobs: Knobs, *, name: str) -> Takeover:
    """Become the writer of a shard.

    Raises:
        FencedError: yet another writer was faster.
    """
    state, appender = claim(logs.manifest, logs.wal, writer=name, where=logs.where)
    for _ in place.log.env.tries():
        taken = Takeover(place, logs, knobs, now(), state, appender)
        if taken.merged > appender.end.position:
            logs.manifest.check_mine(logs.manifest.read(), appender.epoch)  # else another's entries were merged
            raise place.lost(f"entry {taken.merged - 1} of {logs.wal.root}")
        try:
            taken.replay()
        except TruncatedError:  # merged since: the manifest says by now from where the WAL counts
            state = logs.manifest.read()
            logs.manifest.check_mine(state, appender.epoch)
        else:
            taken.move(name)
            _tell(taken)
            return taken
    raise UnavailableError(f"shard {place.name} was merged all the time while it was opened", hint="try again")


def _tell(taken: Takeover) -> None:
    about, shard = seams.of_log(taken), taken.place.name
    if taken.appender.epoch > 1:
        metrics.TAKEOVERS.add(**about)
        events.TAKEOVER.tell(**about, shard=shard, epoch=taken.appender.epoch)
    if taken.replayed_entries:
        metrics.REPLAYED.add(taken.replayed_entries, **about)
        events.REPLAYED.tell(**about, shard=shard, entries=taken.replayed_entries, rows=taken.replayed_rows)


def _name(logs: Logs, entry: Entry) -> str:
    return f"{logs.wal.root}entry {entry.position}"
