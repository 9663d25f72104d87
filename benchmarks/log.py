"""The log's numbers: requests, replay, and appends per second beside Lance's commits of an empty change.

Prints one JSON document. Requests are counted by the server, not by the client.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from common import SPAWN, Target, alternate, contend, rate, seconds, tell

from siltstone import open_log, paths
from siltstone.format.frame import digest
from siltstone.format.records import Header, Hint, Identity, encode_entry, encode_hint, encode_identity
from siltstone.ids import SystemIds
from siltstone.log.log import HINT_EVERY, HINT_EVERY_CHEAP
from siltstone.testing.s3server import Faults, FaultServer
from siltstone.testing.s3server.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.log import Log
    from siltstone.testing.s3server.s3 import S3Service

BUCKET = "bkt"
LONG_LOG = 100_000
REPLAYED = 1_000
REPLAYED_BYTES = 10_000
ONE_BY_ONE = 200  # enough to know how long all would take
LATENCY_MS = 10
ROUNDS = 5
APPENDS = 200  # a round
PROCESSES = 8
APPENDS_EACH = 25
CONTENDED_ROUNDS = 3


# -- requests ------------------------------------------------------------------------------------


def long_log(hint_every: int) -> Iterator[tuple[str, bytes]]:
    """The objects of a log whose last writer was killed: appends left a hint every so often, closing left none."""
    ids = SystemIds()
    identity = Identity(log=ids.new())
    data = encode_identity(identity)
    yield paths.IDENTITY, data
    for position in range(LONG_LOG):
        header = Header(log=identity.log, position=position, epoch=0, op=ids.new(), nonce=ids.new(), prev=digest(data))
        data = encode_entry(header, b"")
        yield paths.entry("", position), data
    yield paths.HINT, encode_hint(Hint(log=identity.log, position=LONG_LOG // hint_every * hint_every))


def fill_long_log(service: S3Service) -> None:
    bucket = service.buckets.get(BUCKET)
    for key, data in long_log(HINT_EVERY):
        bucket.put(f"long/{key}", data, headers=())
    for key, stored in list(bucket.objects.items()):
        if not key.endswith(paths.HINT):
            bucket.put(key.replace("long/", "unhinted/"), stored.body, headers=(), etag=stored.etag)


def _serve_long_log(owner: int, ready: Any) -> None:
    async def run() -> None:
        await serve(
            Faults(),
            buckets=(BUCKET,),
            port=0,
            on_ready=ready.send,
            stop=asyncio.Event(),
            owner=owner,
            fill=fill_long_log,
        )

    asyncio.run(run())


@contextmanager
def long_log_server() -> Iterator[int]:
    """The port of a server in a process of its own that holds a long log."""
    here, there = SPAWN.Pipe()
    child = SPAWN.Process(target=_serve_long_log, args=(os.getpid(), there), daemon=True)
    child.start()
    try:
        yield here.recv()
    finally:
        child.terminate()
        child.join()


def s3_options(port: int) -> dict[str, str]:
    return {
        "aws_access_key_id": "siltstone",
        "aws_secret_access_key": "siltstone",
        "aws_region": "us-east-1",
        "aws_endpoint": f"http://127.0.0.1:{port}",
    }


def served_requests(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stats") as answer:
        return sum(json.load(answer)["verbs"].values())


def measure_opening(directory: Path) -> dict[str, float]:
    """Requests from nothing to a known tip."""
    figures: dict[str, float] = {}
    with long_log_server() as port:
        for root in ("long", "unhinted"):
            before = served_requests(port)
            uri = f"s3://{BUCKET}/{root}"
            figures[f"s3, {root}: seconds"] = seconds(
                lambda uri=uri: check_tip(open_log(uri, storage_options=s3_options(port)))
            )
            figures[f"s3, {root}: requests"] = served_requests(port) - before
    for key, data in long_log(HINT_EVERY_CHEAP):
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    opened: list[Log] = []

    def open_local() -> None:
        opened.append(open_log(directory))
        check_tip(opened[0])

    figures["local: seconds"] = seconds(open_local)
    figures["local: requests"] = opened[0].store.usage().total  # type: ignore[attr-defined]
    return figures


def check_tip(log: Log) -> None:
    position = log.tip().position
    assert position == LONG_LOG, position


def measure_append_requests() -> dict[str, float]:
    """Requests of one append on a handle that has appended before."""
    figures: dict[str, float] = {}
    with FaultServer() as server:
        for guard in ("receipt", "witness"):
            uri = f"s3://{BUCKET}/{guard}"
            log = open_log(uri, storage_options=server.storage_options, create=True, guard=guard)
            mark = log.append(b"", after=log.tip())
            server.reset_stats()
            log.append(b"", after=mark)
            figures[f"s3, guarded by {guard}"] = server.stats().requests
    return figures


# -- replay --------------------------------------------------------------------------------------


def measure_replay() -> dict[str, float]:
    """Reading a whole log from a store that takes its time, from opening to the last entry."""
    with FaultServer() as server:
        uri, options = f"s3://{BUCKET}/log", server.storage_options
        with open_log(uri, storage_options=options, create=True, guard="receipt") as log:
            mark = log.tip()
            for _ in range(REPLAYED):
                mark = log.append(os.urandom(REPLAYED_BYTES), after=mark)
        server.set(latency_ms=LATENCY_MS)

        def replay() -> float:
            return seconds(lambda: _check_count(sum(1 for _ in open_log(uri, storage_options=options).entries())))

        def one_by_one() -> None:
            for position in range(ONE_BY_ONE):
                log.read(log.published(position) or b"", position)

        parallel = alternate(ROUNDS, {"replay": replay})["replay"]
        sequential = seconds(one_by_one) * REPLAYED / ONE_BY_ONE
    return {"seconds": parallel, "one by one: seconds": sequential, "ratio": sequential / parallel}


def _check_count(count: int) -> None:
    assert count == REPLAYED, count


# -- appends per second --------------------------------------------------------------------------


def append_rate(uri: str | Path, **options: Any) -> float:
    """Appends per second on one handle of a new log."""
    log = open_log(uri, create=True, root=f"log-{SystemIds().new()}", **options)
    mark = log.append(b"", after=log.tip())

    def appends() -> None:
        nonlocal mark
        for _ in range(APPENDS):
            mark = log.append(b"", after=mark)

    return rate(appends, APPENDS)


def lance_rate(uri: str, **options: Any) -> float:
    """Commits of no change per second on one handle of a new dataset."""
    dataset = new_dataset(f"{uri}/lance-{SystemIds().new()}", **options)

    def commits() -> None:
        nonlocal dataset
        for _ in range(APPENDS):
            dataset = lance.LanceDataset.commit(dataset, lance.LanceOperation.Append([]), read_version=dataset.version)

    return rate(commits, APPENDS)


def new_dataset(uri: str, **options: Any) -> lance.LanceDataset:
    return lance.write_dataset(pa.table({"n": pa.array([], pa.int64())}), uri, **options)


def measure_one_handle(directory: Path) -> dict[str, float]:
    with FaultServer() as server:
        s3, options = f"s3://{BUCKET}", server.storage_options
        commits = f"sqlite:///{directory}/claims.db"
        works: dict[str, Callable[[], float]] = {
            "local": lambda: append_rate(directory, sync=False),
            "local, Lance": lambda: lance_rate(str(directory)),
            "local, synced": lambda: append_rate(directory),
            "local, decided by SQLite (synced)": lambda: append_rate(directory, commits=commits),
            "s3": lambda: append_rate(s3, storage_options=options, guard="receipt"),
            "s3, Lance": lambda: lance_rate(s3, storage_options=options),
        }
        figures = alternate(ROUNDS, works)
    figures["local: ratio to Lance"] = figures["local"] / figures["local, Lance"]
    figures["local, synced: ratio to Lance (unsynced)"] = figures["local, synced"] / figures["local, Lance"]
    figures["s3: ratio to Lance"] = figures["s3"] / figures["s3, Lance"]
    return figures


def contended(kind: str, uri: str, options: dict[str, Any]) -> Callable[[], object]:
    """What one of many processes does: add to a log, or commit to a dataset, wherever it ends."""
    if kind == "log":
        log = open_log(uri, **options)
        log.tip()
        return lambda: [log.add(b"") for _ in range(APPENDS_EACH)]

    def commits() -> None:
        dataset = lance.dataset(uri, **options)
        for _ in range(APPENDS_EACH):
            version = dataset.version
            dataset = lance.LanceDataset.commit(
                dataset, lance.LanceOperation.Append([]), read_version=version, max_retries=1000
            )

    lance.dataset(uri, **options)
    return commits


def measure_contended(directory: Path) -> dict[str, float]:
    with FaultServer() as server:
        kinds: dict[str, tuple[str, dict[str, Any]]] = {
            "local": ("log", {"sync": False}),
            "local, Lance": ("lance", {}),
            "local, synced": ("log", {}),
            "local, decided by SQLite (synced)": ("log", {"commits": f"sqlite:///{directory}/claims.db"}),
            "s3": ("log", {"storage_options": server.storage_options}),
            "s3, Lance": ("lance", {"storage_options": server.storage_options}),
        }
        names, jobs = [], []
        for number in range(CONTENDED_ROUNDS):
            for name, (kind, options) in kinds.items():
                base = f"s3://{BUCKET}" if name.startswith("s3") else str(directory)
                uri = f"{base}/contended-{number}-{len(jobs)}"
                if kind == "log":
                    open_log(uri, create=True, guard="receipt", **options).close()
                else:
                    new_dataset(uri, **options)
                names.append(name)
                jobs.append((kind, uri, options))
        spent = contend(contended, jobs, processes=PROCESSES)
        for name, (kind, uri, options) in zip(names, jobs, strict=True):
            landed = (
                open_log(uri, **options).tip().position if kind == "log" else lance.dataset(uri, **options).version - 1
            )
            assert landed == PROCESSES * APPENDS_EACH, (name, landed)
    figures = {
        name: statistics.median(PROCESSES * APPENDS_EACH / s for n, s in zip(names, spent, strict=True) if n == name)
        for name in kinds
    }
    figures["local: ratio to Lance"] = figures["local"] / figures["local, Lance"]
    figures["local, synced: ratio to Lance (unsynced)"] = figures["local, synced"] / figures["local, Lance"]
    figures["s3: ratio to Lance"] = figures["s3"] / figures["s3, Lance"]
    return figures


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as name:
        directory = Path(name)
        requests = measure_append_requests()
        opening = measure_opening(directory / "long")
        replay = measure_replay()
        one_handle = measure_one_handle(directory / "one")
        many = measure_contended(directory / "many")
    figures = {
        "requests of one append on an open handle": requests,
        f"opening a log of {LONG_LOG:,} entries": opening,
        f"replaying {REPLAYED:,} entries of {REPLAYED_BYTES:,} bytes at {LATENCY_MS} ms per request": replay,
        "appends per second, one handle": one_handle,
        f"appends per second, {PROCESSES} processes x {APPENDS_EACH}": many,
    }
    tell(
        "log",
        figures,
        [
            Target("requests of an append", requests["s3, guarded by receipt"], 1),
            Target("requests of opening, s3", opening["s3, long: requests"], 10),
            Target("seconds of replay", replay["seconds"], 0.5),
            Target("one handle, ratio to Lance", one_handle["local: ratio to Lance"], 1, at_least=True),
            Target("contended, ratio to Lance", many["local: ratio to Lance"], 1, at_least=True),
        ],
    )


if __name__ == "__main__":
    main()
