"""A writer of all shards of a table: each row goes to the shard of its key.

What must hold:
- A put is acknowledged when the rows of every shard are durable. Shards are independent: where one fails, the rows of
  others may be durable, and putting all of them again does no harm.
- Bad input is told before anything is queued for any shard.
- The writers are those of all shards of one map, so that a row's number is that of its shard.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone.closing import Closing
from siltstone.errors import ClosedError, InvalidInputError, SchemaMismatchError, SiltstoneError
from siltstone.shard.chunks import tombstones
from siltstone.shard.core import a_put
from siltstone.shard.route import shard_numbers, split
from siltstone.table.lookup import key_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.shard.intake import Checked, Intake
    from siltstone.shard.stats import WalStats, WriterStats
    from siltstone.shard.writer import Ack, ShardWriter
    from siltstone.table.checkpoints import Checkpoint
    from siltstone.table.output import Output
    from siltstone.table.scan import Scan

THREADS_MAX = 16


class RoutedAck:
    """What becomes of a put to several shards."""

    def __init__(self, acks: Sequence[Ack], together: Callable[[Sequence[Callable[[], None]]], None]) -> None:
        self._acks = acks
        self._together = together

    @property
    def done(self) -> bool:
        """Whether all rows are durable."""
        return all(one.done for one in self._acks)

    def wait(self) -> None:
        """Make all rows durable now. Raises what ``Ack.wait`` raises."""
        self._together([one.wait for one in self._acks if not one.done])

    def __repr__(self) -> str:
        return f"RoutedAck({'durable' if self.done else 'not durable yet'})"


class _Part(NamedTuple):
    """Rows of one shard."""

    number: int
    rows: Checked


class RoutedWriter(Closing):
    """The writers of all shards. Threads may share it."""

    def __init__(self, writers: Sequence[ShardWriter]) -> None:
        self.writers = tuple(writers)
        self._process = os.getpid()
        remote = len(self.writers) > 1 and self.writers[0].place.log.store.traits.overlaps
        threads = min(THREADS_MAX, len(self.writers))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="siltstone-put") if remote else None

    def put(self, data: object, *, wait: bool | None = None) -> RoutedAck:
        """Put rows, each into its shard. Waits until all are durable, unless configured or told otherwise."""
        return self._write(lambda intake: self._rows(intake, data), data, wait=wait)

    def delete(self, keys: object, *, wait: bool | None = None) -> RoutedAck:
        """Delete the rows with these keys, each in its shard."""
        return self._write(lambda intake: self._tombstones(intake, keys), keys, wait=wait)

    def _rows(self, intake: Intake, data: object) -> list[_Part]:
        return [
            _Part(number, intake.chunks(rows))
            for table in intake.tables(data)
            for number, rows in split(table, intake.key, len(self.writers))
        ]

    def _tombstones(self, intake: Intake, keys: object) -> list[_Part]:
        given = key_rows(intake.schema, keys)
        if not given.num_rows:
            return []
        numbers = shard_numbers(given, len(self.writers))
        return [
            _Part(
                number,
                intake.chunks(tombstones(given.filter(pa.array(numbers == number)), intake.schema).rows, deleted=True),
            )
            for number in np.unique(numbers).tolist()
        ]

    @a_put
    def _write(self, cut: Callable[[Intake], list[_Part]], data: object, *, wait: bool | None) -> RoutedAck:
        first = self.writers[0]  # others follow its columns when they get rows of them
        try:
            parts = cut(first.intake)
        except SchemaMismatchError:
            if isinstance(data, Iterator) or not first.follow_columns():
                raise
            parts = cut(first.intake)
        return self._end(self._queue(_by_shard(parts), room=wait is not False), wait=wait)

    def _queue(self, parts: dict[int, Checked], *, room: bool) -> list[Ack]:
        with contextlib.ExitStack() as locks:
            if not room:  # all of it, or nothing
                for number in parts:
                    locks.enter_context(self.writers[number].lock)
                for number, rows in parts.items():
                    self.writers[number].admit(rows)
            return [self.writers[number].queue(rows, room=room) for number, rows in parts.items()]

    def _end(self, acks: list[Ack], *, wait: bool | None) -> RoutedAck:
        ack = RoutedAck(acks, self._together)
        if self.writers[0].knobs.durable_write if wait is None else wait:
            ack.wait()
        return ack

    def _together(self, calls: Sequence[Callable[[], None]]) -> None:
        pool = self._pool
        if pool is None or len(calls) < 2 or os.getpid() != self._process:
            for call in calls:
                call()
            return
        try:
            running = [pool.submit(call) for call in calls]
        except RuntimeError as late:  # another thread closed this writer
            raise ClosedError(f"{self!r} was closed", hint="open another writer") from late
        failed = [error for one in running if (error := one.exception()) is not None]
        if failed:
            raise failed[0]

    def flush(self) -> None:
        """Return when all that was put is durable."""
        self._together([one.flush for one in self.writers])

    def scan(self, columns: Sequence[str] | None = None, *, where: str | None = None, limit: int | None = None) -> Scan:
        """Rows of the table and of its shards, those that are durable."""
        self.flush()
        return self.writers[0].scan(columns, where=where, limit=limit)

    def get(self, keys: object, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these keys, in the order asked for, those that are durable."""
        self.flush()
        return self.writers[0].get(keys, columns)

    def search(self, column: object, query: object = None, **options: Any) -> Output:
        """Rows whose texts match, as ``Table.search`` finds them, those that are durable in shards too."""
        self.flush()
        return self.writers[0].search(column, query, **options)

    def checkpoint(
        self, name: str, *, scope: Literal["all", "durable"] = "all", keep_days: float | None = None
    ) -> Checkpoint:
        """Make all that was put durable, then promise to keep the table with it, as ``Table.checkpoint`` does."""
        self.flush()
        return self.writers[0].checkpoint(name, scope=scope, keep_days=keep_days)

    def stats(self) -> list[WriterStats]:
        """What each writer did, by the number of its shard."""
        return [one.stats() for one in self.writers]

    def wal_stats(self) -> list[WalStats]:
        """The WAL of each shard."""
        return [one.wal_stats() for one in self.writers]

    @property
    def is_stopped(self) -> bool:
        """Whether one of the writers writes nothing more: closed, fenced, or after too many failures."""
        return any(one.is_stopped for one in self.writers)

    def close(self) -> None:
        """Close all writers; the first error is raised when all were tried."""
        failed: SiltstoneError | None = None
        for one in self.writers:
            try:
                one.close()
            except SiltstoneError as error:
                failed = failed or error
        pool, self._pool = self._pool, None
        if pool is not None and os.getpid() == self._process:
            pool.shutdown()
        if failed is not None:
            raise failed

    def __repr__(self) -> str:
        return f"RoutedWriter({len(self.writers)} shards of {self.writers[0].place.log.store.uri})"


def _by_shard(parts: Sequence[_Part]) -> dict[int, Checked]:
    """The rows of each shard in their order; shards in the order of their numbers."""
    found: dict[int, Checked] = {}
    for number, rows in sorted(parts, key=lambda one: one.number):
        before = found.get(number)
        found[number] = rows if before is None else rows._replace(chunks=[*before.chunks, *rows.chunks])
    return found


def open_all(open_one: Callable[[int], ShardWriter], count: int) -> RoutedWriter:
    """Take all shards over; where one fails, those before it are closed again."""
    if count < 1:
        raise InvalidInputError("this table has no shards", hint="create it with shards=")
    writers: list[ShardWriter] = []
    try:
        writers.extend(map(open_one, range(count)))
    except BaseException:
        for one in writers:
            with contextlib.suppress(SiltstoneError):
                one.close()
        raise
    return RoutedWriter(writers)
