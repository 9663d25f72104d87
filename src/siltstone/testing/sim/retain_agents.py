"""Users of a table that keeps and collects versions: those who change it, keep versions, collect, and read.

What must hold: each behaves as the documentation tells users to. A transaction may be held open for long, and is run
again only under its ``once`` id. What is read of a version, a tag or a checkpoint is compared with what the book has of
it; to find nothing is right only where it is not kept any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from siltstone.errors import (
    CommitUnknownError,
    NotFoundError,
    PermissionDeniedError,
    SiltstoneError,
    UnavailableError,
    WrongWalStoreError,
)
from siltstone.retain.expiry import DAY_MS
from siltstone.testing.sim.agents import OPENINGS_MAX, TRIES_MAX, Agent
from siltstone.testing.sim.ledger import ALARMS
from siltstone.testing.sim.retain_book import RetainShardBook
from siltstone.testing.sim.shard_agents import read_rows, rows_of
from siltstone.testing.sim.shard_book import AT_TABLE, Edit
from siltstone.testing.sim.shard_truth import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.api.table import Table
    from siltstone.testing.sim.retain_book import RetainBook
    from siltstone.testing.sim.retain_truth import Rows, TableTruth
    from siltstone.testing.sim.world import Process, World

NAMES = ("one", "two", "three")
# No answer, or of another store than the one that was asked about: it says nothing of what is there.
OUTAGES = (UnavailableError, PermissionDeniedError, WrongWalStoreError)


class Stage(Protocol):
    """What these users need of a scenario."""

    world: World
    hold_s: float  # how long someone holds on to something, at most
    pause_s: float  # between two pieces of work
    promise_s: float  # how long checkpoints are kept that are not kept for ever

    @property
    def book(self) -> RetainBook | RetainShardBook:
        """Where all is written down."""

    @property
    def uris(self) -> Sequence[str]:
        """Where tables are, or may be."""

    @property
    def keys(self) -> Sequence[int]:
        """Keys that rows share."""

    @property
    def scopes(self) -> Sequence[Literal["all", "durable"]]:
        """Of checkpoints."""

    @property
    def keeps_s(self) -> Sequence[float]:
        """How long collections keep versions."""

    def open_at(self, process: Process, uri: str) -> Table:
        """The table at a URI."""

    def fresh_keys(self, count: int) -> tuple[int, ...]:
        """Keys that no row had."""


class RetainUser(Agent):
    """Someone who works with one table after another, through handles that it keeps for a while."""

    def __init__(self, scenario: Stage, name: str, count: int) -> None:
        super().__init__(scenario, name)  # type: ignore[arg-type] # a scenario of its own kind
        self.stage = scenario
        self.book = scenario.book
        self.left = count
        self._edits = 0
        self._handles: dict[str, Table] = {}

    def live(self, process: Process) -> None:
        self._handles = {}
        while self.left > 0:
            self.left -= 1
            process.wait(self.world.between(0.01, self.stage.pause_s))
            uri = self.pick()
            try:
                self.work(process, uri)
            except ALARMS as error:
                self.book.alarm(error)
                self._handles.pop(uri, None)
            except SiltstoneError as error:
                self.world.note(f"{process.name} stops: {error.kind}: {error.message}")
                if self.world.random.random() < 0.2 or isinstance(error, NotFoundError):
                    self._handles.pop(uri, None)

    def work(self, process: Process, uri: str) -> None:
        """One piece of the task."""
        raise NotImplementedError

    def pick(self) -> str:
        """Where it works next: mostly where a table is."""
        draw, uris = self.world.random, self.stage.uris
        there = [uri for uri in uris if self.truth(uri).newest.exists]
        return draw.choice(there) if there and draw.random() < 0.9 else draw.choice(uris)

    def pick_version(self, table: Table) -> int:
        """A version that may well be kept."""
        newest = table.version
        known = [*table.tags.values(), *range(max(0, newest - 4), newest + 1)]
        return int(self.world.random.choice(known))

    def truth(self, uri: str) -> TableTruth:
        """What the book has of a table."""
        return self.book.retention.tables[uri]

    def handle(self, process: Process, uri: str) -> Table:
        """A table. Raises NotFoundError where there is none, after as many tries as an outage takes."""
        found = self._handles.get(uri)
        for number in range(OPENINGS_MAX):
            if found is not None:
                break
            try:
                found = self.stage.open_at(process, uri)
            except OUTAGES:
                if number == OPENINGS_MAX - 1:
                    raise
                self.think(process, 2.0)
        assert found is not None
        self._handles[uri] = found
        return found


# -- those who change it -------------------------------------------------------------------------


class Hand(RetainUser):
    """Changes rows, slowly at times; compacts, restores, tags."""

    restores = True
    overwriting = 0.1

    def work(self, process: Process, uri: str) -> None:
        """One operation."""
        draw = self.world.random
        table = self.handle(process, uri)
        chance = draw.random()
        if chance < 0.5:
            self._change(process, table, self._new(uri))
        elif chance < 0.6:
            table.compact()
            self.world.counters["compactions"] += 1
        elif chance < 0.7:
            table.tag(draw.choice(NAMES), version=self.pick_version(table) if draw.random() < 0.6 else None)
            self.world.counters["tags"] += 1
        elif chance < 0.77:
            table.untag(draw.choice(NAMES))
        elif self.restores:
            table.restore(version=self.pick_version(table))
            self.world.counters["restores"] += 1

    def _new(self, uri: str) -> Edit:
        draw = self.world.random
        self._edits += 1
        chance = draw.random()
        keys = tuple(draw.sample(self.stage.keys, draw.randint(1, min(3, len(self.stage.keys)))))
        if chance < 0.15:
            keys = self.stage.fresh_keys(2)
        edit = Edit(f"{self.name}-{self._edits}-{uri[-2:]}", keys=keys, shard=AT_TABLE)
        edit.deleted = 0.15 <= chance < 0.4
        edit.overwrites = 0.4 <= chance < 0.4 + self.overwriting
        return edit

    def _change(self, process: Process, table: Table, edit: Edit) -> None:
        """A transaction, run again while its outcome is not known."""
        for _ in range(TRIES_MAX):
            self.book.begin(edit)
            try:
                self._commit(process, table, edit)
            except SiltstoneError as error:
                if "floor" in error.facts and not isinstance(error, CommitUnknownError):
                    self.world.counters["too late"] += 1
                if self.book.told(edit.op, error) != "unknown":
                    raise
            else:
                self.book.done(edit)
                return

    def _commit(self, process: Process, table: Table, edit: Edit) -> None:
        transaction = table.transaction(once=edit.op)
        if edit.deleted:
            transaction.delete(f"{KEY} in ({', '.join(map(str, edit.keys))})")
        elif edit.overwrites:
            transaction.overwrite(rows_of(edit))
        else:
            transaction.upsert(rows_of(edit))
        if self.world.random.random() < 0.5:
            process.wait(self.world.random.random() * self.stage.hold_s)
        version = transaction.commit().version
        if isinstance(self.book, RetainShardBook):
            self.book.told_of(version)


class RoughHand(Hand):
    """Overwrites tables often, so that little is left that clones share."""

    overwriting = 0.3


class PlainHand(Hand):
    """Changes a table with shards, of which versions are not restored."""

    restores = False


# -- those who collect ---------------------------------------------------------------------------


class Gatherer(RetainUser):
    """Collects, more or less of it."""

    def work(self, process: Process, uri: str) -> None:
        """One collection."""
        draw = self.world.random
        table = self.handle(process, uri)
        keep_days = days(draw.choice(self.stage.keeps_s))
        done = table.gc(keep_days=keep_days, keep_versions=draw.choice((1, 1, 2, 3)), dry_run=draw.random() < 0.1)
        self.world.counters["collections"] += not done.dry_run
        self.world.counters["collected"] += 0 if done.dry_run else done.deleted
        self.world.counters["expired"] += 0 if done.dry_run else len(done.expired)
        for why in done.left:
            self.world.note(f"{process.name} leaves something: {why}")


# -- those who read ------------------------------------------------------------------------------


class Holder(RetainUser):
    """Takes hold of a version and reads it, again and again."""

    def work(self, process: Process, uri: str) -> None:
        """One version, read twice."""
        draw, truth = self.world.random, self.truth(uri)
        table = self.handle(process, uri)
        tags = table.tags
        version = draw.choice([*tags.values(), *range(max(0, table.version - 5), table.version + 1)])
        self.world.counters["reads"] += 1
        try:
            held = table.at(version=version)
            for _ in range(2):
                compare(self.book, f"version {version} of {uri}", held, truth.versions[version].rows)
                process.wait(self.world.between(0.01, self.stage.hold_s))
                if draw.random() < 0.5:
                    held = table.at(version=version)
        except OUTAGES:
            raise
        except SiltstoneError as error:
            now = truth.newest  # the mark of a drop is no version that anyone could read
            if now.keeps(version) and version >= now.born and truth.versions[version].exists and not now.dropped:
                self.book.violation(f"version {version} of {uri} can't be read: {error.kind}: {error.message}")


def compare(book: RetainBook | RetainShardBook, what: str, table: Table, rows: Rows | None) -> None:
    """Read a pinned table, whose rows must be these; None where nobody knows."""
    found = read_rows(table.scan().to_arrow())
    if rows is None:
        return
    seen = {row.key: row.label for row in found}
    if len(seen) != len(found):
        book.violation(f"{what} has a key twice")
    if seen != rows:
        wrong = [
            f"{key} is of {seen.get(key)}, not of {rows.get(key)}"
            for key in sorted(seen.keys() | rows.keys())
            if seen.get(key) != rows.get(key)
        ]
        book.violation(f"{what} has other rows than it had: {'; '.join(wrong)}")


def days(seconds: float | None) -> float | None:
    """As users say how long something is kept."""
    return None if seconds is None else seconds * 1000 / DAY_MS
