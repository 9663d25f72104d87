"""Scenarios of tables that are collected while others hold on to what they need of them.

What must hold is what ``retain_book`` says, at every moment; and when the faults are over, all that is kept can be
read, and a collection leaves nothing that nobody needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from siltstone.api.clones import drop_table
from siltstone.api.opening import create_table, open_table
from siltstone.errors import SiltstoneError
from siltstone.log import open_log
from siltstone.paths import LOG
from siltstone.testing.sim.faults import Faults, draw_faults
from siltstone.testing.sim.registry import SimRegistry
from siltstone.testing.sim.retain_agents import Gatherer, Hand, Holder, PlainHand, RoughHand
from siltstone.testing.sim.retain_audit import DAYS_S, read_all, strays
from siltstone.testing.sim.retain_book import KeptBucket, RetainBook, RetainShardBook
from siltstone.testing.sim.retain_clones import Cloner, Detacher, Dropper, ShardCloner
from siltstone.testing.sim.retain_keepers import Keeper, KeepingHand, Spoiler
from siltstone.testing.sim.scenario import Scenario
from siltstone.testing.sim.shard_agents import FreshReader, Merger, Splitter, TableHand, rows_of
from siltstone.testing.sim.shard_book import AT_TABLE, Edit
from siltstone.testing.sim.shard_scenario import COLUMNS, ShardScenario, number_of
from siltstone.testing.sim.shard_truth import KEY
from siltstone.testing.sim.store import SimStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.api.table import Table
    from siltstone.testing.sim.world import Process, World

TRUSTS_MS = (0, 0, 300, 2000, 20_000)
RATES = (0.0, 0.02, 0.05, 0.1)
KEYS = tuple(range(12))
NIGHTS_S = (60.0, 700.0, 100_000.0)
HOME = "memory://t0"


class PlacedStore(SimStore):
    """A process's connection to one of several buckets."""

    def __init__(self, process: Process, bucket: KeptBucket, uri: str) -> None:
        super().__init__(process, bucket)
        self.uri = uri


class RetainScenario(Scenario):
    """A keyed table without shards."""

    name: ClassVar[str] = "retain"
    places: ClassVar[Sequence[str]] = (HOME,)
    scopes: Sequence[Literal["all", "durable"]] = ("all",)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.ledger = self.book = RetainBook(world)
        self.uris: Sequence[str] = self.places
        self.trust_ms = draw.choice(TRUSTS_MS)
        self.keys: Sequence[int] = KEYS[: draw.choice((3, 12))]
        self.buckets = {uri: self._bucket() for uri in self.places}
        for uri, bucket in self.buckets.items():
            self.book.retention.watch(uri, bucket)
        self._draw_times()
        self._fresh = 1000

    def _draw_times(self) -> None:
        """How long everything takes, so that it meets."""
        world, draw = self.world, self.world.random
        self.pause_s = world.latency * draw.choice((10, 40, 100))
        self.hold_s = world.latency * draw.choice((20, 100, 400))
        self.promise_s = world.latency * draw.choice((50, 500))
        least_s = draw.choice((0.0, 0.0, world.latency * 50))
        self.keeps_s = (least_s, least_s, least_s + world.latency * 100)
        self.book.retention.keep_ms = int(least_s * 1000)

    def _bucket(self) -> KeptBucket:
        return kept_bucket(self.world)

    # -- the stage -------------------------------------------------------------------------------

    def commits(self, process: Process) -> SimRegistry | None:
        """A process's connection to what decides, where the object stores don't."""
        return SimRegistry(process, self.service) if self.service else None

    def store(self, process: Process, uri: str) -> PlacedStore:
        """A process's connection to a table's bucket."""
        return PlacedStore(process, self.buckets[uri], uri)

    def others(self, process: Process) -> dict[str | int, PlacedStore]:
        """Connections to all of them, by which clones find their origins."""
        return {uri: self.store(process, uri) for uri in self.places}

    def open_at(self, process: Process, uri: str) -> Table:
        """The table at a URI, as a user opens it."""
        store, commits = self.store(process, uri), self.commits(process)
        return open_table(store, commits=commits, origins=self.others(process), probe=False, env=process.env)

    def create_at(self, process: Process, uri: str) -> Table:
        """A new table at a URI."""
        return create_table(
            self.store(process, uri),
            schema=COLUMNS,
            key=KEY,
            commits=self.commits(process),
            exist_ok=uri == HOME,
            probe=False,
            env=process.env,
        )

    def fresh_keys(self, count: int) -> tuple[int, ...]:
        """Keys that no row had."""
        self._fresh += count
        return tuple(range(self._fresh - count, self._fresh))

    def _found(self, process: Process) -> None:
        for uri in self.places:
            store, commits = self.store(process, uri), self.commits(process)
            open_log(
                store, commits=commits, create=True, root=LOG, probe=False, trust_ms=self.trust_ms, env=process.env
            )
        table = self.create_at(process, HOME)
        for number, keys in enumerate((self.keys[:2], self.keys[1:])):
            self._write(table, f"first-{number}", keys)

    def faults(self) -> Faults:
        """Mostly such that much is done, and takes long."""
        draw = self.world.random
        slow_s = self.world.latency * self.world.between(20, 1000)
        if draw.random() < 0.5:
            weights = {"slow": 2.0, "stall": 2.0, "late": 0.2, "die_before": 0.2, "die_after": 0.2}
            return Faults(rate=draw.choice(RATES), read_rate=0.02, weights=weights, late_s=slow_s, stall_s=slow_s)
        found = draw_faults(self.world)
        found.rate = draw.choice(RATES)
        found.read_rate = found.rate * draw.choice((0.03, 0.1, 0.25))
        found.late_s = found.stall_s = slow_s
        return found

    # -- the play --------------------------------------------------------------------------------

    def play(self) -> None:
        self.world.start("founder", self._found)
        self.world.run()
        sleep_in(self.world, self.pause_s)
        super().play()

    def cast(self) -> None:
        draw = self.world.random
        for number in range(draw.choice((2, 3))):
            Hand(self, f"h{number}", draw.randint(5, 9)).employ(delay=draw.random() * self.pause_s)
        for number in range(draw.choice((1, 2))):
            Keeper(self, f"k{number}", draw.randint(4, 8)).employ()
        for number in range(draw.choice((2, 3))):
            Gatherer(self, f"g{number}", draw.randint(4, 8)).employ()
        Holder(self, "r", draw.randint(3, 5)).employ()

    def audit(self, process: Process) -> None:
        """A newcomer, without any fault."""
        self.book.retention.keep_ms = 0
        try:
            for table in self._tables(process):
                read_all(self.book, table)
                self._write(table, f"audit-{table.uri}", self.keys[:1])
            self._collect(process)
        except SiltstoneError as error:
            self.book.violation(f"the audit ends with {error.kind}: {error.message}")
            return
        self.book.close()

    def _tables(self, process: Process) -> Iterator[Table]:
        truths = self.book.retention.tables
        return (self.open_at(process, uri) for uri in self.uris if truths[uri].newest.exists)

    def _write(self, table: Table, label: str, keys: Sequence[int]) -> None:
        edit = Edit(label, keys=tuple(keys), shard=AT_TABLE)
        self.book.begin(edit)
        transaction = table.transaction(once=edit.op)
        transaction.upsert(rows_of(edit))
        transaction.commit()
        self.book.done(edit)

    def _collect(self, process: Process) -> None:
        """Collect all there is: what can't be let go of yet the first time goes the second time."""
        for _ in range(2):
            process.wait(DAYS_S)
            for table in self._tables(process):
                self._report(table.uri, table.gc(keep_days=0).left)
        for table in self._tables(process):
            read_all(self.book, table)
        for uri, bucket in self.buckets.items():
            for key in strays(self.book.retention.tables[uri], bucket):
                self.book.violation(f"{key} of {uri} is left, and nobody needs it")

    def _report(self, uri: str, left: Sequence[str]) -> None:
        for why in left:
            self.book.violation(f"a collection of {uri} without any fault leaves something: {why}")


def kept_bucket(world: World) -> KeptBucket:
    """A bucket that tells what is removed from it."""
    draw = world.random
    return KeptBucket(
        world,
        cheap_probes=draw.random() < 0.5,
        page=draw.choice((3, 1000, 1000, 1000)),
        delete_page=draw.choice((1, 2, 1000)),
    )


def sleep_in(world: World, pause_s: float) -> None:
    """Let long times pass now and then: promises end, and what was let go a while ago may go."""
    for _ in range(world.random.choice((0, 1, 2))):
        night_s = world.random.choice(NIGHTS_S)
        world.at(world.random.random() * 8 * pause_s, lambda night_s=night_s: world.skip(night_s))  # type: ignore[misc]


class RetainClones(RetainScenario):
    """Tables that are cloned, detached, dropped and made again."""

    name = "retain-clones"
    places = (HOME, "memory://t1", "memory://t2", "memory://t3")

    def drop_at(self, process: Process, uri: str) -> None:
        """Drop the table at a URI, or end a drop."""
        drop_table(
            self.store(process, uri),
            missing_ok=True,
            commits=self.commits(process),
            origins=self.others(process),
            probe=False,
            env=process.env,
        )

    def cast(self) -> None:
        draw = self.world.random
        self.uris = self.places[: draw.choice((3, 4))]
        for number in range(2):
            RoughHand(self, f"h{number}", draw.randint(4, 8)).employ(delay=draw.random() * self.pause_s)
        Keeper(self, "k", draw.randint(2, 5)).employ()
        for number in range(draw.choice((1, 2))):
            Gatherer(self, f"g{number}", draw.randint(4, 8)).employ()
        for number in range(draw.choice((2, 2, 3))):
            Cloner(self, f"c{number}", draw.randint(3, 6)).employ(delay=draw.random() * 2 * self.pause_s)
        Detacher(self, "d", draw.randint(1, 4)).employ(delay=draw.random() * 4 * self.pause_s)
        for number in range(draw.choice((1, 2))):
            Dropper(self, f"x{number}", draw.randint(2, 5)).employ(delay=draw.random() * 4 * self.pause_s)
        Holder(self, "r", draw.randint(2, 4)).employ()

    def _collect(self, process: Process) -> None:
        """Clones that were not ended go; then collections of clones let go of what parents keep for them."""
        self.uris = self.places[::-1]
        truths = self.book.retention.tables
        for _ in range(2):
            for uri in self.uris:
                if not truths[uri].newest.exists and truths[uri].versions:
                    self.drop_at(process, uri)
            process.wait(DAYS_S)
            for table in self._tables(process):
                self._report(table.uri, table.gc(keep_days=0).left)
        super()._collect(process)
        for uri in self.uris:
            for name, one in truths[uri].newest.checkpoints.items():
                if one.holder is None:
                    continue
                clone = truths[one.holder.uri]
                if clone.pin_in(truths[uri], born=clone.newest.born) != one:
                    # One that was dropped while its maker, which died then, was about to pin: nobody knows of it.
                    self.world.counters["pins left"] += 1
                elif all(origin.uri != uri for origin in clone.newest.origins.values()):
                    self.book.violation(f"{name} of {uri} is left, and {one.holder.uri} needs it no more")


class RetainShards(ShardScenario):
    """A table with shards, whose durable rows checkpoints keep too."""

    name = "retain-shards"
    book: RetainShardBook
    clones: ClassVar[Sequence[str]] = ("memory://c0", "memory://c1")
    scopes: Sequence[Literal["all", "durable"]] = ("all", "durable", "durable")
    rounds: ClassVar[int] = 2  # of collections, in the end
    splits = False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.ledger = self.book = RetainShardBook(world, number_of=number_of)
        self.uris: Sequence[str] = (SimStore.uri,)
        bucket = self.bucket
        assert isinstance(bucket, KeptBucket)
        self.buckets = {SimStore.uri: bucket}
        self.book.retention.watch(SimStore.uri, bucket, also=self.book.landed)
        self.clone_buckets = {uri: kept_bucket(world) for uri in self.clones}
        for uri, one in self.clone_buckets.items():
            self.book.retention.watch(uri, one)
        self.pause_s = world.latency * draw.choice((40, 100))
        self.pauses_s["KeepingHand"] = self.pauses_s["ShardHand"]
        self.hold_s = world.latency * draw.choice((20, 100, 400))
        self.promise_s = world.latency * draw.choice((50, 500))
        self.keeps_s: Sequence[float] = (0.0, 0.0, world.latency * 100)
        self._fresh = 1000

    def _bucket(self) -> KeptBucket:
        return kept_bucket(self.world)

    def open_at(self, process: Process, uri: str) -> Table:
        """The table, or a clone of it."""
        if uri not in self.clones:
            return self.table(process)
        parent = SimStore(process, self.bucket)
        return open_table(self.clone_store(process, uri), origins={1: parent}, probe=False, env=process.env)

    def clone_store(self, process: Process, uri: str) -> PlacedStore:
        """Where a clone is, or is to be."""
        return PlacedStore(process, self.clone_buckets[uri], uri)

    def fresh_keys(self, count: int) -> tuple[int, ...]:
        """Keys that no row had."""
        self._fresh += count
        return tuple(range(self._fresh - count, self._fresh))

    def play(self) -> None:
        sleep_in(self.world, self.pause_s)
        super().play()

    def cast(self) -> None:
        draw = self.world.random
        for number in range(2):
            KeepingHand(self, f"w{number}", draw.randint(2, 3)).employ(delay=draw.random() * self.pauses_s["ShardHand"])
        Merger(self, "m", draw.randint(2, 5)).employ()
        for number in range(2):
            Keeper(self, f"k{number}", draw.randint(4, 8)).employ()
        for number in range(2):
            Gatherer(self, f"g{number}", draw.randint(3, 6)).employ()
        PlainHand(self, "h", draw.randint(1, 4)).employ()
        if draw.random() < 0.5:
            ShardCloner(self, "c", draw.randint(1, 3)).employ(delay=draw.random() * 4 * self.pause_s)
        if draw.random() < 0.5:
            Spoiler(self, "x", draw.randint(2, 4)).employ()
        if draw.random() < 0.3:
            Splitter(self, "s", 3).employ()
        if draw.random() < 0.3:
            TableHand(self, "t", draw.randint(1, 2)).employ()
        FreshReader(self, "r", draw.randint(1, 3)).employ()

    def audit(self, process: Process) -> None:
        """As of a table with shards, then as of one that keeps versions."""
        super().audit(process)
        try:
            table = self.table(process)
            read_all(self.book, table)
            for _ in range(self.rounds):
                process.wait(DAYS_S)
                for why in table.gc(keep_days=0).left:
                    self.book.violation(f"a collection without any fault leaves something: {why}")
            read_all(self.book, table)
            for uri in self.clones:
                if self.book.retention.tables[uri].newest.exists:
                    read_all(self.book, self.open_at(process, uri))
            self._read(table, fresh=True)
        except SiltstoneError as error:
            self.book.violation(f"the audit ends with {error.kind}: {error.message}")
            return
        for uri, bucket in self.buckets.items():
            for key in strays(self.book.retention.tables[uri], bucket):
                self.book.violation(f"{key} is left, and nobody needs it")
