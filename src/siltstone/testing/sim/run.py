"""One seed, from beginning to verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from siltstone.errors import InvalidInputError
from siltstone.testing.sim.scenarios import SCENARIOS
from siltstone.testing.sim.world import World


@dataclass(frozen=True)
class Outcome:
    """What a seed came to. Nothing is wrong where ``violations`` is empty."""

    seed: int
    scenario: str
    violations: tuple[str, ...]
    trace_hash: str
    counters: dict[str, int]
    virtual_s: float
    trace: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether all that must hold did."""
        return not self.violations


def run_seed(seed: int, scenario: str | None = None) -> Outcome:
    """Play one seed. Without a scenario the seed picks one."""
    names = list(SCENARIOS)
    name = scenario or names[seed % len(names)]
    if name not in SCENARIOS:
        raise InvalidInputError(f"there is no scenario {name!a}", hint=f"one of {', '.join(names)}")
    world = World(seed)
    play = SCENARIOS[name](world)
    try:
        play.play()
        counters = dict(world.counters) | {"operations": len(play.ledger.operations), "events": world.events}
        violations = (*world.surprises, *play.ledger.violations)
        return Outcome(seed, name, violations, world.trace_hash(), counters, world.now, tuple(world.trace))
    finally:
        world.close()
