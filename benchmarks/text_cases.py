"""The cases on a disk: building an index, its size, warm queries, and queries that see rows that are not flushed.

What must hold: each build has a process of its own; queries of all take turns in one.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from common import Target
from text_child import alone
from text_corpus import load
from text_peers import COLUMN, PEERS, Lance, Query, Siltstone, pieces, siltstone_ids

import siltstone as ss
from text_queries import PHRASE, draw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    Finder = Callable[[Query], list[int]]
    Times = dict[str, dict[str, list[float]]]  # seconds, by class of queries and who answers

Measured = tuple[dict[str, float], list[Target]]

PEAK_MB_MAX = 1_000
IN_A_ROW = 20  # queries of one before the other's turn
PUT_ROWS = 2_000


class Setting(NamedTuple):
    """What is measured, where, and how often."""

    directory: Path
    corpus: Path
    rows: int | None
    rounds: int
    queries: int
    fresh_rows: int
    peers: tuple[str, ...]

    def load(self) -> pa.Table:
        return load(self.corpus, self.rows)

    def place(self, name: str) -> Path:
        """Where one of them has its rows, without an index."""
        return self.directory / name

    def built(self, name: str) -> Path:
        """Where one of them has its rows and its index, which is made where it is not there yet."""
        place = self.directory / f"{name}-indexed"
        if not place.exists():
            shutil.copytree(self.place(name), place)
            alone(PEERS[name].build, place)
        return place


def prepare(setting: Setting) -> float:
    """Write the rows in everyone's format; how many megabytes of text they have."""
    rows = setting.load()
    for name in setting.peers:
        PEERS[name].write(setting.place(name), rows)
    return text_bytes(rows) / 1e6


def text_bytes(rows: pa.Table) -> int:
    """The bytes of all texts."""
    return int(pc.sum(pc.binary_length(rows[COLUMN])).as_py())


# -- building ------------------------------------------------------------------------------------


def measure_build(setting: Setting, megabytes: float) -> Measured:
    """Megabytes of text a second; those without positions do less."""
    rates: dict[str, list[float]] = {name: [] for name in setting.peers}
    works: dict[str, list[float]] = {name: [] for name in setting.peers}
    peaks: dict[str, float] = dict.fromkeys(setting.peers, 0.0)
    for number in range(setting.rounds):
        for name in setting.peers:
            if number and not PEERS[name].positions:
                continue  # several times slower than the others, and no part of a promise
            built = setting.directory / f"build-{name}"
            shutil.copytree(setting.place(name), built)
            done = alone(PEERS[name].build, built)
            rates[name].append(megabytes / done.seconds)
            works[name].append(done.cpu_seconds)
            peaks[name] = max(peaks[name], done.peak_mb)
            shutil.rmtree(built)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    figures = {f"{name}: MB/s": rate for name, rate in medians.items()}
    figures |= {f"{name}: MB per second of CPU": megabytes / statistics.median(work) for name, work in works.items()}
    figures |= {f"{name}: peak MB": peak for name, peak in peaks.items()}
    ours = Siltstone.name
    others = [rate for name, rate in medians.items() if name != ours and PEERS[name].positions]
    targets = [Target("build, peak MB", peaks[ours], PEAK_MB_MAX)]
    if others:
        targets.insert(
            0, Target("build, ratio to the fastest with positions", medians[ours] / max(others), 1, at_least=True)
        )
    return figures, targets


def measure_bytes(setting: Setting, megabytes: float) -> Measured:
    """Bytes of the index for each byte of text."""
    sizes = {name: PEERS[name].index_bytes(setting.built(name)) / 1e6 for name in setting.peers}
    figures = {f"{name}: index bytes per text byte": size / megabytes for name, size in sizes.items()}
    if Lance.name not in sizes:
        return figures, []
    return figures, [Target("index bytes, ratio to Lance's", sizes[Siltstone.name] / sizes[Lance.name], 0.7)]


# -- warm queries --------------------------------------------------------------------------------


def measure_query(setting: Setting, _: float) -> Measured:
    """Top 10 with their rows, warm: the best time of each query over the rounds, then quantiles over queries.

    Warm means that each query was asked before, so rows may come from memory: what it took then is told beside it.
    """
    for name in setting.peers:
        setting.built(name)
    times, firsts, shared = alone(_queried, setting).value
    figures: dict[str, float] = {}
    targets = []
    for kind in times:
        told = {name: quantiles(spent) for name, spent in times[kind].items()}
        for name, (p50, p95) in told.items():
            figures |= {f"{kind}, {name}: ms p50": p50, f"{kind}, {name}: ms p95": p95}
            figures[f"{kind}, {name}: ms p50 when first asked"] = quantiles(firsts[kind][name])[0]
        if Lance.name in told:
            figures[f"{kind}: share of Lance's ten that are ours"] = shared[kind]
            for label, ours, lances in zip(("p50", "p95"), told[Siltstone.name], told[Lance.name], strict=True):
                targets.append(Target(f"query, {kind}, {label}, ratio to Lance", lances / ours, 1, at_least=True))
    return figures, targets


def quantiles(spent: list[float]) -> tuple[float, float]:
    """The median and what 95 % stay below, in milliseconds."""
    return float(np.quantile(spent, 0.5)) * 1000, float(np.quantile(spent, 0.95)) * 1000


def _queried(setting: Setting) -> tuple[Times, Times, dict[str, float]]:
    """Times of each query when all were asked before, and when it was asked first; what all found in common."""
    finders: dict[str, Finder] = {name: PEERS[name].finder(setting.built(name)) for name in setting.peers}
    times: Times = {}
    firsts: Times = {}
    shared: dict[str, float] = {}
    for kind, queries in draw(setting.load(), each=setting.queries).items():
        able = {name: find for name, find in finders.items() if kind != PHRASE or PEERS[name].positions}
        found, firsts[kind] = first_times(able, queries)  # and all are warm
        check_found(kind, queries, found)
        if Lance.name in found:
            shared[kind] = overlap(found[Siltstone.name], found[Lance.name])
        times[kind] = best_times(able, queries, rounds=setting.rounds)
    return times, firsts, shared


def first_times(
    finders: dict[str, Finder], queries: list[Query]
) -> tuple[dict[str, list[list[int]]], dict[str, list[float]]]:
    """What each query finds, and the seconds that it takes, while all take turns."""
    found: dict[str, list[list[int]]] = {name: [] for name in finders}
    spent: dict[str, list[float]] = {name: [] for name in finders}
    for start in range(0, len(queries), IN_A_ROW):
        for name, find in finders.items():
            for query in queries[start : start + IN_A_ROW]:
                started = time.perf_counter()
                found[name].append(find(query))
                spent[name].append(time.perf_counter() - started)
    return found, spent


def best_times(finders: dict[str, Finder], queries: list[Query], *, rounds: int) -> dict[str, list[float]]:
    """The least seconds of each query, over rounds in which all take turns."""
    spent = {name: np.full(len(queries), np.inf) for name in finders}
    for _ in range(rounds):
        for start in range(0, len(queries), IN_A_ROW):
            for name, find in finders.items():
                for number, query in enumerate(queries[start : start + IN_A_ROW], start):
                    started = time.perf_counter()
                    find(query)
                    spent[name][number] = min(spent[name][number], time.perf_counter() - started)
    return {name: found.tolist() for name, found in spent.items()}


def check_found(kind: str, queries: list[Query], found: dict[str, list[list[int]]]) -> None:
    """Every query comes from a text, which siltstone must find something like."""
    for query, ids in zip(queries, found[Siltstone.name], strict=True):
        assert ids, (kind, query)


def overlap(ours: list[list[int]], theirs: list[list[int]]) -> float:
    """The share of their rows that are among ours: below 1 by ties, and where words are cut otherwise."""
    pairs = zip(ours, theirs, strict=True)
    hits = sum(len(set(mine) & set(their)) for mine, their in pairs)
    return hits / max(sum(map(len, theirs)), 1)


# -- rows that are not flushed -------------------------------------------------------------------


def measure_fresh(setting: Setting, _: float) -> Measured:
    """A search that sees rows of a shard that are in its WAL and memory alone, beside one of the indexed rows."""
    times, rows = alone(_searched_fresh, setting).value
    figures: dict[str, float] = {"rows that are not flushed": rows}
    targets = []
    for kind, spent in times.items():
        told = {name: quantiles(found) for name, found in spent.items()}
        for name, (p50, p95) in told.items():
            figures |= {f"{kind}, {name}: ms p50": p50, f"{kind}, {name}: ms p95": p95}
        base = told["indexed"]
        for name in ("writer", "another handle"):
            for label, fresh, indexed in zip(("p50", "p95"), told[name], base, strict=True):
                targets.append(Target(f"fresh, {kind}, {name}, {label} / indexed", fresh / indexed, 3))
    return figures, targets


def _searched_fresh(setting: Setting) -> tuple[dict[str, dict[str, list[float]]], int]:
    rows = setting.load()
    count = min(setting.fresh_rows, len(rows) // 2)
    if count < setting.fresh_rows:
        print(f"  the corpus has rows for {count:,} fresh ones, not {setting.fresh_rows:,}", file=sys.stderr)
    place = setting.directory / "fresh"
    indexed, fresh = rows.slice(0, len(rows) - count), rows.slice(len(rows) - count)
    # Nothing is flushed before the end.
    knobs = ss.ShardWriterConfig(
        max_memtable_size=1 << 30,
        max_memtable_rows=2 * count,
        max_unflushed_memtable_bytes=1 << 32,
        durable_write=False,
    )
    with ss.create(place, schema=rows.schema, key="id", shards=1, sync=False) as table:
        for part in pieces(indexed):
            table.append(part)
        table.create_text_index(COLUMN)
        with table.shard(0).writer(knobs) as writer:
            for start in range(0, count, PUT_ROWS):
                writer.put(fresh.slice(start, PUT_ROWS))
            writer.flush()  # to the WAL
            other = ss.open(place, sync=False)
            finders: dict[str, Finder] = {
                "indexed": partial(siltstone_ids, table.at(version=table.version).search),
                "writer": partial(siltstone_ids, writer.search),
                "another handle": partial(siltstone_ids, partial(other.search, fresh=True)),
            }
            times = {}
            for kind, queries in draw(fresh, each=setting.queries).items():
                found = {name: [find(query) for query in queries] for name, find in finders.items()}
                assert found["writer"] == found["another handle"], kind
                assert any(key >= len(indexed) for ids in found["writer"] for key in ids), kind
                times[kind] = best_times(finders, queries, rounds=setting.rounds)
            return times, count


CASES: dict[str, Any] = {
    "build": measure_build,
    "bytes": measure_bytes,
    "query": measure_query,
    "fresh": measure_fresh,
}
