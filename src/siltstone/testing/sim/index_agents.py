"""Users of text indexes: those who begin builds, do items, bring them to their end, and search.

What must hold: each behaves as the documentation tells users to. Whoever has a build's name may work on it, again and
at the same time; what it is told must fit the build's log. A search finds the rows that a scan of the same version
would match, whatever is built, replaced, dropped and collected meanwhile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from siltstone.api.index_builds import still_there
from siltstone.errors import SiltstoneError, UnfinishedError
from siltstone.index.making import Maker
from siltstone.testing.sim.index_book import COMMITTED, IndexBook
from siltstone.testing.sim.retain_agents import OUTAGES, Hand, RetainUser, Stage, days
from siltstone.testing.sim.shard_truth import LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.api.index_builds import IndexBuild
    from siltstone.api.table import Table
    from siltstone.format.text import Staged
    from siltstone.index.results import Search
    from siltstone.testing.sim.index_book import Builds
    from siltstone.testing.sim.retain_truth import Rows
    from siltstone.testing.sim.world import Process

INDEXES = ("one", "two")
ANALYZERS: tuple[dict[str, object], ...] = ({}, {"positions": False}, {"stem": False, "stop_words": False})
SMALL_BYTES = 1  # of a part that another release makes: each row is one
RECENT = 3  # builds that are worked on


class Posted(NamedTuple):
    """A build that someone began, as others are told of it."""

    uri: str
    name: str


class IndexStage(Stage, Protocol):
    """What these users need of a scenario."""

    board: list[Posted]
    releases: int  # of siltstone that work together
    searched: Sequence[str]  # words

    @property
    def book(self) -> IndexBook:
        """Where all is written down."""


class IndexUser(RetainUser):
    """Someone to whom indexes matter."""

    def __init__(self, scenario: IndexStage, name: str, count: int) -> None:
        super().__init__(scenario, name, count)
        self.place = scenario
        self.notes = scenario.book

    def builds(self, uri: str) -> Builds:
        """What the book has of a table's builds."""
        return self.notes.builds[uri]

    def posted(self, uri: str) -> Posted | None:
        """A build that was begun lately, if there is one."""
        there = [one for one in self.place.board if one.uri == uri][-RECENT:]
        return self.world.random.choice(there) if there else None


class Beginner(IndexUser):
    """Begins builds for others to work on, or makes indexes all by itself; drops them now and then."""

    def work(self, process: Process, uri: str) -> None:
        """One of these."""
        draw = self.world.random
        table = self.handle(process, uri)
        name, items = draw.choice(INDEXES), draw.randint(1, 4)
        there = [one for one in INDEXES if one in self.truth(uri).newest.indexes]
        chance = draw.random()
        if not there or (chance < 0.3 and len(there) < len(INDEXES)):
            free = [one for one in INDEXES if one not in there]
            self._new(table, draw.choice(free or [name]), items, alone=chance < 0.1)
        elif chance < 0.65:
            self._more(table, draw.choice(there), items)
        elif chance < 0.8:
            self.world.counters["optimized"] += table.optimize_index(draw.choice(there)) is not None
        elif chance < 0.9:
            table.drop_index(draw.choice(there))
            self.world.counters["dropped indexes"] += 1

    def _new(self, table: Table, name: str, items: int, *, alone: bool) -> None:
        analyzer = self.world.random.choice(ANALYZERS)
        if alone:
            table.create_text_index(LABEL, name=name, progress=None, **analyzer)
            self.world.counters["committed builds"] += 1
        else:
            self._post(table.uri, table.begin_text_index(LABEL, name=name, items=items, **analyzer))

    def _more(self, table: Table, name: str, items: int) -> None:
        build = table.begin_optimize_index(name, items=items, whole=self.world.random.random() < 0.3)
        if build is not None:
            self._post(table.uri, build)

    def _post(self, uri: str, build: IndexBuild) -> None:
        self.place.board.append(Posted(uri, build.name))
        self.world.counters["builds"] += 1


class ItemWorker(IndexUser):
    """Does items of builds, those that are missing or any."""

    def work(self, process: Process, uri: str) -> None:
        """Some items of a build."""
        draw = self.world.random
        posted = self.posted(uri)
        if posted is None:
            self.left += draw.random() < 0.7  # it waits for one
            return
        build = self.handle(process, uri).index_build(posted.name)
        items = build.missing() if draw.random() < 0.8 else list(range(build.items))
        draw.shuffle(items)
        for item in items[: draw.randint(1, 3)]:
            self._run(build, posted, item)
            process.wait(self.world.between(0.001, self.world.latency * 10))

    def _run(self, build: IndexBuild, posted: Posted, item: int) -> None:
        if self.place.releases > 1 and self.world.random.random() < 0.5:
            told = run_otherwise(build, item)
        else:
            told = build.run(item, threads=1)
        self.world.counters["items"] += 1
        builds = self.builds(posted.uri)
        known = builds.known[posted.name]
        if told != known.counts.get(item) and not builds.is_over(known):  # else its log may be gone, and begun anew
            self.book.violation(f"item {item} of build {posted.name} was acknowledged, and another attempt counts")


def run_otherwise(build: IndexBuild, item: int) -> Staged:
    """Do an item as another release does, which makes smaller parts."""
    table, inner = build._table, build._build  # noqa: SLF001
    with still_there(table, inner.plan.version):
        there = inner.staged().get(item)
        if there is not None:
            return there
        state = table._history.at(inner.plan.version)  # noqa: SLF001
        maker = Maker(table._own_tools, state, inner.plan, threads=1, part_bytes=SMALL_BYTES)  # noqa: SLF001
        return inner.stage(item, maker.make(item))


class Finisher(IndexUser):
    """Finalizes and commits builds, also those whose items are not all done."""

    def work(self, process: Process, uri: str) -> None:
        """One build, finalized or committed."""
        draw = self.world.random
        posted = self.posted(uri)
        if posted is None:
            self.left += draw.random() < 0.7
            return
        known = self.builds(uri).known[posted.name]
        if known.missing() and draw.random() < 0.6:
            self.left += draw.random() < 0.7
            return
        build = self.handle(process, uri).index_build(posted.name)
        before = known.missing()
        try:
            if draw.random() < 0.3:
                build.finalize()
                self.world.counters["finalized"] += 1
                done = known.marked or self.builds(uri).is_over(known)
            else:
                build.commit()
                self.world.counters["committed builds"] += 1
                done = f"{COMMITTED}{posted.name}" in self.book.retention.stands
        except UnfinishedError as error:
            self.world.counters["unfinished"] += 1
            self._check_named(posted, error, before)
            return
        if known.missing() or not done:
            self.book.violation(f"build {posted.name} was acknowledged, and has no end")

    def _check_named(self, posted: Posted, error: UnfinishedError, before: set[int]) -> None:
        known = self.builds(posted.uri).known[posted.name]
        items = error.facts.get("items")
        told = set(items) if isinstance(items, list) else set()
        if not known.missing() <= told <= before or not told:
            self.book.violation(
                f"items {sorted(told)} of build {posted.name} were said to be missing, which are "
                f"{sorted(before)} before and {sorted(known.missing())} then"
            )


# -- those who search ----------------------------------------------------------------------------


class Searcher(IndexUser):
    """Searches the newest version, and versions that it holds on to."""

    def work(self, process: Process, uri: str) -> None:
        """One search, or one version searched twice."""
        draw = self.world.random
        table = self.handle(process, uri)
        word = draw.choice(self.place.searched)
        self.world.counters["searches"] += 1
        if draw.random() < 0.6:
            self._search_now(table, uri, word)
        else:
            self._hold(process, table, uri, word)

    def _search_now(self, table: Table, uri: str, word: str) -> None:
        truth = self.truth(uri)
        began = truth.newest.version
        found = ids(table.search(LABEL, word, limit=None, index=pick_index(self.world.random.random(), table)))
        if not any(found == matching(one.rows, word) for one in truth.versions[began:]):
            self.book.violation(
                f"a search for {word!r} fits no version of {uri} from {began} on: "
                f"{_difference(found, matching(truth.newest.rows, word))}"
            )

    def _hold(self, process: Process, table: Table, uri: str, word: str) -> None:
        truth = self.truth(uri)
        version = self.pick_version(table)
        try:
            held = table.at(version=version)
            for _ in range(2):
                check_search(self.notes, held, f"version {version} of {uri}", truth.versions[version].rows, word)
                process.wait(self.world.between(0.01, self.stage.hold_s))
        except OUTAGES:
            raise
        except SiltstoneError as error:
            now = truth.newest
            if now.keeps(version) and version >= now.born and truth.versions[version].exists and not now.dropped:
                self.book.violation(f"version {version} of {uri} can't be searched: {error.kind}: {error.message}")


def pick_index(chance: float, table: Table) -> str | None:
    """Which index to search with, where there are several."""
    names = sorted(table._now().indexes)  # noqa: SLF001
    return names[int(chance * len(names))] if names else None


def check_search(book: IndexBook, held: Table, what: str, rows: Rows, word: str) -> None:
    """Search a version with each of its indexes: all that a scan would match, and nothing else."""
    names: list[str | None] = [*sorted(held._now().indexes)]  # noqa: SLF001
    for name in names or [None]:
        found = ids(held.search(LABEL, word, limit=None, index=name))
        if found != matching(rows, word):
            book.violation(
                f"a search of {what} for {word!r} with index {name} finds other rows than a scan: "
                f"{_difference(found, matching(rows, word))}"
            )


def ids(search: Search) -> dict[int, str]:
    """The rows that a search finds; a key that is there twice counts as another row."""
    found: dict[int, str] = {}
    for row in search.to_arrow().to_pylist():
        key = row["id"]
        found[-1 - key if key in found else key] = row[LABEL]
    return found


def matching(rows: Rows, word: str) -> Rows:
    """Rows that have a word."""
    return {key: label for key, label in rows.items() if word in re.findall("[a-z0-9]+", label)}


def _difference(found: Rows, expected: Rows) -> str:
    keys = [key for key in sorted(found.keys() | expected.keys()) if found.get(key) != expected.get(key)]
    return "; ".join(f"{key} is of {found.get(key)}, not of {expected.get(key)}" for key in keys[:4])


# -- those who change it -------------------------------------------------------------------------


class TextHand(Hand):
    """Changes rows, so that indexes fall behind."""

    overwriting = 0.05


class IndexGatherer(IndexUser):
    """Collects, mostly such that builds have time to end."""

    def work(self, process: Process, uri: str) -> None:
        """One collection."""
        draw = self.world.random
        table = self.handle(process, uri)
        done = table.gc(keep_days=days(draw.choice(self.stage.keeps_s)), keep_versions=draw.choice((1, 3, 6)))
        self.world.counters["collections"] += 1
        self.world.counters["collected"] += done.deleted
        self.world.counters["collected of builds"] += done.objects.get("index", 0)
        for why in done.left:
            self.world.note(f"{process.name} leaves something: {why}")
