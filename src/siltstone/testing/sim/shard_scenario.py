"""Scenarios of tables with shards: several writers fight over them, while others merge, split, change and read.

What must hold: when the faults are over and everyone has gone home, a newcomer sees all that stands, by a fresh read
and, after a merge, by a plain one; it can write to every shard; a second merge finds nothing; verification is content.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from siltstone.api.opening import create_table, open_table
from siltstone.errors import SiltstoneError
from siltstone.log import open_log
from siltstone.paths import LOG
from siltstone.shard.config import ShardWriterConfig
from siltstone.shard.route import shard_numbers
from siltstone.testing.sim.faults import Faults, draw_faults
from siltstone.testing.sim.registry import SimRegistry, SimService
from siltstone.testing.sim.scenario import Scenario
from siltstone.testing.sim.shard_agents import (
    FreshReader,
    Merger,
    ShardHand,
    Splitter,
    TableHand,
    read_rows,
    rows_of,
)
from siltstone.testing.sim.shard_book import Began, Book, Edit
from siltstone.testing.sim.shard_truth import KEY, LABEL, WatchedBucket
from siltstone.testing.sim.store import Lie, SimStore
from siltstone.verify.inspect import verify

if TYPE_CHECKING:
    from siltstone.api.table import Table
    from siltstone.shard.writer import ShardWriter
    from siltstone.testing.sim.world import Process, World

TRUSTS_MS = (0, 0, 300, 2000, 20_000)
RATES = (0.02, 0.05, 0.1, 0.2)
VERIFIED = 0.3  # of all seeds: it reads every log once more
KEYS = tuple(range(24))
NAMES = ("a", "b")
COLUMNS = pa.schema([pa.field(KEY, pa.int64(), nullable=False), (LABEL, pa.string())])
LIES: tuple[Lie, ...] = ("always", "gateway")


class ShardScenario(Scenario):
    """A keyed table whose shards several writers want, and mergers, and readers."""

    name: ClassVar[str] = "shards"
    keyed: ClassVar[bool] = True
    splits: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        draw = world.random
        self.ledger = self.book = Book(world, honest=self.honest, number_of=number_of)
        self.bucket = self._bucket()
        self.bucket.watch = self.book.landed
        self.trust_ms = draw.choice(TRUSTS_MS)
        self.guard = "witness" if draw.random() < 0.1 else "receipt"
        self.shards = draw.choice((1, 1, 2))
        self.keys = KEYS[: draw.choice((3, 8, 24))] if self.keyed else ()
        # To open a shard takes about twenty requests, a put three: all that goes on must meet.
        self.rest_s = world.latency * draw.choice((1, 5, 20))
        self.pauses_s = {
            name: world.latency * draw.choice((10, 40, 100))
            for name in ("ShardHand", "Merger", "Splitter", "TableHand", "FreshReader")
        }
        self.config = ShardWriterConfig(
            enable_memtable=draw.random() < 0.9,
            max_memtable_rows=draw.choice((1, 2, 4, 1000)),
            max_wal_append_attempts=draw.choice((1, 2, 3)),
        )
        self._rows = 0

    def _bucket(self) -> WatchedBucket:
        draw = self.world.random
        return WatchedBucket(
            self.world,
            cheap_probes=draw.random() < 0.5,
            page=draw.choice((3, 1000, 1000, 1000)),
            delete_page=draw.choice((1, 2, 1000)),
        )

    # -- the stage -------------------------------------------------------------------------------

    def table(self, process: Process) -> Table:
        """The table, as a user opens it."""
        return open_table(SimStore(process, self.bucket), commits=self._registry(process), probe=False, env=process.env)

    def _registry(self, process: Process) -> SimRegistry | None:
        return SimRegistry(process, self.service) if self.service else None

    def _found(self, process: Process) -> None:
        store, registry = SimStore(process, self.bucket), self._registry(process)
        open_log(
            store,
            commits=registry,
            create=True,
            root=LOG,
            guard=self.guard,
            probe=False,
            trust_ms=self.trust_ms,
            env=process.env,
        )
        create_table(
            store,
            schema=COLUMNS,
            key=KEY if self.keyed else None,
            shards=self.shards if self.keyed else None,
            commits=registry,
            exist_ok=True,
            probe=False,
            env=process.env,
        )

    def writer(self, table: Table, shard: int | str, process: Process) -> ShardWriter:
        """The writer of a shard, without threads."""
        return table._open_writer(shard, self.config, process.name, background=False)  # noqa: SLF001

    def pick_shard(self, table: Table) -> int | str:
        """A shard that some keys belong to, as users name it."""
        spread = table._looked().sharding  # noqa: SLF001
        draw = self.world.random
        if spread is None:
            return draw.choice(NAMES[: self.shards])
        return number_of(draw.choice(self.keys), spread.count)

    def keys_of(self, writer: ShardWriter) -> tuple[int, ...]:
        """The keys that belong to a writer's shard."""
        route = writer.place.route
        return tuple(key for key in self.keys if route and number_of(key, route.count) == route.number)

    def pick_keys(self, keys: tuple[int, ...]) -> tuple[int, ...]:
        """Keys of the rows of an edit: some of these, or new ones where the table has no key."""
        draw = self.world.random
        count = draw.randint(1, 3)
        if self.keyed:
            return tuple(draw.sample(keys, min(count, len(keys))))
        self._rows += count
        return tuple(range(self._rows - count, self._rows))

    def faults(self) -> Faults:
        draw = self.world.random
        slow_s = self.world.latency * self.world.between(20, 1000)
        chance = draw.random()
        if chance < 0.3:  # nothing fails, and much takes long
            weights = {"slow": 2.0, "stall": 1.0}
            return Faults(rate=draw.choice(RATES), read_rate=0.04, weights=weights, late_s=slow_s, stall_s=slow_s)
        if chance < 0.6:  # answers are lost, and nobody is patient
            self.world.patience_s = 0.0
            weights = {"lost": 3.0, "late": 1.0, "denied": 0.3, "die_under_way": 0.3}
            return Faults(rate=draw.choice(RATES) + 0.1, weights=weights, late_s=slow_s, burst=draw.choice((0.5, 0.8)))
        found = draw_faults(self.world)
        found.rate = draw.choice(RATES)
        found.read_rate = found.rate * draw.choice((0.03, 0.1, 0.25))
        found.late_s = found.stall_s = slow_s
        found.left *= 2
        return found

    # -- the play --------------------------------------------------------------------------------

    def play(self) -> None:
        self.world.start("founder", self._found)
        self.world.run()
        super().play()

    def cast(self) -> None:
        draw = self.world.random
        reigns = draw.randint(2, 3) + 2 * self.splits
        for number in range(draw.choice((2, 2, 3))):
            ShardHand(self, f"w{number}", reigns).employ(delay=draw.random() * self.pauses_s["ShardHand"])
        for number in range(draw.choice((0, 1, 2, 2))):
            Merger(self, f"m{number}", draw.randint(2, 6)).employ()
        if draw.random() < 0.5:
            TableHand(self, "t", draw.randint(1, 3)).employ()
        FreshReader(self, "r", draw.randint(2, 4)).employ()
        if self.splits:
            for number in range(draw.randint(1, 2)):
                Splitter(self, f"s{number}", draw.randint(1, 2)).employ()

    def audit(self, process: Process) -> None:
        """A newcomer, without any fault: read, merge, write, verify."""
        try:
            table = self.table(process)
            table.scan(fresh=True).to_arrow()  # whatever was decided is published by who reads
            self._read(table, fresh=True)
            merged = table.merge_shards()
            self._read(table, fresh=False)
            if table.merge_shards().version != merged.version:
                self.book.violation("a second merge found something to merge")
            self._write(process, table)
            self._read(table, fresh=True)
        except SiltstoneError as error:
            self.book.violation(f"the audit ends with {error.kind}: {error.message}")
            return
        self.book.close()
        if self.world.random.random() < VERIFIED:
            self._verify(process)

    def _verify(self, process: Process) -> None:
        store, registry = SimStore(process, self.bucket), self._registry(process)
        for found in verify(store, commits=registry, env=process.env):
            for problem in found.problems:
                self.book.violation(f"verification finds fault without a cause: {problem.fault}: {problem.detail}")

    def _read(self, table: Table, *, fresh: bool) -> None:
        """All that stands must be seen."""
        truth = self.book.truth
        ends = {shard: len(wal) for shard, wal in truth.wals.items()}
        began = Began(len(truth.versions) - 1, ends)
        self.book.saw(began, read_rows(table.scan(fresh=fresh).to_arrow()), fresh=fresh)

    def _write(self, process: Process, table: Table) -> None:
        if any(one.sealed for one in table.shards()):
            table.split_shards(2)
        spread = table._looked().sharding  # noqa: SLF001
        numbers = dict.fromkeys(number_of(key, spread.count) for key in self.keys) if spread else {}
        for shard in numbers or NAMES:
            writer = self.writer(table, shard, process)
            edit = Edit(f"audit-{shard}", keys=self.pick_keys(self.keys_of(writer)), shard=writer.place.name)
            self.book.begin(edit)
            writer.put(rows_of(edit))
            self.book.done(edit)
            writer.close()


@cache
def number_of(key: int, count: int) -> int:
    """The shard of a key."""
    return int(shard_numbers(pa.table({KEY: pa.array([key], pa.int64())}), count)[0])


class PlainShards(ShardScenario):
    """A table without a key: shards have names, and every row counts."""

    name = "shards-plain"
    keyed = False


class SplitShards(ShardScenario):
    """The keys are spread anew while all else goes on."""

    name = "shards-split"
    splits = True


class ForkedShards(ShardScenario):
    """A store that lies; a commit store decides, for the shards as well."""

    name = "shards-fork"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.service = SimService(world)

    def _bucket(self) -> WatchedBucket:
        return WatchedBucket(self.world, known_good=False, lie=self.world.random.choice(LIES), cheap_probes=False)
