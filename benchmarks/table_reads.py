"""Reads and keyed writes: scans beside readers of the same Parquet files, upserts, lookups, memory."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from common import SPAWN, Target, alternate, seconds
from table_peers import SILTSTONE, Place, create, lance_upsert, open_table
from table_rows import data_files, make_many, make_rows

if TYPE_CHECKING:
    from collections.abc import Callable

UPSERTED = 0.1
IN_A_ROW = 50  # lookups of one before the other's turn: a hot handle is one that was used just now
CHILD_SECONDS_MAX = 120.0
STATUS = Path("/proc/self/status")


def fill(place: Place, *, rows: int) -> None:
    """A table of this many rows, by a few large appends."""
    create(place)
    with open_table(place) as table:
        for batch in make_many(rows):
            table.append(batch)


def best(rounds: int, works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least seconds of each work, over rounds in which all take turns: what else the machine does only adds."""
    timed: dict[str, Callable[[], float]] = {name: partial(seconds, work) for name, work in works.items()}
    found = [alternate(1, timed) for _ in range(rounds)]
    return {name: min(figures[name] for figures in found) for name in works}


# -- scans ---------------------------------------------------------------------------------------


class Query(NamedTuple):
    """A scan, as everyone can be asked for it."""

    columns: list[str] | None = None
    where: str | None = None
    expression: pc.Expression | None = None

    @property
    def sql(self) -> str:
        chosen = ", ".join(self.columns or ["*"])
        return f"SELECT {chosen} FROM read_parquet($files)" + (f" WHERE {self.where}" if self.where else "")


def queries(rows: int) -> dict[str, Query]:
    low, high = rows // 2, rows // 2 + rows // 100
    in_range = (pc.field("id") >= low) & (pc.field("id") < high)
    return {
        "full": Query(),
        "two columns": Query(columns=["id", "name"]),
        "1 % by a random column": Query(where="grp = 7", expression=pc.field("grp") == 7),
        "1 % by a range of keys": Query(where=f"id >= {low} AND id < {high}", expression=in_range),
    }


def measure_scans(place: Place, *, rows: int, rounds: int) -> tuple[dict[str, float], list[Target]]:
    """Scans of a table, and of its files by pyarrow and DuckDB, all to an Arrow table."""
    files = data_files(Path(place.uri))
    connection = duckdb.connect()
    figures: dict[str, float] = {}
    targets = []
    with open_table(place) as table:
        for name, query in queries(rows).items():
            readers: dict[str, Callable[[], object]] = {
                "siltstone": lambda q=query: table.scan(columns=q.columns, where=q.where).to_arrow(),
                "pyarrow.parquet": lambda q=query: pq.read_table(files, columns=q.columns, filters=q.expression),
                "pyarrow.dataset": lambda q=query: pads.dataset(files).to_table(q.columns, filter=q.expression),
                "DuckDB": lambda q=query: connection.sql(q.sql, params={"files": files}).to_arrow_table(),
            }
            check_same(name, {reader: read() for reader, read in readers.items()})
            spent = best(rounds, readers)
            figures |= {f"{name}, {reader}: ms": span * 1000 for reader, span in spent.items()}
            least = min(span for reader, span in spent.items() if reader != SILTSTONE)
            targets.append(Target(f"scan, {name}, ratio to the best", least / spent[SILTSTONE], 0.95, at_least=True))
    return figures, targets


def check_same(name: str, found: dict[str, pa.Table]) -> None:
    shapes = {reader: (table.shape, pc.sum(table["id"]).as_py()) for reader, table in found.items()}
    assert len(set(shapes.values())) == 1, (name, shapes)


# -- memory --------------------------------------------------------------------------------------


def measure_memory(place: Place, *, rows: int) -> tuple[dict[str, float], list[Target]]:
    """The most memory that a scan by batches holds beyond what its process held before it."""
    if not STATUS.exists():
        print(f"memory is measured through {STATUS}, which this system does not have", file=sys.stderr)
        return {}, []
    figures = {
        "siltstone: MB": in_child(scan_batches, place, rows),
        "pyarrow.dataset: MB": in_child(dataset_batches, place, rows),
    }
    return figures, [Target(f"MB at most, scan of {rows:,} rows", figures["siltstone: MB"], 300)]


def scan_batches(place: Place) -> Callable[[], int]:
    scan = open_table(place).scan()
    return lambda: sum(batch.num_rows for batch in scan.to_batches())


def dataset_batches(place: Place) -> Callable[[], int]:
    dataset = pads.dataset(data_files(Path(place.uri)))
    return lambda: sum(batch.num_rows for batch in dataset.to_batches())


def in_child(prepare: Callable[[Place], Callable[[], int]], place: Place, rows: int) -> float:
    here, there = SPAWN.Pipe()
    child = SPAWN.Process(target=_measured_child, args=(prepare, place, there))
    child.start()
    try:
        assert here.poll(CHILD_SECONDS_MAX), "the child that scans did not answer"
        count, megabytes = here.recv()
    finally:
        child.join(5)
        if child.is_alive():
            child.kill()
            child.join()
    assert count == rows, count
    return float(megabytes)


def _measured_child(prepare: Callable[[Place], Callable[[], int]], place: Place, answer: Any) -> None:
    work = prepare(place)
    with contextlib.suppress(OSError):  # some containers forbid it
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here, not from the imports
    before = _status("VmRSS")
    count = work()
    answer.send((count, (_status("VmHWM") - before) / 1e6))


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


# -- upserts and lookups -------------------------------------------------------------------------


class Keyed:
    """A table with a key beside Lance's, both with the same rows; each upsert starts from a copy of them.

    Lance is upserted without an index on the key, which was the faster way, and looked up with one.
    """

    def __init__(self, directory: Path, *, rows: int, rounds: int) -> None:
        self.directory = directory
        self.rows = rows
        self.rounds = rounds
        self.ours = Place(SILTSTONE, str(directory / "ours"), key="id")
        fill(self.ours, rows=rows)
        lance.write_dataset(pa.concat_tables(make_many(rows)), self._lance("lance"))
        shutil.copytree(self._lance("lance"), self._lance("lance-indexed"))
        lance.dataset(self._lance("lance-indexed")).create_scalar_index("id", "BTREE")
        ids = np.random.default_rng(1).choice(rows, int(rows * UPSERTED), replace=False)
        self.changed = make_rows(ids, seed=2)

    def _lance(self, name: str) -> str:
        return str(self.directory / name)

    def copy(self, name: str, *, number: int, sync: bool = False) -> Place:
        """A copy of siltstone's table, or of Lance's, to be changed."""
        target = self.directory / f"{name}-{number}{'-synced' if sync else ''}"
        shutil.copytree(self.directory / name, target)
        return self.ours._replace(uri=str(target), sync=sync)

    def measure_upsert(self) -> tuple[dict[str, float], list[Target]]:
        """Replacing a tenth of the rows, and scanning all afterwards."""
        numbers = iter(range(3 * self.rounds))

        def ours(*, sync: bool) -> float:
            with open_table(self.copy("ours", number=next(numbers), sync=sync)) as table:
                return seconds(lambda: table.upsert(self.changed))

        def lances() -> float:
            dataset = lance.dataset(self.copy("lance", number=next(numbers)).uri)
            return seconds(lambda: lance_upsert(dataset, self.changed))

        works: dict[str, Callable[[], float]] = {
            "siltstone, not synced: s": partial(ours, sync=False),
            "Lance: s": lances,
            "siltstone, synced: s": partial(ours, sync=True),
        }
        figures = alternate(self.rounds, works)
        ratio = figures["Lance: s"] / figures["siltstone, not synced: s"]
        figures |= self._scans_around()
        slower = figures["siltstone, scan after: ms"] / figures["siltstone, scan before: ms"]
        figures["Lance, scan after to before"] = figures["Lance, scan after: ms"] / figures["Lance, scan before: ms"]
        return figures, [
            Target("upsert of 10 %, ratio to Lance", ratio, 0.8, at_least=True),
            Target("full scan after the upsert to before", slower, 1.15),
        ]

    def _scans_around(self) -> dict[str, float]:
        changed = self.copy("ours", number=-1)
        lance_changed = lance.dataset(self.copy("lance", number=-1).uri)
        lance_upsert(lance_changed, self.changed)
        lance_before = lance.dataset(self._lance("lance"))
        with open_table(self.ours) as before, open_table(changed) as after:
            after.upsert(self.changed)
            check_same("scans around an upsert", {"ours": after.scan().to_arrow(), "lance": lance_changed.to_table()})
            works: dict[str, Callable[[], object]] = {
                "siltstone, scan before: ms": lambda: before.scan().to_arrow(),
                "siltstone, scan after: ms": lambda: after.scan().to_arrow(),
                "Lance, scan before: ms": lance_before.to_table,
                "Lance, scan after: ms": lance_changed.to_table,
            }
            spent = best(7 * self.rounds, works)
        return {name: span * 1000 for name, span in spent.items()}

    def measure_lookup(self, *, lookups: int) -> tuple[dict[str, float], list[Target]]:
        """One row by its key on a handle that is used again and again."""
        dataset = lance.dataset(self.copy("lance-indexed", number=-2).uri)
        with open_table(self.copy("ours", number=-2)) as table:
            works: dict[str, Callable[[int], pa.Table]] = {
                "siltstone": lambda key: table.get([key]),
                "Lance": lambda key: dataset.to_table(filter=f"id = {key}"),
            }
            figures = self._lookups(works, "before", lookups=lookups, seed=3)
            lance_upsert(dataset, self.changed)
            table.upsert(self.changed)
            figures |= self._lookups(works, "after", lookups=lookups, seed=4)
        ratio = figures["Lance after: ms p50"] / figures["siltstone after: ms p50"]
        return figures, [
            Target("lookup before the upsert, ms p50", figures["siltstone before: ms p50"], 1),
            Target("lookup after the upsert, ms p50", figures["siltstone after: ms p50"], 1),
            Target("lookup after the upsert, ratio to Lance", ratio, 3, at_least=True),
        ]

    def _lookups(
        self, works: dict[str, Callable[[int], pa.Table]], when: str, *, lookups: int, seed: int
    ) -> dict[str, float]:
        spent: dict[str, list[float]] = {name: [] for name in works}
        keys = np.random.default_rng(seed).integers(0, self.rows, lookups).tolist()
        for start in range(0, lookups, IN_A_ROW):
            for name, look in works.items():
                for key in keys[start : start + IN_A_ROW]:
                    started = time.perf_counter()
                    found = look(key)
                    spent[name].append((time.perf_counter() - started) * 1000)
                    assert found["id"].to_pylist() == [key], (name, key, found)
        figures = {}
        for name, times in spent.items():
            figures[f"{name} {when}: ms p50"] = statistics.median(times)
            figures[f"{name} {when}: ms p99"] = float(np.quantile(times, 0.99))
            figures[f"{name} {when}: ms of the first"] = times[0]
        return figures
