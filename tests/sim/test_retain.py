"""The scenarios of what is kept: what happens in them, and that the book notices what must not be."""

from __future__ import annotations

from collections import Counter

import pytest

from siltstone import paths
from siltstone.errors import MissingObjectError
from siltstone.format.table import Origin
from siltstone.retain import pins
from siltstone.table.origins import Others
from siltstone.testing.sim import SCENARIOS, run_seed
from siltstone.testing.sim.retain_agents import compare
from siltstone.testing.sim.retain_audit import read_all, strays
from siltstone.testing.sim.retain_scenario import HOME, RetainClones, RetainScenario, RetainShards
from siltstone.testing.sim.shard_agents import rows_of
from siltstone.testing.sim.shard_book import AT_TABLE, Edit
from siltstone.testing.sim.world import World

RETAIN = [name for name in SCENARIOS if name.startswith("retain")]
SEEDS = 20
HAPPENS = {
    "retain": {"collections", "collected", "checkpoints of all", "reads", "restores", "tags", "looks", "compactions"},
    "retain-shards": {"collections", "collected", "checkpoints of durable", "claims", "merges", "flushes", "expired"},
    "retain-clones": {"collections", "collected", "clones", "dropped", "compactions", "reads"},
}
SHARDED, CLONE = "sim://bucket", "memory://t1"
FAR_S = 3 * 86_400.0


class Script:
    """One process on a stage of its own, without faults; ``act`` says what it does."""

    def __init__(self, scenario=RetainScenario, seed=0):
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
        return "; ".join(self.book.violations)

    def bucket(self, uri=HOME):
        return self.stage.buckets[uri]

    def put(self, table, label, *keys, overwrite=False, acknowledged=True):
        edit = Edit(label, keys=keys, shard=AT_TABLE, overwrites=overwrite)
        self.book.begin(edit)
        transaction = table.transaction(once=label)
        (transaction.overwrite if overwrite else transaction.upsert)(rows_of(edit))
        transaction.commit()
        if acknowledged:
            self.book.done(edit)
        return edit

    def remove_data(self, uri=HOME):
        """All fragments go."""
        for key in [key for key in self.bucket(uri).objects.keys if key.startswith("data/")]:
            self.bucket(uri).remove(key)


# -- the scenarios -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", RETAIN)
def test_run_seed__each_scenario_of_what_is_kept__meets_all_that_can_happen(scenario):
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run_seed(seed, scenario)
        assert outcome.violations == (), seed
        totals.update(outcome.counters)
    for what in HAPPENS[scenario]:
        assert totals[what] >= SEEDS / 4, what
    assert totals["acknowledged"] >= 5 * SEEDS
    assert totals["too late"] > 0


# -- what versions need ------------------------------------------------------------------------------


def test_gone__what_nobody_names__is_in_order():
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        script.put(table, "all", 1, 2, overwrite=True)
        table.tag("here")
        script.put(table, "later", 1, overwrite=True)
        process.wait(FAR_S)
        assert table.gc(keep_days=0).deleted > 0
        read_all(script.book, table)
        script.book.close()

    assert Script().play(act) == ""


def test_gone__what_a_tagged_version_names__is_a_violation():
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        tagged = table.tag("here").version
        script.put(table, "all", 1, overwrite=True)
        process.wait(FAR_S)
        table.gc(keep_days=0)
        assert script.book.violations == []
        script.remove_data()
        with pytest.raises(MissingObjectError):
            table.at(tag="here").scan().to_arrow()
        assert f"version {tagged - 1} of {HOME} needs it" in "; ".join(script.book.violations)

    assert "was removed, and version" in Script().play(act)


def test_gone__entry_of_a_version_that_is_kept__is_a_violation():
    def act(script, process):
        script.bucket().remove(paths.entry(paths.LOG, 1))

    assert "was removed, and the log, since version 0 is kept, needs it" in Script().play(act)


def test_wrote__version_that_names_what_is_gone__is_a_violation():
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        transaction = table.transaction(once="late")
        edit = Edit("late", keys=(1,), shard=AT_TABLE)
        script.book.begin(edit)
        transaction.upsert(rows_of(edit))
        there = {place.key for place in script.book.retention.tables[HOME].newest.names}
        for key in [key for key in script.bucket().objects.keys if key.startswith("data/") and key not in there]:
            script.bucket().remove(key)
        assert script.book.violations == []
        transaction.commit()

    assert "names data/" in Script().play(act)


def test_wrote__floor_above_what_is_to_be_kept__is_a_violation():
    def act(script, process):
        script.book.retention.keep_ms = 3_600_000
        table = script.stage.open_at(process, HOME)
        table.gc(keep_days=1 / 24)
        assert script.book.violations == []
        table.gc(keep_days=0)

    assert "all are kept for 3600000 ms" in Script().play(act)


def test_done__acknowledged_and_in_no_version__is_a_violation():
    def act(script, process):
        edit = Edit("promise", keys=(1,), shard=AT_TABLE)
        script.book.begin(edit)
        script.book.done(edit)

    assert "promise was acknowledged and stands nowhere" in Script().play(act)


def test_close__reported_failed_and_in_a_version__is_a_violation():
    def act(script, process):
        edit = script.put(script.stage.open_at(process, HOME), "denied", 1, acknowledged=False)
        edit.failed, edit.trying = True, False
        script.book.close()

    assert "denied was reported failed and stands" in Script().play(act)


def test_compare__other_rows__is_a_violation():
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        rows = dict(script.book.retention.tables[HOME].newest.rows)
        compare(script.book, "it", table.at(version=table.version), rows)
        assert script.book.violations == []
        compare(script.book, "it", table.at(version=table.version), {**rows, 1: "another"})

    assert "it has other rows than it had: 1 is of first-1, not of another" in Script().play(act)


def test_rows__after_a_restore__are_those_of_then():
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        before = table.version
        script.put(table, "all", 1, overwrite=True)
        table.restore(version=before)
        truth = script.book.retention.tables[HOME]
        assert truth.newest.rows == truth.versions[before].rows != truth.versions[before + 1].rows
        read_all(script.book, table)

    assert Script().play(act) == ""


def test_strays__object_that_nobody_names__is_told():
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        for _ in range(2):
            process.wait(FAR_S)
            table.gc(keep_days=0)
        truth, bucket = script.book.retention.tables[HOME], script.bucket()
        assert list(strays(truth, bucket)) == []
        left = [paths.data(paths.name(0, "0" * 32)), paths.vectors(paths.name(9, "1" * 32)), "what"]
        for key in left:
            bucket.write(key, b"", replace=True)
        assert sorted(strays(truth, bucket)) == sorted(left)

    assert Script().play(act) == ""


# -- checkpoints -------------------------------------------------------------------------------------


def durable(script, process):
    """A table with rows in a shard that a checkpoint keeps."""
    table = script.stage.table(process)
    writer = script.stage.writer(table, 0, process)
    edit = Edit("one", keys=(1, 2), shard=writer.place.name)
    script.book.begin(edit)
    writer.put(rows_of(edit))
    script.book.done(edit)
    table.checkpoint("kept", scope="durable")
    return table


def test_rows_of__durable_checkpoint__are_those_of_the_shards_too():
    def act(script, process):
        table = durable(script, process)
        table.merge_shards()
        truth = script.book.retention.tables[SHARDED]
        record = truth.newest.checkpoints["kept"]
        assert truth.versions[record.version].rows == {}
        assert truth.rows_of(record) == {1: "one", 2: "one"}
        read_all(script.book, table)

    assert Script(RetainShards).play(act) == ""


def test_gone__entry_of_a_wal_that_a_checkpoint_keeps__is_a_violation():
    def act(script, process):
        durable(script, process)
        script.bucket(SHARDED).remove(paths.entry(paths.wal("0000-0000", 0), 0))

    assert "was removed, and checkpoint kept needs it" in Script(RetainShards).play(act)


# -- clones ------------------------------------------------------------------------------------------


def cloned(script, process, where=None):
    table = script.stage.open_at(process, HOME)
    return table, table.clone(script.stage.store(process, CLONE), where=where, probe=False)


def test_rows__of_a_clone__are_what_its_pin_keeps():
    def act(script, process):
        table, clone = cloned(script, process, where="id < 2")
        script.put(table, "after", 1, overwrite=True)
        truths = script.book.retention.tables
        assert truths[CLONE].newest.rows == {0: "first-0", 1: "first-1"}
        read_all(script.book, clone)
        read_all(script.book, table)

    assert Script(RetainClones).play(act) == ""


def test_gone__what_a_clone_names__is_a_violation():
    def act(script, process):
        table, _ = cloned(script, process)
        script.put(table, "after", 1, overwrite=True)
        process.wait(FAR_S)
        table.gc(keep_days=0)
        assert script.book.violations == []
        script.book.retention.tables[HOME].newest.checkpoints.clear()  # as if the parent did not know of the clone
        script.remove_data()

    assert f"of {CLONE} needs it" in Script(RetainClones).play(act)


def test_wrote__pin_that_goes_while_the_clone_needs_it__is_a_violation():
    def act(script, process):
        table, _ = cloned(script, process)
        pins.release(
            table._log,
            pins.claim_of(script.stage.open_at(process, CLONE)._log, script.stage.open_at(process, CLONE)._now()),
            [(0, Origin(table=table._log.identity.log, uri=HOME, version=0))],
            Others(given={HOME: script.stage.store(process, HOME)}),
        )

    assert f"{CLONE} let go of {HOME}, and names objects of it" in Script(RetainClones).play(act)
