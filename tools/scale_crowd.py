"""Writers that race for real: threads with handles of their own, or one handle for all, on an S3 server that is slow.

What must hold: the server's latency is long beside what computing takes, so that rounds of requests are what is
measured.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from scale_operations import Place, rows
from scale_server import cost_of

if TYPE_CHECKING:
    from scale_server import RecordingServer

LATENCY_MS = 50.0


class Crowd(NamedTuple):
    """What came of it."""

    writers: int
    appends: int
    versions: int
    latency_ms: float
    seconds: float
    requests: dict[str, int]

    @property
    def requests_per_append(self) -> float:
        """Requests of all writers for one append."""
        return sum(self.requests.values()) / self.appends

    @property
    def rounds_per_append(self) -> float:
        """Latencies of the store that pass for one append, all writers together."""
        return self.seconds * 1000 / self.latency_ms / self.appends

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self._asdict(),
            "requests_per_append": self.requests_per_append,
            "rounds_per_append": self.rounds_per_append,
        }


def append_cpu_ms(server: RecordingServer, *, appends: int = 50) -> float:
    """Computing of one append among many of one handle: this machine's, with what the server takes for it."""
    table = Place(server, "computing").create(appends=1)
    began = time.process_time()
    for number in range(appends):
        table.append(rows(number * 10, count=10))
    return (time.process_time() - began) * 1000 / appends


def crowd(
    server: RecordingServer,
    name: str,
    *,
    writers: int,
    appends_each: int,
    one_handle: bool = False,
    latency_ms: float = LATENCY_MS,
) -> Crowd:
    """Let so many threads append ten rows at a time, all at once."""
    place = Place(server, name)
    Place(server, f"{name}-warm").create(appends=1).close()  # what is imported late is imported now
    place.create().close()
    shared = place.opened() if one_handle else None
    handles = [shared or place.opened() for _ in range(writers)]
    server.take()
    server.slow_down(latency_ms)

    def append(number: int) -> None:
        for turn in range(appends_each):
            handles[number].append(rows((number * appends_each + turn) * 10, count=10))

    try:
        with ThreadPoolExecutor(writers) as pool:
            began = time.perf_counter()
            list(pool.map(append, range(writers)))
            took = time.perf_counter() - began
    finally:
        server.slow_down(0)
    cost = cost_of(server.take())
    versions = place.opened().version
    return Crowd(writers, writers * appends_each, versions, latency_ms, took, cost.requests)
