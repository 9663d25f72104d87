"""What a shard's writer holds, and what it says of that: the shard it took over, its rows in memory, its figures.

What must hold:
- A reader gets the manifest's state, the rows that are in no fragment, and the end of the WAL as of one moment.
- Steps that belong together are taken together, or the writer is stopped: an interrupt leaves nothing half done that
  goes on working.
- A child of a fork, which has the rows and not the shard, is refused.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Literal

from siltstone.errors import (
    ClosedError,
    FencedError,
    ForkedError,
    InvalidInputError,
    SiltstoneError,
    UnavailableError,
    WriterStoppedError,
)
from siltstone.shard.backpressure import BackpressureController
from siltstone.shard.flusher import OPEN_AGAIN, WalFlusher
from siltstone.shard.intake import Intake
from siltstone.shard.stats import MemTableStats, WalStats, WriterStats
from siltstone.shard.takeover import take_over
from siltstone.telemetry import events, metrics, seams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from siltstone.format.shard import ShardState
    from siltstone.format.table import Schema
    from siltstone.log import Mark
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.config import Knobs
    from siltstone.shard.flusher import Written
    from siltstone.shard.memtable import MemTable
    from siltstone.shard.place import ShardPlace
    from siltstone.shard.shards import Shards
    from siltstone.table.checkpoints import Checkpoint
    from siltstone.table.once import Once
    from siltstone.table.output import Output
    from siltstone.table.state import State


def _of_writer(writer: Any, *_: object, **__: object) -> Mapping[str, str]:
    return seams.of_log(getattr(writer, "writers", [writer])[0])


a_put = seams.traced(
    "siltstone.shard.put", about=_of_writer, count=metrics.SHARD_PUTS, seconds=metrics.SHARD_PUT_SECONDS
)


class WriterCore:
    """A shard in the hands of its writer. Threads may share it."""

    def __init__(
        self, place: ShardPlace, now: Callable[[], State], knobs: Knobs, *, name: str, shards: Shards | None
    ) -> None:
        self.place = place
        self.knobs = knobs
        self._now = now
        self._shards = shards
        self._process = os.getpid()
        # Taken by itself, never through its condition: an interrupt there would leave it locked.
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)
        self._closed = False
        self._rows = self._deletes = self._puts = self._flushed = 0
        self._error = ""
        self._failed: SiltstoneError | None = None  # why the last flush of a memtable failed
        self._logs = place.write(name)
        try:
            self._open(name)
        except BaseException as error:
            if isinstance(error, FencedError):
                error.facts.update(shard=place.name, table=place.log.store.uri)
            with contextlib.suppress(SiltstoneError):
                self._close_logs()
            raise

    def _open(self, name: str) -> None:
        taken, knobs = take_over(self.place, self._logs, self._now, self.knobs, name=name), self.knobs
        self._logs = taken.logs
        self.state: ShardState = taken.state
        self._tables, self._ledger, self._replayed = taken.tables, taken.ledger, taken.replayed_rows
        self._appender = taken.appender
        self._settled: Mark = taken.appender.end  # behind the last entry whose rows have their position
        self._columns_of = taken.table.version  # whose columns the intake has
        self._intake = Intake(taken.table.schema, self.place.route, entry_bytes_max=knobs.max_wal_buffer_size)
        self._flusher = WalFlusher(
            self._appender,
            env=self.place.log.env,
            entry_bytes_max=knobs.max_wal_buffer_size,
            attempts_max=knobs.max_wal_append_attempts,
            done=self._note_written,
            table=self.place.log.store.uri,
            shard=self.place.name,
        )
        self._pressure = BackpressureController(
            knobs.max_unflushed_memtable_bytes,
            held=lambda: self._tables.nbytes + self._flusher.pending_bytes,
            failed=lambda: self._failed,
            room=self._room,
            env=self.place.log.env,
            name=f"shard {self.place.name}",
            table=self.place.log.store.uri,
        )

    def _note_written(self, written: Written) -> None:
        """An entry is in the WAL: its rows have a position now. May come twice for one entry."""
        with self._lock:
            for one in written.parts:
                if self.knobs.enable_memtable:
                    self._tables.settle(one.generation, one.number, written.end)
                if one.once is not None:
                    self._ledger.written(one.once, written.position)
            self._settled = written.end
            self._room.notify_all()

    def _tell_failure(self, error: SiltstoneError) -> None:
        why = seams.message_of(error)
        events.FLUSH_FAILED.tell(**seams.of_log(self), shard=self.place.name, kind=error.kind, reason=why)

    def _close_logs(self) -> None:
        """End the logs' handles, which look once more at what they were told last; a store may be away by now."""
        for log in (self._logs.wal, self._logs.manifest.log):
            with contextlib.suppress(UnavailableError):
                log.close()

    # -- looking -----------------------------------------------------------------------------------

    def active_memtable(self) -> MemTable:
        """The memtable that takes rows now."""
        self._check_memtable("active_memtable")
        return self._tables.active

    def chunks(self, schema: Schema, *, durable_only: bool = False) -> tuple[ShardState, list[Chunk], Mark]:
        """At one moment: what the manifest says, the rows that are in no fragment, and the end of the WAL."""
        self._check_memtable("reading")
        with self._lock:
            state = self.state
            return state, self._tables.chunks(schema, since=state.generation, durable_only=durable_only), self._settled

    def _view(self) -> Shards:
        if self._shards is None:
            raise InvalidInputError("this writer has no table to read", hint="open it with table.shard(...).writer()")
        return self._shards

    def applied(self, once: Once) -> bool:
        """Whether a put of that id, or of that stream up to that batch, is in the shard."""
        with self._lock:
            turn = self._ledger.turn_of(once)
        return turn is not None and self._flusher.is_durable(turn)

    def stats(self) -> WriterStats:
        """What the writer did since it was opened."""
        self._check_process()
        with self._lock:
            return WriterStats(
                shard=self.place.name,
                epoch=self._appender.epoch,
                puts=self._puts,
                rows=self._rows,
                deletes=self._deletes,
                backpressure_waits=self._pressure.waits,
                backpressure_ms=self._pressure.waited_ms,
                replayed_rows=self._replayed,
                flushed_memtables=self._flushed,
                last_error=self._last_error(),
            )

    def _last_error(self) -> str:
        stopped = self._flusher.stopped
        return self._error if stopped is None or isinstance(stopped, ClosedError) else stopped.message

    def wal_stats(self) -> WalStats:
        """The WAL, right from the moment the writer is open."""
        self._check_process()
        counts = self._flusher.counts
        return WalStats(
            next_wal_entry_position=self._appender.next_position,
            replay_from=self.state.replay_from.position,
            entries=counts.entries,
            rows=counts.rows,
            bytes=counts.bytes,
            retries=counts.retries,
            pending_batches=self._flusher.pending,
            pending_bytes=self._flusher.pending_bytes,
            flush_ms=counts.flush_ms,
            last_error=counts.error,
        )

    def memtable_stats(self) -> MemTableStats:
        """The memtables. Raises InvalidInputError where the writer is WAL only."""
        self._check_memtable("memtable_stats")
        self._check_process()
        with self._lock:
            table, frozen = self._tables.active, self._tables.frozen
            return MemTableStats(
                generation=table.generation,
                rows=table.rows,
                batches=table.batches,
                bytes=table.nbytes,
                frozen=len(frozen),
                frozen_bytes=sum(one.nbytes for one in frozen),
            )

    def search(self, column: object, query: object = None, **options: Any) -> Output:
        """Rows whose texts match, as ``Table.search`` finds them, with all that was put through this writer."""
        self._check_memtable("search")
        self._check()
        texts = self._view().texts
        if texts is None:
            raise InvalidInputError("this writer has no table to search", hint="open it with table.shard(...).writer()")
        return texts.search(self, column, query, **options)

    # -- keeping -----------------------------------------------------------------------------------

    def checkpoint(
        self, name: str, *, scope: Literal["all", "durable"] = "all", keep_days: float | None = None
    ) -> Checkpoint:
        """Make all that was put durable, then promise to keep the table with it, as ``Table.checkpoint`` does."""
        self._check()
        make = self._view().checkpoint
        if make is None:
            raise InvalidInputError("this writer has no table to keep", hint="open it with table.shard(...).writer()")
        self._flusher.flush(self._flusher.last)
        return make(name, scope=scope, keep_days=keep_days)

    # -- whether it goes on ------------------------------------------------------------------------

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is written: closed, fenced, after too many failures, or in the child of a fork."""
        return self._flusher.stopped is not None or os.getpid() != self._process

    def stop(self, error: SiltstoneError) -> None:
        """Write nothing more; calls raise ``error`` from now on."""
        self._flusher.stop(error)
        with self._lock:
            self._room.notify_all()

    def check_mine(self) -> None:
        """Raise FencedError where another writer claimed the shard."""
        try:
            self._logs.manifest.check_mine(self._logs.manifest.read(), self._appender.epoch)
        except FencedError as error:
            self.stop(error)
            raise

    @property
    def lock(self) -> threading.RLock:
        """Whoever has it sees what is held stay as it is, or get less. Several are taken in the order of shards."""
        return self._lock

    def _check(self) -> None:
        self._check_process()
        if self._closed:
            raise ClosedError(f"{self!r} was closed", hint="open another writer")
        self._flusher.check()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ForkedError(f"{self!r} was opened before os.fork()", hint="open a writer in the child")

    def _check_memtable(self, what: str) -> None:
        if not self.knobs.enable_memtable:
            raise InvalidInputError(
                f"{what} needs a memtable, and the writer of shard {self.place.name} is WAL only",
                hint="open it with enable_memtable=True, or read the table with fresh=True",
            )

    def __reduce__(self) -> tuple[object, ...]:
        """Refused: a shard has one writer."""
        raise InvalidInputError(
            f"{self!r} can't be pickled",
            hint="pickle the table, and open a writer of it there: it takes the shard over",
        )

    def __repr__(self) -> str:
        return f"ShardWriter({self.place.log.store.uri}, shard {self.place.name}, epoch {self._appender.epoch})"


class Whole:
    """Steps that leave a writer in pieces where they are cut off: it is stopped then; what it acknowledged stays."""

    def __init__(self, writer: WriterCore, what: str) -> None:
        self._writer = writer
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None:
            self._writer.stop(
                WriterStoppedError(f"{self._what} was cut off half way by {kind.__name__}", hint=OPEN_AGAIN)
            )
