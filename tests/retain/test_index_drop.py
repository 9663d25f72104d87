"""Dropping a table: nothing of its indexes is left, also where it was cut off, and what is made there since stays."""

from __future__ import annotations

import contextlib

import pytest

import shares
from clone_worlds import World, rows_of
from indexed_worlds import builds, check, grown, named, texts
from siltstone.errors import ConflictError, SiltstoneError
from siltstone.testing.script import ANY, Crashed, Fault


def test_drop__a_table_with_indexes_and_builds_that_go_on__nothing_of_them_is_left():
    world = World()
    table = grown(world)
    begun = table.begin_text_index("v", name="other", items=2)
    begun.run(0)
    world.drop("parent")
    assert world.keys("parent", "indexes") == []
    assert world.keys("parent", "data") == []


def test_drop__a_clone_reads_from_its_indexes__is_refused_and_changes_nothing():
    world = World()
    grown(world)
    clone = world.clone("parent", "clone")
    before = world.keys("parent", "indexes")
    with pytest.raises(ConflictError, match="clones read from it"):
        world.drop("parent")
    assert world.keys("parent", "indexes") == before
    check(clone)
    world.drop("clone")
    assert world.keys("parent", "indexes") == before
    check(world.open("parent"))
    world.drop("parent")
    assert world.keys("parent", "indexes") == []


def test_drop__someone_finishes_a_build_afterwards__it_is_refused_and_the_next_table_has_none():
    world = World()
    table = grown(world)
    begun = table.begin_text_index("v", name="other")
    for item in begun.missing():
        begun.run(item)
    begun.finalize()
    world.drop("parent")
    with pytest.raises(SiltstoneError):
        begun.commit()
    new = world.create("parent", key="id")
    new.append(rows_of(texts(0, 5)))
    with pytest.raises(SiltstoneError):
        begun.commit()
    assert new.indexes() == []
    new.create_text_index("v")
    check(new)
    new.gc(keep_days=0)
    assert builds(world, "parent") == named(new)


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_drop__cut_off_at_every_call__the_same_call_ends_it(fault):
    for nth in shares.calls():
        world = World()
        grown(world).begin_text_index("v", name="other")
        store = world.faulty("parent")
        store.on(ANY, fault, nth=nth)
        with contextlib.suppress(Crashed, SiltstoneError):
            world.drop("parent", store=store)
        world.drop("parent", missing_ok=True)
        assert world.keys("parent", "indexes") == []
        if len(store.calls) < nth:
            assert nth > 10
            return


def test_drop__cut_off_and_another_table_is_made_there__its_index_stays():
    world = World()
    grown(world)
    store = world.faulty("parent")
    store.on("delete", Fault.CRASH_BEFORE, nth=1)
    with pytest.raises(Crashed):
        world.drop("parent", store=store)
    left = builds(world, "parent")
    assert left
    new = world.create("parent", key="id")
    new.append(rows_of(texts(0, 12)))
    new.create_text_index("v")
    new.append(rows_of(texts(12, 14)))
    new.gc(keep_days=0)
    assert builds(world, "parent") == named(new)
    assert not named(new) & left
    check(world.open("parent"))
