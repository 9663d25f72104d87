"""The WAL of a shard: claiming it, appending to it one entry at a time, and following it.

What must hold:
- A writer is fenced by whoever claimed the shard after it: the claim comes first, then an entry of the new epoch at
  the end of the WAL, then the replay. What an older writer puts behind that entry is never acknowledged.
- The writer with epoch 1 has no one before it and needs no such entry: the first entry of a shard has position 0.
- An entry is written under one op id however often it is tried, so a lost answer doubles nothing.
- Who reads checks the chain, leaves out what fenced writers put, and never writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone.errors import CommitUnknownError, ConflictError, FencedError, NotFoundError, UnavailableError
from siltstone.shard.manifest import later, to_mark
from siltstone.shard.rows import decode_body

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.errors import SiltstoneError
    from siltstone.format.shard import ShardState, WalHeader
    from siltstone.format.table import Cursor, Schema, WalPlace
    from siltstone.log import Entry, Log, Mark
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.manifest import Manifest


class WalEntry(NamedTuple):
    """An entry of the WAL that holds rows."""

    position: int
    epoch: int
    op: str
    time_ms: int
    header: WalHeader
    chunk: Chunk
    end: Mark


class WalAppender:
    """The lowest step of a write: one entry, put where none is, or refused. Not for several threads at once."""

    def __init__(self, log: Log, *, epoch: int, after: Mark) -> None:
        self.log = log
        self.epoch = epoch
        self._last = ("", after)  # the op of the last entry, and the mark behind it

    @property
    def end(self) -> Mark:
        """The mark behind the last entry."""
        return self._last[1]

    @property
    def next_position(self) -> int:
        """Where the next entry goes, unless a fenced writer's is there."""
        return self.end.position

    def append(self, body: bytes, *, op: str) -> Mark:
        """Add an entry and return the mark behind it. After an error, or an interrupt, call it again with the same op.

        Raises:
            FencedError: another writer claimed the shard.
            CommitUnknownError: it may be there; the same ``op`` finds out.
        """
        done, after = self._last
        if done == op:  # the caller was interrupted before it noted that
            return after
        try:
            end = self.log.append(body, after=after, epoch=self.epoch, op=op)
        except ConflictError as error:  # an entry of this epoch that this writer did not write
            raise FencedError(
                f"another writer has epoch {self.epoch} of {self.log.root} too: {error.message}",
                hint="open the shard again; was this writer copied, by a fork for example?",
                epoch=self.epoch,
            ) from error
        except CommitUnknownError as error:
            taken = self._passed(op, after) if "floor" in error.facts else None
            if taken is None:
                raise
            end = taken
        self._last = (op, end)
        return end

    def _passed(self, op: str, after: Mark) -> Mark | None:
        """The mark behind an entry that was merged, and passed by the floor, before it was acknowledged.

        What stands in such a place may have come too late to count. But the floor's own record names the entry before
        it, which was there when the floor came.
        """
        try:
            floor = self.log.floor_mark(after.position + 1)
        except NotFoundError:
            return None
        data = self.log.published(after.position)
        entry = None if data is None else self.log.read(data, after.position)
        return floor if entry is not None and entry.op == op and entry.end == floor else None


class Claimed(NamedTuple):
    """A shard that was taken over."""

    state: ShardState
    appender: WalAppender


def claim(manifest: Manifest, wal: Log, *, writer: str, where: WalPlace | None = None) -> Claimed:
    """Take a shard over: claim an epoch, fence the WAL, and look at the manifest once more.

    ``where`` is the place of that WAL, where it may be another one than the manifest names.

    Raises:
        FencedError: yet another writer was faster.
        ConflictError: it moved the WAL, too.
    """
    for _ in manifest.log.env.tries():
        epoch = manifest.claim(writer, where).epoch
        try:
            end = wal.start if epoch == 1 else wal.fence(epoch, confirm=lambda: manifest.is_mine(epoch))  # noqa: B023
        except (FencedError, CommitUnknownError) as error:
            manifest.check_mine(manifest.read(), epoch)
            if not _is_passed(error):
                raise
            continue  # nobody else claimed it: a merge took the fence with what was before it, and the floor passed it
        state = manifest.read()
        manifest.check_mine(state, epoch)
        if state.replay_from.position <= end.position:
            return Claimed(state, WalAppender(wal, epoch=epoch, after=end))
        raise FencedError(
            f"shard {manifest.shard} counts from {state.replay_from.position} on, behind this writer's fence at "
            f"{end.position - 1}",
            hint="another writer took over; open the shard again",
            epoch=epoch,
        )
    raise UnavailableError(f"shard {manifest.shard} was merged all the time while it was opened", hint="try again")


def _is_passed(error: SiltstoneError) -> bool:
    """Whether a fence was put, and the floor passed it."""
    return "floor" in error.facts or (isinstance(error, FencedError) and error.facts.get("found") is None)


class WalTailer:
    """Follows a WAL from a cursor on; entries are fetched ahead in parallel."""

    def __init__(self, log: Log, *, after: Cursor) -> None:
        self.log = log
        self.end = to_mark(after, log)  # the mark behind the last entry that was read

    def entries(self, until: Mark | None = None) -> Iterator[Entry]:
        """All entries behind those read before: fences too, and what fenced writers put (``dead``).

        Raises TruncatedError where the WAL begins further on by now.
        """
        for entry in self.log.entries(self.end, until=until):
            yield entry
            self.end = entry.end

    def read(self, schema: Schema, until: Mark | None = None) -> Iterator[WalEntry]:
        """The entries with rows behind those read before, up to ``until`` or the end."""
        for entry in self.entries(until):
            if entry.kind == "data" and not entry.dead:
                yield decode(entry, schema, self.log)


def unflushed(log: Log, state: ShardState, *, until: Mark) -> Iterator[Entry]:
    """The data entries from ``replay_from`` up to a writer's own fence, checked against its epoch."""
    for entry in WalTailer(log, after=state.replay_from).entries(until):
        if entry.epoch > state.epoch:
            raise FencedError(
                f"the replay of {log.root} met epoch {entry.epoch} ({entry.writer or 'unnamed'}) at position "
                f"{entry.position}; this writer has epoch {state.epoch}",
                hint="another writer took over; open the shard again to take it back",
                epoch=state.epoch,
                found=entry.epoch,
                position=entry.position,
            )
        if entry.kind == "data" and not entry.dead:
            yield entry


def decode(entry: Entry, schema: Schema, log: Log) -> WalEntry:
    """An entry's rows."""
    found = decode_body(entry.body, schema, entry.position, name=f"{log.root}entry {entry.position}")
    return WalEntry(entry.position, entry.epoch, entry.op, entry.time_ms, found.header, found.chunk, entry.end)


__all__ = ["Claimed", "WalAppender", "WalEntry", "WalTailer", "claim", "decode", "later", "unflushed"]
