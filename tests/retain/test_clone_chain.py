"""Clones of clones: each holds every table that it reads from, and none can be taken away under it."""

from __future__ import annotations

import pytest

from clone_worlds import World, content, numbered, parent, rows_of
from siltstone.errors import ConflictError, MissingObjectError, TruncatedError
from siltstone.paths import origin_of
from siltstone.table.operations import Work
from siltstone.testing.script import Crashed, Fault


def chain():
    """parent, then a, b and c, each a clone of the one before with something of its own."""
    world = parent()
    expected = dict(world.expected)
    for number, (source, name) in enumerate((("parent", "a"), ("a", "b"), ("b", "c"))):
        made = world.clone(source, name)
        made.upsert(rows_of({number: name, 1000 + number: name}))
        made.delete(f"id = {10 + number}")
        expected |= {number: name, 1000 + number: name}
        del expected[10 + number]
        assert content(world.open(name)) == expected
    world.expected = expected
    return world


def test_clone__of_a_clone_of_a_clone__names_objects_where_they_are_and_pins_each_table():
    world = chain()
    made = world.open("c")
    assert content(made) == world.expected
    assert {one.uri for one in made._now().origins.values()} == {world.uri(name) for name in ("parent", "a", "b")}
    used = {origin_of(live.fragment.name) for live in made._now().fragments}
    assert used == {0, *map(int, made._now().origins)}
    assert sorted(world.pins("parent")) == sorted(map(world.uri, "abc"))
    assert sorted(world.pins("a")) == sorted(map(world.uri, "bc"))
    assert world.pins("b") == [world.uri("c")]


@pytest.mark.parametrize("name", ["parent", "a", "b"])
def test_drop__one_that_others_read_from__is_refused_and_says_who(name):
    world = chain()
    with pytest.raises(ConflictError, match="clones read from it") as caught:
        world.drop(name)
    assert caught.value.facts["holders"] == sorted(world.pins(name))
    assert content(world.open("c")) == world.expected
    world.open(name).append(rows_of({5000: "still there"}))
    if name == "parent":
        with world.open(name).writer() as writer:
            writer.put(rows_of({5001: "and so are its shards"}))


def test_clone__of_a_clone__the_middle_one_goes_on_and_the_last_one_stays():
    world = chain()
    middle = world.open("b")
    middle.overwrite(rows_of({1: "all new"}))
    middle.compact()
    world.open("a").delete("true")
    assert content(world.open("c")) == world.expected


def test_clone__of_a_clone__only_tables_that_it_names_objects_of_are_pinned():
    world = parent()
    made = world.clone("parent", "a")
    made.compact()
    made.overwrite(rows_of(numbered(0, 3, "own")))
    last = world.clone("a", "b")
    assert world.pins("parent") == [world.uri("a")]
    assert [one.uri for one in last._now().origins.values()] == [world.uri("a")]
    assert content(last) == numbered(0, 3, "own")


def test_clone__of_an_early_version_of_a_clone__pins_what_that_one_reads_from():
    world = parent()
    made = world.clone("parent", "a")
    made.overwrite(rows_of({1: "own"}))
    assert content(world.clone("a", "b", at=1)) == world.expected
    assert sorted(world.pins("parent")) == sorted([world.uri("a"), world.uri("b")])


class Collect(Work):
    """Versions are collected, whoever holds them."""

    operation = "collect"

    def run(self, draft):
        draft.depends(kept=True, numbered=True)
        draft.retain(checkpoints=dict.fromkeys(draft.state.checkpoints), floor=draft.begun.version + 1)


def test_clone__an_ancestor_does_not_keep_the_version_any_more__is_a_conflict_and_can_be_dropped():
    world = World()
    table = world.create("parent", key="id")
    table.append(rows_of(numbered(0, 5)))
    world.clone("parent", "a")
    store = world.faulty("b")
    store.on("create", Fault.CRASH_BEFORE, key="log/entries", nth=2)
    with pytest.raises(Crashed):
        world.clone("a", "b", store=store)
    table._do(Collect())
    with pytest.raises(ConflictError, match="collected"):
        world.clone("a", "b")
    assert world.pins("a") == [world.uri("b")]
    world.drop("b")
    assert world.pins("a") == []


def test_clone__the_middle_one_let_go_of_its_parent_meanwhile__is_a_conflict_and_nothing_is_left():
    world = World()
    world.create("parent", key="id").append(rows_of(numbered(0, 5)))
    world.clone("parent", "a")
    store = world.faulty("a")
    handle = world.open("a", store=store)
    store.on("create", Fault.CRASH_BEFORE, key="log/entries")
    with pytest.raises(Crashed):
        world.clone(handle, "b", at=1)
    world.open("a").detach()
    with pytest.raises(TruncatedError, match="collected"):
        world.clone("a", "b", at=1)
    world.drop("b")
    assert world.pins("a") == world.pins("parent") == []
    assert content(world.clone("a", "b")) == numbered(0, 5)


def test_clone__an_ancestor_is_not_there__is_refused_and_ends_when_it_is_back():
    world = World()
    world.create("parent", key="id").append(rows_of(numbered(0, 5)))
    world.clone("parent", "a")
    handle = world.open("a")
    store = world.store("parent")
    objects = {key: store.get(key) for key in world.keys("parent")}
    store.delete(objects)
    with pytest.raises(MissingObjectError, match="not there"):
        world.clone(handle, "b")
    for key, data in objects.items():
        store.put(key, data)
    assert content(world.clone("a", "b")) == numbered(0, 5)


def test_detach__of_all_from_the_last_to_the_first__each_stands_alone():
    world = chain()
    with pytest.raises(ConflictError, match="kept by checkpoint"):
        world.open("b").detach()
    world.open("c").detach()
    world.drop("b")
    world.drop("a")
    world.drop("parent")
    assert content(world.open("c")) == world.expected
