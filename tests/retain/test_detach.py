"""Detaching: a clone gets objects of its own and lets go of other tables, whenever it was cut off."""

from __future__ import annotations

from functools import partial

import pytest

import shares
from clone_worlds import World, content, numbered, parent, rows_of
from siltstone.errors import ConflictError, CorruptionError, SiltstoneError, TruncatedError
from siltstone.paths import origin_of
from siltstone.testing.script import ANY, Crashed, Fault


def cloned():
    world = parent()
    made = world.clone("parent", "clone")
    made.delete("id = 11")
    made.append(rows_of({60: "own"}))
    world.expected = {**world.expected, 60: "own"}
    del world.expected[11]
    return world


def check(world):
    """It stands alone."""
    table = world.open("clone")
    assert content(table) == world.expected
    assert {origin_of(live.fragment.name) for live in table._now().fragments} <= {0}
    assert {origin_of(live.vector.name) for live in table._now().fragments if live.vector} <= {0}
    assert table._now().origins == {}
    assert world.pins("parent") == []


def test_detach__a_clone__has_its_rows_alone_and_the_parent_can_go():
    world = cloned()
    seen = []
    table = world.open("clone")
    done = table.detach(progress=lambda part, whole: seen.append((part, whole)))
    assert done.operation == "detach"
    assert seen[-1][0] == seen[-1][1] > 0
    assert seen == sorted(seen)
    check(world)
    world.drop("parent")
    assert content(world.open("clone")) == content(table) == world.expected
    table.upsert(rows_of({1: "later"}))
    assert content(world.open("clone"))[1] == "later"


def test_detach__again__does_nothing():
    world = cloned()
    world.open("clone").detach()
    before = world.open("clone").version
    assert world.open("clone").detach().operation == "none"
    assert world.open("clone").version == before


def test_detach__a_table_that_is_no_clone__does_nothing():
    world = parent()
    assert world.open("parent").detach().operation == "none"


def test_detach__rows_as_a_feed__did_not_change():
    world = cloned()
    table = world.open("clone")
    made = table.detach().version
    table.append(rows_of({70: "a"}))
    assert table.changes(made).to_arrow()["id"].to_pylist() == [70]
    with pytest.raises(TruncatedError):
        table.at(version=made - 1)


@pytest.mark.parametrize("how", ["tag", "checkpoint", "clone"])
def test_detach__an_earlier_version_is_kept__is_refused_until_it_is_not(how):
    world = cloned()
    table = world.open("clone")
    if how == "tag":
        table.tag("keep")
    elif how == "checkpoint":
        table.checkpoint("keep")
    else:
        world.clone("clone", "other")
    with pytest.raises(ConflictError, match="kept by"):
        table.detach()
    assert content(table) == world.expected
    if how == "tag":
        table.untag("keep")
    elif how == "checkpoint":
        table.delete_checkpoint("keep")
    else:
        world.drop("other")
    table.detach()
    check(world)


def test_detach__a_tag_of_a_version_that_needs_no_other__stays():
    world = parent()
    table = world.clone("parent", "clone")
    table.overwrite(rows_of({1: "a"}))
    table.tag("own")
    table.detach()
    world.expected = {1: "a"}
    check(world)
    assert content(world.open("clone").at(tag="own")) == {1: "a"}


def test_detach__a_fragment_was_damaged__is_not_copied():
    world = cloned()
    key = next(key for key in world.keys("parent", "data"))
    store = world.store("parent")
    data = bytearray(store.get(key))
    data[len(data) // 2] ^= 1
    store.put(key, bytes(data))
    with pytest.raises(CorruptionError, match="can't be copied"):
        world.open("clone").detach()
    assert world.pins("parent") == [world.uri("clone")]


@pytest.mark.parametrize("place", ["parent", "clone"])
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOSE])
def test_detach__cut_off_at_every_call__the_same_call_ends_it(place, fault):
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
            assert content(world.open("clone")) == world.expected
        world.open("clone").detach()
        check(world)
        if len(script.calls) < nth:
            assert nth > 5
            return


def test_detach__others_write_between_any_two_calls__nothing_is_lost():
    for nth in shares.calls():
        world = cloned()
        store = world.interleaves("clone")
        table = world.open("clone", store=store)
        store.before(ANY, partial(write, world), nth=nth)
        table.detach()
        if store.pending:
            assert nth > 5
            return
        world.expected |= {1: "up", 80: "new"}
        del world.expected[2]
        check(world)


def write(world):
    table = world.open("clone")
    table.upsert(rows_of({1: "up", 80: "new"}))
    table.delete("id = 2")


def test_detach__a_tag_comes_between_any_two_calls__is_refused_or_too_late():
    for nth in shares.calls():
        world = cloned()
        store = world.interleaves("clone")
        table = world.open("clone", store=store)
        told = []

        def tag(world=world, told=told):
            try:
                world.open("clone").tag("keep", version=1)
            except SiltstoneError as error:
                told.append(error)

        store.before(ANY, tag, nth=nth)
        try:
            table.detach()
        except ConflictError:
            assert told == []
            assert content(world.open("clone").at(tag="keep")).keys() >= {11}
            assert world.pins("parent") == [world.uri("clone")]
        else:
            assert store.pending or [type(one) for one in told] == [TruncatedError]
            check(world)
        if store.pending:
            return


def test_detach__by_two_at_once__both_end():
    for nth in shares.calls():
        world = cloned()
        store = world.interleaves("clone")
        table = world.open("clone", store=store)
        store.before(ANY, lambda world=world: world.open("clone").detach(), nth=nth)
        table.detach()
        check(world)
        if store.pending:
            return


def test_clone__many_fragments__detach_copies_each_once():
    world = World()
    table = world.create("parent")
    for number in range(12):
        table.append(rows_of(numbered(number * 5, number * 5 + 5)))
    made = world.clone("parent", "clone")
    made.detach()
    assert len(world.keys("clone", "data")) == 12
    assert content(world.open("clone")) == numbered(0, 60)
