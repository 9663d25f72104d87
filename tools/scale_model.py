"""From counted requests to operations per second and money.

What must hold: every figure is a count that was measured, times a latency or a price that is stated. Where something
was not measured it is computed from two measurements by a straight line, and the page says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone.table.group import TOGETHER_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scale_crowd import Crowd
    from scale_prices import Prices
    from scale_race import Race
    from scale_server import Cost

LATENCIES_MS = (1, 10, 100)
WRITERS = (1, 100, 1_000)
BYTES_PER_S = 100e6  # that one reader gets from a store; an assumption
MILLION = 1_000_000
COMPUTING = "computing"


class Way(NamedTuple):
    """One way in for many writers: how much it takes, and what it costs."""

    name: str
    writers: int
    latency_ms: float
    per_s: float
    requests: dict[str, float]  # of one operation
    note: str = ""


def per_operation(requests: Mapping[str, float], operations: float) -> dict[str, float]:
    """Requests of one of so many operations."""
    return {kind: count / operations for kind, count in requests.items()}


def own_handles(race: Race) -> Way:
    """Every writer for itself: one winner a round, and the others try again."""
    gave_up = race.gave_up / (race.writers * race.appends_each)
    note = f"{gave_up:.0%} gave up" if gave_up else ""
    requests = per_operation(race.requests, max(race.commits, 1))
    return Way("append, a handle each", race.writers, race.latency_ms, race.commits_per_s, requests, note)


def one_handle(measured: Crowd, *, writers: int, latency_ms: float, cpu_ms: float) -> Way:
    """Threads of one handle share versions: as many a version as were measured, by the threads, up to the bound.

    They also share one process, which computes ``cpu_ms`` for each append.
    """
    rounds_a_version = measured.seconds * 1000 / measured.latency_ms / measured.versions
    share = measured.appends / measured.versions / measured.writers  # of all writers, in one version
    together = max(1.0, min(TOGETHER_MAX, share * writers))
    rounds = 2.0 if writers == 1 else rounds_a_version
    requests = {"PUT if absent": 1 + 1 / together}
    by_store, by_computing = together * 1000 / (rounds * latency_ms), 1000 / cpu_ms
    note = COMPUTING if by_computing < by_store else ""
    return Way("append, one handle for all", writers, latency_ms, min(by_store, by_computing), requests, note)


def shards(put: Cost, merges: tuple[Cost, Cost], *, writers: int, latency_ms: float) -> Way:
    """A shard each: puts don't wait for each other. A merge of many entries is in the requests."""
    fewer, more = merges
    # What one entry more costs, by two merges that differ by 40 entries.
    each = {kind: (more.requests.get(kind, 0) - fewer.requests.get(kind, 0)) / 40 for kind in more.requests}
    requests = {kind: put.requests.get(kind, 0) + each.get(kind, 0) for kind in {*put.requests, *each}}
    per_s = writers * 1000 / (put.rounds * latency_ms)
    return Way("put, a shard each", writers, latency_ms, per_s, {kind: n for kind, n in requests.items() if n})


class Load(NamedTuple):
    """What a million rows cost in requests, written so many at a time."""

    rows: int
    appends: float  # dollars
    puts: float


def loads(
    append: Cost, way: Way, prices: Prices, *, sizes: tuple[int, ...] = (1, 100, 10_000, 1_000_000)
) -> list[Load]:
    """Dollars for a million rows, by rows in an operation."""
    return [
        Load(size, prices.of(append.requests) * MILLION / size, prices.of(way.requests) * MILLION / size)
        for size in sizes
    ]


def seconds_of(cost: Cost, *, latency_ms: float, cpu_ms: float = 0.0) -> float:
    """How long an operation takes where rounds, bytes and computing follow each other."""
    return (cost.rounds * latency_ms + cpu_ms) / 1000 + (cost.sent_bytes + cost.received_bytes) / BYTES_PER_S
