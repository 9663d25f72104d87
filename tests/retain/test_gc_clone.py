"""Collection of clones and of the tables that they read from."""

from __future__ import annotations

import pytest

from clone_worlds import DAY_S, content, numbered, parent, rows_of
from siltstone.errors import UnavailableError
from siltstone.testing.script import Crashed, Fault


def rewritten(world, name="clone"):
    """A clone that names nothing of its parent any more, but in versions that are over."""
    made = world.clone("parent", name)
    expected = {**world.expected, 100: "own"}
    made.upsert(rows_of({100: "own"}))
    made.overwrite(rows_of(expected))
    world.clock.advance(8 * DAY_S)
    return made, expected


def test_gc__parent_of_a_clone__keeps_what_the_clone_reads():
    world = parent()
    made = world.clone("parent", "clone")
    table = world.open("parent")
    table.overwrite(rows_of({1: "other"}))
    for _ in range(3):
        world.clock.advance(8 * DAY_S)
        table.gc(keep_days=0)
    assert content(made) == world.expected
    assert content(world.open("clone")) == world.expected
    assert len(world.pins("parent")) == 1


def test_gc__clone_that_still_reads_from_its_parent__keeps_its_hold():
    world = parent()
    made = world.clone("parent", "clone")
    made.delete("id < 3")
    world.clock.advance(8 * DAY_S)
    for _ in range(2):
        assert made.gc(keep_days=0).left == ()
        world.clock.advance(8 * DAY_S)
    assert len(world.pins("parent")) == 1
    assert content(world.open("clone")) == {id_: v for id_, v in world.expected.items() if id_ > 2}


def test_gc__clone_that_names_nothing_of_its_parent__lets_go_and_the_parent_collects():
    world = parent()
    made, expected = rewritten(world)
    done = made.gc(keep_days=0)
    assert done.left == ()
    assert world.pins("parent") == []
    assert world.open("clone")._now().origins == {}
    assert content(world.open("clone")) == expected
    table = world.open("parent")
    table.overwrite(rows_of({1: "other"}))
    for _ in range(3):
        world.clock.advance(8 * DAY_S)
        table.gc(keep_days=0)
    assert len(world.keys("parent", "data")) == 1
    assert content(world.open("clone")) == expected


def test_gc__cut_off_before_it_let_go__the_next_one_does():
    world = parent()
    made, expected = rewritten(world)
    store = world.faulty("clone")
    broken = world.open("clone", store=store)
    store.on("delete", Fault.CRASH_BEFORE)
    made.append(rows_of({200: "x"}))
    with pytest.raises(Crashed):
        broken.gc(keep_days=0)
    assert world.open("clone")._now().origins == {}
    assert len(world.pins("parent")) == 1
    assert world.open("clone").gc(keep_days=0).left == ()
    assert world.pins("parent") == []
    assert content(world.open("clone")) == {**expected, 200: "x"}


def test_gc__restore_of_what_names_the_parent_lands_first__the_hold_stays():
    world = parent()
    made, _ = rewritten(world)
    version = next(one.version for one in made.history() if one.operation == "clone")
    store = world.interleaves("clone")
    collector = world.open("clone", store=store)
    store.before("create", lambda: world.open("clone").restore(version=version), key="log/entries")
    collector.gc(keep_days=0)
    assert store.pending == 0
    assert len(world.pins("parent")) == 1
    assert content(world.open("clone")) == world.expected


def test_gc__parent_can_not_be_reached__is_said_and_done_by_a_later_one():
    world = parent()
    made, _ = rewritten(world)
    away = [True]

    class Away:
        def __call__(self, uri, number=0):
            if away[0]:
                raise UnavailableError("the parent is away")
            return world.store("parent")

        def commits(self, uri, number=0):
            return None

    made._others = Away()
    done = made.gc(keep_days=0)
    assert len(done.left) == 1
    assert "parent" in done.left[0]
    assert len(world.pins("parent")) == 1
    away[0] = False
    assert made.gc(keep_days=0).left == ()
    assert world.pins("parent") == []


def test_gc__clone_of_a_clone__each_keeps_what_the_next_one_reads():
    world = parent()
    world.clone("parent", "middle")
    world.open("middle").upsert(rows_of(numbered(50, 55)))
    expected = {**world.expected, **numbered(50, 55)}
    world.clone("middle", "last")
    for name in ("parent", "middle"):
        world.open(name).overwrite(rows_of({1: "x"}))
    for _ in range(3):
        world.clock.advance(8 * DAY_S)
        for name in ("middle", "parent", "last"):
            world.open(name).gc(keep_days=0)
    assert content(world.open("last")) == expected
