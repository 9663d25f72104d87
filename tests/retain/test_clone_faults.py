"""Clones that were cut off at every call of either store, or made by two at once: one clone, whole, and one pin."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import shares
from clone_worlds import World, content, numbered, parent, rows_of
from siltstone.errors import AlreadyExistsError, ConflictError, NotFoundError, SiltstoneError
from siltstone.testing.script import ANY, Crashed, Fault

WRITES = [("parent", "create"), ("parent", "put"), ("clone", "create")]


def small():
    world = World()
    table = world.create("parent", key="id", shards=1)
    table.append(rows_of(numbered(0, 6)))
    table.delete("id = 2")
    with table.writer() as writer:
        writer.put(rows_of({7: "put"}))
    world.expected = {**numbered(0, 6), 7: "put"}
    del world.expected[2]
    return world


def of_newest(world):
    del world
    return {}


def of_durable(world):
    world.open("parent").checkpoint("kept", scope="durable")
    return {"at": "kept"}


def of_some(world):
    world.expected = {id_: v for id_, v in world.expected.items() if id_ > 3}
    return {"where": "id > 3"}


def of_clone(world):
    """The parent is a clone itself."""
    world.clone("parent", "first")
    world.open("first").append(rows_of({50: "first"}))
    world.expected |= {50: "first"}
    return {}


KINDS = {"newest": of_newest, "durable": of_durable, "where": of_some, "of a clone": of_clone}


def check(world, source, options):
    """Whoever comes next ends it."""
    made = world.clone(source, "clone", **options)
    assert content(made) == content(world.open("clone")) == world.expected
    assert world.pins(source) == [world.uri("clone")]
    if source == "first":
        assert sorted(world.pins("parent")) == sorted([world.uri("clone"), world.uri("first")])
    assert len([one for one in made.history() if one.operation == "clone"]) == 1
    made.append(rows_of({99: "next"}))
    world.open(source).append(rows_of({98: "next"}))
    assert content(world.open("clone")) == world.expected | {99: "next"}


def hit(kind, place, verb, fault):
    """Worlds in which the n-th call of a store met a fault while a clone was made, until no call is left."""
    for nth in shares.calls(2):
        world = small()
        options = KINDS[kind](world)
        source = "first" if kind == "of a clone" else "parent"
        stores = {source: world.faulty(source), "clone": world.faulty("clone")}
        handle = world.open(source, store=stores[source])
        store = stores[source if place == "parent" else "clone"]
        store.script.clear()
        store.on(verb, fault, nth=nth)
        failed = None
        try:
            world.clone(handle, "clone", store=stores["clone"], **options)
        except (Crashed, SiltstoneError) as error:
            failed = error
        yield world, source, options, failed
        if sum(verb in {ANY, call.verb} for call in store.calls) < nth:
            assert failed is None
            assert nth > 1
            return


@pytest.mark.parametrize("place", ["parent", "clone"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_clone__killed_at_every_call__the_same_call_ends_it(kind, place):
    for world, source, options, _ in hit(kind, place, ANY, Fault.CRASH_BEFORE):
        check(world, source, options)


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.CRASH_AFTER])
@pytest.mark.parametrize(("place", "verb"), WRITES)
def test_clone__a_write_took_effect_and_nobody_was_told__the_same_call_ends_it(place, verb, fault):
    for world, source, options, _ in hit("newest", place, verb, fault):
        check(world, source, options)


@pytest.mark.parametrize("place", ["parent", "clone"])
def test_clone__cut_off_anywhere__a_drop_ends_it_and_leaves_no_pin(place):
    for world, source, _, failed in hit("of a clone", place, "create", Fault.CRASH_AFTER):
        if failed is None:
            continue
        world.drop("clone", missing_ok=True)
        assert world.pins(source) == []
        assert world.pins("parent") == [world.uri("first")]
        with pytest.raises(NotFoundError):
            world.open("clone")
        assert content(world.clone(source, "clone")) == world.expected


def test_clone__cut_off_and_asked_for_again_as_another__is_refused():
    world = small()
    world.create("other", key="id").append(rows_of({1: "a"}))
    world.open("parent").checkpoint("kept")
    store = world.faulty("parent")
    handle = world.open("parent", store=store)
    store.on("create", Fault.CRASH_BEFORE, key="log/entries")
    with pytest.raises(Crashed):
        world.clone(handle, "clone", at=1)
    with pytest.raises(NotFoundError, match="not ended"):
        world.open("clone")
    for options in ({}, {"at": 2}, {"at": "kept"}, {"at": 1, "where": "id = 1"}):
        with pytest.raises(AlreadyExistsError, match="began to make another clone"):
            world.clone("parent", "clone", **options)
    with pytest.raises(AlreadyExistsError, match="began to make another clone"):
        world.clone("other", "clone", at=1)
    assert world.pins("parent") == world.pins("other") == []
    assert content(world.clone("parent", "clone", at=1)) == numbered(0, 6)


def test_clone__cut_off_and_its_checkpoint_is_gone_since__is_ended_where_the_pin_was_there():
    world = parent()
    kept = world.open("parent").checkpoint("kept", scope="durable")
    store = world.faulty("clone")
    store.on("create", Fault.CRASH_BEFORE, key="log/entries", nth=2)
    with pytest.raises(Crashed):
        world.clone("parent", "clone", store=store, at=kept)
    world.open("parent").delete_checkpoint("kept")
    world.open("parent").merge_shards()
    assert content(world.clone("parent", "clone", at=kept)) == world.expected
    assert content(world.clone("parent", "clone", at="kept")) == world.expected


def test_clone__cut_off_before_the_pin_and_its_checkpoint_is_gone_since__is_a_conflict_and_can_be_dropped():
    world = parent()
    kept = world.open("parent").checkpoint("kept")
    store = world.faulty("parent")
    handle = world.open("parent", store=store)
    store.on("create", Fault.CRASH_BEFORE, key="log/entries")
    with pytest.raises(Crashed):
        world.clone(handle, "clone", at=kept)
    table = world.open("parent")
    table.delete_checkpoint("kept")
    with pytest.raises(ConflictError, match="not there any more"):
        world.clone("parent", "clone", at="kept")
    world.drop("clone")
    assert content(world.clone("parent", "clone")) == world.expected


def test_clone__another_checkpoint_has_the_name_since__is_refused():
    world = parent()
    table = world.open("parent")
    table.checkpoint("kept", scope="durable")
    world.clone("parent", "clone", at="kept")
    table.delete_checkpoint("kept")
    table.checkpoint("kept", scope="durable")
    with pytest.raises(AlreadyExistsError, match="another clone"):
        world.clone("parent", "clone", at="kept")


# -- two at once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["parent", "clone"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_clone__another_makes_it_whole_between_any_two_calls__both_have_the_same_one(kind, place):
    for nth in shares.calls(2):
        world = small()
        options = KINDS[kind](world)
        source = "first" if kind == "of a clone" else "parent"
        stores = {"parent": world.interleaves(source), "clone": world.interleaves("clone")}
        handle = world.open(source, store=stores["parent"])
        before = len(stores[place].calls)
        stores[place].before(ANY, partial(world.clone, source, "clone", **options), nth=nth)
        made = world.clone(handle, "clone", store=stores["clone"], **options)
        assert content(made) == world.expected
        check(world, source, options)
        if stores[place].pending:
            assert len(stores[place].calls) - before < nth
            assert nth > 1
            return


def test_clone__by_many_threads_at_once__one_clone_and_one_pin():
    world = parent()
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: content(world.clone("parent", "clone")), range(6)))
    assert made == [world.expected] * 6
    assert world.pins("parent") == [world.uri("clone")]
    assert len(world.open("clone").history()) == 1


def test_clone__rows_are_put_between_any_two_calls__they_are_in_it_whole_or_not_at_all():
    for nth in shares.calls(2):
        world = small()
        store = world.interleaves("parent")
        handle = world.open("parent", store=store)

        def put(world=world):
            with world.open("parent").writer() as writer:
                writer.put(rows_of({70: "a", 71: "b"}))

        store.before(ANY, put, nth=nth)
        found = content(world.clone(handle, "clone"))
        assert found in (world.expected, world.expected | {70: "a", 71: "b"})
        if store.pending:
            return
        assert content(world.open("parent"), fresh=True) == world.expected | {70: "a", 71: "b"}


def test_clone__it_is_dropped_between_any_two_calls__no_pin_is_left():
    for nth in shares.calls(2):
        world = small()
        of_clone(world)
        store = world.interleaves("clone")
        store.before(ANY, partial(world.drop, "clone", missing_ok=True), nth=nth)
        made = None
        with contextlib.suppress(NotFoundError, ConflictError, AlreadyExistsError):  # whoever makes it is told
            made = world.clone("first", "clone", store=store)
        pinned = [world.uri("clone")] if made is not None and not store.pending and world.open_or_none("clone") else []
        if store.pending:
            return
        assert world.pins("first") == pinned, nth
        assert [one for one in world.pins("parent") if one != world.uri("first")] == pinned, nth
