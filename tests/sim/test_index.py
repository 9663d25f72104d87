"""The scenarios of text indexes: what happens in them, and that the book notices what must not be."""

from __future__ import annotations

from collections import Counter

import pytest

from siltstone import paths
from siltstone.errors import ConflictError
from siltstone.format.text import encode
from siltstone.index.operations import AddIndex
from siltstone.testing.sim import run_seed
from siltstone.testing.sim.index_agents import Posted, check_search, matching, run_otherwise
from siltstone.testing.sim.index_scenario import IndexScenario, MixedReleases
from siltstone.testing.sim.retain_audit import strays
from siltstone.testing.sim.retain_scenario import HOME
from siltstone.testing.sim.shard_truth import LABEL
from siltstone.testing.sim.world import World

SEEDS = 20
IN_CLONES = ("builds", "items", "clones", "dropped", "searches", "collections")
HAPPENS = ("builds", "items", "committed builds", "finalized", "unfinished", "searches", "collections")


class Script:
    """One process on a stage of its own, without faults; ``act`` says what it does."""

    def __init__(self, scenario=IndexScenario, seed=3):
        self.world = World(seed)
        self.stage = scenario(self.world)
        self.book = self.stage.book
        self.book.retention.keep_ms = 0
        self.world.start("founder", self.stage._found)
        self.world.run()

    def play(self, act):
        self.world.start("someone", lambda process: act(self, process))
        self.world.run()
        self.world.close()
        assert self.world.surprises == []
        return "; ".join(self.book.violations)

    @property
    def bucket(self):
        return self.stage.buckets[HOME]

    def open(self, process):
        return self.stage.open_at(process, HOME)

    def begin(self, process, items=2):
        table = self.open(process)
        build = table.begin_text_index(LABEL, name="mine", items=items)
        self.stage.board.append(Posted(HOME, build.name))
        return table, build

    def done(self, process):
        """A build that is finalized."""
        table, build = self.begin(process)
        for item in range(build.items):
            build.run(item, threads=1)
        build.finalize()
        return table, build

    def write(self, build, rest, data):
        self.bucket.write(paths.index(build.name, rest), data, replace=True)


# -- the scenarios -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["index", "index-mixed", "index-clones"])
def test_run_seed__each_scenario_of_indexes__meets_all_that_can_happen(scenario):
    happens = HAPPENS if scenario != "index-clones" else IN_CLONES
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run_seed(seed, scenario)
        assert outcome.violations == (), seed
        totals.update(outcome.counters)
    for what in happens:
        assert totals[what] >= SEEDS / 5, what
    assert totals["collected of builds"] > 0
    assert sum(totals[name] for name in ("die_before", "die_after", "die_under_way")) >= SEEDS / 2


# -- builds ------------------------------------------------------------------------------------------


def test_wrote__build_as_it_should_be__is_in_order():
    def act(script, process):
        table, build = script.done(process)
        build.commit()
        assert len(script.book.builds[HOME].known[build.name].finals) == 3
        rows = script.book.retention.tables[HOME].newest.rows
        check_search(script.book, table.at(version=table.version), "it", rows, "first")
        assert matching(rows, "first")

    assert Script().play(act) == ""


def test_wrote__workers_of_two_releases__the_first_of_each_item_is_in_order():
    def act(script, process):
        _, build = script.begin(process)
        told = run_otherwise(build, 0)
        assert len(told.parts) > 1
        assert build.run(0, threads=1) == told
        build.run(1, threads=1)
        build.commit()

    assert Script(MixedReleases).play(act) == ""


def test_wrote__marker_before_all_items_are_done__is_a_violation():
    def act(script, process):
        _, build = script.begin(process)
        build.run(0, threads=1)
        inner = build._build
        script.write(build, paths.MARKER, encode(inner._marker(inner.staged())))

    found = Script().play(act)
    assert "has a marker, and items [1] are missing" in found
    assert "part_0_0.text is not there" in found


def test_wrote__final_name_with_other_bytes__is_a_violation():
    def act(script, process):
        _, build = script.done(process)
        script.write(build, "part_0_0.text", b"other")

    assert "was written again, with other bytes" in Script().play(act)


def test_wrote__other_bytes_than_a_build_without_faults_has__is_a_violation():
    def act(script, process):
        _, build = script.begin(process)
        run_otherwise(build, 0)
        build.run(1, threads=1)
        build.finalize()

    assert "part_0_0.text of build" in Script().play(act)


def test_gone__what_counts_before_the_marker__is_a_violation():
    def act(script, process):
        _, build = script.begin(process)
        staged = build.run(0, threads=1)
        script.bucket.remove(paths.index(build.name, paths.staged_part(0, staged.attempt, 0)))

    assert "was removed, and the build may still be committed" in Script().play(act)


def test_gone__part_that_a_version_names__is_a_violation():
    def act(script, process):
        _, build = script.done(process)
        build.commit()
        script.bucket.remove(paths.index(build.name, "part_0_0.text"))

    assert "needs it" in Script().play(act)


def test_strays__build_that_was_given_up__is_left_until_it_is_collected():
    def act(script, process):
        table, build = script.begin(process)
        build.run(0, threads=1)
        truth = script.book.retention.tables[HOME]
        left = [key for key in strays(truth, script.bucket) if key.startswith(paths.INDEXES)]
        assert any(build.name in key for key in left)
        script.stage._write(table, "more", script.stage.keys[:1])
        process.wait(3 * 86_400.0)
        table.gc(keep_days=0)
        assert [key for key in strays(truth, script.bucket) if build.name in key] == []

    assert Script().play(act) == ""


# -- versions ----------------------------------------------------------------------------------------


def test_landed__build_that_was_dropped_comes_back__is_a_violation():
    def act(script, process):
        table, build = script.done(process)
        build.commit()
        index = table._looked().indexes["mine"]
        table.drop_index("mine")
        table._do(AddIndex("again", index))

    assert "which was part of the table before" in Script().play(act)


def test_check_search__row_that_is_not_found__is_a_violation():
    def act(script, process):
        table = script.open(process)
        rows = {**script.book.retention.tables[HOME].newest.rows, 77: "first-9"}
        check_search(script.book, table.at(version=table.version), "it", rows, "first")

    assert "77 is of None, not of first-9" in Script().play(act)


# -- what the simulator found in the real code --------------------------------------------------------


def test_run__collected_while_two_do_the_same_item__both_are_told_so_and_there_is_no_alarm():
    def act(script, process):
        table, build = script.begin(process)
        first, second = (script.open(process).index_build(build.name) for _ in range(2))

        def collect(_rows):
            script.stage._write(table, "more", script.stage.keys[:1])
            table.gc(keep_days=0)

        def be_late(_rows):
            with pytest.raises(ConflictError, match="were collected since"):
                first.run(0, threads=1, progress=collect)

        with pytest.raises(ConflictError, match="were collected since"):
            second.run(0, threads=1, progress=be_late)

    assert Script().play(act) == ""


def test_commit__items_were_done_and_it_was_collected__is_told_so_and_not_that_items_are_missing():
    def act(script, process):
        table, build = script.begin(process)
        for item in range(build.items):
            build.run(item, threads=1)
        late = script.open(process).index_build(build.name)
        script.stage._write(table, "more", script.stage.keys[:1])
        table.gc(keep_days=0)
        with pytest.raises(ConflictError, match="were collected since"):
            late.commit()

    assert Script().play(act) == ""
