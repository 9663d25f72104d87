"""The manifest of a shard: who writes it, what was flushed, and from where its WAL counts.

What must hold:
- An epoch is claimed once: the claim is an entry of the manifest's log, and its place is decided like all others.
- Only the writer whose epoch is the highest records what it flushed; whoever comes late is told that it was fenced.
- Every change may be run again: ``edit`` sees the state that it comes behind, and gives None where it is done.
- ``replay_from`` never goes back.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from siltstone.errors import ConflictError, FencedError, SiltstoneError, UnavailableError
from siltstone.format.frame import digest
from siltstone.format.shard import ERROR_CHARACTERS_MAX, ShardState, decode_state, encode_state
from siltstone.format.table import Cursor
from siltstone.log import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.format.table import WalPlace
    from siltstone.log import Entry, Log

TRUNCATE_EVERY = 32
DROP = "drop"  # what the writer of a shard is called that a drop sealed


class Manifest:
    """A handle on the manifest of one shard. Threads may share it."""

    def __init__(self, log: Log, *, shard: str) -> None:
        self.log = log
        self.shard = shard
        self._known: tuple[Mark, ShardState] = (log.start, ShardState())

    @property
    def known(self) -> ShardState:
        """The newest state that was read or written through this handle."""
        return self._known[1]

    def read(self) -> ShardState:
        """The state now."""
        return self._read()[1]

    def _read(self) -> tuple[Mark, ShardState]:
        mark, state = self._known
        for _ in self.log.env.tries():
            tip = self.log.tip(mark if mark.position else None)
            if tip.position == mark.position:
                return mark, state
            data = self.log.published(tip.position - 1)
            if data is not None and digest(data) == tip.digest:
                break
            if self.log.floor_now(trust_ms=0) < tip.position:
                raise self.log.lost(tip.position - 1, "it is the newest entry")
            # Others went on meanwhile, and it was truncated: there is a newer one.
        else:
            raise UnavailableError(f"the manifest of shard {self.shard} was changed all the time while it was read")
        found = tip, self._state(self.log.read(data, tip.position - 1))
        self._know(*found)
        return found

    def _state(self, entry: Entry) -> ShardState:
        """What an entry says, or the last one before it that says something: `repair` may have closed a place."""
        while entry.kind != "data":
            if entry.position == 0:
                return ShardState()
            data = self.log.published(entry.position - 1)
            if data is None:
                raise self.log.lost(entry.position - 1, f"entry {entry.position} says nothing of the shard")
            entry = self.log.read(data, entry.position - 1)
        return decode_state(entry.body, name=f"the manifest of shard {self.shard}")

    def _know(self, mark: Mark, state: ShardState) -> None:
        if mark.position > self._known[0].position:
            self._known = mark, state

    def change(self, edit: Callable[[ShardState], ShardState | None]) -> ShardState:
        """Add what ``edit`` makes of the newest state, behind whatever gets in first."""
        mark, state = self._known
        # A place that the floor passed is empty again: what is put there is put in vain.
        if not mark.position or self.log.floor_now(trust_ms=self.log.identity.trust_ms) > mark.position:
            mark, state = self._read()
        for _ in self.log.env.tries(most_s=0.05):
            new = edit(state)
            if new is None:
                if (now := self._read())[0] == mark:
                    return state
                mark, state = now
                continue
            try:
                # Its entries have no epochs of the log's own: none may be passed over, each is built on the last.
                end = self.log.append(encode_state(new), after=mark)
            except ConflictError:
                mark, state = self._read()
                continue
            self._know(end, new)
            if end.position % TRUNCATE_EVERY == 0:
                with contextlib.suppress(SiltstoneError):  # the next one will do it
                    self.log.truncate(mark)
            return new
        raise ConflictError(
            f"the manifest of shard {self.shard} was changed by others all the time",
            hint="try again; each shard should have one writer",
        )

    def claim(self, writer: str, wal: WalPlace | None = None) -> ShardState:
        """Become the writer, with the WAL at a place (where it is, without one): the epoch goes up by one.

        Raises:
            ConflictError: the WAL was moved to another place meanwhile; look again.
        """

        def edit(state: ShardState) -> ShardState:
            if state.sealed and state.writer == DROP:
                raise ConflictError(
                    f"shard {self.shard} was sealed by a drop of its table",
                    hint="a drop that was cut off is ended by drop(); a table that was made there since has shards of "
                    "other names, and so must be those that are named freely",
                )
            if state.sealed:
                raise ConflictError(
                    f"shard {self.shard} is sealed: its rows are being moved to other shards",
                    hint="open the table again; where a split was cut off, split_shards() with the same number ends it",
                )
            where = state.wal if wal is None else wal
            if where != state.wal and state.epoch and not _may_move(state, where):
                raise ConflictError(
                    f"the WAL of shard {self.shard} was moved by another writer meanwhile", hint="open the shard again"
                )
            now_ms = self.log.env.clock.wall_ms()
            return msgspec.structs.replace(
                state, epoch=state.epoch + 1, writer=writer, claimed_ms=now_ms, wal=where, closed=None, error=""
            )

        return self.change(edit)

    def is_mine(self, epoch: int) -> bool:
        """Whether no one claimed a higher epoch."""
        return self.read().epoch == epoch

    def check_mine(self, state: ShardState, epoch: int) -> None:
        """Raise FencedError where another writer claimed the shard."""
        if state.epoch != epoch:
            raise FencedError(
                f"shard {self.shard} was claimed by another writer ({state.writer or 'unnamed'}): its epoch is "
                f"{state.epoch}, this writer's is {epoch}",
                hint="drop this writer; open the shard again to take it back",
                epoch=epoch,
                found=state.epoch,
            )

    def note_error(self, epoch: int, error: str) -> None:
        """Leave the last error of a writer for those who look; best effort."""

        def edit(state: ShardState) -> ShardState | None:
            text = error[:ERROR_CHARACTERS_MAX]
            if state.epoch != epoch or state.error == text:
                return None
            return msgspec.structs.replace(state, error=text)

        with contextlib.suppress(SiltstoneError):
            self.change(edit)


def ended(state: ShardState) -> Cursor | None:
    """Where the WAL ended, if its last writer closed it and none of its rows are in it alone.

    Whoever sealed the shard since may have put a fence there, which was merged with the rows.
    """
    closed, start = state.closed, state.replay_from
    return start if closed is not None and closed.position <= start.position else None


def let_go(state: ShardState) -> Cursor | None:
    """Where a WAL ended that nobody needs any more, checkpoints neither: the next one may be in another store."""
    end = ended(state)
    if end is None:
        return None
    # A pin from before the WAL was moved here is of the one before.
    pinned = any(state.wal.begins <= pin.replay_from.position < end.position for pin in state.pins.values())
    return None if pinned else end


def _may_move(state: ShardState, where: WalPlace) -> bool:
    end = let_go(state)
    return end is not None and end.position == where.begins


def to_mark(cursor: Cursor, log: Log) -> Mark:
    """A cursor as a mark of its log."""
    return Mark(cursor.position, cursor.epoch, cursor.digest) if cursor.position else log.start


def to_cursor(mark: Mark) -> Cursor:
    """A mark as records have it."""
    if mark.position == 0:
        return Cursor()
    return Cursor(position=mark.position, epoch=mark.epoch, digest=mark.digest)


def later(one: Cursor, other: Cursor) -> Cursor:
    """The one that is further on."""
    return one if one.position >= other.position else other
