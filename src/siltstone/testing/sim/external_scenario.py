"""Scenarios of tables whose versions an external commit store decides: collected, cloned, checkpointed, indexed.

What must hold is what holds where the object store decides, on an honest store and on one that lies; and the commit
store forgets what was truncated, so that what it knows does not grow for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.format.records import decode_identity
from siltstone.log import open_log
from siltstone.testing.sim.index_scenario import IndexScenario
from siltstone.testing.sim.registry import SimService
from siltstone.testing.sim.retain_book import KeptBucket
from siltstone.testing.sim.retain_scenario import RetainClones, RetainScenario, RetainShards, kept_bucket
from siltstone.testing.sim.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from siltstone.testing.sim.store import Lie
    from siltstone.testing.sim.world import Process, World

LIES: tuple[Lie, ...] = ("", "always", "gateway")
DOWN = 0.3  # how often the commit store is down for a while


def decided_bucket(world: World) -> KeptBucket:
    """A bucket that need not keep its word on ``create``: others decide."""
    honest = kept_bucket(world)
    lie = world.random.choice(LIES)
    if not lie:
        return honest
    return KeptBucket(
        world, lie=lie, known_good=False, cheap_probes=False, page=honest.page, delete_page=honest.delete_page
    )


class Decided(Scenario):
    """What these scenarios share: they come before the one whose tables they decide."""

    registry: SimService

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.service = self.registry = SimService(world)

    def _bucket(self) -> KeptBucket:
        return decided_bucket(self.world)

    def cast(self) -> None:
        super().cast()
        world = self.world
        if world.random.random() < DOWN:
            world.at(world.between(0.1, 20), lambda: self.registry.go_down(world.between(0.1, 5)))


def logs_of(bucket: KeptBucket) -> Iterator[tuple[str, str]]:
    """The logs that a bucket has, by root and id."""
    for key, (data, _) in bucket.objects.objects.items():
        root = paths.parse_identity(key)
        if root is not None:
            yield root, decode_identity(data, name=key).log


class DecidedTables(Decided, RetainScenario):
    """Tables of which a newcomer, in the end, also looks at what the commit store still knows."""

    def audit(self, process: Process) -> None:
        """First what was claimed by someone who died is published, as whoever writes next does: it may be a drop."""
        for uri in self.places:
            store, commits = self.store(process, uri), self.commits(process)
            log = open_log(store, commits=commits, root=paths.LOG, probe=False, env=process.env)
            log.commits.decided(log.place(log.tip()))
        super().audit(process)

    def _collect(self, process: Process) -> None:
        super()._collect(process)
        for why in forgotten(self, self.buckets):
            self.book.violation(why)


def forgotten(scenario: DecidedTables, buckets: Mapping[str, KeptBucket]) -> Iterator[str]:
    """What the commit store should have forgotten, and has not."""
    memory = scenario.registry.memory
    there: set[str] = set()
    for uri, bucket in buckets.items():
        for root, log in logs_of(bucket):
            there.add(log)
            first = scenario.book.retention.tables[uri].newest.oldest
            oldest = min(memory.claims.get(log, ()), default=first)
            if root == paths.LOG and oldest < first:
                yield f"the commit store knows of version {oldest} of {uri}, and {first} is the oldest"
    for scope, rows in memory.claims.items():
        below = memory.ranges[scope].below if scope in memory.ranges else 0
        if any(at < below for at in rows):
            yield f"the commit store knows entries of log {scope} that were truncated"
        elif not scope.startswith("identity:") and scope not in there:
            # Of a build that was collected, by someone who could not ask it, or before a late entry was claimed.
            scenario.world.counters["claims left"] += len(rows)


class DecidedRetain(DecidedTables):
    """A keyed table without shards."""

    name = "commits-retain"


class DecidedClones(DecidedTables, RetainClones):
    """Tables that are cloned, detached, dropped and made again."""

    name = "commits-clones"


class DecidedIndex(DecidedTables, IndexScenario):
    """Builds of text indexes, whose logs the commit store decides too."""

    name = "commits-index"
    mixed = True


class DecidedShards(Decided, RetainShards):
    """A table with shards, whose clones decide by themselves."""

    name = "commits-shards"
    rounds = 3  # the first one may publish a version that someone claimed who died
