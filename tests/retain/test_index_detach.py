"""Detaching a clone with indexes: they come along under new names and find the same, whenever it was cut off."""

from __future__ import annotations

from functools import partial

import pytest

import shares
from clone_worlds import DAY_S, World, rows_of
from indexed_worlds import add_segment, all_hits, builds, check, grown, hits, named, texts
from siltstone import paths
from siltstone.errors import ConflictError, SiltstoneError
from siltstone.index.build import read_marker
from siltstone.testing.script import ANY, Crashed, Fault


def cloned():
    """A clone that has segments of its parent, and one of its own that covers fragments of both."""
    world = World()
    grown(world)
    clone = world.clone("parent", "clone")
    clone.append(rows_of(texts(60, 66)))
    add_segment(clone)
    clone.delete("id in (7, 51, 61)")
    clone.append(rows_of(texts(70, 73)))
    return world


def parts_of(table):
    """The parts of the newest version's segments: their bytes' digests."""
    store = table._own_tools.store
    segments = [one for index in table._now().indexes.values() for one in index.segments]
    return [part.sha256 for one in segments for part in read_marker(store, one).parts]


def alone(world, expected):
    """It needs no other table, and finds what it found."""
    table = world.open("clone")
    assert check(table) == expected
    assert table._now().origins == {}
    assert {paths.origin_of(name) for name in named(table)} <= {0}
    assert world.pins("parent") == []
    return table


def test_detach__a_clone_with_indexes__finds_the_same_when_the_parent_is_gone():
    world = cloned()
    clone = world.open("clone")
    before, parts, info = check(clone), parts_of(clone), clone.indexes()
    assert len(clone._now().indexes["v"].segments) == 3
    seen = []
    clone.detach(progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] >= info[0].bytes
    assert check(clone) == before
    world.drop("parent")
    table = alone_after_drop(world, before)
    assert parts_of(table) == parts
    assert table.indexes() == info
    assert all_hits(table, indexed_only=True) == before
    table.optimize_index("v", whole=True)
    assert check(table) == before
    assert table.indexes()[0].unindexed_rows == 0


def alone_after_drop(world, expected):
    table = world.open("clone")
    assert check(table) == expected
    assert table._now().origins == {}
    return table


def test_detach__its_own_segments_of_foreign_fragments__are_named_anew():
    world = cloned()
    clone = world.open("clone")
    own = {name for name in named(clone) if not paths.origin_of(name)}
    assert own
    clone.detach()
    assert not named(clone) & own
    covered = {
        one.name
        for segment in clone._now().indexes["v"].segments
        for part in read_marker(clone._own_tools.store, segment).parts
        for one in part.fragments
    }
    assert covered < {live.fragment.name for live in clone._now().fragments}


def test_detach__a_segment_that_has_only_its_own_fragments__stays():
    world = World()
    add_segment(grown(world))
    clone = world.clone("parent", "clone")
    clone.append(rows_of(texts(60, 66)))
    add_segment(clone)
    before = check(clone)
    [own] = [one for one in clone._now().indexes["v"].segments if not paths.origin_of(one.build)]
    clone.detach()
    segments = clone._now().indexes["v"].segments
    assert own in segments
    assert len(segments) == 4
    alone(world, before)


def test_detach__collected_afterwards__nothing_is_left_of_what_was_copied():
    world = cloned()
    clone = world.open("clone")
    clone.detach()
    for _ in range(3):
        world.clock.advance(2 * DAY_S)
        assert clone.gc(keep_days=0).left == ()
    assert builds(world, "clone") == named(clone)
    check(world.open("clone"))


def test_detach__parts_of_which_nothing_is_there__are_not_copied():
    world = World()
    grown(world)
    clone = world.clone("parent", "clone", where="id >= 20 and id < 30")
    before, parts = check(clone), len(parts_of(clone))
    clone.detach()
    assert parts == 3
    assert len(parts_of(clone)) == 1
    assert len(clone._now().indexes["v"].segments) == 1
    alone(world, before)


def test_detach__only_an_index_needs_the_parent__it_is_copied():
    world = World()
    grown(world)
    clone = world.clone("parent", "clone", where="id < 30")
    clone.compact()
    before = check(clone)
    assert {paths.origin_of(name) for name in named(clone)} == {1}
    assert clone.detach().operation == "detach"
    table = alone(world, before)
    assert table._now().indexes["v"].segments == ()  # of what it covered nothing is left
    assert world.open("clone").detach().operation == "none"


def test_detach__of_a_clone_of_a_clone__needs_neither():
    world = cloned()
    last = world.clone("clone", "last")
    before = check(last)
    last.detach()
    world.drop("clone")
    world.drop("parent")
    assert check(world.open("last")) == before


def test_detach__a_tag_keeps_a_version_whose_index_alone_is_foreign__is_refused():
    world = World()
    grown(world)
    clone = world.clone("parent", "clone")
    clone.compact()
    clone.tag("kept")
    clone.optimize_index("v")
    with pytest.raises(ConflictError, match="kept by tag 'kept'"):
        clone.detach()
    clone.untag("kept")
    clone.detach()
    alone(world, check(clone))


@pytest.mark.parametrize("what", ["part", "marker"])
@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_detach__a_file_of_an_index_is_damaged__its_segment_is_left_out_and_rows_are_found(what, how):
    world = World()
    parent = grown(world)
    before = check(parent)
    clone = world.clone("parent", "clone")
    victim = parent._now().indexes["v"].segments[0]
    part = read_marker(parent._own_tools.store, victim).parts[0].name
    key = paths.index(victim.build, paths.MARKER if what == "marker" else part)
    store = world.store("parent")
    if how == "gone":
        store.delete([key])
    else:
        data = bytearray(store.get(key))
        data[len(data) // 2] ^= 1
        store.put(key, bytes(data))
    seen = []
    clone.detach(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    table = alone(world, before)
    assert len(table._now().indexes["v"].segments) == 1
    assert table.indexes()[0].unindexed_rows == 28 + 6
    table.optimize_index("v")
    assert table.indexes()[0].unindexed_rows == 0
    assert check(table) == before


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("parent", Fault.CRASH_BEFORE),
        ("clone", Fault.CRASH_BEFORE),
        ("clone", Fault.CRASH_AFTER),
        ("clone", Fault.LOSE),
    ],
)
def test_detach__cut_off_at_every_call__the_same_call_ends_it(place, fault):
    expected = check(cloned().open("clone"))
    for nth in shares.calls():
        world = cloned()
        stores = {"parent": world.faulty("parent"), "clone": world.faulty("clone")}
        table = world.open("clone", store=stores["clone"], origins={world.uri("parent"): stores["parent"]})
        script = stores[place].script
        script.clear()
        script.on(ANY, fault, nth=nth)
        try:
            table.detach()
        except (Crashed, SiltstoneError):
            assert hits(world.open("clone"), "deliv*") == expected["deliv*"]
        done = world.open("clone")
        done.detach()
        assert hits(world.open("clone"), "deliv*", indexed_only=True) == expected["deliv*"]
        assert done._now().origins == {}
        assert world.pins("parent") == []
        assert len(done._now().indexes["v"].segments) == 3
        if len(script.calls) < nth:
            assert nth > 10
            alone(world, expected)
            return


def test_detach__others_write_between_any_two_calls__nothing_is_lost():
    for nth in shares.calls():
        world = cloned()
        store = world.interleaves("clone")
        table = world.open("clone", store=store)
        store.before(ANY, partial(write, world), nth=nth)
        table.detach()
        if store.pending:
            assert nth > 10
            return
        table = world.open("clone")
        assert {80, 81} <= set(table.scan().to_arrow()["id"].to_pylist())
        assert table._now().origins == {}
        assert named(table) <= builds(world, "clone")
        check(table) if nth % 5 == 1 else hits(table, "deliv*")


def write(world):
    """Rows come and go, and the index is optimized."""
    table = world.open("clone")
    table.append(rows_of(texts(80, 82)))
    table.delete("id in (5, 25)")
    table.optimize_index("v")
