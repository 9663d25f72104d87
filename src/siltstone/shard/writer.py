"""ShardWriter: the one that writes a shard. Rows are durable when they are in the WAL, and readable at once.

What must hold:
- What was acknowledged is in the WAL; who opens the shard next finds it in its memtable, or in fragments.
- Rows go into the memtable and into the queue of the WAL in one step, so both have the same order.
- A memtable is let go only when the manifest says that its rows are in a fragment. The cursor of the WAL moves with
  that entry, memtable by memtable, in order: it never passes one that was not flushed.
- A writer that was fenced or stopped acknowledges nothing more.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from siltstone.closing import Closing
from siltstone.errors import (
    BackpressureError,
    ClosedError,
    FencedError,
    InternalError,
    LimitExceededError,
    SchemaMismatchError,
    SiltstoneError,
)
from siltstone.format.table import Cursor
from siltstone.shard.chunks import adapt
from siltstone.shard.core import Whole, WriterCore, a_put
from siltstone.shard.flush import flush_memtable
from siltstone.shard.flusher import Ack, Pending
from siltstone.shard.intake import Intake
from siltstone.shard.manifest import to_cursor
from siltstone.shard.own_get import is_behind, plain_key
from siltstone.shard.tasks import Background
from siltstone.table.arguments import check_flag, check_limit, check_once, check_where
from siltstone.table.once import Once
from siltstone.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from siltstone.format.shard import ShardState
    from siltstone.format.table import Schema
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.config import Knobs
    from siltstone.shard.intake import Checked
    from siltstone.shard.memtables import Held
    from siltstone.shard.place import ShardPlace
    from siltstone.shard.shards import Shards
    from siltstone.table.scan import Scan
    from siltstone.table.state import State

__all__ = ["Ack", "ShardWriter"]


class ShardWriter(WriterCore, Closing):
    """Open until it is closed, fenced or stopped. Threads may share it; puts of theirs that meet share an entry."""

    def __init__(
        self,
        place: ShardPlace,
        now: Callable[[], State],
        knobs: Knobs,
        *,
        name: str = "",
        shards: Shards | None = None,
        background: bool = True,
    ) -> None:
        super().__init__(place, now, knobs, name=name, shards=shards)
        self._flushing = threading.Lock()
        self._background = Background(self) if background else None
        if self._background is not None and self._tables.oldest is not None:
            self._background.wake_memtables()

    # -- writing -----------------------------------------------------------------------------------

    def put(self, data: object, *, wait: bool | None = None, once: Once | str | None = None) -> Ack:
        """Put rows; in a keyed table each one takes the place of the row with its key.

        Waits until they are durable, unless the writer was configured otherwise. With ``wait=False`` it waits for
        nothing: BackpressureError where there is no room, and ``wait()`` of what it returns makes the rows durable.
        ``once`` names a put that is to count once: where it did before, nothing is done.

        Raises:
            SchemaMismatchError: the rows are not of the table's columns.
            InvalidInputError: a row belongs to another shard.
            FencedError: another writer took the shard over.
        """
        return self._write(lambda intake: intake.rows(data), data, wait=wait, once=once)

    def delete(self, keys: object, *, wait: bool | None = None, once: Once | str | None = None) -> Ack:
        """Delete the rows with these keys; those that are not there stay so."""
        return self._write(lambda intake: intake.tombstones(keys), keys, wait=wait, once=once)

    @a_put
    def _write(
        self, take: Callable[[Intake], Checked], data: object, *, wait: bool | None, once: Once | str | None
    ) -> Ack:
        self._check()
        if wait is not None:
            check_flag(wait, "wait")
        if once is not None and not isinstance(once, Once):
            once = check_once(once)
        try:
            checked = take(self._intake)
        except SchemaMismatchError:
            if isinstance(data, Iterator) or not self.follow_columns():
                raise
            checked = take(self._intake)
        if once and len(checked.chunks) > 1 and self.place.route is None:
            raise LimitExceededError(
                "rows that are to count once must fit into one entry of the WAL, and these take more",
                hint=f"put fewer of them; an entry takes {self.knobs.max_wal_buffer_size} bytes",
            )
        ack = self.queue(checked, room=wait is not False, once=once)
        if self.knobs.durable_write if wait is None else wait:
            ack.wait()
        return ack

    def queue(self, checked: Checked, *, room: bool, once: Once | None = None) -> Ack:
        """Put what an ``Intake`` has checked, and wait for nothing but room; without ``room`` not for that either."""
        schema = self._intake.schema
        if checked.schema is not schema and checked.schema != schema:
            self.follow_columns()  # those of the rows may be newer than the writer's
        if self.knobs.index_configs and self._shards is not None and self._shards.texts is not None:
            self._shards.texts.index(
                self.knobs.index_configs, (one.rows for one in checked.chunks if one.deleted is None)
            )
        if room:
            turn = self._queue_all(checked, once, room=True)
        else:
            with self._lock:  # all of it, or nothing
                self.admit(checked)
                turn = self._queue_all(checked, once, room=False)
        if self._background is not None and not self._flusher.is_durable(turn):
            full = self._flusher.pending_bytes >= self.knobs.max_wal_buffer_size
            (self._background.wake_wal if full else self._background.queued)()
        return Ack(self._flusher, turn)

    def admit(self, checked: Checked) -> None:
        """Raise BackpressureError where there is no room for rows now, and get what is held moving."""
        self._check()
        needed = sum(map(self._held, checked.chunks))
        try:
            self._pressure.admit(needed)
        except BackpressureError:
            # Nobody waits for room: what is too much for good, though it is durable, must go by itself.
            if self._tables.nbytes + needed > self.knobs.max_unflushed_memtable_bytes:
                self._push()
            elif self._background is not None:
                self._background.wake_wal()
            raise

    def _queue_all(self, checked: Checked, once: Once | None, *, room: bool) -> int:
        turn, last = 0, len(checked.chunks) - 1
        if once is not None and last > 0:  # the last chunk has the id, and those before it must not come again either
            with self._lock:
                self._check()
                found = self._ledger.turn_of(once)
            if found is not None:
                return found
        for number, chunk in enumerate(checked.chunks):
            turn = self._queue(chunk, checked.schema, once if number == last else None, room=room, first=number == 0)
        return turn

    @property
    def intake(self) -> Intake:
        """What checks and cuts rows for this writer."""
        return self._intake

    def _held(self, chunk: Chunk) -> int:
        """What a chunk takes: it is in the queue, and in the memtable."""
        return chunk.nbytes * (1 + self.knobs.enable_memtable)

    def _queue(self, chunk: Chunk, schema: Schema, once: Once | None, *, room: bool, first: bool) -> int:
        held = self._held(chunk)
        while True:
            if self._background is None and room and self._pressure.is_full(held):
                self._make_room()
            with self._lock:
                self._check()
                if room and self._background is not None:
                    self._pressure.wait(held, check=self._check, push=self._push)
                elif room and self._pressure.is_full(held):
                    continue
                found = None if once is None else self._ledger.turn_of(once)
                if found is not None:
                    return found
                turn = self._add(self._fitted(chunk, schema), once)
                self._puts += first
                return turn

    def _add(self, chunk: Chunk, once: Once | None) -> int:
        """Let rows into the memtable and the queue; the caller has the lock."""
        memtable, turn = self.knobs.enable_memtable, self._flusher.last + 1
        with Whole(self, "a put"):
            number = self._tables.add(chunk, turn) if memtable else 0
            if once is not None:
                self._ledger.promise(once, turn)
            generation = self._tables.active.generation
            self._flusher.add(Pending(chunk, self._intake.schema, generation, number, once, chunk.nbytes, turn))
        self._rows += chunk.count
        metrics.SHARD_ROWS.add(chunk.count, table=self.place.log.store.uri)
        if chunk.deleted is not None:
            self._deletes += int(np.count_nonzero(chunk.deleted))
        if memtable and self._tables.is_full:
            self._freeze()
        return turn

    def _fitted(self, chunk: Chunk, schema: Schema) -> Chunk:
        """A chunk of older columns as one of the writer's."""
        now = self._intake.schema
        return chunk if schema is now or schema == now else chunk._replace(rows=adapt(chunk.rows, schema, now))

    def follow_columns(self) -> bool:
        """Take up columns that were changed since; False where they were not."""
        state = self._now()
        with self._lock:
            if state.schema == self._intake.schema:
                return False
            if state.version > self._columns_of:  # else another thread looked later, and was first
                taken = Intake(state.schema, self.place.route, entry_bytes_max=self.knobs.max_wal_buffer_size)
                with Whole(self, "taking up columns"):
                    self._freeze(state.schema)
                    self._columns_of, self._intake = state.version, taken
            return True

    def flush(self) -> None:
        """Return when all that was put is in the WAL."""
        self._check()
        self._flusher.flush(self._flusher.last)

    def flush_unasked(self) -> None:
        """The same, where nobody hears of an error: the next call tells it."""
        self._check_process()
        self._flusher.flush_unasked(self._flusher.last)

    # -- memtables ---------------------------------------------------------------------------------

    def freeze(self) -> None:
        """End the active memtable, so that it is flushed; nothing where it is empty."""
        self._check_memtable("freeze")
        self._check()
        with self._lock:
            self._freeze()

    def flush_memtables(self) -> int:
        """Flush the memtables that are frozen, in order; how many there were.

        Raises FencedError, UnavailableError: what is not flushed stays, and is flushed by a later call.
        """
        self._check()
        count = 0
        with self._flushing:
            while True:
                with self._lock:
                    self._tables.drop_before(self.state.generation)  # an interrupt may have come before that
                    held = self._tables.oldest
                if held is None:
                    return count
                self._flusher.flush(held.last_turn)
                try:
                    self._flush(held)
                except SiltstoneError as error:
                    self._note_failure(error)
                    raise
                count += 1

    def _flush(self, held: Held) -> None:
        if held.end is None:
            raise InternalError(f"memtable {held.table.generation} has rows that are in no entry of the WAL")
        end, table = to_cursor(held.end), self._now()
        with self._lock:
            applied = self._ledger.before(end.position)
        state = flush_memtable(
            self.place,
            self._logs,
            held.table,
            epoch=self._appender.epoch,
            end=end,
            merged=table.shards.get(self.place.name, Cursor()).position,
            applied=applied,
        )
        with self._lock:
            self.state = state
            self._tables.drop_before(state.generation)
            self._ledger.forget(end.position)
            self._flushed += 1
            self._failed = None
            self._room.notify_all()
        if table.schema != self._intake.schema:
            self.follow_columns()

    def _note_failure(self, error: SiltstoneError) -> None:
        self._error, self._failed = error.message, error
        self._tell_failure(error)
        if isinstance(error, FencedError):
            self.stop(error)
        else:
            self._logs.manifest.note_error(self._appender.epoch, error.message)

    def _freeze(self, schema: Schema | None = None) -> None:
        with Whole(self, "a freeze"):
            self._tables.freeze(schema)
        if self._background is not None:
            self._background.wake_memtables()

    def _push(self) -> None:
        """Get what is held moving; the caller has the lock."""
        if self.knobs.enable_memtable and self._tables.oldest is None:
            self._freeze()
        if self._background is not None:
            self._background.wake_wal()
            self._background.wake_memtables()

    def _make_room(self) -> None:
        """What the threads would do, where there are none."""
        self.flush()
        with self._lock:
            self._freeze()
        self.flush_memtables()

    # -- reading -----------------------------------------------------------------------------------

    def scan(self, columns: Sequence[str] | None = None, *, where: str | None = None, limit: int | None = None) -> Scan:
        """Rows of the table and of its shards, with all that was put through this writer, durable or not."""
        self._check_memtable("scan")
        self._check()
        return self._view().scan(columns, where=check_where(where), limit=check_limit(limit), own=self)

    def get(self, keys: object, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these keys, in the order asked for, with all that was put through this writer."""
        self._check_memtable("get")
        self._check()
        view, key = self._view(), plain_key(keys, self._intake.schema)
        if key is not None:
            with self._lock:
                found, end = self._tables.find_one(key, since=self.state.generation), self._settled
            row = None if found is None else found.shown(self._now(), self.place.name, columns)
            if row is not None:
                if is_behind(self._logs.wal, end):
                    self.check_mine()  # else it is an entry of its own, under way
                return row
        return view.get(keys, columns, self)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Make all rows durable, flush what is frozen, and end the writer; closing twice is fine.

        The rows of the active memtable stay in the WAL: whoever opens the shard next replays them.
        Raises what stopped the writer where rows did not become durable and nobody was told so yet.
        """
        if self._closed or os.getpid() != self._process:
            return
        try:
            if self._flusher.stopped is None:
                self._flusher.flush(self._flusher.last)
                self.flush_memtables()
                self._note_end()
            elif self._flusher.last > self._flusher.told:
                self._flusher.flush(self._flusher.last)
        except BaseException:
            with contextlib.suppress(SiltstoneError):  # the first error says more
                self._shut()
            raise
        self._shut()

    def _note_end(self) -> None:
        """Where the WAL is in another store, say where it ends, so that all know when it is not needed any more."""
        if self.state.wal.store is None:
            return
        # First nothing more is put: what came behind the end that is noted would be lost.
        self.stop(ClosedError(f"the writer of shard {self.place.name} was closed", hint="open another one"))
        if not self._flusher.is_settled():
            return
        end = to_cursor(self._appender.end)

        def edit(state: ShardState) -> ShardState | None:
            mine = state.epoch == self._appender.epoch
            return msgspec.structs.replace(state, closed=end) if mine and state.closed != end else None

        with contextlib.suppress(SiltstoneError):  # without it, its store is taken to be needed
            self._logs.manifest.change(edit)

    def _shut(self) -> None:
        self._closed = True
        self.stop(ClosedError(f"the writer of shard {self.place.name} was closed", hint="open another one"))
        if self._background is not None:
            self._background.stop(wait=True)
        self._close_logs()
