"""The scenarios of shards: what happens in them, and that the book notices what must not be."""

from __future__ import annotations

from collections import Counter

import pytest

from siltstone.table.once import Once
from siltstone.testing.sim import SCENARIOS, run_seed
from siltstone.testing.sim.shard_agents import read_rows, rows_of
from siltstone.testing.sim.shard_book import AT_TABLE, Edit
from siltstone.testing.sim.shard_scenario import PlainShards, ShardScenario
from siltstone.testing.sim.shard_truth import Row
from siltstone.testing.sim.world import World

SHARDED = [name for name in SCENARIOS if name.startswith("shards")]
SEEDS = 25


class Script:
    """One process on a stage of its own, without faults; ``act`` says what it does."""

    def __init__(self, scenario=ShardScenario, seed=0):
        self.world = World(seed)
        self.stage = scenario(self.world)
        self.stage.shards = 1
        self.book = self.stage.book
        self.world.start("founder", self.stage._found)
        self.world.run()

    def play(self, act):
        self.world.start("someone", lambda process: act(self, process))
        self.world.run()
        self.world.close()
        assert self.world.surprises == []
        return self.book.violations

    def open(self, process):
        table = self.stage.table(process)
        return table, self.stage.writer(table, 0 if self.stage.keyed else "a", process)

    def put(self, writer, label, *keys, deleted=False, acknowledged=True):
        edit = Edit(label, keys=keys, deleted=deleted, shard=writer.place.name)
        self.book.begin(edit)
        if deleted:
            writer.delete(list(keys), once=Once(id=label))
        else:
            writer.put(rows_of(edit), once=Once(id=label))
        if acknowledged:
            self.book.done(edit)
        return edit

    def see(self, *rows, fresh=True, keys=None, began=None):
        found = [Row(*row) for row in rows]
        self.book.saw(began or self.book.reading(), found, fresh=fresh, keys=keys)


def text(violations):
    return "; ".join(violations)


# -- the scenarios -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SHARDED)
def test_run_seed__each_scenario_of_shards__meets_all_that_can_happen(scenario):
    totals: Counter[str] = Counter()
    fenced = 0
    for seed in range(SEEDS):
        outcome = run_seed(seed, scenario)
        assert outcome.violations == ()
        totals.update(outcome.counters)
        fenced += sum(": fenced: " in line or " fenced: " in line for line in outcome.trace)
    rare = {"splits"} if scenario != "shards-split" else set()
    for what in {"claims", "flushes", "merges", "reads", "splits"} - rare:
        assert totals[what] >= SEEDS / 4, what
    assert totals["acknowledged"] >= 5 * SEEDS
    assert fenced >= SEEDS / 4


# -- the book ----------------------------------------------------------------------------------------


def test_saw__what_stands__is_in_order():
    def act(script, process):
        table, writer = script.open(process)
        script.put(writer, "one", 1, 2)
        script.put(writer, "two", 2, 3)
        script.put(writer, "three", 1, deleted=True)
        script.see((2, "two"), (3, "two"))
        script.see((2, "two"), keys=[1, 2])
        script.see(fresh=False)
        script.book.told_of(table.merge_shards().version)
        script.see((2, "two"), (3, "two"), fresh=False)

    assert Script().play(act) == []


def test_saw__read_that_lacks_what_was_acknowledged__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        script.put(writer, "one", 1)
        script.put(writer, "two", 2)
        script.see((1, "one"))

    assert "2 is of None, not of two" in text(Script().play(act))


def test_saw__read_that_began_before_the_acknowledgement__may_lack_it():
    def act(script, process):
        _, writer = script.open(process)
        script.put(writer, "one", 1)
        began = script.book.reading()
        script.put(writer, "two", 2)
        script.see((1, "one"), began=began)
        script.see((1, "one"), (2, "two"), began=began)

    assert Script().play(act) == []


def test_saw__later_put_without_the_earlier_one__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        began = script.book.reading()
        script.put(writer, "one", 1)
        script.put(writer, "two", 2)
        script.see((2, "two"), began=began)

    assert "fits no version" in text(Script().play(act))


def test_saw__an_older_row_of_a_key__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        script.put(writer, "one", 1)
        script.put(writer, "two", 1)
        script.see((1, "one"))

    assert "1 is of one, not of two" in text(Script().play(act))


def test_saw__row_that_was_deleted__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        script.put(writer, "one", 1)
        script.put(writer, "gone", 1, deleted=True)
        script.see((1, "one"))

    assert "1 is of one, not of None" in text(Script().play(act))


@pytest.mark.parametrize("scenario", [ShardScenario, PlainShards])
def test_saw__row_twice__is_a_violation(scenario):
    def act(script, process):
        _, writer = script.open(process)
        script.put(writer, "one", 1)
        script.see((1, "one"), (1, "one"))

    assert "row 1 is there twice" in text(Script(scenario).play(act))


def test_saw__row_that_nobody_put__is_a_violation():
    def act(script, process):
        script.open(process)
        script.see((9, "ghost"))

    assert "nobody put them" in text(Script().play(act))


def test_saw__plain_read_of_what_is_not_merged__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        script.put(writer, "one", 1)
        script.see((1, "one"), fresh=False)

    assert "a plain read fits no version" in text(Script().play(act))


def test_saw__change_at_the_table__is_newer_than_what_it_merged_and_older_than_the_rest():
    def act(script, process):
        table, writer = script.open(process)
        script.put(writer, "one", 1, 2, 3)
        edit = Edit("table", keys=(2, 3), shard=AT_TABLE)
        script.book.begin(edit)
        transaction = table.transaction(once="table")
        transaction.upsert(rows_of(edit))
        transaction.commit()
        script.book.done(edit)
        script.put(writer, "later", 3)
        script.see((1, "one"), (2, "table"), (3, "later"))
        script.see((1, "one"), (2, "table"), (3, "table"), fresh=False)
        assert sorted(read_rows(table.scan(fresh=True).to_arrow())) == [(1, "one"), (2, "table"), (3, "later")]

    assert Script().play(act) == []


def test_saw__overwritten_table__has_nothing_else():
    def act(script, process):
        table, writer = script.open(process)
        script.put(writer, "one", 1, 2)
        edit = Edit("all", keys=(2,), overwrites=True)
        script.book.begin(edit)
        transaction = table.transaction(once="all")
        transaction.overwrite(rows_of(edit))
        transaction.commit()
        script.book.done(edit)
        script.see((2, "all"))
        script.see((2, "all"), fresh=False)

    assert Script().play(act) == []


def test_done__acknowledged_and_not_written__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        edit = Edit("promise", keys=(1,), shard=writer.place.name)
        script.book.begin(edit)
        writer.put(rows_of(edit), wait=False)
        script.book.done(edit)

    assert "promise was acknowledged and stands nowhere" in text(Script().play(act))


def test_landed__the_same_put_under_no_id_again__stands_twice():
    def act(script, process):
        _, writer = script.open(process)
        edit = Edit("again", keys=(1,), shard=writer.place.name)
        script.book.begin(edit)
        writer.put(rows_of(edit))
        writer.put(rows_of(edit))

    assert "again stands twice: at 0 of 0000-0000, at 1 of 0000-0000" in text(Script().play(act))


def test_landed__part_of_a_put__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        edit = Edit("half", keys=(1, 2), shard=writer.place.name)
        script.book.begin(edit)
        writer.put(rows_of(edit)[:1])

    assert "rows that nobody put together" in text(Script().play(act))


def test_close__reported_failed_and_written__is_a_violation():
    def act(script, process):
        _, writer = script.open(process)
        edit = script.put(writer, "denied", 1, acknowledged=False)
        edit.failed, edit.trying = True, False
        script.book.close()

    assert "denied was reported failed and stands: at 0" in text(Script().play(act))
