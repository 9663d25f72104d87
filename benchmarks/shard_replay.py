"""What opening a shard after a crash costs, and what reading rows costs that are not merged, beside Lance and SlateDB.

``--only PART`` runs one of: near, far, reads, memory.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from common import Target, alternate, seconds, tell
from lance.mem_wal import LsmPointLookupPlanner, LsmScanner, ShardSnapshot
from shard_peers import LANCE_SCHEMA, SCHEMA, Slate, lance_dataset, rows

import siltstone as ss
from siltstone.format.table import Cursor
from siltstone.paths import LOG, WAL, shard, shard_name
from siltstone.shard.wal import WalTailer
from siltstone.table.history import History
from siltstone.testing.s3server import Faults, FaultServer

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 100_000
ENTRIES = (10, 100, 1_000)
ROUNDS = 5
SCAN_ROUNDS = 15  # scans vary more from one to the next than their ratio may
LATENCY_MS = 10
LANCE_FAR_ENTRIES = 100  # enough to know what one costs
BASE_ROWS = 1_000_000
GENERATIONS = 3
FRESH_ROWS = 200_000
LOOKUPS = 300
MANY = 1_000_000  # never reached: what is put stays in the WAL


def unflushed(uri: Any, entries: int, *, storage_options: dict[str, str] | None = None, total: int = ROWS) -> None:
    """A table whose one shard has all its rows in the WAL: its writer was killed."""
    table = ss.create(
        uri, schema=SCHEMA, key="id", shards=1, sync=False, storage_options=storage_options, guard="receipt"
    )
    config = ss.ShardWriterConfig(max_memtable_rows=MANY, max_memtable_batches=10_000, max_memtable_size=2**30)
    writer = table.shard(0).writer(config)
    each = total // entries
    for number in range(entries):
        writer.put(rows(number * each, each))
    # Neither is closed: that is what a crash leaves.


def lance_unflushed(where: Path, entries: int, *, total: int = ROWS) -> tuple[lance.LanceDataset, str]:
    """The same of Lance's."""
    dataset, shard = lance_dataset(where), str(uuid.uuid4())
    writer = dataset.mem_wal_writer(
        shard, max_wal_flush_interval_ms=1, max_memtable_rows=MANY, max_memtable_batches=10_000
    )
    each = total // entries
    for number in range(entries):
        writer.put(pa.table(rows(number * each, each)).cast(LANCE_SCHEMA))
    return dataset, shard


def read_tail(uri: Any, *, storage_options: dict[str, str] | None = None) -> float:
    """Seconds that the rows of a WAL take to read, by one who follows it."""
    store = ss.open_store(uri, storage_options, sync=False)
    state = History(ss.open_log(store, root=LOG)).newest()
    wal = ss.open_log(store, root=shard(shard_name(0, 0)) + WAL)
    return seconds(lambda: list(WalTailer(wal, after=Cursor()).read(state.schema)))


def opened(uri: Any, *, storage_options: dict[str, str] | None = None, expected: int = ROWS) -> float:
    """Seconds until a writer that takes the shard over has all rows in its memtable."""
    table = ss.open(uri, sync=False, storage_options=storage_options)
    config = ss.ShardWriterConfig(max_memtable_rows=MANY, max_memtable_batches=10_000, max_memtable_size=2**30)
    started = time.perf_counter()
    writer = table.shard(0).writer(config)
    took = time.perf_counter() - started
    if writer.memtable_stats().rows != expected:
        raise SystemExit(f"{writer.memtable_stats().rows} rows were replayed, not {expected}")
    return took


def lance_opened(dataset: lance.LanceDataset, shard: str) -> float:
    """The same of Lance's."""
    started = time.perf_counter()
    dataset.mem_wal_writer(shard, max_memtable_rows=MANY, max_memtable_batches=10_000)
    return time.perf_counter() - started


def near(where: Path) -> tuple[dict[str, Any], list[Target]]:
    """Opening a shard on a local disk, and following its WAL."""
    figures: dict[str, Any] = {}
    targets = []
    for entries in ENTRIES:
        here = where / str(entries)
        here.mkdir()
        unflushed(here / "ours", entries)
        dataset, shard = lance_unflushed(here, entries)
        found = alternate(
            ROUNDS,
            {
                "ours": lambda here=here: opened(here / "ours"),
                "lance": lambda dataset=dataset, shard=shard: lance_opened(dataset, shard),
                "tailer": lambda here=here: read_tail(here / "ours"),
            },
        )
        figures |= {f"{entries} entries, {name}, ms": took * 1000 for name, took in found.items()}
        targets.append(
            Target(f"open, {entries} entries: Lance's time / ours", found["lance"] / found["ours"], 1, at_least=True)
        )
    return {f"replay of {ROWS} rows": figures}, targets


def far(_: Path) -> tuple[dict[str, Any], list[Target]]:
    """Opening a shard with 1,000 entries on a store that takes 10 ms for a request."""
    entries = ENTRIES[-1]
    with FaultServer(Faults(), buckets=("bkt",)) as server:
        uri, options = "s3://bkt/ours", server.storage_options
        unflushed(uri, entries, storage_options=options)
        peer = f"s3://bkt/lance-{uuid.uuid4().hex[:8]}"
        dataset = lance.write_dataset(
            pa.Table.from_batches([rows(-1, 1)]).cast(LANCE_SCHEMA), peer, storage_options=options
        )
        dataset.initialize_mem_wal()
        shard = str(uuid.uuid4())
        writer = dataset.mem_wal_writer(
            shard, max_wal_flush_interval_ms=1, max_memtable_rows=MANY, max_memtable_batches=10_000
        )
        for number in range(LANCE_FAR_ENTRIES):
            writer.put(pa.table(rows(number * 100, 100)).cast(LANCE_SCHEMA))
        server.set(Faults(latency_ms=LATENCY_MS))
        mine = statistics.median(opened(uri, storage_options=options) for _ in range(3))
        empty = lance_opened(dataset, str(uuid.uuid4()))
        theirs = (lance_opened(dataset, shard) - empty) * entries / LANCE_FAR_ENTRIES + empty
    figures = {"ours, s": mine, f"lance, s, from {LANCE_FAR_ENTRIES} entries": theirs}
    return {f"replay of {entries} entries at {LATENCY_MS} ms a request": figures}, [
        Target("open at 10 ms a request: Lance's time / ours", theirs / mine, 20, at_least=True)
    ]


def layered(where: Path) -> tuple[ss.Table, lance.LanceDataset, str, list[int]]:
    """A base of rows, and three generations over it that are not merged: half of their keys are in the base."""
    base = pa.Table.from_batches([rows(0, BASE_ROWS)])
    table = ss.create(where / "ours", schema=SCHEMA, key="id", shards=1, sync=False)
    table.append(base)
    dataset = lance_dataset(where, base)
    shard = str(uuid.uuid4())
    each = FRESH_ROWS // GENERATIONS
    writer = table.shard(0).writer(ss.ShardWriterConfig(max_memtable_rows=MANY, max_memtable_size=2**30))
    peer = dataset.mem_wal_writer(shard, max_memtable_rows=each, durable_write=False)
    dice = random.Random(7)
    asked: list[int] = []
    for number in range(GENERATIONS):
        old = sorted(dice.sample(range(BASE_ROWS), each // 2))
        fresh = list(range(BASE_ROWS + number * each, BASE_ROWS + number * each + each - len(old)))
        keys = old + fresh
        asked += dice.sample(keys, 100)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.int64()),
                pa.array([f"name-{one:015d}" for one in keys]),
                pa.array(["y" * 100] * len(keys)),
            ],
            schema=SCHEMA,
        )
        writer.put(batch)
        writer.freeze()
        writer.flush_memtables()
        peer.put(pa.table(batch).cast(LANCE_SCHEMA))
    peer.close()
    return table, dataset, shard, asked


def lance_snapshot(where: Path, shard: str) -> ShardSnapshot:
    """The generations that Lance has flushed, found on disk as its users must."""
    folder = next((where / "lance" / "_mem_wal").glob(f"{shard}*"))
    found = sorted(one for one in folder.iterdir() if one.is_dir() and "gen" in one.name)
    snapshot = ShardSnapshot(shard)
    for number, one in enumerate(found, 1):
        snapshot = snapshot.with_sstable(number, one.name)
    return snapshot.with_current_generation(len(found) + 1)


def reads(where: Path) -> tuple[dict[str, Any], list[Target]]:
    """Lookups and scans over rows that are not merged."""
    table, dataset, shard, asked = layered(where)
    snapshot = lance_snapshot(where, shard)
    planner = LsmPointLookupPlanner(dataset, [snapshot])
    kind = LANCE_SCHEMA.field(0).type

    def lookups(get: Callable[[int], Any]) -> float:
        keys = random.Random(3).sample(asked, min(LOOKUPS, len(asked)))
        started = time.perf_counter()
        for key in keys:
            if get(key) != 1:
                raise SystemExit(f"key {key} was not found")
        return len(keys) / (time.perf_counter() - started)

    rates = alternate(
        ROUNDS,
        {
            "ours": lambda: lookups(lambda key: table.get([key], fresh=True).num_rows),
            "lance": lambda: lookups(lambda key: planner.plan_lookup(pa.array([key], kind)).to_table().num_rows),
        },
    )
    fresh_rows = table.count(fresh=True)
    found = alternate(
        SCAN_ROUNDS,
        {
            "base": lambda: seconds(lambda: table.scan().to_arrow()),
            "fresh": lambda: seconds(lambda: table.scan(fresh=True).to_arrow()),
        },
    )
    found |= alternate(
        ROUNDS,
        {
            "lance base": lambda: seconds(dataset.to_table),
            "lance fresh": lambda: seconds(lambda: LsmScanner.from_snapshots(dataset, [snapshot]).to_table()),
        },
    )
    figures = {f"fresh lookups/s, {name}": rate for name, rate in rates.items()}
    figures |= {f"scan, {name}, ms": took * 1000 for name, took in found.items()}
    figures["rows of a fresh scan"] = fresh_rows
    return {f"{FRESH_ROWS} rows in {GENERATIONS} generations over {BASE_ROWS}": figures}, [
        Target("fresh lookups: ours / Lance", rates["ours"] / rates["lance"], 10, at_least=True),
        Target("fresh scan / base scan", found["fresh"] / found["base"], 1.5),
    ]


def memory(where: Path) -> tuple[dict[str, Any], list[Target]]:
    """Lookups of rows that are in the memtable, beside SlateDB's, whose rows are in memory too."""
    count = 10_000
    table = ss.create(where / "ours", schema=SCHEMA, key="id", shards=1, sync=False)
    writer = table.shard(0).writer()
    writer.put(rows(0, count))
    slate = Slate(where)
    slate.fill([(str(key).encode(), b"x" * 120) for key in range(count)])
    dice = random.Random(5)

    def ours() -> float:
        keys = dice.sample(range(count), 1000)
        started = time.perf_counter()
        for key in keys:
            writer.get([key])
        return len(keys) / (time.perf_counter() - started)

    def theirs() -> float:
        keys = [str(key).encode() for key in dice.sample(range(count), 1000)]
        started = time.perf_counter()
        slate.get_all(keys)
        return len(keys) / (time.perf_counter() - started)

    rates = alternate(ROUNDS, {"ours": ours, "slatedb": theirs})
    slate.close()
    return {"lookups of rows in memory, per second": rates}, [
        Target("lookups in the memtable: ours / SlateDB", rates["ours"] / rates["slatedb"], 1, at_least=True)
    ]


PARTS = {"near": near, "far": far, "reads": reads, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS))
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.only or PARTS:
            (Path(directory) / name).mkdir()
            found, promised = PARTS[name](Path(directory) / name)
            figures |= found
            targets += promised
    tell("shard_replay", figures, targets)


if __name__ == "__main__":
    main()
