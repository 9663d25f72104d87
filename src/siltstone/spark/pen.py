"""The writer of a shard in a task: it goes on where another took the shard over, and stops where its job is done.

What must hold:
- What is not known to be in the WAL is kept, and put again by whoever takes the shard back; no more of it than the
  writer may hold.
- Attempts of one task may run at the same time. They take the shard from each other, waiting longer each time, until
  one of them is done: the other finds the job's id and stops, whether or not it was through.
- Whoever was fenced too often fails: its attempt where it was by its own job, else the job.
"""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from siltstone.env import REAL
from siltstone.errors import CommitUnknownError, FencedError, SiltstoneError, UnavailableError, WriterStoppedError

if TYPE_CHECKING:
    import pyarrow as pa

    from siltstone.api import Table
    from siltstone.shard.config import ShardWriterConfig
    from siltstone.shard.writer import Ack, ShardWriter
    from siltstone.table.once import Once

FIGHTS_MAX = 12
WAIT_FIRST_S = 0.5
WAIT_MOST_S = 30.0


@dataclass(eq=False)
class _Piece:
    """Rows that are not known to be in the WAL."""

    rows: pa.RecordBatch
    once: Once | None
    ack: Ack | None = None

    @property
    def done(self) -> bool:
        return self.ack is not None and self.ack.done


class Pen:
    """Puts the rows of one shard, in batches; ``end`` returns when all are durable."""

    def __init__(self, table: Table, number: int, *, once: Once, config: ShardWriterConfig, name: str) -> None:
        self._table = table
        self._number = number
        self._once = once
        self._config = config
        self._name = name
        self._writer: ShardWriter | None = None
        self._fights = 0
        self._rows = 0
        self._held: pa.RecordBatch | None = None  # the last one is put with the job's id
        self._queue: deque[_Piece] = deque()
        self._stops = False  # the job's rows of this shard are there
        self._before = False  # and were when this began

    def put(self, rows: pa.RecordBatch) -> None:
        """Put rows, all of this shard; waits for nothing but room."""
        self._rows += rows.num_rows
        if self._stops or not rows.num_rows:
            return
        if self._held is not None:
            self._put(_Piece(self._held, None), flush=False)
        self._held = rows

    def end(self) -> tuple[int, bool]:
        """Make all rows durable: how many there were, and whether they were there before."""
        if self._held is not None and not self._stops:
            self._put(_Piece(self._held, self._once), flush=True)
        self._held = None
        return self._rows, self._before

    def _put(self, piece: _Piece, *, flush: bool) -> None:
        self._queue.append(piece)
        while not self._stops:
            try:
                self._go_on(flush=flush)
            except FencedError as error:
                self._give_way(error)
            except (CommitUnknownError, WriterStoppedError) as error:
                # Whatever became of the entry, its rows may be put again: Spark runs the task again.
                raise UnavailableError(error.message, hint=error.hint, **error.facts) from error
            else:
                return

    def _go_on(self, *, flush: bool) -> None:
        writer = self._writer or self._take_over()
        if self._stops:
            return
        for one in self._queue:
            if one.ack is None:
                one.ack = writer.put(one.rows, once=one.once)
        if flush:
            writer.flush()
        while self._queue and self._queue[0].done:
            self._queue.popleft()

    def _take_over(self) -> ShardWriter:
        writer = self._writer = self._table.shard(self._number).writer(self._config, name=self._name)
        if writer.applied(self._once):
            self._stops, self._before = True, not self._fights
            self._queue.clear()
            self._held = None
        return writer

    def _give_way(self, error: FencedError) -> None:
        """Leave the shard to another for a while; longer each time, so that one of two comes to its end."""
        self._drop()
        for one in self._queue:
            one.ack = None if not one.done else one.ack
        self._fights += 1
        if self._fights > FIGHTS_MAX:
            message = f"shard {self._number} was taken over {self._fights} times by others: {error.message}"
            own = self._table.shard(self._number).status().writer == self._name
            # Spark runs a task again that raises this, and leaves the attempt alone that has the shard now.
            kind = UnavailableError if own else FencedError
            raise kind(message, hint="let one job at a time write to a table", **error.facts) from error
        most_s = min(WAIT_MOST_S, WAIT_FIRST_S * 2 ** (self._fights - 1))
        REAL.clock.sleep(REAL.ids.uniform(most_s / 2, most_s))

    def _drop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            # What it holds is durable, or in the queue.
            with contextlib.suppress(SiltstoneError):
                writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()
