"""One operation gets in right before another's entry: for every pair of them the table is what their order gives.

No threads: the rival runs at the moment when the first one's entry is put (``Interleaves``).
"""

from __future__ import annotations

import contextlib
import functools
import random

import pyarrow as pa
import pytest

from replay import Model, digest
from roles import perform
from siltstone.api import create_table, open_table
from siltstone.errors import ConflictError, DuplicateKeyError, InvalidInputError, SiltstoneError
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.stores import Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("score", pa.int64()), ("note", pa.string())])


def rows(*ids, score=50):
    return [{"id": id_, "score": score, "note": "new"} for id_ in ids]


BEFORE = [
    {"do": "append", "rows": [{"id": id_, "score": id_, "note": "old"} for id_ in range(10)]},
    {"do": "append", "rows": [{"id": id_, "score": id_, "note": "old"} for id_ in range(10, 20)]},
    {"do": "delete", "mod": 5, "rest": 2, "below": 15},
    {"do": "append", "rows": [{"id": 30, "score": 7, "note": "alone"}]},
]
OPERATIONS = {
    "append": {"do": "append", "rows": rows(100, 101)},
    "append of a key that is gone": {"do": "append", "rows": rows(2)},
    "upsert of a new key": {"do": "upsert", "rows": rows(100)},
    "upsert": {"do": "upsert", "rows": rows(3, 13, 2, 100, score=3)},
    "delete": {"do": "delete", "mod": 10, "rest": 3, "below": 1000},
    "delete of a fragment": {"do": "delete", "mod": 1, "rest": 0, "below": 10},
    "delete of all": {"do": "delete", "mod": 1, "rest": 0, "below": 1000},
    "update": {"do": "update", "plus": 1, "mod": 3, "rest": 1, "low": 0, "high": 1000},
    "overwrite": {"do": "overwrite", "rows": rows(1, 100, 500)},
    "compact": {"do": "compact"},
    "add_column": {"do": "add_column", "name": "extra", "default": 5},
    "rename_column": {"do": "rename_column", "name": "note", "to": "remark"},
    "drop_column": {"do": "drop_column", "name": "note"},
    "restore": {"do": "restore", "version": 2},
    "transaction": {
        "do": "transaction",
        "parts": [
            {"do": "delete", "mod": 10, "rest": 4, "below": 1000},
            {"do": "upsert", "rows": rows(4, 5, 101, score=13)},
            {"do": "delete", "mod": 10, "rest": 3, "below": 1000},
            {"do": "append", "rows": rows(102, score=3)},
        ],
    },
}


@functools.cache
def begun() -> tuple[MemoryBucket, Model]:
    """The table before the race: two fragments with gaps, and one of a single row."""
    race = Race(MemoryBucket(), Model())
    for operation in BEFORE:
        race.do_rival(operation)
    return race.bucket, race.model


class Race:
    """A table with some history, someone who writes to it, a rival, and a model of what the table must be."""

    def __init__(self, bucket: MemoryBucket | None = None, model: Model | None = None) -> None:
        self.bucket, self.model = MemoryBucket(), model or begun()[1].copy()
        if bucket is None:
            self.bucket.objects, self.bucket.keys = dict(begun()[0].objects), list(begun()[0].keys)
        self.rival = create_table(MemoryStore(bucket=self.bucket), schema=SCHEMA, key="id", exist_ok=True)
        self.store = Interleaves(MemoryStore(bucket=self.bucket))
        self.table = open_table(self.store)

    def do_rival(self, operation) -> None:
        """The rival may be refused, as rivals of its own may have come first."""
        with contextlib.suppress(InvalidInputError):
            perform(self.rival, operation)
            self.model.apply(operation)
            self.model.kept[self.rival.version] = self.model.copy()

    def check(self) -> None:
        """Whoever looks sees what the model says."""
        for table in (self.rival, self.table, open_table(MemoryStore(bucket=self.bucket))):
            assert digest(table.scan().to_arrow()) == self.model.digest
            assert table.count() == len(self.model.rows)


def run(mine, theirs) -> tuple[Race, object]:
    """``theirs`` get in one after another, each right before an entry of mine is put."""
    race = Race()
    for nth, one in enumerate(theirs, 1):
        race.store.before("create", lambda one=one: race.do_rival(one), key="entries/", nth=nth)
    try:
        facts = perform(race.table, mine)
    except SiltstoneError as error:
        facts = error
    else:
        assert facts["version"] == race.table.version
        assert not facts["noop"] or mine["do"] == "compact" or not race.model.changes(mine)
        if not facts["noop"]:
            counts = race.model.apply(mine)
            assert facts.get("counts", counts) == counts
    race.check()
    return race, facts


def is_right(mine, facts, race) -> bool:
    """Whether what mine was told is right now that the others came first."""
    if isinstance(facts, DuplicateKeyError):
        return mine["do"] in {"append", "transaction"} and race.model.refuses(mine)
    if isinstance(facts, ConflictError):
        return mine["do"] == "compact" or (mine["do"] == "transaction" and not race.model.fits(mine))
    if isinstance(facts, InvalidInputError):
        return not race.model.fits(mine)
    return not isinstance(facts, SiltstoneError)


@pytest.mark.parametrize("mine", OPERATIONS)
def test_operation__another_gets_in_first__the_table_is_what_their_order_gives(mine):
    for theirs, operation in OPERATIONS.items():
        race, facts = run(OPERATIONS[mine], [operation])
        assert race.store.pending == 0
        assert len(BEFORE) < race.rival.version
        assert is_right(OPERATIONS[mine], facts, race), f"{mine} | {theirs}: {facts}"


def test_operation__several_get_in_first_one_by_one__the_table_is_what_their_order_gives():
    chance = random.Random(3)
    for _ in range(40):
        mine, *theirs = chance.sample([*OPERATIONS], chance.randrange(3, 6))
        race, facts = run(OPERATIONS[mine], [OPERATIONS[one] for one in theirs])
        assert is_right(OPERATIONS[mine], facts, race), f"{mine} | {theirs}: {facts}"


def test_append__another_appends_the_same_key_first__is_refused_and_nothing_is_half_done():
    race, error = run({"do": "append", "rows": rows(200, 100, 201)}, [{"do": "append", "rows": rows(100)}])
    assert isinstance(error, DuplicateKeyError)
    assert "100" in error.message
    assert race.table.get([200, 201]).num_rows == 0
    race.table.append(rows(200, 201))
    assert race.table.get([200, 100, 201]).num_rows == 3


def test_transaction__another_appends_one_of_its_keys_first__nothing_of_it_is_done():
    parts = [{"do": "delete", "mod": 1, "rest": 0, "below": 10}, {"do": "append", "rows": rows(100)}]
    race, error = run({"do": "transaction", "parts": parts}, [{"do": "append", "rows": rows(100)}])
    assert isinstance(error, DuplicateKeyError)
    assert race.table.count("id < 10") == 8, "what it deleted is there"


def test_compact__another_deletes_rows_that_were_rewritten__they_stay_deleted():
    race, facts = run({"do": "compact"}, [{"do": "delete", "mod": 10, "rest": 3, "below": 1000}])
    assert not facts["noop"]
    assert race.table.get([3, 13]).num_rows == 0


def test_add_column__another_appends_rows_without_it__they_have_its_default():
    race, _ = run({"do": "add_column", "name": "extra", "default": 5}, [{"do": "append", "rows": rows(100)}])
    assert race.table.get([100], ["extra"]).to_pylist() == [{"extra": 5}]


def test_append__another_adds_a_column_first__rows_have_its_default():
    race, _ = run({"do": "append", "rows": rows(100)}, [{"do": "add_column", "name": "extra", "default": 5}])
    assert race.table.get([100], ["extra"]).to_pylist() == [{"extra": 5}]


def test_transaction__adds_a_column_and_rows_with_it_while_another_adds_one__is_told_to_run_again():
    race = Race()
    race.store.before("create", lambda: race.rival.add_column("theirs", pa.int64(), default=1), key="entries/")

    def add() -> None:
        with race.table.transaction() as transaction:
            transaction.add_column("mine", pa.int64(), default=2)
            transaction.append([{**row, "mine": 3} for row in rows(100)])

    with pytest.raises(ConflictError):
        add()
    race.table.refresh()
    assert "mine" not in race.table.schema.names
    add()
    assert race.table.get([100, 0], ["theirs", "mine"]).to_pylist() == [
        {"theirs": 1, "mine": 3},
        {"theirs": 1, "mine": 2},
    ]


@pytest.mark.parametrize("name", ["delete of nothing", "append of a key that is there"])
def test_operation__others_append_all_the_time__is_told_soon_that_there_is_nothing_to_do(name):
    race = Race()
    for nth in range(1, 101):
        race.store.before("*", lambda nth=nth: race.rival.append(rows(1000 + nth)), nth=nth)
    if name == "delete of nothing":
        assert race.table.delete("id < 0").operation == "none"
    else:
        with pytest.raises(DuplicateKeyError):
            race.table.append(rows(30))
    assert race.store.pending > 50, "it waited until the others rested"
