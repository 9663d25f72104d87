"""Every kind of lying store with every way to decide, for appends, upserts and puts of real processes.

What must hold: a row that was acknowledged is there, or someone was told aloud: a writer, whoever opens the table, or
``verify``. What a plain read may keep silent about is in docs/explain/promises.md, and is asserted as it stands there.
"""

from __future__ import annotations

import random
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest

import figures
from lying_crowds import LyingCrowd, Parent, overwritten
from shares import WHOLE
from siltstone.testing.s3server import Faults
from siltstone.testing.sim import scenarios
from siltstone.testing.sim.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.testing.s3server import FaultServer

pytestmark = pytest.mark.timeout(1200)  # processes wait for each other, and a busy machine for all of them

WRITERS = 4 if WHOLE else 3
OPERATIONS = 8 if WHOLE else 5
ROUNDS = 8 if WHOLE else 1
LIES = {
    "always": Faults(lie="always"),
    "window": Faults(lie="check-then-put", window_ms=30),
    "half way": Faults(lie_after=WRITERS * OPERATIONS // 2),  # creates, from when all have their first one
}
FROM_THE_START = pytest.mark.parametrize("lie", ["always", "window"])
ANY_LIE = pytest.mark.parametrize("lie", LIES)
WAYS = pytest.mark.parametrize("way", ["append", "upsert", "put"])
EACH_ROUND = pytest.mark.parametrize("number", range(ROUNDS))
MADE = {"append": {}, "upsert": {"key": "id"}, "put": {"key": "id", "shards": 1}}
CALLS_MAX = 60  # to the store; most writers make more after their first operation


@pytest.fixture(scope="module")
def parent():
    made = Parent()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(places):
    return places.fault_server()


@pytest.fixture
def make_cell(parent, server, tmp_path):
    return partial(Cell, parent, server, tmp_path)


class Cell:
    """A table on a store that is honest until it is told to lie."""

    def __init__(
        self,
        parent: Parent,
        server: FaultServer,
        directory: Path,
        *,
        way: str,
        known_good: bool = False,
        commits: bool = False,
        **made: str,
    ) -> None:
        server.set(Faults())
        self.name = uuid.uuid4().hex[:12]
        self.server = server
        self.way = way
        job = {
            "uri": f"s3://bkt/{self.name}",
            "options": {**server.storage_options, **({"known_good": "true"} if known_good else {})},
            "commits": f"sqlite://{directory}/claims.db" if commits else None,
            "way": way,
            "writers": WRITERS,
            "operations": OPERATIONS,
            "create": {**MADE[way], **made},
        }
        self.crowd = LyingCrowd(parent, job, directory / "told")

    def lie(self, lie: str) -> None:
        self.server.set(LIES[lie])

    def make(self, **options) -> None:
        assert self.crowd.ask("create", **options) == {"done": []}

    def write(self, lie: str, *, kill: int = 0, **options):
        """All writers write while the store lies, one of them until it is killed at some call."""
        kills = {0: kill} if kill else {}
        told = self.crowd.write(between=lambda: self.lie(lie), kill_at=kills, **options)
        figures.record("kills", len(told.killed))
        figures.record("acknowledged on a lying store", len(told.acknowledged))
        figures.record("alarms on a lying store", len(told.alarms))
        return told

    def keys(self) -> set[tuple[str, str]]:
        """All objects that count: a data file that nothing names is staging."""
        mine = (one for one in self.server.objects() if one.key.startswith(f"{self.name}/"))
        return {(one.key, one.etag) for one in mine if "/data/" not in one.key}

    def overwritten(self) -> list[str]:
        """Entries that were created more than once."""
        mine = (one for one in self.server.objects() if one.key.startswith(f"{self.name}/"))
        return [one.key for one in mine if one.writes > 1 and "/entries/" in one.key]

    def refuses_newcomers(self) -> None:
        """Whoever opens the table now and writes is told, and nothing is put there that counts."""
        before = self.keys()
        told = self.crowd.ask("write once")
        assert told["loud"], told
        assert self.keys() == before


# -- the store decides ---------------------------------------------------------------------------------


@FROM_THE_START
@pytest.mark.parametrize("way", ["append", "put"])
@pytest.mark.parametrize("guard", ["receipt", "witness"])
def test_create__store_lies__is_refused_and_so_is_the_next_write_to_a_table_that_was_there(make_cell, way, guard, lie):
    cell = make_cell(way=way, known_good=guard == "receipt", guard=guard)
    cell.lie(lie)
    told = cell.crowd.ask("create")
    assert (told["error"], "commits=" in told["message"]) == ("unsafe-store", True)
    assert cell.keys() == set()
    cell.server.set(Faults())
    cell.make()
    cell.lie(lie)
    cell.refuses_newcomers()


@WAYS
@EACH_ROUND
def test_write__store_begins_to_lie_and_nobody_guards_it__receipts_tell_and_newcomers_are_refused(
    make_cell, way, number
):
    cell = make_cell(way=way, known_good=True, guard="receipt")
    cell.make()
    told = cell.write("half way")
    cell.refuses_newcomers()
    found = cell.crowd.read()
    assert found.doubled == 0
    assert not found.invented(told)
    if way == "put":
        return  # the logs of a shard keep their receipts to themselves
    problems = cell.crowd.verify(told.receipts)
    gone = overwritten(told, problems)
    if not found.error:
        # The chain tells of entries that stand, and that others were put behind who had built on something else.
        until = max((position for fault, position, *_ in problems if fault == "overwritten"), default=-1)
        apart = {key for key, one in told.acknowledged.items() if one["receipt"][0] - 1 <= until}
        assert found.lost(told) <= gone | apart, "a row is gone, and neither its receipt nor the chain tells"
    last = {writer for writer, operation in told.last.items() if (writer, operation) in gone}
    assert last <= told.closing.keys(), "whose last version is gone is told when it closes its table"


@ANY_LIE
@WAYS
@EACH_ROUND
def test_write__store_lies_behind_witnesses__is_there_or_someone_is_told(make_cell, way, lie, number):
    cell = make_cell(way=way, guard="witness")
    probe = lie == "half way"  # else nobody would write at all
    if not probe:
        cell.lie(lie)
    cell.make(probe=probe)
    kill = random.Random(f"{way} {lie} {number}").choice([0, random.Random(number).randint(1, CALLS_MAX)])
    told = cell.write(lie, kill=kill, probe=probe)
    found, problems = cell.crowd.read(), cell.crowd.verify()
    assert found.doubled == 0
    assert not found.invented(told)
    assert problems or told.alarms or not cell.overwritten(), "an entry was overwritten, and nobody was told"
    lost = found.lost(told)
    assert problems or not lost, "rows are gone, and verify finds nothing"
    if way != "put" and not found.error:
        named = {op for _, _, op, _ in problems}
        assert {told.acknowledged[one]["op"] for one in lost} <= named, (
            "an operation is gone, and verify does not name it"
        )
    figures.record("rows lost on a lying store, and told", len(lost))


# -- a commit store decides ----------------------------------------------------------------------------


@ANY_LIE
@WAYS
@EACH_ROUND
def test_write__store_lies_behind_a_commit_store__nothing_is_lost(make_cell, way, lie, number):
    cell = make_cell(way=way, commits=True)
    if lie != "half way":
        cell.lie(lie)
    all_is_there(cell, lie, number)


@WAYS
@EACH_ROUND
def test_write__store_was_trusted_and_begins_to_lie_behind_a_commit_store__nothing_is_lost(make_cell, way, number):
    all_is_there(make_cell(way=way, commits=True, known_good=True), "half way", number)


def all_is_there(cell: Cell, lie: str, number: int) -> None:
    cell.make()
    kill = random.Random(f"{cell.way} {lie} {number}").randint(1, CALLS_MAX) if number % 2 else 0
    told = cell.write(lie, kill=kill)
    found = cell.crowd.read()
    assert (told.alarms, told.refused, found.error) == ([], {}, "")
    assert not found.lost(told)
    assert found.doubled == 0
    assert not found.invented(told)
    assert len(told.acknowledged) == WRITERS * OPERATIONS or told.killed
    assert cell.crowd.verify() == []
    assert cell.crowd.ask("write once") == {"done": []}


# -- and no false alarms -------------------------------------------------------------------------------

HONEST = (
    scenarios.ManyWriters,
    scenarios.Reruns,
    scenarios.Twins,
    scenarios.Truncated,
    scenarios.Latecomers,
    scenarios.Epochs,
)
SEEDS = 2_000


@pytest.mark.parametrize("scenario", HONEST, ids=lambda scenario: scenario.name)
def test_simulated__honest_store_behind_witnesses__nobody_cries(scenario):
    class Witnessed(scenario):
        def cast(self) -> None:
            super().cast()
            self.guard = "witness"

    seeds = range(HONEST.index(scenario), SEEDS, len(HONEST))
    witnesses, cries = 0, []
    for seed in seeds:
        world = World(seed)
        play = Witnessed(world)
        try:
            play.play()
            cries += [f"seed {seed}: {one}" for one in (*world.surprises, *play.ledger.violations, *play.ledger.alarms)]
            witnesses += sum(key.startswith("log/witness/") for key in play.bucket.objects.objects)
        finally:
            world.close()
    figures.record("honest seeds behind witnesses", len(seeds))
    assert cries == []
    assert witnesses > len(seeds), "no witnesses were left"
