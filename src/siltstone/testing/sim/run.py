"""One seed, from beginning to verdict; or many, in several processes."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.format import version
from siltstone.testing.sim.scenarios import PICKS, SCENARIOS
from siltstone.testing.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 50  # seeds that a process is given at once
COLUMNS_FROM = (version.COLUMNS_FROM, 1)  # tables here have few fragments: every other seed has columns all the same


@dataclass(frozen=True)
class Outcome:
    """What a seed came to. Nothing is wrong where ``violations`` is empty."""

    seed: int
    scenario: str
    violations: tuple[str, ...]
    trace_hash: str
    counters: dict[str, int]
    virtual_s: float
    skew_ms: int  # of the clock that is furthest off
    trace: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether all that must hold did."""
        return not self.violations


def run_seed(seed: int, scenario: str | None = None) -> Outcome:
    """Play one seed. Without a scenario the seed picks one, those that cost little more often."""
    name = scenario or PICKS[seed % len(PICKS)]
    if name not in SCENARIOS:
        raise InvalidInputError(f"there is no scenario {name!a}", hint=f"one of {', '.join(SCENARIOS)}")
    world = World(seed)
    play = SCENARIOS[name](world)
    columns_from, version.COLUMNS_FROM = version.COLUMNS_FROM, COLUMNS_FROM[seed % 2]
    try:
        play.play()
        counters = dict(world.counters) | {"operations": len(play.ledger.operations), "events": world.events}
        violations = (*world.surprises, *play.ledger.violations)
        trace = tuple(world.trace)
        return Outcome(seed, name, violations, world.trace_hash(), counters, world.now, world.skew_ms, trace)
    finally:
        version.COLUMNS_FROM = columns_from
        world.close()


def run_seeds(seeds: range, scenario: str | None = None, *, jobs: int = 1) -> Iterator[Outcome]:
    """Play many seeds, in order; the outcomes carry no trace, since ``run_seed`` makes the same one again."""
    play = partial(_run_briefly, scenario=scenario)
    if jobs == 1:
        yield from map(play, seeds)
        return
    # Spawned, not forked: a child must not inherit anything that a seed could depend on.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(play, seeds, chunksize=CHUNK)


def _run_briefly(seed: int, scenario: str | None) -> Outcome:
    return replace(run_seed(seed, scenario), trace=())
