"""Rows on their way into the WAL: group commit, retries, and what waiters are told.

What must hold:
- Rows enter the WAL in the order in which they were put. Those who wait while an entry is written share the next one;
  nobody waits for a clock.
- An entry that could not be written stays first in line, with its bytes and its op id: nothing is dropped or doubled.
  The same holds where whoever wrote it was interrupted: the next one goes on with that very entry.
- An acknowledgement means that the entry with these very rows is in the WAL.
- No entry holds rows of two memtables, so that a flushed memtable ends where an entry ends, or of two schemas.
- After the last attempt the writer is stopped: nothing more is written, and everyone is told why. Once an entry may be
  there, nobody is told that it is not.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from siltstone.errors import (
    ClosedError,
    CommitUnknownError,
    FencedError,
    ForkedError,
    InternalError,
    PermissionDeniedError,
    SiltstoneError,
    UnavailableError,
    WriterStoppedError,
)
from siltstone.shard.rows import encode_body
from siltstone.telemetry import events, metrics, seams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from siltstone.env import Env
    from siltstone.format.table import Schema
    from siltstone.log import Mark
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.wal import WalAppender
    from siltstone.table.once import Once

GATHER_S = 0.0005  # after so long without another put, an entry is written with those that came
GATHER_STEP_S = 0.0001
OPEN_AGAIN = "open the writer again: all that was acknowledged is there"
LOOK_AGAIN_S = 1.0  # whoever writes wakes those who wait; this is for the case that it was interrupted before


@dataclass(eq=False)
class Pending:
    """Rows of one put that are not in the WAL yet."""

    chunk: Chunk
    schema: Schema  # of its columns
    generation: int  # of the memtable that has them too
    number: int  # of the chunk in that memtable
    once: Once | None
    nbytes: int
    turn: int  # counts the puts of a writer, from 1
    until_bytes: int = 0  # of all puts up to this one


@dataclass(eq=False)
class _Entry:
    """An entry under way."""

    parts: list[Pending]
    body: bytes
    op: str
    doubtful: bool = False  # it may be there

    @property
    def turn(self) -> int:
        """Of the last put with rows in it."""
        return self.parts[-1].turn


@dataclass
class WalCounts:
    """What a flusher did so far."""

    entries: int = 0
    rows: int = 0
    bytes: int = 0
    retries: int = 0
    flush_ms: float = 0.0
    error: str = ""  # why the last attempt that failed did


class Written(NamedTuple):
    """An entry that is in the WAL, as it is told to the writer."""

    parts: list[Pending]
    end: Mark

    @property
    def position(self) -> int:
        """Its position."""
        return self.end.position - 1


class Ack:
    """What becomes of a put: ``wait`` until its rows are in the WAL."""

    def __init__(self, flusher: WalFlusher, turn: int) -> None:
        self._flusher = flusher
        self._turn = turn

    @property
    def done(self) -> bool:
        """Whether the rows are durable."""
        return self._flusher.is_durable(self._turn)

    def wait(self) -> None:
        """Make the rows durable now, if they are not.

        Raises:
            FencedError: another writer took the shard over; it is not known whether it found these rows.
            CommitUnknownError: the writer was stopped, and these rows may be in the WAL.
            WriterStoppedError: it was stopped, and they are not.
        """
        self._flusher.flush(self._turn)

    def __repr__(self) -> str:
        return f"Ack({'durable' if self.done else 'not durable yet'})"


def _into_wal(flusher: WalFlusher) -> Mapping[str, str]:
    return {"table": flusher.table, "into": "wal"}


class WalFlusher:
    """The queue of one writer. ``done`` is called for each entry that was written, in order, one at a time.

    It may be called again for the last one, where it was interrupted.
    """

    def __init__(
        self,
        appender: WalAppender,
        *,
        env: Env,
        entry_bytes_max: int,
        attempts_max: int,
        done: Callable[[Written], None],
        table: str,
        shard: str,
    ) -> None:
        self.table = table  # its URI, for telemetry and errors: the WAL may be in another store
        self._shard = shard
        self._appender = appender
        self._env = env
        self._entry_bytes_max = entry_bytes_max
        self._attempts_max = attempts_max
        self._done = done
        self._process = os.getpid()
        self._lock = threading.Lock()  # of the queue
        self._turn = threading.Lock()  # of the one that writes
        self._gates: list[tuple[int, threading.Lock]] = []  # of those who wait, by the turn that they wait for
        self._queue: deque[Pending] = deque()  # rows leave it when they are in the WAL, not before
        self._entry: _Entry | None = None
        self._durable = (0, 0)  # turn and bytes of the last put that is in the WAL, set in one step: it acknowledges
        self._crowd = 0  # how many waited with the last entry, beside the one who wrote it
        self.stopped: SiltstoneError | None = None
        self.told = 0  # the turn of the last put of which somebody was told that it is not durable
        self.counts = WalCounts()

    # -- the queue ---------------------------------------------------------------------------------

    def add(self, pending: Pending) -> None:
        """Queue rows. The caller sees to it that turns come in their order, without a gap."""
        with self._lock:
            before = self._queue[-1].until_bytes if self._queue else self._durable[1]
            pending.until_bytes = before + pending.nbytes
            self._queue.append(pending)

    @property
    def pending(self) -> int:
        """How many puts are not in the WAL yet."""
        return self.last - self._durable[0]

    @property
    def pending_bytes(self) -> int:
        """How much they take."""
        with self._lock:
            return self._queue[-1].until_bytes - self._durable[1] if self._queue else 0

    @property
    def last(self) -> int:
        """The turn of the last put."""
        with self._lock:
            return self._queue[-1].turn if self._queue else self._durable[0]

    def is_durable(self, turn: int) -> bool:
        """Whether a put is in the WAL."""
        return self._durable[0] >= turn

    # -- writing -----------------------------------------------------------------------------------

    def flush(self, turn: int) -> None:
        """Return when all puts up to ``turn`` are in the WAL; the first who waits writes for all.

        Raises:
            FencedError: another writer claimed the shard; these rows may or may not be in the WAL.
            CommitUnknownError, WriterStoppedError: the writer was stopped.
        """
        try:
            self.flush_unasked(turn)
        except SiltstoneError:
            self.told = max(self.told, turn)
            raise

    def flush_unasked(self, turn: int) -> None:
        """The same, where nobody hears of an error."""
        while not self.is_durable(turn):
            if os.getpid() != self._process:  # whoever has the turn is not in this process
                raise ForkedError("this writer was opened before os.fork()", hint="open a writer in the child")
            if self._turn.locked():
                self._wait(turn)
                continue
            try:
                with self._turn:
                    if self.is_durable(turn):
                        return
                    self._check(turn)
                    self._write()
            finally:
                self._wake()

    def _wait(self, turn: int) -> None:
        """Return when a put is durable, or when this one may write; maybe earlier."""
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            if self.is_durable(turn) or not self._turn.locked():
                return
            self._gates.append((turn, gate))
        gate.acquire(timeout=LOOK_AGAIN_S)

    def _wake(self) -> None:
        """Let those go whose puts are durable, and one more, who writes for the rest.

        Where all waited for the turn's lock, whoever is done could not go on before the next entry is written.
        """
        with self._lock:
            done = [one for one in self._gates if self.is_durable(one[0])]
            rest = [one for one in self._gates if not self.is_durable(one[0])]
            now = len(rest) if self.stopped is not None else 1
            self._crowd = len(done)
            self._gates = rest[now:]
        for _, gate in [*done, *rest[:now]]:
            gate.release()

    def check(self) -> None:
        """Raise where the writer was stopped."""
        if self.stopped is not None:
            self.told = self.last
            self._check(self.last + 1)

    def stop(self, error: SiltstoneError) -> None:
        """Write nothing more; everyone is told ``error`` from now on."""
        error.facts.update(shard=self._shard, table=self.table)
        with self._lock:
            first, self.stopped = self.stopped is None, self.stopped or error
        if first and isinstance(error, FencedError):
            self._tell_fenced(error)
        self._wake()

    def _tell_fenced(self, error: FencedError) -> None:
        metrics.FENCED.add(table=self.table)
        events.FENCED.tell(table=self.table, shard=self._shard, reason=seams.message_of(error))

    def is_settled(self) -> bool:
        """Whether it is known of every entry that it was written, once what is under way has ended."""
        with self._turn:
            return self._entry is None or self.is_durable(self._entry.turn)

    def _check(self, turn: int) -> None:
        if self.stopped is not None:
            raise self._told(self.stopped, turn)

    def _told(self, error: SiltstoneError, turn: int) -> SiltstoneError:
        """What whoever waits for a turn is told of the error that stopped the writer."""
        if isinstance(error, FencedError | ClosedError):
            return type(error)(error.message, hint=error.hint, **error.facts)
        entry = self._entry
        if entry is not None and entry.doubtful and turn <= entry.turn:
            return CommitUnknownError(error.message, hint=error.hint, **{**error.facts, "op": entry.op})
        return WriterStoppedError(
            f"the writer was stopped, these rows are not in the WAL: {error.message}", hint=OPEN_AGAIN, **error.facts
        )

    @seams.traced(
        "siltstone.wal.flush", about=_into_wal, count=metrics.SHARD_FLUSHES, seconds=metrics.SHARD_FLUSH_SECONDS
    )
    def _write(self) -> None:
        """Write one entry, trying again where it must be; the caller has the turn.

        An interrupt may come anywhere. What was begun is ended by the next one, and each step may be done again.
        """
        entry = self._entry
        if entry is None or self.is_durable(entry.turn):
            self._gather()
            entry = self._entry = self._next()
        began = self._env.clock.monotonic()
        end = self._append(entry)
        self._done(Written(entry.parts, end))
        self._durable = (entry.turn, entry.parts[-1].until_bytes)
        self._entry = None
        self._forget_written()
        self.counts.entries += 1
        self.counts.rows += sum(one.chunk.count for one in entry.parts)
        self.counts.bytes += len(entry.body)
        self.counts.flush_ms += (self._env.clock.monotonic() - began) * 1000

    def _gather(self) -> None:
        """Let those come who waited with the last entry and put again: one entry for all of them is less work.

        Who writes alone never waits here, and nobody waits for one who does not come at once.
        """
        seen, still_s = 0, 0.0
        while (here := len(self._queue)) <= self._crowd and still_s < GATHER_S:
            still_s = 0.0 if here > seen else still_s + GATHER_STEP_S
            seen = here
            self._env.clock.sleep(GATHER_STEP_S)

    def _next(self) -> _Entry:
        """As much of the queue as makes one entry."""
        self._forget_written()
        with self._lock:
            if not self._queue:
                raise InternalError("a flush was asked for, and nothing waits")
            first = self._queue[0]
            parts, size = [first], first.nbytes
            for one in islice(self._queue, 1, None):
                size += one.nbytes
                if size > self._entry_bytes_max or not _go_together(first, one):
                    break
                parts.append(one)
        once = tuple(one.once.id for one in parts if one.once is not None and one.once.id)
        body = encode_body([one.chunk for one in parts], parts[0].schema, once=once, batches=_batches(parts))
        return _Entry(parts, body, self._env.ids.new())

    def _forget_written(self) -> None:
        with self._lock:
            while self._queue and self._queue[0].turn <= self._durable[0]:
                self._queue.popleft()

    def _append(self, entry: _Entry) -> Mark:
        for attempt in range(1, self._attempts_max + 1):
            before, entry.doubtful = entry.doubtful, True  # also where this is interrupted
            try:
                return self._appender.append(entry.body, op=entry.op)
            except (UnavailableError, CommitUnknownError, PermissionDeniedError) as error:
                entry.doubtful = before or isinstance(error, CommitUnknownError)
                if attempt == self._attempts_max:
                    raise self._give_up(error, entry, attempt) from error
                self.counts.retries += 1
                self.counts.error = error.message
            except SiltstoneError as error:
                entry.doubtful = before
                raise self._give_up(error, entry, attempt) from error
            self._env.clock.sleep(self._env.ids.uniform(0, min(1.0, 0.05 * 2**attempt)))
        raise InternalError("a loop of attempts ended by itself")

    def _give_up(self, error: SiltstoneError, entry: _Entry, attempts: int) -> SiltstoneError:
        """Stop the writer; what its rows' owners are told."""
        self.counts.error = error.message
        if not isinstance(error, FencedError):
            times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
            error = WriterStoppedError(
                f"entry {self._appender.next_position} could not be written in {times}: {error.message}",
                hint=f"{OPEN_AGAIN}, and this entry if it was written",
                **{**error.facts, "op": entry.op, "position": self._appender.next_position},
            )
        self.stop(error)
        return self._told(error, entry.turn)


def _go_together(one: Pending, other: Pending) -> bool:
    """Whether rows of two puts may be in one entry."""
    return one.generation == other.generation and one.schema is other.schema


def _batches(parts: list[Pending]) -> dict[str, int]:
    return {one.once.stream: one.once.batch for one in parts if one.once is not None and one.once.stream}
