"""The scenarios: who is employed, on which store, with which misfortunes."""

from __future__ import annotations

from typing import ClassVar

from siltstone.testing.sim.agents import Collector, Reader, Writer
from siltstone.testing.sim.epochs import EpochWriter
from siltstone.testing.sim.registry import SimService
from siltstone.testing.sim.scenario import Scenario
from siltstone.testing.sim.world import World

TRUSTS_MS = (0, 0, 300, 2000, 20_000)


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


class Truncated(Scenario):
    """Writers who may stall for long while collectors remove the beginning of the log."""

    name = "truncated"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.trust_ms = draw.choice(TRUSTS_MS)
        self.guard = "witness" if draw.random() < 0.15 else "receipt"
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
        self.service = SimService(world)
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
        if draw.random() < 0.3:
            self._plan(lambda service: service.go_down(self.world.between(0.1, 10)))


SCENARIOS: dict[str, type[Scenario]] = {s.name: s for s in (ManyWriters, Truncated, Epochs)}
