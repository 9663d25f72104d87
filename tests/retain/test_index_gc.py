"""What a collection removes of indexes: builds that nothing names, and what was staged; never one that goes on."""

from __future__ import annotations

import contextlib

import pytest

import shares
import siltstone as ss
from clone_worlds import DAY_S, SCHEMA, World, rows_of
from indexed_worlds import all_hits, builds, check, grown, hits, named, texts
from siltstone import paths
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import ConflictError, SiltstoneError
from siltstone.ids import SystemIds
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import ANY, Crashed, Fault


@pytest.fixture
def world():
    made = World()
    grown(made)
    return made


def objects_of(world, build):
    return set(world.keys("parent", paths.index(build, "log").removesuffix("/log")))


def collect(world, **options):
    """Collections on several days."""
    done = []
    for _ in range(3):
        world.clock.advance(2 * DAY_S)
        done.append(world.open("parent").gc(**{"keep_days": 0, **options}))
        assert done[-1].left == ()
    return done


def test_gc__an_index_that_was_optimized__its_older_segments_go(world):
    table = world.open("parent")
    old = named(table)
    table.optimize_index("v", whole=True)
    before = check(table)
    planned = table.gc(keep_days=0, dry_run=True)
    doomed = {one.key: one for one in planned.doomed if one.kind == "index"}
    assert doomed.keys() == {key for build in old for key in objects_of(world, build)}
    assert all("only versions below" in one.why for one in doomed.values())
    done = table.gc(keep_days=0)
    assert done.objects["index"] == len(doomed)
    assert done.bytes["index"] == sum(one.bytes for one in doomed.values())
    assert builds(world, "parent") == named(table)
    assert check(world.open("parent")) == before


def test_gc__an_index_that_was_dropped__all_of_it_goes(world):
    world.open("parent").drop_index("v")
    collect(world)
    assert world.keys("parent", "indexes") == []
    check(world.open("parent"))


def test_gc__a_column_that_was_dropped__its_index_goes_too(world):
    table = world.open("parent")
    table.drop_column("v")
    assert table.indexes() == []
    collect(world)
    assert world.keys("parent", "indexes") == []


def test_gc__nothing_to_do__leaves_indexes_as_they_are(world):
    collect(world)
    before = world.keys("parent", "indexes")
    assert {paths.parse_index(key)[0] for key in before} == named(world.open("parent"))
    assert {paths.index(build, paths.MARKER) for build in builds(world, "parent")} <= set(before)
    collect(world)
    assert world.keys("parent", "indexes") == before


@pytest.mark.parametrize("how", ["tag", "checkpoint"])
def test_gc__a_version_is_kept__its_indexes_are_too(world, how):
    table = world.open("parent")
    expected = check(table)
    if how == "tag":
        table.tag("kept")
    else:
        table.checkpoint("kept")
    table.drop_index("v")
    table.overwrite(rows_of(texts(0, 3)))
    collect(world)
    kept = world.open("parent").at(**{how: "kept"})
    assert all_hits(kept, indexed_only=True) == expected
    assert world.open("parent").indexes() == []
    if how == "tag":
        world.open("parent").untag("kept")
    else:
        world.open("parent").delete_checkpoint("kept")
    collect(world)
    assert world.keys("parent", "indexes") == []


def test_gc__a_build_that_goes_on__is_not_touched(world):
    table = world.open("parent")
    begun = table.begin_optimize_index("v", items=2, whole=True)
    begun.run(begun.missing()[0])
    before = objects_of(world, begun.name)
    assert table.gc(keep_days=0).floor == table.version - 1
    assert objects_of(world, begun.name) == before
    for item in begun.missing():
        begun.run(item)
    begun.commit()
    check(world.open("parent"))


def test_gc__a_build_that_was_left__goes_once_its_version_is_over_and_its_commit_is_refused(world):
    table = world.open("parent")
    begun = table.begin_optimize_index("v", whole=True)
    for item in begun.missing():
        begun.run(item)
    table.append(rows_of(texts(60, 62)))
    planned = table.gc(keep_days=0, dry_run=True)
    doomed = {one.key: one.why for one in planned.doomed if one.kind == "index"}
    assert doomed.keys() == objects_of(world, begun.name)
    assert all("no version names it" in why for why in doomed.values())
    table.gc(keep_days=0)
    assert objects_of(world, begun.name) == set()
    with pytest.raises(SiltstoneError):
        begun.commit()
    assert begun.name not in named(world.open("parent"))
    check(world.open("parent"))
    collect(world)
    assert builds(world, "parent") == named(world.open("parent"))


def test_gc__a_finished_build_whose_version_is_over__is_refused_and_names_nothing(world):
    table = world.open("parent")
    begun = table.begin_optimize_index("v", whole=True)
    for item in begun.missing():
        begun.run(item)
    begun.finalize()
    table.append(rows_of(texts(60, 62)))
    other = world.open("parent").index_build(begun.name)
    store = world.store("parent")
    marker = store.get(paths.index(begun.name, paths.MARKER))
    table.gc(keep_days=0)
    store.put(paths.index(begun.name, paths.MARKER), marker)  # one that slept since
    with pytest.raises(ConflictError, match="were collected since"):
        other.commit()
    check(world.open("parent"))
    collect(world)
    assert builds(world, "parent") == named(world.open("parent"))


def test_gc__what_is_left_in_staging_of_a_build_that_is_named__goes_and_nothing_else_of_it(world):
    table = world.open("parent")
    table.optimize_index("v", whole=True)
    [build] = named(table)
    store, whole = world.store("parent"), objects_of(world, build)
    left = {paths.index(build, paths.staged_part(0, "ab" * 16, 0)), paths.index(build, "staging/foreign")}
    for key in left:
        store.put(key, b"left")
    before = check(table)
    table.gc(keep_days=0, keep_versions=2)
    assert objects_of(world, build) == whole | left  # what it was begun on is there
    table.append(rows_of({90: "nothing of that"}))
    table.delete("id = 90")
    planned = table.gc(keep_days=0, dry_run=True)
    assert {one.key for one in planned.doomed if one.kind == "staged"} == left
    assert table.gc(keep_days=0).objects["staged"] == 2
    assert objects_of(world, build) == whole
    assert check(world.open("parent")) == before


def test_gc__objects_that_are_no_build__stay(world):
    store = world.store("parent")
    foreign = {"indexes/readme", "indexes/00000000000000000000-nothex/metadata", "indexes/notes/part_0_0.text"}
    for key in foreign:
        store.put(key, b"not ours")
    collect(world)
    assert foreign <= set(world.keys("parent", "indexes"))


def waiting(world):
    """A build that is done and was not committed, on a version that is not the newest one."""
    table = grown(world)
    begun = table.begin_optimize_index("v", whole=True)
    for item in begun.missing():
        begun.run(item)
    begun.finalize()
    table.append(rows_of(texts(60, 62)))
    return begun


def test_gc__a_build_is_committed_between_any_two_calls__it_is_whole_or_refused():
    landed, refused = 0, 0
    for nth in shares.calls():
        world, told = World(), []
        begun = waiting(world)
        store = world.interleaves("parent")
        table = world.open("parent", store=store)
        store.before(ANY, lambda begun=begun, told=told: told.append(outcome(begun.commit)), nth=nth)
        table.gc(keep_days=0)
        if store.pending:
            assert nth > 10
            break
        now = world.open("parent")
        if told == [None]:
            landed += 1
            assert begun.name in named(now)
            assert hits(now, "deliv*") == hits(now.at(version=now.version), "deliv*", indexed_only=True)
        else:
            refused += 1
            assert begun.name not in named(now)
        check(now)
    assert landed
    assert refused


def outcome(call):
    """None, or what it raises."""
    try:
        call()
    except SiltstoneError as error:
        return error
    return None


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOSE])
def test_gc__cut_off_at_every_call__the_next_one_goes_on(fault):
    for nth in shares.calls():
        world = World()
        waiting(world)
        world.open("parent").drop_index("v")
        store = world.faulty("parent")
        table = world.open("parent", store=store)
        store.script.clear()
        store.on(ANY, fault, nth=nth)
        with contextlib.suppress(Crashed, SiltstoneError):
            table.gc(keep_days=0)
        hits(world.open("parent"), "deliv*")
        collect(world)
        assert world.keys("parent", "indexes") == []
        if len(store.calls) < nth:
            assert nth > 10
            return


# -- with a commit store ---------------------------------------------------------------------------


class Decided:
    """A table in memory whose versions, and those of its builds' logs, a commit store decides."""

    def __init__(self):
        self.service, self.bucket, self.clock = MemoryService(), MemoryBucket(), ManualClock()

    def options(self):
        registry = MemoryRegistry(self.service, ids=SystemIds())
        return {"commits": registry, "probe": False, "env": manual_env(1, clock=self.clock)}

    def store(self):
        return MemoryStore(bucket=self.bucket, clock=self.clock)

    def claims(self):
        """How many claims there are in each scope that has some."""
        return {scope: len(found) for scope, found in self.service.claims.items() if found}


def test_gc__with_a_commit_store__claims_of_builds_that_went_are_let_go():
    world = Decided()
    table = ss.create(world.store(), schema=SCHEMA, key="id", **world.options())
    table.append(rows_of(texts(0, 10)))
    before = world.claims()
    table.create_text_index("v")
    log = max(world.claims().keys() - before.keys(), key=lambda scope: world.claims()[scope])
    assert world.claims()[log] == 2  # the plan, and what was made of its item
    expected = all_hits(table)
    table.gc(keep_days=0)
    assert world.claims()[log] == 2
    table.append(rows_of(texts(10, 12)))
    table.drop_index("v")
    table.gc(keep_days=0)
    assert log not in world.claims()
    assert list(world.store().list("indexes")) == []
    table.delete("id >= 10")
    assert all_hits(ss.open(world.store(), **world.options())) == expected


def test_drop__with_a_commit_store__claims_of_builds_are_let_go():
    world = Decided()
    table = ss.create(world.store(), schema=SCHEMA, key="id", **world.options())
    table.append(rows_of(texts(0, 10)))
    before = world.claims()
    table.create_text_index("v")
    table.begin_text_index("v", name="unfinished")
    new = {scope for scope in world.claims().keys() - before.keys() if not scope.startswith("identity:")}
    assert new
    table.close()
    ss.drop(world.store(), **world.options())
    assert not new & world.claims().keys()
    assert list(world.store().list("indexes")) == []
