"""The numbers of shard writers: puts of one row and of many, from one caller and from many, beside Lance and SlateDB.

``--only PART`` runs one of: one, threads, rows, bytes. With ``--mode``, ``--batch-rows``, ``--threads``, ``--shards``
and ``--durable`` one set-up of your own is measured instead, without peers.
Lance and SlateDB sync no file, so siltstone is compared with ``sync=False``; the synced figure stands beside it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import Target, tell
from shard_peers import SCHEMA, Slate, lances, ours, rows

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

ROUNDS = 5
ONE_ROW_PUTS = 200  # a round
LANCE_ONE_ROW_PUTS = 10  # each waits for its ticker
THREADS = 32
THREAD_PUTS = 100  # of each thread in a round
LANCE_THREAD_PUTS = 1
MANY = {1_000: 100, 10_000: 30}  # rows of a put, and puts in a round
LANCE_MANY = {1_000: 8, 10_000: 8}  # where each waits for its ticker
RAW_ROW_BYTES = 8 + 20 + 100


def each_ms(put: Callable[[pa.RecordBatch], object], batches: list[pa.RecordBatch]) -> list[float]:
    """How long each put took."""
    took = []
    for batch in batches:
        started = time.perf_counter()
        put(batch)
        took.append((time.perf_counter() - started) * 1000)
    return took


class Keys:
    """New keys for each batch."""

    def __init__(self) -> None:
        self._next = 0

    def batches(self, count: int, batch_rows: int) -> list[pa.RecordBatch]:
        made = [rows(self._next + number * batch_rows, batch_rows) for number in range(count)]
        self._next += count * batch_rows
        return made


def one_row(where: Path) -> tuple[dict[str, Any], list[Target]]:
    """A durable put of one row by one caller."""
    keys = Keys()
    with ExitStack() as stack:
        sides: dict[str, tuple[Callable[[pa.RecordBatch], object], int]] = {}
        for name in ("ours", "synced", "wal only", "lance", "lance 1 ms"):
            (where / name).mkdir()
        sides["ours"] = stack.enter_context(ours(where / "ours")).put, ONE_ROW_PUTS
        sides["ours, synced"] = stack.enter_context(ours(where / "synced", sync=True)).put, ONE_ROW_PUTS
        sides["ours, WAL only"] = stack.enter_context(ours(where / "wal only", enable_memtable=False)).put, ONE_ROW_PUTS
        sides["lance"] = stack.enter_context(lances(where / "lance")).put, LANCE_ONE_ROW_PUTS
        quick = stack.enter_context(lances(where / "lance 1 ms", max_wal_flush_interval_ms=1))
        sides["lance, 1 ms"] = quick.put, ONE_ROW_PUTS
        slate = Slate(where)
        stack.callback(slate.close)
        found: dict[str, list[float]] = {name: [] for name in [*sides, "slatedb"]}
        for _ in range(ROUNDS):
            for name, (put, count) in sides.items():
                found[name] += each_ms(put, keys.batches(count, 1))
            found["slatedb"] += each_ms(
                lambda batch: slate.put(str(batch.column(0)[0].as_py()).encode(), b"x" * 120),
                keys.batches(LANCE_ONE_ROW_PUTS, 1),
            )
    p50 = {name: statistics.median(took) for name, took in found.items()}
    figures = {f"{name}, p50 ms": value for name, value in p50.items()}
    figures |= {f"{name}, p99 ms": statistics.quantiles(found[name], n=100)[98] for name in ("ours", "lance, 1 ms")}
    return {"durable put of one row": figures}, [
        Target("one row: Lance's time / ours", p50["lance"] / p50["ours"], 20, at_least=True),
        Target("one row: Lance's time at 1 ms / ours", p50["lance, 1 ms"] / p50["ours"], 1, at_least=True),
    ]


def threads(where: Path) -> tuple[dict[str, Any], list[Target]]:
    """Durable puts of one row from many threads on one writer."""
    keys = Keys()

    def run(pool: ThreadPoolExecutor, put: Callable[[pa.RecordBatch], object], each: int) -> float:
        lots = [keys.batches(each, 1) for _ in range(THREADS)]
        started = time.perf_counter()
        list(pool.map(lambda lot: [put(one) for one in lot], lots))
        return THREADS * each / (time.perf_counter() - started)

    with ExitStack() as stack:
        for name in ("ours", "lance"):
            (where / name).mkdir()
        writer = stack.enter_context(ours(where / "ours"))
        peer = stack.enter_context(lances(where / "lance"))
        pool = stack.enter_context(ThreadPoolExecutor(THREADS))
        ours_rate, lance_rate = [], []
        for _ in range(ROUNDS):
            ours_rate.append(run(pool, writer.put, THREAD_PUTS))
            lance_rate.append(run(pool, peer.put, LANCE_THREAD_PUTS))
        stats = writer.wal_stats()
    mine, theirs = statistics.median(ours_rate), statistics.median(lance_rate)
    stored = sum(one.stat().st_size for one in (where / "ours").rglob("wal/entries/*"))
    raw = ROUNDS * THREADS * THREAD_PUTS * RAW_ROW_BYTES
    figures = {
        "ours, puts/s": mine,
        "lance, puts/s": theirs,
        "ours, puts in an entry": stats.rows / stats.entries,
        "WAL bytes per raw byte": stored / raw,
    }
    return {f"durable puts of one row, {THREADS} threads": figures}, [
        Target(f"{THREADS} threads: ours / Lance", mine / theirs, 100, at_least=True),
        Target("WAL bytes per raw byte", stored / raw, 1.5),
    ]


def many_rows(where: Path) -> tuple[dict[str, Any], list[Target]]:
    """Puts of many rows by one caller, durable and not; closing the writer is part of the time where they are not."""
    keys = Keys()
    figures: dict[str, Any] = {}
    targets = []
    for batch_rows, count in MANY.items():
        for durable in (True, False):
            found: dict[str, list[float]] = {"ours": [], "lance": [], "lance, 1 ms": []}
            for number in range(ROUNDS):
                for name, rates in found.items():
                    here = where / f"{name}-{batch_rows}-{durable}-{number}"
                    here.mkdir()
                    knobs: dict[str, Any] = {"durable_write": durable}
                    if name == "lance, 1 ms":
                        knobs["max_wal_flush_interval_ms"] = 1
                    puts = LANCE_MANY[batch_rows] if name == "lance" and durable else count
                    batches = keys.batches(puts, batch_rows)
                    with ours(here, **knobs) if name == "ours" else lances(here, **knobs) as writer:
                        started = time.perf_counter()
                        for batch in batches:
                            writer.put(batch)
                        rates.append(puts * batch_rows / (time.perf_counter() - started))
            medians = {name: statistics.median(rates) for name, rates in found.items()}
            what = f"{'durable' if durable else 'not durable'}, {batch_rows} rows"
            figures |= {f"{what}, {name}, rows/s": rate for name, rate in medians.items()}
            targets.append(Target(f"{what}: ours / Lance", medians["ours"] / medians["lance"], 1, at_least=True))
    return {"puts of many rows": figures}, targets


PARTS = {"one": one_row, "threads": threads, "rows": many_rows}


def own(arguments: argparse.Namespace, where: Path) -> dict[str, Any]:
    """One set-up that the command line asks for."""
    config = ss.ShardWriterConfig(enable_memtable=arguments.mode == "memtable", durable_write=arguments.durable)
    keys = Keys()
    with (
        ss.create(where / "own", schema=SCHEMA, key="id", shards=arguments.shards, sync=arguments.sync) as table,
        table.writer(config) as writer,
        ThreadPoolExecutor(arguments.threads) as pool,
    ):
        lots = [keys.batches(arguments.puts, arguments.batch_rows) for _ in range(arguments.threads)]
        started = time.perf_counter()
        list(pool.map(lambda lot: [writer.put(one) for one in lot], lots))
        writer.flush()
        took = time.perf_counter() - started
    puts = arguments.threads * arguments.puts
    return {"own set-up": {"puts/s": puts / took, "rows/s": puts * arguments.batch_rows / took}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--mode", choices=("memtable", "wal"))
    parser.add_argument("--durable", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--batch-rows", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--puts", type=int, default=200, help="of each thread")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as directory:
        if arguments.mode:
            figures = own(arguments, Path(directory))
        for name in arguments.only or ([] if arguments.mode else PARTS):
            (Path(directory) / name).mkdir()
            found, promised = PARTS[name](Path(directory) / name)
            figures |= found
            targets += promised
    tell("shard_write", figures, targets)


if __name__ == "__main__":
    main()
