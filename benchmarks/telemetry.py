"""What telemetry costs: appends, puts and look-ups with it and without it, and one seam that nobody hears.

Tables in memory, where there is nothing to wait for, show the largest share that it can take; durable puts on a disk
the smallest that is of use. The SDK aggregates metrics and drops spans when they end; an exporter's threads would take
time of their own.
"""

from __future__ import annotations

import itertools
import tempfile
import timeit
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from common import Target, alternate, rate, tell
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

import siltstone as ss
from siltstone import telemetry
from siltstone.telemetry import metrics, seams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 7
CALLS = {"appends": 100, "puts": 300, "gets": 200, "puts on a disk": 100}
MOST = {"appends": 2.0, "gets": 2.0, "puts on a disk": 1.5}  # puts in memory are told, and not held to anything
SEAM_CALLS = 200_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])


@contextmanager
def heard(*, on: bool, requests: bool = False) -> Iterator[None]:
    if not on:
        yield
        return
    telemetry.enable(TracerProvider(), MeterProvider(metric_readers=[InMemoryMetricReader()]), requests=requests)
    try:
        yield
    finally:
        telemetry.disable()


def measured(verb: str, directory: str, *, on: bool, requests: bool = False) -> Callable[[], float]:
    """Calls of a verb a second, on a table that is opened with telemetry or without it."""
    ids = itertools.count()

    def rows(count: int = 10) -> pa.RecordBatch:
        numbers = list(itertools.islice(ids, count))
        return pa.record_batch([pa.array(numbers), pa.array(map(str, numbers))], schema=SCHEMA)

    def run() -> float:
        with heard(on=on, requests=requests):
            place = directory if verb.endswith("disk") else "memory:/"
            table = ss.create(f"{place}/{uuid.uuid4().hex}", schema=SCHEMA, key="id", shards=1, probe=False)
            table.append(rows(1000))
            count = CALLS[verb]
            batches, first = [rows() for _ in range(count)], next(ids) - 1 - 10 * count
            with table.writer() as writer:
                work = {
                    "appends": lambda: [table.append(one) for one in batches],
                    "puts": lambda: [writer.put(one) for one in batches],
                    "gets": lambda: [table.get([first - number]) for number in range(count)],
                }[verb.partition(" ")[0]]
                return rate(work, count)

    return run


def seam_ns() -> dict[str, float]:
    """What a seam adds to a call where nobody hears."""

    def plain(number: int) -> int:
        return number

    traced = seams.traced("siltstone.trial")(plain)

    def best(work: Callable[[], object]) -> float:
        return min(timeit.repeat(work, number=SEAM_CALLS, repeat=ROUNDS)) / SEAM_CALLS * 1e9

    bare = best(lambda: plain(1))
    nothing = best(lambda: None)
    return {
        "a traced call, over a plain one": best(lambda: traced(1)) - bare,
        "a count": best(metrics.COMMIT_CONFLICTS.add) - nothing,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        report(directory)


def report(directory: str) -> None:
    figures: dict[str, dict[str, float]] = {}
    targets = []
    for verb in CALLS:
        found = alternate(
            ROUNDS,
            {
                "off": measured(verb, directory, on=False),
                "on": measured(verb, directory, on=True),
                "on, with a span for each request": measured(verb, directory, on=True, requests=True),
            },
        )
        figures[f"{verb} a second"] = found
        if verb in MOST:
            targets.append(Target(f"{verb}, time with telemetry to without", found["off"] / found["on"], MOST[verb]))
    figures["nanoseconds of a seam that nobody hears"] = seam_ns()
    slowest = max(figures["nanoseconds of a seam that nobody hears"].values())
    targets.append(Target("a seam that nobody hears, ns", slowest, 2000.0))
    tell("telemetry", figures, targets)


if __name__ == "__main__":
    main()
