"""Products that keep rows on S3, behind the three calls that the fault cases need: make, append, read all.

What must hold:
- Each is set up as its own documentation says for an S3-compatible store, and nothing is turned off.
- ``append`` returns only where the product said that the rows are kept, and raises what the product raised.
- A product with one writer at a time is taken over by whoever is told that it is not the writer any more. That is no
  error: the rows have keys, so putting them again changes nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import time
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import deltalake
import pyarrow as pa
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

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("payload", pa.string())])
ROWS = 100  # of an append
TAKE_OVERS_MAX = 200
TAKE_OVER_WAIT_S = 0.2
EVERYTHING = KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=True)


class Place(NamedTuple):
    """Where a table is: its name below a bucket, how the server is reached, and where a commit store would be."""

    name: str
    options: dict[str, str]
    commits: str

    @property
    def uri(self) -> str:
        return f"s3://bkt/{self.name}"


def ids_of(writer: int, number: int) -> range:
    """The ids of one append; no two appends share any."""
    start = (writer * 10_000 + number) * ROWS
    return range(start, start + ROWS)


def rows_of(ids: range) -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), pa.array([f"row {one:015d}" for one in ids])], schema=SCHEMA)


class Product:
    """A product by name; a handle of it belongs to one process."""

    package = "siltstone"
    decides = "entries/"  # in the keys of the objects whose creation decides that rows are kept

    def __init__(self, place: Place) -> None:
        self.place = place

    @classmethod
    def version(cls) -> str:
        return version(cls.package)

    def create(self) -> None:
        """Make an empty table."""
        raise NotImplementedError

    def append(self, ids: range) -> None:
        """Add rows."""
        raise NotImplementedError

    def ids(self) -> list[int]:
        """The ids of all rows, as often as they are there."""
        raise NotImplementedError

    def versions(self) -> int | None:
        """How many were committed behind the first; None where the product has none."""
        return None

    def close(self) -> None:
        """Let go of it."""


class Lance(Product):
    """Its default way to commit on S3: the manifest is created only if it is absent."""

    package, decides = "pylance", "_versions/"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        # Only in processes that need it: it brings pandas, which takes longer to import than all others together.
        self._lance = importlib.import_module("lance")

    def create(self) -> None:
        self._lance.write_dataset(SCHEMA.empty_table(), self.place.uri, storage_options=self.place.options)

    def append(self, ids: range) -> None:
        self._lance.write_dataset(rows_of(ids), self.place.uri, mode="append", storage_options=self.place.options)

    def ids(self) -> list[int]:
        return self._dataset().to_table(columns=["id"])["id"].to_pylist()  # type: ignore[no-any-return]

    def versions(self) -> int | None:
        return self._dataset().version - 1  # type: ignore[no-any-return]

    def _dataset(self) -> Any:
        return self._lance.dataset(self.place.uri, storage_options=self.place.options)


class Delta(Product):
    """With the option that its pages on S3-compatible stores ask for."""

    package, decides = "deltalake", "_delta_log/"

    @property
    def _options(self) -> dict[str, str]:
        return self.place.options | {"aws_conditional_put": "etag"}

    def create(self) -> None:
        deltalake.write_deltalake(self.place.uri, SCHEMA.empty_table(), storage_options=self._options)

    def append(self, ids: range) -> None:
        deltalake.write_deltalake(self.place.uri, rows_of(ids), mode="append", storage_options=self._options)

    def ids(self) -> list[int]:
        return self._table().to_pyarrow_table(columns=["id"])["id"].to_pylist()  # type: ignore[no-any-return]

    def versions(self) -> int | None:
        return self._table().version()

    def _table(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.place.uri, storage_options=self._options)


class Siltstone(Product):
    """A table to which many append; the store decides."""

    knobs: dict[str, Any] = {}  # noqa: RUF012 - each kind replaces it as a whole

    def _reach(self) -> dict[str, Any]:
        return {"storage_options": self.place.options}

    def create(self) -> None:
        ss.create(self.place.uri, schema=SCHEMA, **self.knobs, **self._reach()).close()

    @cached_property
    def table(self) -> ss.Table:
        return ss.open(self.place.uri, **self._reach())

    def append(self, ids: range) -> None:
        self.table.append(rows_of(ids))

    def ids(self) -> list[int]:
        found = self.table.scan(columns=["id"], fresh="shards" in self.knobs).to_arrow()
        return found["id"].to_pylist()  # type: ignore[no-any-return]

    def versions(self) -> int | None:
        return self.table.version

    def repair(self) -> None:
        """What its pages say to do once it refuses to go on."""
        ss.repair(self.place.uri, **self._reach())


class SiltstoneCommits(Siltstone):
    """The same, where a commit store decides: SQLite, as the writers share a machine."""

    def _reach(self) -> dict[str, Any]:
        return super()._reach() | {"commits": self.place.commits}


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


PRODUCTS: dict[str, type[Product]] = {
    "pylance": Lance,
    "deltalake": Delta,
    "slatedb": Slate,
    "siltstone": Siltstone,
    "siltstone, commit store": SiltstoneCommits,
    "siltstone shard": SiltstoneShard,
    "siltstone shard, commit store": SiltstoneShardCommits,
}
