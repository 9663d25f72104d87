"""Users of clones: those who make them, detach them, drop tables, and make others in their place.

What must hold: each behaves as the documentation tells users to. A clone that was cut off is ended by the same call,
by whoever comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone.errors import CommitUnknownError, ConflictError
from siltstone.testing.sim.agents import TRIES_MAX
from siltstone.testing.sim.retain_agents import OUTAGES, RetainUser, compare
from siltstone.testing.sim.shard_truth import KEY

if TYPE_CHECKING:
    from siltstone.api.table import Table
    from siltstone.testing.sim.retain_scenario import RetainClones, RetainShards
    from siltstone.testing.sim.world import Process


class Wish(NamedTuple):
    """A clone that someone wants."""

    source: str
    target: str
    at: str | int | None
    where: str | None


class CloneUser(RetainUser):
    """Someone to whom it matters where tables come from."""

    def __init__(self, scenario: RetainClones, name: str, count: int) -> None:
        super().__init__(scenario, name, count)
        self.place = scenario


class Cloner(CloneUser):
    """Makes clones of tables and of clones."""

    def __init__(self, scenario: RetainClones, name: str, count: int) -> None:
        super().__init__(scenario, name, count)
        self._wish: Wish | None = None  # outlives the process

    def pick(self) -> str:
        """Where nothing is, mostly."""
        draw = self.world.random
        free = [uri for uri in self.stage.uris if not self.truth(uri).newest.exists]
        return draw.choice(free) if free and draw.random() < 0.8 else draw.choice(self.stage.uris)

    def work(self, process: Process, uri: str) -> None:
        """One clone, tried again while it is not known whether it is there."""
        wish = self._wish
        if wish is None:
            source = super().pick()
            if source == uri:
                return
            wish = self._wish = self._new(self.handle(process, source), uri)
        for _ in range(TRIES_MAX):
            try:
                self._clone(process, wish)
            except (*OUTAGES, CommitUnknownError) as error:
                self.world.note(f"{process.name} can't clone: {error.kind}: {error.message}")
                self.think(process, 2.0)
            except BaseException as error:
                if isinstance(error, Exception):
                    self._wish = None
                raise
            else:
                break
        self._wish = None

    def _new(self, source: Table, target: str) -> Wish:
        draw = self.world.random
        named = [*source.tags, *(one.name for one in source.checkpoints() if one.holder is None)]
        ways: list[str | int | None] = [None, self.pick_version(source)]
        at = draw.choice([*ways, *named])
        where = f"{KEY} < {draw.choice((2, 6))}" if draw.random() < 0.3 else None
        return Wish(source.uri, target, at, where)

    def _clone(self, process: Process, wish: Wish) -> None:
        source = self.handle(process, wish.source)
        store = self.place.store(process, wish.target)
        commits = self.place.commits(process)
        clone = source.clone(store, at=wish.at, where=wish.where, commits=commits, probe=False)
        self.world.counters["clones"] += 1
        version, truth = clone.version, self.truth(wish.target)
        if not any(one.exists for one in truth.versions):
            self.book.violation(f"a clone at {wish.target} was acknowledged, and is not there")
        compare(self.book, f"the clone at {wish.target}", clone.at(version=version), truth.versions[version].rows)


class Detacher(CloneUser):
    """Lets clones stand on their own."""

    def work(self, process: Process, uri: str) -> None:
        """One of them."""
        table = self.handle(process, uri)
        is_clone = bool(self.truth(uri).newest.origins)
        table.detach()
        self.world.counters["detached"] += is_clone


class Dropper(CloneUser):
    """Drops tables, and makes new ones in their place."""

    def pick(self) -> str:
        """Clones, mostly, ended or not."""
        draw = self.world.random
        begun = [uri for uri in self.stage.uris[1:] if self.truth(uri).versions]
        return draw.choice(begun) if begun and draw.random() < 0.9 else draw.choice(self.stage.uris)

    def work(self, process: Process, uri: str) -> None:
        """One table goes, or comes."""
        now = self.truth(uri).newest
        if now.dropped and self.world.random.random() < 0.3:
            self.place.create_at(process, uri)
            self.world.counters["created again"] += 1
            return
        try:
            self.place.drop_at(process, uri)
            self.world.counters["dropped"] += not now.dropped
        except ConflictError as error:
            self.world.counters["drops refused"] += "holders" in error.facts
            raise


class ShardCloner(RetainUser):
    """Makes clones of a table with shards, also of what durable checkpoints keep in those."""

    def __init__(self, scenario: RetainShards, name: str, count: int) -> None:
        super().__init__(scenario, name, count)
        self.place = scenario

    def work(self, process: Process, uri: str) -> None:
        """One clone."""
        draw = self.world.random
        table = self.handle(process, uri)
        names = [one.name for one in table.checkpoints() if one.holder is None and not one.pending]
        target = draw.choice(self.place.clones)
        clone = table.clone(
            self.place.clone_store(process, target), at=draw.choice([None, *names, *names]), probe=False
        )
        self.world.counters["clones"] += 1
        rows = self.truth(target).versions[clone.version].rows
        compare(self.book, f"the clone at {target}", clone.at(version=clone.version), rows)
