"""The scenarios: who is employed, on which store, with which misfortunes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.testing.sim.agents import Collector, Reader, Writer
from siltstone.testing.sim.epochs import EpochWriter
from siltstone.testing.sim.external_scenario import DecidedClones, DecidedIndex, DecidedRetain, DecidedShards
from siltstone.testing.sim.faults import Faults
from siltstone.testing.sim.index_scenario import IndexClones, IndexScenario, MixedReleases
from siltstone.testing.sim.registry import SimService
from siltstone.testing.sim.retain_scenario import RetainClones, RetainScenario, RetainShards
from siltstone.testing.sim.scenario import Scenario
from siltstone.testing.sim.shard_scenario import ForkedShards, PlainShards, ShardScenario, SplitShards
from siltstone.testing.sim.store import Lie, SimBucket
from siltstone.testing.sim.wal_store_scenario import DecidedWalStores, WalStores

if TYPE_CHECKING:
    from siltstone.log.open import Guard
    from siltstone.testing.sim.world import World

TRUSTS_MS = (0, 0, 300, 2000, 20_000)
LIES: tuple[Lie, ...] = ("", "always", "gateway")
GOLDEN = 0.618  # its multiples fall between those before them


class ManyWriters(Scenario):
    """Several writers and a reader on an honest store that decides; nothing is ever truncated."""

    name = "writers"

    def cast(self) -> None:
        draw = self.world.random
        self.guard = "witness" if draw.random() < 0.2 else "receipt"
        self.pause_s = draw.choice((0.0, 0.0, 1.0))
        for number in range(draw.randint(2, 4)):
            Writer(self, f"w{number}", draw.randint(1, 4)).employ(delay=draw.random() * 0.1)
        Reader(self, "reader", draw.randint(2, 5)).employ()


class Reruns(ManyWriters):
    """Answers are lost and effects come late, just when their writers look for them and try again."""

    name = "reruns"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.patience_s = 0.0

    def faults(self) -> Faults:
        weights = {"late": 3.0, "lost": 1.0, "denied": 1.0, "die_under_way": 1.0}
        late_s = self.world.latency * self.world.between(5, 100)
        return Faults(rate=0.5, weights=weights, late_s=late_s, burst=self.world.random.choice((0.5, 0.9)))


class Twins(Reruns):
    """Every operation is run by two writers at once, as when a job is started again while it still runs."""

    name = "twins"
    holding = 0.0  # only ``add`` looks for the other's entry

    def cast(self) -> None:
        draw = self.world.random
        for number in range(draw.randint(1, 2)):
            one = Writer(self, f"w{number}", draw.randint(1, 4))
            other = Writer(self, f"twin{number}", 0)
            other.todo = list(one.todo)
            for op in one.todo:
                self.ledger.trying(op).doubt = True  # whatever one is told, the other may have done it
            one.employ(delay=draw.random() * 0.1)
            other.employ(delay=draw.random() * 0.1)
        Writer(self, "w9", draw.randint(0, 3)).employ()


class Truncated(Scenario):
    """Writers who may stall for long while collectors remove the beginning of the log."""

    name = "truncated"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.trust_ms = draw.choice(TRUSTS_MS)
        self.guard = "witness" if draw.random() < 0.15 else "receipt"
        self.holding = draw.choice((0.2, 0.9))
        self.pause_s = draw.choice((0.0, 2.0, 30.0))
        self.collector_pause_s = world.between(0.5, 60)
        self.reader_pause_s = world.between(0.5, 60)

    def cast(self) -> None:
        draw = self.world.random
        for number in range(draw.randint(2, 3)):
            Writer(self, f"w{number}", draw.randint(1, 4)).employ(delay=draw.random() * 0.1)
        for number in range(draw.choice((1, 1, 2))):
            Collector(self, f"gc{number}", draw.randint(3, 7)).employ()
        Reader(self, "reader", draw.randint(2, 4)).employ()


class Latecomers(Truncated):
    """Writers who hold on to old marks, and whose requests take longer than the log keeps their places."""

    name = "latecomers"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.trust_ms = world.random.choice((0, 0, 300))
        self.holding = 0.95
        self.pause_s = 5.0
        self.collector_pause_s = 5.0

    def cast(self) -> None:
        draw = self.world.random
        for number in range(4):
            Writer(self, f"w{number}", draw.randint(3, 6)).employ(delay=draw.random() * 0.1)
        Collector(self, "gc", 10, keep=draw.choice((0, 0, 1))).employ()
        Reader(self, "reader", 4).employ()

    def faults(self) -> Faults:
        draw = self.world.random
        weights = {"slow": 4.0, "stall": 1.0, "late": draw.choice((0.0, 1.0)), "die_under_way": draw.choice((0.0, 0.3))}
        weights["refused"] = draw.choice((0.0, 2.0))
        return Faults(rate=0.6, read_rate=0.03, weights=weights, late_s=30.0, stall_s=20.0, spared=("write",))


class Epochs(Scenario):
    """Writers who take the log over from each other, and fold it as they go."""

    name = "epochs"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.trust_ms = draw.choice(TRUSTS_MS)
        self.flushing = draw.choice((0.0, 0.3, 0.7))
        self.pause_s = draw.choice((0.0, 1.0, 10.0))
        self.reader_pause_s = world.between(0.5, 30)

    def cast(self) -> None:
        draw = self.world.random
        for number in range(draw.randint(2, 3)):
            EpochWriter(self, f"w{number}", draw.randint(1, 3)).employ(delay=draw.random() * (self.pause_s or 0.5))
        if draw.random() < 0.5:
            Reader(self, "reader", 3).employ()


class External(Scenario):
    """An external commit store that keeps its word, on an honest store."""

    name = "external"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.service = self.registry = SimService(world)
        self.trust_ms = draw.choice(TRUSTS_MS)
        self.pause_s = draw.choice((0.0, 0.0, 3.0))
        self.collector_pause_s = world.between(0.5, 60)

    def cast(self) -> None:
        draw = self.world.random
        for number in range(draw.randint(2, 3)):
            Writer(self, f"w{number}", draw.randint(1, 3)).employ(delay=draw.random() * 0.1)
        Reader(self, "reader", draw.randint(2, 4)).employ()
        if draw.random() < 0.4:
            Collector(self, "gc", draw.randint(2, 5)).employ()
        if draw.random() < 0.4:
            self.world.at(self.world.between(0.1, 20), lambda: self.registry.go_down(self.world.between(0.1, 10)))


class Fork(External):
    """An external commit store that keeps its word, on a store that does not."""

    name = "fork"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.bucket = SimBucket(
            world, known_good=False, lie=world.random.choice(LIES), page=self.bucket.page, cheap_probes=False
        )


class Forgetful(External):
    """An external commit store that goes on with a stale copy, or with nothing, on an honest store."""

    name = "forgetful"
    honest = False
    loses_nothing = True

    def cast(self) -> None:
        super().cast()
        draw, world = self.world.random, self.world
        when = 0.0
        for _ in range(draw.randint(1, 3)):
            copied = when + world.between(0.1, 10)
            when = copied + world.between(0.05, 5)
            world.at(copied, self.registry.copy)
            world.at(when, self.registry.fail_over if draw.random() < 0.85 else self.registry.empty)


class ForgetfulFork(Forgetful):
    """As before, on a store that lies."""

    name = "forgetful-fork"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.bucket = SimBucket(world, known_good=False, lie=world.random.choice(LIES), cheap_probes=False)


class Lying(Scenario):
    """A store that lies, at once or from some time on; witnesses are kept, and the writers may vanish."""

    name = "lying"
    honest = False
    guard: Guard = "witness"
    looking_up = 0.0  # only adding it again leaves a witness

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.pause_s = draw.choice((0.0, 0.5))
        self.bucket = SimBucket(
            world,
            lie=draw.choice(("always", "gateway")),
            lie_from=draw.choice((0.0, world.between(0.2, 5))),
            known_good=False,
            cheap_probes=draw.random() < 0.5,
        )

    def cast(self) -> None:
        draw = self.world.random
        for number in range(draw.randint(2, 4)):
            Writer(self, f"w{number}", draw.randint(1, 3)).employ(delay=draw.random() * 0.1)
        Reader(self, "reader", 2).employ()


class Receipts(Lying):
    """A store that lies and no witnesses, but every receipt is checked in the end."""

    name = "receipts"
    guard: Guard = "receipt"
    keeps_receipts = True
    crashes = False
    one_ack_a_place = False


LOGS: tuple[type[Scenario], ...] = (
    ManyWriters,
    Reruns,
    Twins,
    Truncated,
    Latecomers,
    Epochs,
    External,
    Fork,
    Forgetful,
    ForgetfulFork,
    Lying,
    Receipts,
)
TABLES: tuple[type[Scenario], ...] = (
    ShardScenario,
    PlainShards,
    SplitShards,
    ForkedShards,
    RetainScenario,
    RetainShards,
    RetainClones,
    IndexScenario,
    MixedReleases,
    IndexClones,
    DecidedRetain,
    DecidedClones,
    DecidedShards,
    DecidedIndex,
    WalStores,
    DecidedWalStores,
)
SCENARIOS: dict[str, type[Scenario]] = {scenario.name: scenario for scenario in (*LOGS, *TABLES)}

# Of 197 seeds so many play a scenario: of 20,000 each scenario of logs has 1,522 at least, each of tables 101. A seed
# of tables takes as much time as some thirty of logs, so that those are most of the time nevertheless. One of logs is
# played once more, so that the total is a prime: who takes every hundredth seed meets every scenario, too.
WEIGHTS: dict[str, int] = {
    **{scenario.name: 15 for scenario in LOGS},
    ManyWriters.name: 16,
    **{scenario.name: 1 for scenario in TABLES},
}


def _spread(weights: dict[str, int]) -> tuple[str, ...]:
    """Each name as often as its weight says, as far apart as may be."""
    total = sum(weights.values())
    places = [
        ((turn + number * GOLDEN % 1) * total / weight, name)
        for number, (name, weight) in enumerate(weights.items())
        for turn in range(weight)
    ]
    return tuple(name for _, name in sorted(places))


PICKS = _spread(WEIGHTS)  # what the seeds play, over and over
