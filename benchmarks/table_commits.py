"""Commits: many processes at once, requests of an append, a long history, opening one."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import lance
from common import Target, alternate, contend, seconds
from table_peers import DELTA, LANCE, SILTSTONE, Appender, Place, count_rows, create, store_of
from table_rows import bytes_outside_data, make_range

import siltstone as ss
from siltstone.testing.s3server import FaultServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from siltstone.store.meter import Usage

PROCESSES = 8
APPENDS_EACH = 25
ROWS = 100  # of an append
SERVERS = ("ministack", "seaweedfs")
BUCKET = "bkt"  # of the server that counts what Lance asks of it
KEYS_EACH = 1_000_000  # keys that a process has to itself
EARLY = slice(50, 150)
LATE = slice(-100, None)


# -- what one of many processes does -------------------------------------------------------------


class Noted(NamedTuple):
    """What the processes noted about one job: errors that reached the caller, and requests of each append."""

    errors: list[str]
    requests: list[int]


def contender(place: Place, notes: Path) -> Callable[[], object]:
    """The appends of one process; what went wrong, and what was asked of the store, goes into a file."""
    appender = Appender(place)
    batches = own_batches(APPENDS_EACH)

    def work() -> None:
        errors, requests = run_appends(appender, batches)
        (notes / f"{os.getpid()}.json").write_text(json.dumps([errors, requests]))

    return work


def own_batches(count: int) -> list[pa.Table]:
    """Batches whose keys no other process has."""
    start = os.getpid() * KEYS_EACH
    return [make_range(start + number * ROWS, count=ROWS, seed=number) for number in range(count)]


def run_appends(appender: Appender, batches: Sequence[pa.Table]) -> tuple[list[str], list[int]]:
    """Append one by one: the errors, and the requests that each append made of siltstone's store."""
    errors, requests = [], []
    for batch in batches:
        before = appender.requests()
        try:
            appender.append(batch)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}"[:200])
        requests.append(appender.requests() - before)
    return errors, requests


def race(places: Sequence[Place], directory: Path) -> list[tuple[float, Noted]]:
    """Seconds and notes of each job, all run by the same processes one after the other."""
    jobs = []
    for number, place in enumerate(places):
        create(place)
        notes = directory / f"notes-{number}"
        notes.mkdir(parents=True)
        jobs.append((place, notes))
    spent = contend(contender, jobs, processes=PROCESSES)
    results = []
    for (place, notes), span in zip(jobs, spent, strict=True):
        found = [json.loads(path.read_text()) for path in notes.iterdir()]
        noted = Noted([e for errors, _ in found for e in errors], [r for _, requests in found for r in requests])
        done = PROCESSES * APPENDS_EACH - len(noted.errors)
        landed = count_rows(place)
        assert landed == done * ROWS, (place, landed, done, noted.errors)
        results.append((span, noted))
    return results


# -- 8 processes on a disk -----------------------------------------------------------------------


def measure_contended(directory: Path, *, rounds: int) -> tuple[dict[str, float], list[Target]]:
    """Commits per second of 8 processes that append to one table."""
    kinds: dict[str, Callable[[str], Place]] = {
        "siltstone, not synced": lambda uri: Place(SILTSTONE, uri),
        "Lance": lambda uri: Place(LANCE, uri),
        "siltstone, synced": lambda uri: Place(SILTSTONE, uri, sync=True),
        "siltstone with a key, not synced": lambda uri: Place(SILTSTONE, uri, key="id"),
        "Delta": lambda uri: Place(DELTA, uri),
    }
    names = [name for _ in range(rounds) for name in kinds]
    places = [kinds[name](str(directory / f"table-{number}")) for number, name in enumerate(names)]
    results = race(places, directory)
    figures: dict[str, float] = {}
    failures: dict[str, int] = {}
    for name in kinds:
        own = [result for found, result in zip(names, results, strict=True) if found == name]
        done = [PROCESSES * APPENDS_EACH - len(noted.errors) for _, noted in own]
        figures[f"{name}: commits/s"] = statistics.median(n / span for n, (span, _) in zip(done, own, strict=True))
        errors = [error for _, noted in own for error in noted.errors]
        failures[name] = len(errors)
        for error, count in Counter(errors).most_common(1):
            print(f"{name}: {count} times {error}", file=sys.stderr)
    for name, count in failures.items():
        figures[f"{name}: failures at the user"] = count
    ours, synced = figures["siltstone, not synced: commits/s"], figures["siltstone, synced: commits/s"]
    best, delta = figures["Lance: commits/s"], figures["Delta: commits/s"]
    figures["synced: ratio to Lance (not synced)"] = synced / best
    figures["synced: ratio to Delta (not synced)"] = synced / delta
    failed = sum(count for name, count in failures.items() if name.startswith(SILTSTONE))
    return figures, [
        Target("8 processes, ratio to Lance", ours / best, 1, at_least=True),
        Target("8 processes, ratio to Delta", ours / delta, 5, at_least=True),
        Target("8 processes, failures at the user", failed, 0),
    ]


# -- requests ------------------------------------------------------------------------------------


def measure_requests(
    services: Callable[[str], Any], directory: Path, *, appends: int
) -> tuple[dict[str, float], list[Target]]:
    """Requests of an append on S3 servers: alone on an open handle, and among 8 processes."""
    figures: dict[str, float] = {}
    targets: list[Target] = []
    with FaultServer() as counting:
        servers = {name: services(name) for name in SERVERS}
        for name, server in servers.items():
            place = Place(SILTSTONE, f"{server.bucket_uri}/alone", storage_options=server.storage_options)
            told, bounds = told_requests(f"{name}, alone", append_alone(place, appends), bound=2)
            figures |= told
            targets += bounds
        place = Place(LANCE, f"s3://{BUCKET}/alone", storage_options=counting.storage_options)
        append_alone(place, appends, ready=counting.reset_stats)
        figures["Lance, alone: mean"] = counting.stats().requests / appends
        counting.reset_stats()
        places = [
            Place(SILTSTONE, f"{server.bucket_uri}/many", storage_options=server.storage_options)
            for server in servers.values()
        ]
        *ours, (_, lance_noted) = race([*places, place._replace(uri=f"s3://{BUCKET}/many")], directory)
        # What 8 processes need to open a dataset is in it, too: a few requests each.
        done = PROCESSES * APPENDS_EACH - len(lance_noted.errors)
        figures["Lance, 8 processes: mean"] = counting.stats().requests / done
    for name, (span, noted) in zip(servers, ours, strict=True):
        assert not noted.errors, noted.errors[:3]
        told, bounds = told_requests(f"{name}, 8 processes", noted.requests, bound=5)
        figures |= told | {f"{name}, 8 processes: commits/s": PROCESSES * APPENDS_EACH / span}
        targets += bounds
    return figures, targets


def append_alone(place: Place, appends: int, *, ready: Callable[[], object] = lambda: None) -> list[int]:
    """Requests of each of many appends on one handle; ``ready`` is called before the first that counts."""
    create(place)
    appender = Appender(place)
    first, *rest = own_batches(appends + 1)
    appender.append(first)  # finds the tip, and asks the store whether it can be trusted
    ready()
    errors, requests = run_appends(appender, rest)
    assert not errors, errors[:3]
    return requests


def told_requests(name: str, requests: list[int], *, bound: float) -> tuple[dict[str, float], list[Target]]:
    mean, median = statistics.mean(requests), statistics.median(requests)
    figures = {f"{name}: mean": mean, f"{name}: median": median, f"{name}: most": max(requests)}
    return figures, [
        Target(f"requests of an append, {name}, mean", mean, bound),
        Target(f"requests of an append, {name}, median", median, bound),
    ]


# -- a long history ------------------------------------------------------------------------------


def measure_sequence(directory: Path, *, appends: int) -> tuple[dict[str, float], list[Target]]:
    """One append after the other, siltstone's and Lance's taking turns."""
    places = {"siltstone": Place(SILTSTONE, str(directory / "ours")), "Lance": Place(LANCE, str(directory / "lance"))}
    for place in places.values():
        create(place)
    works = {name: Appender(place).append for name, place in places.items()}
    spent: dict[str, list[float]] = {name: [] for name in places}
    for number in range(appends):
        batch = make_range(number * ROWS, count=ROWS, seed=number)
        for name, append in works.items():
            spent[name].append(seconds(partial(append, batch)) * 1000)
    figures: dict[str, float] = {}
    for name, place in places.items():
        early, late = spent[name][EARLY], spent[name][LATE]
        figures[f"{name}: ms early"] = statistics.mean(early)
        figures[f"{name}: ms late"] = statistics.mean(late)
        figures[f"{name}: late to early"] = statistics.mean(late) / statistics.mean(early)
        figures[f"{name}: late to early, medians"] = statistics.median(late) / statistics.median(early)
        figures[f"{name}: metadata KB"] = bytes_outside_data(Path(place.uri)) / 1000
    share = figures["siltstone: metadata KB"] / figures["Lance: metadata KB"]
    figures["metadata, share of Lance's"] = share
    return figures, [
        Target(f"{appends:,} appends, late to early", figures["siltstone: late to early"], 1.1),
        Target(f"{appends:,} appends, metadata as share of Lance's", share, 1 / 20),
    ]


# -- opening -------------------------------------------------------------------------------------


def open_and_plan(place: Place) -> tuple[float, Usage]:
    """Milliseconds and requests, from nothing to a plan of a scan that no fragment can hold rows of."""
    started = time.perf_counter()
    store = store_of(place)
    with ss.open(store) as table:
        found = table.scan(where="id < 0").to_arrow()
        spent = time.perf_counter() - started
        usage = store.usage()
    assert found.num_rows == 0, found.num_rows
    return spent * 1000, usage


def lance_open_and_plan(uri: str) -> float:
    """The same for Lance, in milliseconds."""
    return seconds(lambda: lance.dataset(uri).scanner(filter="id < 0").explain_plan()) * 1000


def measure_opening(
    local: Place, on_s3: Place, *, lance_uri: str = "", appends: int, rounds: int, ms_max: float
) -> tuple[dict[str, float], list[Target]]:
    """Opening and planning after many appends: the time in a directory, and what is asked of S3, counts.

    In a directory a reader that looks for the end of the log asks more, since asking costs nothing.
    """
    places = {"local": local, "s3": on_s3}
    works: dict[str, Callable[[], float]] = {
        f"{name}: ms": lambda place=place: open_and_plan(place)[0] for name, place in places.items()
    }
    if lance_uri:
        works["Lance, local: ms"] = partial(lance_open_and_plan, lance_uri)
    figures = alternate(rounds, works)
    for name, place in places.items():
        _, usage = open_and_plan(place)
        figures[f"{name}: requests"] = usage.total
        figures |= {f"{name}: requests, {verb}": count for verb, count in usage.requests.items()}
    return figures, [
        Target(f"ms to open and plan after {appends:,} appends", figures["local: ms"], ms_max),
        Target(f"requests of the same after {appends:,} appends, s3", figures["s3: requests"], 10),
    ]
