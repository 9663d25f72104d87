"""Which misfortunes a seed has in store, and how often.

==================  ==============================================================================
``refused``         an error before the effect
``denied``          credentials are refused, before the effect
``lost``            the effect, then no answer
``late``            no answer, and the effect comes later, be it after its process died
``nobody``          a create is refused, though nothing is there (a 409 of S3)
``own``             a create is refused because of itself (a client library repeated it)
``slow``            the effect takes its time
``echo``            the effect happens twice, the second time later
``stall``           the process stands still before it sees the answer
``die_before``      the process dies, and nothing was sent
``die_under_way``   the process dies, and the effect comes later
``die_after``       the process dies at the instant of the effect
==================  ==============================================================================
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from siltstone.testing.sim.world import World

Kind = Literal["read", "create", "write", "claim"]
READS = ("refused", "denied", "slow", "stall", "die_before")
WRITES = ("refused", "denied", "lost", "late", "slow", "echo", "stall", "die_before", "die_under_way", "die_after")
KINDS: dict[Kind, tuple[str, ...]] = {
    "read": READS,
    "create": (*WRITES, "nobody", "own"),
    "write": WRITES,
    "claim": WRITES,
}
RARE = {"denied": 0.3, "die_before": 0.4, "die_under_way": 0.4, "die_after": 0.4}
BURSTS = ("refused", "denied", "lost", "late")
RATES = (0.1, 0.2, 0.35, 0.5)
FAULTS_MAX = 60  # then the seed has had its share, and things may come to an end


@dataclass
class Faults:
    """A seed's mix: how often anything goes wrong, and what then."""

    rate: float = 0.0
    read_rate: float = 0.0
    weights: dict[str, float] = field(default_factory=dict)
    late_s: float = 60.0
    stall_s: float = 60.0
    left: int = FAULTS_MAX
    spared: tuple[Kind, ...] = ()
    burst: float = 0.0  # how often one failure is followed by another of its kind
    _last: str = ""
    _choices: dict[Kind, tuple[list[str], list[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind, names in KINDS.items():
            known = [name for name in names if self.weights.get(name) and kind not in self.spared]
            self._choices[kind] = (known, list(itertools.accumulate(self.weights[name] for name in known)))

    def draw(self, kind: Kind, world: World) -> str:
        """The fault of the next request of a kind; mostly none."""
        last, self._last = self._last, ""
        names, cumulated = self._choices[kind]
        chance = world.random.random()
        if last in names and chance < self.burst:
            fault = last
        elif chance < (self.read_rate if kind == "read" else self.rate) and names:
            fault = world.random.choices(names, cum_weights=cumulated)[0]
        else:
            return ""
        if not self.left:
            return ""
        self.left -= 1
        self._last = fault if fault in BURSTS else ""
        return fault


NO_FAULT = Faults()


def draw_faults(world: World, *, crashes: bool = True, longest_s: float = 120.0) -> Faults:
    """A mix for one seed: some faults often, some never."""
    draw = world.random
    every = dict.fromkeys(itertools.chain.from_iterable(KINDS.values()))
    weights = {name: draw.choice((0, 0.3, 1, 1, 3)) * RARE.get(name, 1.0) for name in every}
    if not crashes:
        weights |= dict.fromkeys((name for name in every if name.startswith("die_")), 0.0)
    rate = draw.choice(RATES)
    return Faults(
        rate=rate,
        read_rate=rate * draw.choice((0.03, 0.1, 0.25)),
        weights=weights,
        late_s=world.between(0.1, longest_s),
        stall_s=world.between(1, longest_s),
        left=draw.randint(FAULTS_MAX // 3, FAULTS_MAX),
        burst=draw.choice((0.0, 0.3, 0.7)),
    )
