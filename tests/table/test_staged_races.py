"""Others commit while processes work: their version is what the operation gives where it lands in the order."""

from __future__ import annotations

import contextlib
import functools
import random

import pyarrow as pa
import pytest

import staged_jobs as jobs
from row_tables import RowTable
from siltstone.errors import SiltstoneError
from siltstone.table.inserts import write_rows
from siltstone.table.operations import Append, Overwrite, Upsert
from siltstone.table.schema import arrow_schema

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), ("score", pa.int32()), ("note", pa.string())])
WITH_ROWS = {"append": Append, "upsert": Upsert, "overwrite": Overwrite}


def rows(ids, note="new"):
    return [{"id": id_, "score": id_ % 7, "note": f"{note}{id_ % 3}"} for id_ in ids]


# -- two at the same time: mine in tasks, theirs meanwhile ---------------------------------------------------

BUMP = {"score": "score + 1", "note": "concat(note, '!')"}
MINE = {
    "append": ("append", [rows([200, 203]), rows([201]), []]),
    "upsert": ("upsert", [rows([3, 13, 200]), rows([-5, 14, 30])]),
    "upsert of a deleted key": ("upsert", [rows([2]), rows([12, 7])]),
    "overwrite": ("overwrite", [rows([1, 100]), rows([500])]),
    "delete": ("delete", "id % 10 = 3"),
    "delete by note": ("delete", "note like 'old%' and score > 2"),
    "delete of all that there is": ("delete", "id > -1000"),
    "update": ("update", "id % 3 = 1"),
    "update by score": ("update", "score in (1, 2, 3)"),
    "update of all": ("update", None),
}
THEIRS = {
    "append": lambda table: table.append(rows([300, 303, 301])),
    "upsert of the same keys": lambda table: table.upsert(rows([3, 13, 4, 200, 2], note="theirs")),
    "delete of the same rows": lambda table: table.delete("id % 10 in (1, 3)"),
    "delete of nearly all": lambda table: table.delete("id != 3"),
    "delete of all": lambda table: table.delete(None),
    "update of the same rows": lambda table: table.update({"score": "score * 2"}, "id % 2 = 1"),
    "compaction": lambda table: table.compact(),
    "compaction into small ones": lambda table: table.compact(rows_target=4),
    "restore of the rows of then": lambda table: table.restore(2),
    "restore of the first version": lambda table: table.restore(0),
    "added column": lambda table: table.add_column(pa.field("extra", pa.int64()), 5),
    "renamed column": lambda table: table.rename_column("note", "remark"),
    "renamed key": lambda table: table.rename_column("id", "number"),
    "dropped column": lambda table: table.drop_column("note"),
    "column dropped and added anew": lambda table: (
        table.drop_column("score"),
        table.add_column(pa.field("score", pa.int32()), 3),
    ),
    "two columns that change places": lambda table: (
        table.add_column(pa.field("other", pa.int32()), 3),
        table.rename_column("score", "old"),
        table.rename_column("other", "score"),
    ),
    "widened column": lambda table: table.widen_column("score", pa.int64()),
    "widened key": lambda table: table.widen_column("id", pa.int64()),
    "overwrite": lambda table: table.overwrite(rows([3, 13, 900])),
    "overwrite, and the restore of what was": lambda table: (table.overwrite(rows([3])), table.restore(4)),
    "compaction, and deletes in its result": lambda table: (table.compact(), table.delete("id % 5 = 3")),
}


@functools.cache
def begun(key) -> RowTable:
    """Two fragments with gaps, and one of a single row."""
    table = RowTable(SCHEMA, key=key)
    table.append(rows(range(10), note="old"))
    table.append(rows(range(10, 20), note="old"))
    table.delete("id % 5 = 2")
    table.append(rows([30], note="old"))
    return table


def staged(table, what, given, *, chance):
    """The work of tasks on the newest version."""
    if what in WITH_ROWS:
        return getattr(jobs, what)(table, given, chance=chance)
    if what == "delete":
        return jobs.delete(table, given, chance=chance)
    return jobs.update(table, BUMP, given, chance=chance)


def at_once(table, what, given, *, columns):
    """The same by one process, with the rows of someone who knew the columns of then."""
    if what == "delete":
        return table.delete(given)
    if what == "update":
        return table.update(BUMP, given)
    data = pa.Table.from_pylist([row for lot in given for row in lot], schema=arrow_schema(columns))
    inserted = write_rows(table.tools, columns, data, base=table.state.version, twice="refuse")
    return table.do(WITH_ROWS[what](inserted))


def outcome(table, work):
    """What an operation did: the error, or the counts of its version; and the rows then."""
    try:
        done = work(table) if callable(work) else table.do(work)
    except SiltstoneError as error:
        return type(error), None, table.refresh().rows()
    return None, done.change and done.change.counts, table.refresh().rows()


def outcome_at_once(table, what, given):
    """The same for the operation by one process on the newest version, in a copy of the table."""
    columns = table.state.schema
    return outcome(jobs.fork(table), lambda copy: at_once(copy, what, given, columns=columns))


@pytest.mark.parametrize(
    ("mine", "key"), [(mine, key) for mine in MINE for key in (None, "id") if key or not mine.startswith("upsert")]
)
def test_commit__another_got_in_since_the_tasks_ran__is_what_the_operation_gives_there(mine, key):
    what, given = MINE[mine]
    chance = random.Random(mine)
    for theirs, rival in THEIRS.items():
        if key is None and "upsert" in theirs:
            continue
        table = jobs.fork(begun(key))
        work = staged(table, what, given, chance=chance)
        rival(table.other())
        expected = outcome_at_once(table, what, given)
        assert outcome(table, work) == expected, f"{mine} | {theirs}"


# -- any order of events ----------------------------------------------------------------------------------------


class Story:
    """A table, whose history is made up as it goes."""

    def __init__(self, seed, key):
        self.chance = random.Random(seed)
        self.table = RowTable(SCHEMA, key=key)
        self.key = key
        self.number = 0

    def where(self):
        mod = self.chance.choice([2, 3, 5])
        return self.chance.choice(
            [
                f"id % {mod} = {self.chance.randrange(mod)}",
                f"score < {self.chance.randrange(7)}",
                f"id > {self.chance.randrange(40)}",
                "note like '%1%'",
                "id < 5",
            ]
        )

    def fresh(self):
        """Keys that nobody has."""
        self.number += 1
        return [1000 * self.number + one for one in range(self.chance.randrange(1, 6))]

    def ids(self):
        return self.chance.sample(range(-20, 40), self.chance.randrange(1, 15)) if self.key else self.fresh()

    def event(self, table):
        """Anything that may happen; what can't be is passed over."""
        common = [
            lambda: table.append(rows(self.fresh())),
            lambda: table.upsert(rows(self.ids())) if self.key else table.append(rows(self.ids())),
            lambda: table.delete(self.where()),
            lambda: table.update(BUMP, self.where()),
            lambda: table.compact(rows_target=self.chance.choice([3, 10, 100])),
        ]
        rare = [
            lambda: table.restore(self.chance.randrange(table.state.version + 1)),
            lambda: table.overwrite(rows(self.ids())),
            lambda: table.add_column(pa.field(f"extra{self.number}", pa.int64()), self.number),
            lambda: table.widen_column(self.chance.choice(["id", "score"]), pa.int64()),
            lambda: table.rename_column("note", "remark"),
            lambda: table.rename_column("remark", "note"),
            lambda: table.drop_column("note"),
        ]
        with contextlib.suppress(SiltstoneError, KeyError, pa.ArrowException):
            self.chance.choice(rare if self.chance.random() < 0.3 else common)()
        table.refresh()

    def job(self):
        """What is done by tasks, and what they are given."""
        keyed = ["upsert", "overwrite"] if self.key else []
        what = self.chance.choice(["append", "delete", "update", "update", *keyed])
        if what not in WITH_ROWS:
            return what, self.where()
        given = rows(self.fresh() if what == "append" else self.ids())
        self.chance.shuffle(given)
        count = self.chance.randrange(1, 4)
        if self.chance.random() < 0.5:
            given.sort(key=lambda row: row["id"])
        return what, [given[len(given) * one // count : len(given) * (one + 1) // count] for one in range(count)]


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("seed", range(8))
def test_commit__any_order_of_events__is_what_the_operation_gives_there(seed, key):
    story = Story(seed, key)
    for _ in range(5):
        story.event(story.table)
    for _ in range(6):
        mine = story.table.refresh().other()
        what, given = story.job()
        try:
            work = staged(mine, what, given, chance=story.chance)
        except (SiltstoneError, KeyError, pa.ArrowException):
            continue  # columns are others
        for _ in range(story.chance.randrange(4)):
            story.event(story.table)
        expected = outcome_at_once(mine, what, given)
        later = story.table.state.version - mine.state.version
        assert outcome(mine, work) == expected, (what, given, f"{later} versions later")
