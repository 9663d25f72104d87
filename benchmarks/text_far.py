"""The cases away from this process: a cold query from S3, and a build on Spark's executors.

What must hold: requests are counted by the server for both sides alike. Rounds are counted by the clock: a server
that is slower by so much makes a query slower by as much for each request that had to wait for another one.
"""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import lance
import obstore
from common import Target, alternate, seconds
from obstore.store import S3Store
from text_child import alone
from text_peers import COLUMN, CORES, LIMIT, Lance, Query, Siltstone, lance_ids, siltstone_query

import siltstone as ss
from siltstone import paths
from siltstone.store.wrapper import StoreWrapper
from siltstone.testing.s3server import FaultServer
from text_queries import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from text_cases import Measured, Setting

BUCKET = "bkt"
LATENCY_MS = 150.0
COUNTED = 8  # queries of a class whose requests are counted
TIMED = 3  # queries of a class whose rounds are
INDEX_FOLDERS = {Siltstone.name: "/indexes/", Lance.name: "/_indices/"}


# -- cold queries from S3 ------------------------------------------------------------------------


class Watched(StoreWrapper):
    """Notes how many requests the server had seen when the first key outside of the indexes was read."""

    def __init__(self, inner: ss.Store, server: FaultServer) -> None:
        super().__init__(inner)
        self._server = server
        self._lock = threading.Lock()
        self.before_rows: int | None = None

    def _note(self, *keys: str) -> None:
        with self._lock:
            if self.before_rows is None and not all(key.startswith(paths.INDEXES) for key in keys):
                self.before_rows = self._server.stats().requests

    def get(self, key: str, **limits: int) -> bytes:
        self._note(key)
        return self.inner.get(key, **limits)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._note(key)
        return self.inner.get_ranges(key, ranges)

    def get_many(self, keys: Iterable[str], **limits: int) -> Iterator[bytes | None]:
        names = list(keys)
        self._note(*names)
        return self.inner.get_many(names, **limits)

    def head(self, key: str) -> Any:
        self._note(key)
        return self.inner.head(key)


class Cold(NamedTuple):
    """What one query asked for, on a handle that was opened and had not read anything of its index."""

    requests: int
    index_requests: int
    kilobytes: float
    seconds: float


def ask_siltstone(server: FaultServer, query: Query) -> Cold:
    """Rows with all columns. What was asked for before any row was is the index's."""
    metered = ss.open_store(f"s3://{BUCKET}/{Siltstone.name}", server.storage_options)
    store = Watched(metered, server)
    with ss.open(store) as opened:
        table = opened.at(version=opened.version)
        server.reset_stats()
        metered.reset()
        store.before_rows = None
        started = time.perf_counter()
        rows = len(table.search(COLUMN, siltstone_query(query), limit=LIMIT).to_arrow())
        took = time.perf_counter() - started
        asked, usage = server.stats().requests, metered.usage()
    assert rows, query
    assert asked <= usage.total, (asked, usage)  # ranges that lie near each other are one request
    return Cold(asked, store.before_rows or asked, usage.bytes_in / 1000, took)


def ask_lance(server: FaultServer, query: Query) -> Cold:
    """Rows with all columns; then row ids alone, on another handle, for which no row is read."""
    counts = []
    took = 0.0
    for columns in ([], None):
        dataset = lance.dataset(f"s3://{BUCKET}/{Lance.name}", storage_options=server.storage_options)
        server.reset_stats()
        started = time.perf_counter()
        if columns is None:
            lance_ids(dataset, query)
        else:
            lance_row_ids(dataset, query)
        took = time.perf_counter() - started
        counts.append(server.stats().requests)
    return Cold(counts[1], counts[0], 0.0, took)


def lance_row_ids(dataset: Any, query: Query) -> None:
    kind = lance.query.PhraseQuery if query.phrase else lance.query.MatchQuery
    asked = kind(query.text, COLUMN)
    dataset.scanner(columns=["_rowid", "_score"], full_text_query=asked, limit=LIMIT).to_table()


def rounds_of(ask: Callable[[Query], Cold], server: FaultServer, query: Query, match: str) -> float:
    """Rounds of requests for keys that have ``match`` in them."""
    server.set(latency_ms=0.0, latency_match="")
    fast = ask(query).seconds
    server.set(latency_ms=LATENCY_MS, latency_match=match)
    slow = ask(query).seconds
    server.set(latency_ms=0.0, latency_match="")
    return (slow - fast) * 1000 / LATENCY_MS


def measure_cold(setting: Setting, _: float) -> Measured:
    """Requests and rounds of the first query on a handle."""
    figures: dict[str, float] = {}
    targets = []
    with FaultServer(buckets=(BUCKET,)) as server:
        asks = {Siltstone.name: partial(ask_siltstone, server), Lance.name: partial(ask_lance, server)}
        asks = {name: ask for name, ask in asks.items() if name in setting.peers}
        for name in asks:
            upload(server, setting.built(name), name)
        for kind, queries in draw(setting.load(), each=COUNTED).items():
            found = {name: [ask(query) for query in queries] for name, ask in asks.items()}
            for name, cold in found.items():
                figures[f"{kind}, {name}: requests"] = statistics.mean(one.requests for one in cold)
                figures[f"{kind}, {name}: requests of the index"] = statistics.mean(one.index_requests for one in cold)
                for label, match in (("rounds", ""), ("rounds of the index", INDEX_FOLDERS[name])):
                    rounds = [rounds_of(asks[name], server, query, match) for query in queries[:TIMED]]
                    figures[f"{kind}, {name}: {label}"] = round(statistics.median(rounds), 1)
            kilobytes = statistics.mean(one.kilobytes for one in found[Siltstone.name])
            figures[f"{kind}, {Siltstone.name}: KB read"] = kilobytes
            targets += cold_targets(kind, figures)
    return figures, targets


def cold_targets(kind: str, figures: dict[str, float]) -> list[Target]:
    rounds = round(figures[f"{kind}, {Siltstone.name}: rounds of the index"])
    targets = [Target(f"cold, {kind}, rounds of the index", rounds, 3)]
    for label in ("requests of the index", "requests"):
        if f"{kind}, {Lance.name}: {label}" in figures:
            share = figures[f"{kind}, {Siltstone.name}: {label}"] / figures[f"{kind}, {Lance.name}: {label}"]
            targets.append(Target(f"cold, {kind}, {label}, share of Lance's", share, 0.25))
    return targets


def upload(server: FaultServer, directory: Path, name: str) -> None:
    """The files of a table, under the same names."""
    store = S3Store(BUCKET, **server.obstore_options)
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            key = f"{name}/{path.relative_to(directory).as_posix()}"
            obstore.put(store, key, path.read_bytes(), use_multipart=False)


# -- builds on Spark -----------------------------------------------------------------------------


def measure_spark(setting: Setting, megabytes: float) -> Measured:
    """A build in tasks beside one by threads of this machine, with the same cores."""
    return alone(_on_spark, setting, megabytes).value  # type: ignore[no-any-return]


def _on_spark(setting: Setting, megabytes: float) -> Measured:
    spark = ss.spark.session(master=f"local[{CORES}]", app="siltstone-bench")

    def build(*, far: bool) -> float:
        place = setting.directory / "spark-build"
        shutil.copytree(setting.place(Siltstone.name), place)
        with ss.open(place, sync=False) as table:
            work = partial(ss.spark.build_text_index, spark, table, COLUMN) if far else partial(Siltstone.build, place)
            span = seconds(work)
            assert [one.unindexed_rows for one in table.indexes()] == [0]
        shutil.rmtree(place)
        return megabytes / span

    works = {"executors: MB/s": partial(build, far=True), "local: MB/s": partial(build, far=False)}
    works["executors: MB/s"]()  # starts its Python workers
    figures = alternate(setting.rounds, works)
    spark.stop()
    ratio = figures["executors: MB/s"] / figures["local: MB/s"]
    return figures, [Target("build on executors, ratio to local", ratio, 0.8, at_least=True)]
