"""Commit stores that go down and come back again and again, and that lose rows: nothing lost, nothing twice."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import figures
import siltstone as ss
from commit_crowds import CommitCrowd, forget
from places import SERVICE_OF
from shares import WHOLE
from siltstone.commit.connect import open_registry
from siltstone.errors import CommitStoreBehindError, ConflictError
from siltstone.ids import SystemIds
from siltstone.log import open_log
from siltstone.testing.registry_harness import chain
from siltstone.testing.script import Crashed, Fault
from siltstone.testing.stores import FaultStore
from siltstone.verify import repair, verify

pytestmark = [pytest.mark.services, pytest.mark.timeout(1800)]  # servers take long to come back on a busy machine

KINDS = ("postgresql", "mysql", "redis", "etcd", "sqlite")
WRITERS = 8
RESTARTS = 50 if WHOLE else 10
ROWS_BETWEEN = 10  # at most, from one restart to the next
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("writer", pa.int64())])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_append__commit_store_is_killed_again_and_again__each_row_is_there_once(places, services, tmp_path, kind):
    place, commits = places.store("file-nosync"), places.commits_uri(kind)
    reach = {"storage_options": place.options, "commits": commits}
    ss.create(place.uri, schema=SCHEMA, **reach).close()
    chance = random.Random(kind)
    writers = CommitCrowd(
        {"uri": place.uri, "told": str(tmp_path / "told"), "options": place.options, "commits": commits}, WRITERS
    )
    try:
        for _ in range(RESTARTS):
            writers.wait_for(chance.randint(1, ROWS_BETWEEN))
            if kind == "sqlite":  # it is where its writers are: now and then none is left that has the file open
                writers.kill(range(chance.choice([1, 3, WRITERS])))
                continue
            server = services(SERVICE_OF[kind])
            server.kill()
            writers.kill([chance.randrange(WRITERS)])
            server.start()
        writers.wait_for(1)
        writers.stop()
    finally:
        writers.close()
    acknowledged, tried = writers.ids("acknowledged"), writers.ids("tries")
    table = ss.open(place.uri, **reach)
    found = table.scan(["id"]).to_arrow()["id"].to_pylist()
    assert len(found) == len(set(found)), "a row is there twice"
    assert acknowledged == set(found) == tried
    assert len(acknowledged) > RESTARTS
    assert table.version == len(found)
    [report] = verify(place.uri, **reach)
    assert report.problems == ()
    figures.record("kills", writers.kills)
    figures.record("servers killed", 0 if kind == "sqlite" else RESTARTS)
    figures.record("acknowledged while commit stores were killed", len(acknowledged))


# -- rows that are gone ----------------------------------------------------------------------------------

LOST_ROWS = 50 if WHOLE else 20
OF_ONE_LOG = 10
HANDLES = 8
ADDS = 2  # by as many of the handles, after each loss


class Book:
    """One log behind a commit store, eight handles on it, and what they were told."""

    def __init__(self, place, kind: str, commits: str, chance: random.Random) -> None:
        self.place, self.kind, self.commits, self.chance = place, kind, commits, chance
        self.acknowledged: dict[str, object] = {}
        self.doubted: list[str] = []  # operations to be run again
        self.handles = [self.opened(place.open()) for _ in range(HANDLES)]
        assert self.add() == [""] * ADDS

    def opened(self, store):
        return open_log(store, commits=open_registry(self.commits), create=True, probe=False)

    def some(self, count: int = ADDS) -> list:
        return self.chance.sample(self.handles, count)

    def add(self) -> list[str]:
        """What some writers are told that add an entry each: "", or the kind of the error."""
        return [self.note(handle.add) for handle in self.some()]

    def note(self, call, **where) -> str:
        op = new_op()
        try:
            self.acknowledged[op] = call(op.encode(), op=op, **where)
        except (CommitStoreBehindError, ConflictError) as error:
            self.doubted.append(op)
            return error.kind
        return ""

    def again(self) -> None:
        """Run all again that somebody was in doubt about: by anyone, and by some twice."""
        while self.doubted:
            op = self.doubted.pop()
            marks = {handle.add(op.encode(), op=op) for handle in self.some(2)}
            assert len(marks) == 1, "it is there twice"
            self.acknowledged[op] = marks.pop()

    @property
    def newest(self) -> int:
        return self.handles[0].tip().position - 1

    def forget(self, position: int) -> None:
        forget(self.kind, self.commits, self.handles[0].scope, position)

    def problems(self) -> list[tuple]:
        with open_registry(self.commits) as registry:
            [report] = verify(self.place.open(), commits=registry)
        return [(problem.fault, problem.position) for problem in report.problems]

    def repair(self) -> None:
        with open_registry(self.commits) as registry:
            repair(self.place.open(), commits=registry)
        assert self.problems() == []

    def check(self) -> None:
        entries = [entry for entry in self.handles[0].entries() if entry.kind == "data"]
        ops = [entry.op for entry in entries]
        assert len(ops) == len(set(ops)), "an operation is in the log twice"
        assert {entry.op: entry.end for entry in entries} == self.acknowledged

    def close(self) -> None:
        for handle in self.handles:
            handle.close()
            handle.commits.registry.close()


@pytest.mark.parametrize("kind", KINDS)
def test_newest__its_row_is_gone__is_the_highest_that_is_left(places, kind):
    commits, scope = places.commits_uri(kind), new_op()
    claims = chain(scope, 3)
    with open_registry(commits) as registry:
        for claim in claims:
            assert registry.claim(claim) == claim
        for lost, left in ((2, claims[1]), (1, claims[0]), (0, None)):
            forget(kind, commits, scope, lost)
            assert registry.newest(scope) == left


def new_op() -> str:
    return SystemIds().new()


def lose_the_newest(book: Book) -> None:
    """Nobody can go on behind it: all are told, and ``verify`` says which row it is."""
    newest = book.newest
    book.forget(newest)
    assert book.add() == ["commit-store-behind"] * ADDS
    assert book.problems() == [("behind", newest)]
    book.repair()


def lose_the_newest_before_a_rival(book: Book) -> None:
    """The place is given away a second time; the entry that is published proves whose it is."""
    winner, rival = book.some(2)
    after = rival.tip()
    assert book.note(winner.append, after=after) == ""
    book.forget(after.position)
    assert book.note(rival.append, after=after) == "conflict"
    assert set(book.add()) == {"commit-store-behind"}
    assert [position for _, position in book.problems()] == [after.position]
    book.repair()


def lose_one_in_the_middle(book: Book) -> None:
    """Only the newest row decides: all go on, and ``verify`` tells all the same."""
    position = book.chance.randrange(book.newest)
    book.forget(position)
    assert book.add() == [""] * ADDS
    assert book.problems() == [("behind", position)]
    book.repair()


def lose_one_that_was_not_published(book: Book) -> None:
    """Its writer died, and was told nothing: the place is another's, and the operation can be run again."""
    store, op = FaultStore(book.place.open()), new_op()
    victim = book.opened(store)
    mark = victim.tip()
    store.on("create", Fault.CRASH_BEFORE, key="entries/")
    with pytest.raises(Crashed):
        victim.append(op.encode(), after=mark, op=op)
    victim.commits.registry.close()
    book.doubted.append(op)
    book.forget(mark.position)
    assert book.add() == [""] * ADDS
    assert book.problems() == []


LOSSES = (lose_the_newest, lose_the_newest_before_a_rival, lose_one_in_the_middle, lose_one_that_was_not_published)


@pytest.mark.parametrize("kind", KINDS)
def test_add__commit_store_loses_rows__told_or_harmless_and_each_is_there_once(places, kind):
    chance = random.Random(kind)
    for number in range(LOST_ROWS):
        if number % OF_ONE_LOG == 0:
            book = Book(places.store("file-nosync"), kind, places.commits_uri(kind), chance)
        LOSSES[number % len(LOSSES)](book)
        book.again()
        if number % OF_ONE_LOG == OF_ONE_LOG - 1:
            book.check()
            book.close()
            figures.record("acknowledged around lost rows", len(book.acknowledged))
    figures.record("rows of commit stores lost", LOST_ROWS)
