"""The peers of a shard writer, driven alike: Lance's ShardWriter and SlateDB, each in a directory of its own."""

from __future__ import annotations

import asyncio
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from slatedb.uniffi import DbBuilder, FlushOptions, FlushType, ObjectStore

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYED = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("payload", pa.string())])
LANCE_SCHEMA = pa.schema([SCHEMA.field(0).with_metadata(KEYED), SCHEMA.field(1), SCHEMA.field(2)])


def rows(start: int, count: int) -> pa.RecordBatch:
    """Rows with new keys: 8 + 20 + 100 bytes each."""
    ids = pa.array(range(start, start + count), pa.int64())
    names = pa.array([f"name-{number:015d}" for number in range(start, start + count)])
    payloads = pa.array([f"{number:020d}" * 5 for number in range(start, start + count)])
    return pa.RecordBatch.from_arrays([ids, names, payloads], schema=SCHEMA)


@contextmanager
def ours(where: Path, *, sync: bool = False, uri: str | None = None, **knobs: Any) -> Iterator[ss.ShardWriter]:
    """The writer of a table with one shard."""
    with (
        ss.create(uri or where / "ours", schema=SCHEMA, key="id", shards=1, sync=sync) as table,
        table.shard(0).writer(ss.ShardWriterConfig(**knobs)) as writer,
    ):
        yield writer


def lance_dataset(where: Path, first: pa.Table | None = None) -> lance.LanceDataset:
    """A table of Lance's that takes shard writers."""
    table = pa.Table.from_batches([rows(-1, 1)]) if first is None else first
    dataset = lance.write_dataset(table.cast(LANCE_SCHEMA), str(where / "lance"))
    dataset.initialize_mem_wal()
    return dataset


@contextmanager
def lances(where: Path, **knobs: Any) -> Iterator[Any]:
    """Lance's writer."""
    with lance_dataset(where).mem_wal_writer(str(uuid.uuid4()), **knobs) as writer:
        yield writer


class Slate:
    """SlateDB, whose calls are coroutines, for callers that wait."""

    def __init__(self, where: Path) -> None:
        (where / "slate").mkdir()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.db = self.wait(DbBuilder(str(where / "slate"), ObjectStore.resolve("file:///")).build())

    def wait(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(_awaited(call), self._loop).result()

    def put(self, key: bytes, value: bytes) -> None:
        """A durable put."""

        async def work() -> None:
            handle = await self.db.put(key, value)
            await handle.await_durable()

        self.wait(work())

    def fill(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Puts that are not waited for, then a flush."""

        async def work() -> None:
            for key, value in pairs:
                await self.db.put(key, value)
            await self.db.flush_with_options(FlushOptions(flush_type=FlushType.WAL))

        self.wait(work())

    def get_all(self, keys: list[bytes]) -> int:
        """Gets one after another, without a hop between threads for each; how many were found."""

        async def work() -> int:
            found = 0
            for key in keys:
                found += await self.db.get(key) is not None
            return found

        return int(self.wait(work()))

    def close(self) -> None:
        self.wait(self.db.shutdown())
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _awaited(call: Any) -> Any:
    return await call
