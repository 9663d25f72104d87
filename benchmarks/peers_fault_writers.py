"""Products with one writer at a time, which several processes take over from each other.

What must hold: whoever is told that it is not the writer any more takes over and puts the same rows again. That is no
error: the rows have keys, so putting them twice is the same as once.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import TYPE_CHECKING, Any

from peers_fault_products import Place, Product, Siltstone, SiltstoneCommits, rows_of
from slatedb.uniffi import (
    CloseReason,
    DbBuilder,
    Error,
    FlushOptions,
    FlushType,
    KeyRange,
    ObjectStore,
    WriteBatch,
)

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Callable

TAKE_OVERS_MAX = 200
TAKE_OVER_WAIT_S = 0.2
EVERYTHING = KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=True)


class OneWriter(Product):
    """A product with one writer at a time, which each process takes over when it lost it."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._dice = random.Random(os.getpid())

    def append(self, ids: range) -> None:
        for _ in range(TAKE_OVERS_MAX - 1):
            try:
                return self.put(ids)
            except Exception as error:
                if not self.lost(error):
                    raise
                # Whoever took over gets some work done first.
                time.sleep(self._dice.random() * TAKE_OVER_WAIT_S)
        return self.put(ids)

    def put(self, ids: range) -> None:
        """Add rows through the writer of this process, and open it where there is none."""
        raise NotImplementedError

    def lost(self, error: Exception) -> bool:
        """Whether another one is the writer now; this one's is let go of."""
        raise NotImplementedError


class SiltstoneShard(OneWriter, Siltstone):
    """The writer of a shard, one at a time."""

    knobs = {"key": "id", "shards": 1}  # noqa: RUF012 - read only
    decides = "wal/entries/"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._writer: ss.ShardWriter | None = None

    def put(self, ids: range) -> None:
        if self._writer is None:
            self._writer = self.table.shard(0).writer()
        self._writer.put(rows_of(ids))

    def versions(self) -> int | None:
        return None

    def lost(self, error: Exception) -> bool:
        self._writer = None
        return isinstance(error, ss.errors.FencedError)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class SiltstoneShardCommits(SiltstoneShard, SiltstoneCommits):
    """The same, where a commit store decides for the shard too."""


class Slate(OneWriter):
    """SlateDB, one writer at a time; its Python package takes S3's address and keys from the environment."""

    package, decides = "slatedb", "wal/"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        os.environ.update({name.upper(): value for name, value in place.options.items()})
        self.wait: Callable[[Any], Any] = asyncio.Runner().run
        self._db: Any = None

    def create(self) -> None:
        self.wait(self._opened())
        self.close()

    async def _opened(self) -> Any:
        if self._db is None:
            self._db = await self.builder().build()
        return self._db

    def builder(self) -> DbBuilder:
        return DbBuilder(self.place.name, ObjectStore.resolve("s3://bkt"))

    def put(self, ids: range) -> None:
        self.wait(self._put(ids))

    async def _put(self, ids: range) -> None:
        db = await self._opened()
        batch = WriteBatch()
        for one in ids:
            batch.put(one.to_bytes(8), f"row {one:015d}".encode())
        handle = await db.write(batch)
        # At once, not at the next tick of 100 ms: the sooner it is durable, the fewer are fenced meanwhile.
        await db.flush_with_options(FlushOptions(flush_type=FlushType.WAL))
        await handle.await_durable()

    def lost(self, error: Exception) -> bool:
        self._db = None
        return isinstance(error, Error.Closed) and error.reason == CloseReason.FENCED

    def ids(self) -> list[int]:
        return self.wait(self._ids())  # type: ignore[no-any-return]

    async def _ids(self) -> list[int]:
        rows = await (await self._opened()).scan(EVERYTHING)
        found: list[int] = []
        while batch := await rows.next_batch(10_000):
            found += [int.from_bytes(row.key) for row in batch]
        return found

    def close(self) -> None:
        if self._db is not None:
            self.wait(self._db.shutdown())
            self._db = None
