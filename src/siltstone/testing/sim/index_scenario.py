"""Scenarios of text indexes: some begin builds, others do items, finalize, commit, search, drop and collect.

What must hold is what ``index_book`` says, at every moment; and when the faults are over, searches find what scans do,
builds that may still be ended can be, and a collection leaves nothing of those that are not part of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from siltstone.errors import AlreadyExistsError, ConflictError, NotFoundError
from siltstone.testing.sim.faults import Faults
from siltstone.testing.sim.index_agents import (
    INDEXES,
    Beginner,
    Finisher,
    IndexGatherer,
    ItemWorker,
    Posted,
    Searcher,
    TextHand,
    check_search,
)
from siltstone.testing.sim.index_book import IndexBook
from siltstone.testing.sim.retain_clones import Cloner, Detacher, Dropper
from siltstone.testing.sim.retain_keepers import Keeper
from siltstone.testing.sim.retain_scenario import RetainClones, RetainScenario
from siltstone.testing.sim.shard_truth import LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.api.table import Table
    from siltstone.testing.sim.world import Process, World

WORDS = ("h0", "h1", "first", "t0", "1", "2", "3")


class IndexScenario(RetainScenario):
    """One table, its indexes, and all who work on them."""

    name = "index"
    book: IndexBook
    searched: Sequence[str] = WORDS
    mixed: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        before = self.book.retention
        self.ledger = self.book = IndexBook(world)
        self.book.retention.keep_ms = before.keep_ms
        self.board: list[Posted] = []
        self.releases = 2 if self.mixed else 1
        for uri, bucket in self.buckets.items():
            self.book.watch(uri, bucket)
            self.book.builds[uri].alike = self.releases == 1 and len(self.places) == 1

    def _found(self, process: Process) -> None:
        super()._found(process)
        if self.world.random.random() < 0.6:  # one that others make more of
            self.open_at(process, self.places[0]).create_text_index(LABEL, name=INDEXES[0])

    def faults(self) -> Faults:
        """Often such that many die in the middle of their work."""
        draw = self.world.random
        if draw.random() < 0.5:
            return super().faults()
        slow_s = self.world.latency * self.world.between(20, 300)
        weights = {"die_before": 1.0, "die_after": 1.0, "die_under_way": 0.5, "slow": 1.0, "stall": 1.0, "late": 0.3}
        return Faults(
            rate=0.15, read_rate=0.03, weights=weights, late_s=slow_s, stall_s=slow_s, left=draw.randint(5, 20)
        )

    def cast(self) -> None:
        draw, pause_s = self.world.random, self.pause_s
        for number in range(draw.choice((1, 2))):
            TextHand(self, f"h{number}", draw.randint(2, 4)).employ(delay=draw.random() * pause_s)
        for number in range(draw.choice((1, 2))):
            Beginner(self, f"b{number}", draw.randint(2, 4)).employ()
        for number in range(2):
            ItemWorker(self, f"w{number}", draw.randint(3, 6)).employ(delay=draw.random() * pause_s)
        for number in range(2):
            Finisher(self, f"f{number}", draw.randint(3, 5)).employ(delay=draw.random() * pause_s)
        for number in range(draw.choice((0, 1, 1))):
            IndexGatherer(self, f"g{number}", draw.randint(1, 4)).employ(delay=draw.random() * 2 * pause_s)
        if draw.random() < 0.3:
            Keeper(self, "k", draw.randint(1, 3)).employ()
        Searcher(self, "s", draw.randint(2, 4)).employ()

    def _collect(self, process: Process) -> None:
        """Search all that is kept, end some builds or none, maybe drop all indexes, and collect."""
        draw = self.world.random
        ends, drops = draw.random() < 0.5, draw.random() < 0.3
        for table in self._tables(process):
            self._search_all(table)
            if ends:
                self._end(table)
            if drops:
                for name in INDEXES:
                    if name in self.book.retention.tables[table.uri].newest.indexes:
                        table.drop_index(name)
        super()._collect(process)
        for table in self._tables(process):
            self._search_all(table)

    def _search_all(self, table: Table) -> None:
        """A newcomer's searches of what is kept by name, and of the newest version."""
        truth = self.book.retention.tables[table.uri]
        now, draw = truth.newest, self.world.random
        for version in sorted({*now.kept, now.version}):
            held = table.at(version=version)
            word = draw.choice(self.searched)
            check_search(self.book, held, f"version {version}", truth.versions[version].rows, word)

    def _end(self, table: Table) -> None:
        """Whatever was left of builds, a newcomer brings them to their end, unless others came first."""
        builds = self.book.builds[table.uri]
        for posted in self.board:
            if posted.uri != table.uri or builds.is_over(builds.known[posted.name]):
                continue
            build = table.index_build(posted.name)
            for item in build.missing():
                build.run(item, threads=1)
            try:
                build.commit()
            except (AlreadyExistsError, ConflictError, NotFoundError) as error:
                self.world.note(f"build {posted.name} is of no use any more: {error.kind}")


class MixedReleases(IndexScenario):
    """Workers of two releases, which make different parts of the same rows."""

    name = "index-mixed"
    mixed = True


class IndexClones(IndexScenario, RetainClones):
    """Clones that search with the indexes of their parents, make more of them, and take copies along."""

    name = "index-clones"

    def cast(self) -> None:
        draw, pause_s = self.world.random, self.pause_s
        self.uris = self.places[: draw.choice((2, 3))]
        TextHand(self, "h0", draw.randint(3, 6)).employ(delay=draw.random() * pause_s)
        for number in range(2):
            Beginner(self, f"b{number}", draw.randint(2, 4)).employ()
        ItemWorker(self, "w", draw.randint(3, 5)).employ(delay=draw.random() * pause_s)
        Finisher(self, "f", draw.randint(2, 4)).employ(delay=draw.random() * pause_s)
        for number in range(draw.choice((1, 2))):
            IndexGatherer(self, f"g{number}", draw.randint(2, 5)).employ(delay=draw.random() * 2 * pause_s)
        for number in range(draw.choice((1, 2))):
            Cloner(self, f"c{number}", draw.randint(2, 4)).employ(delay=draw.random() * 2 * pause_s)
        Detacher(self, "d", draw.randint(1, 3)).employ(delay=draw.random() * 4 * pause_s)
        if draw.random() < 0.5:
            Dropper(self, "x", draw.randint(1, 3)).employ(delay=draw.random() * 6 * pause_s)
        Searcher(self, "s", draw.randint(3, 5)).employ()
