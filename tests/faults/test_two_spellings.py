"""One log, opened by its own URI or as a root below its parent's: what one claimed the other one publishes."""

from __future__ import annotations

import pytest

from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.testing.peek import bodies
from siltstone.testing.stores import Crashed, Fault, FaultStore
from siltstone.verify import repair, verify
from worlds import World

SPELLINGS = {"its own": ("lake/x", ""), "its parent's": ("lake", "x")}
OP = "ab" * 16


class Lake:
    """A directory with one log in it, decided by a commit store."""

    def __init__(self, directory) -> None:
        self.directory = directory
        self.world = World("external")

    def store(self, spelling: str):
        return open_store(self.directory / SPELLINGS[spelling][0], sync=False)

    def open(self, spelling: str, store=None):
        return open_log(
            store or self.store(spelling),
            root=SPELLINGS[spelling][1],
            commits=self.world.registry(),
            create=True,
            probe=False,
            env=self.world.env(),
        )

    def claim_and_die(self, spelling: str) -> None:
        """Add an entry; another is claimed, and its writer does not live to publish it."""
        store = FaultStore(self.store(spelling))
        log = self.open(spelling, store)
        log.add(b"zero")
        store.on("create", Fault.CRASH_BEFORE, key="entries/")
        with pytest.raises(Crashed):
            log.add(b"decided", op=OP)


@pytest.fixture(params=[*SPELLINGS])
def first(request) -> str:
    return request.param


@pytest.fixture(params=[*SPELLINGS])
def second(request) -> str:
    return request.param


@pytest.fixture
def lake(tmp_path, first) -> Lake:
    found = Lake(tmp_path)
    found.claim_and_die(first)
    return found


def test_tip__claimed_by_the_other_spelling__is_published(lake, second):
    assert lake.open(second).tip().position == 2
    assert bodies(lake.open(second)) == [b"zero", b"decided"]


def test_add__claimed_by_the_other_spelling__goes_behind_it(lake, first, second):
    assert lake.open(second).add(b"next").position == 3
    assert lake.open(first).add(b"decided", op=OP).position == 2
    assert bodies(lake.open(first)) == [b"zero", b"decided", b"next"]


def test_verify__claimed_by_the_other_spelling__staged_bytes_are_seen(lake, second):
    [report] = verify(lake.store(second), commits=lake.world.registry())
    assert report.problems == ()
    assert any("publishes it" in note for note in report.notes)


def test_repair__claimed_by_the_other_spelling__keeps_the_bytes(lake, first, second):
    repair(lake.store(second), commits=lake.world.registry())
    entries = list(lake.open(first).entries())
    assert [(entry.kind, entry.body) for entry in entries] == [("data", b"zero"), ("data", b"decided")]
    assert verify(lake.store(second), commits=lake.world.registry())[0].ok
