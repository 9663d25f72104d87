"""What the benchmarks share: timing in alternating rounds, worker processes, and how results are told.

What must hold: figures that are compared come from the same run, in rounds that take turns, so that whatever else the
machine does hits both sides.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SPAWN = multiprocessing.get_context("spawn")  # object store clients do not survive a fork
WORKER_SECONDS_MAX = 120.0


class Target(NamedTuple):
    """A promise with a number: what was measured, and the bound that it keeps or not."""

    name: str
    measured: float
    bound: float
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def document(self) -> dict[str, Any]:
        relation = ">=" if self.at_least else "<="
        return {"name": self.name, "measured": self.measured, "bound": f"{relation} {self.bound:g}", "kept": self.kept}


def seconds(work: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def rate(work: Callable[[], object], count: int) -> float:
    """How many per second, where ``work`` does ``count`` of them."""
    return count / seconds(work)


def alternate(rounds: int, works: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each work's figures, over rounds in which all of them take turns."""
    figures: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            figures[name].append(work())
    return {name: statistics.median(found) for name, found in figures.items()}


def contend(
    worker: Callable[..., Callable[[], object]], jobs: Sequence[tuple[Any, ...]], *, processes: int
) -> list[float]:
    """Seconds that ``processes`` workers need for each job, all starting it together.

    ``worker(*job)`` opens what it needs and returns the work that is timed.
    """
    barrier = SPAWN.Barrier(processes)
    results: Any = SPAWN.Queue()
    children = [SPAWN.Process(target=_contender, args=(worker, jobs, barrier, results)) for _ in range(processes)]
    for child in children:
        child.start()
    try:
        spans = [results.get(timeout=WORKER_SECONDS_MAX) for _ in range(processes * len(jobs))]
    finally:
        for child in children:
            child.join(5)
            if child.is_alive():
                child.kill()
                child.join()
    return [
        max(end for job, _, end in spans if job == number) - min(start for job, start, _ in spans if job == number)
        for number in range(len(jobs))
    ]


def _contender(
    worker: Callable[..., Callable[[], object]], jobs: Sequence[tuple[Any, ...]], barrier: Any, results: Any
) -> None:
    for number, job in enumerate(jobs):
        work = worker(*job)
        barrier.wait(WORKER_SECONDS_MAX)
        started = time.monotonic()  # one clock for all processes of a machine
        work()
        results.put((number, started, time.monotonic()))


def tell(name: str, figures: dict[str, Any], targets: Sequence[Target]) -> None:
    """Print one JSON document, and a table for people on stderr; end with status 1 where a promise is not kept."""
    for section, values in figures.items():
        print(f"\n{section}", file=sys.stderr)
        for label, value in values.items():
            print(f"  {label:<48} {_shown(value):>12}", file=sys.stderr)
    print("\ntargets", file=sys.stderr)
    for target in targets:
        relation = ">=" if target.at_least else "<="
        told = f"{_shown(target.measured):>12} {relation} {target.bound:g}"
        print(f"  {target.name:<48} {told}  {'kept' if target.kept else 'MISSED'}", file=sys.stderr)
    document = {"benchmark": name, "figures": figures, "targets": [target.document() for target in targets]}
    print(json.dumps(document, indent=2))
    sys.exit(0 if all(target.kept for target in targets) else 1)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
