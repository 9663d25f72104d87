"""Tables are made, cloned, dropped and collected while others never stand still: told in words, nothing is lost."""

from __future__ import annotations

import itertools

import pytest

from clone_worlds import SCHEMA, World, content, numbered, parent, rows_of
from gc_models import DAY_S, grown
from gc_models import rows_of as gc_rows
from siltstone import paths
from siltstone.api import create_table
from siltstone.errors import ConflictError, FencedError
from siltstone.retain import drop, gc
from siltstone.retain.birth import TRIES_MAX

ENTRIES = paths.entry(paths.LOG, 0)[:-20]


def whenever(store, verb, action, *, key):
    """Do something before each call of a kind."""

    def act():
        action()
        store.before(verb, act, key=key)

    store.before(verb, act, key=key)


# -- making ----------------------------------------------------------------------------------------


def test_create__others_make_and_drop_tables_there_all_the_time__gives_up_in_words():
    world = World()
    store, made = world.interleaves("table"), []

    def come_and_go():
        made.append(world.create("table"))
        world.drop("table")

    whenever(store, "create", come_and_go, key=ENTRIES)
    with pytest.raises(ConflictError, match=f"came and went {TRIES_MAX} times"):
        create_table(store, schema=SCHEMA, probe=False, env=world.env())
    assert len(made) == TRIES_MAX
    assert world.open_or_none("table") is None


# -- cloning ---------------------------------------------------------------------------------------


def test_clone__another_brings_the_rows_first__both_have_the_same_clone():
    world = parent()
    store = world.interleaves("clone")
    store.before("create", lambda: world.clone("parent", "clone"), key=ENTRIES, nth=2)
    assert content(world.clone("parent", "clone", store=store)) == world.expected
    assert len(world.open("clone").history()) == 1


# -- dropping --------------------------------------------------------------------------------------


def test_drop__a_shard_comes_meanwhile__it_is_sealed_before_the_table_is_gone():
    world = World()
    world.create("parent").shard("a").writer().close()
    store = world.interleaves("parent")
    late, told = [], []

    def come():
        late.append(world.open("parent").shard("b").writer())

    def put():
        with pytest.raises(FencedError) as caught:
            late[0].put(rows_of({1: "too late"}))
        told.append(caught.value)

    store.before("create", come, key=ENTRIES)
    store.after("create", put, key=ENTRIES, nth=2)  # right behind the mark
    world.drop("parent", store=store)
    assert store.pending == 0
    assert len(told) == 1
    assert world.open_or_none("parent") is None


def test_drop__shards_come_all_the_time__gives_up_and_the_table_is_there(monkeypatch):
    monkeypatch.setattr(drop, "ROUNDS_MAX", 4)
    world = World()
    table = world.create("parent")
    table.append(rows_of(numbered(0, 3)))
    store, numbers = world.interleaves("parent"), itertools.count()
    writers = []

    def come():
        writers.append(world.open("parent").shard(f"w{next(numbers)}").writer())

    whenever(store, "create", come, key=ENTRIES)
    with pytest.raises(ConflictError, match="shards were made 4 times"):
        world.drop("parent", store=store)
    assert content(world.open("parent")) == numbered(0, 3)
    for writer in writers:
        writer.stop(ConflictError("over"))


# -- collecting ------------------------------------------------------------------------------------


def collected_meanwhile(world, patch, times):
    """Another collection goes further each time one is about to raise the floor, so often."""
    left, real = list(range(times)), gc.commit

    def commit(*arguments, **options):
        if left:
            left.pop()
            with pytest.MonkeyPatch.context() as other:
                other.setattr(gc, "commit", real)
                table = world.open()
                table.upsert(gc_rows({90: len(left)}))
                table.upsert(gc_rows({90: -1 - len(left)}))
                world.clock.advance(8 * DAY_S)
                table.gc(keep_days=0, keep_versions=2)  # which leaves something to gain
        return real(*arguments, **options)

    patch.setattr(gc, "commit", commit)


def test_gc__another_goes_further_meanwhile__looks_again_and_collects(monkeypatch):
    world = grown()
    world.clock.advance(8 * DAY_S)
    collected_meanwhile(world, monkeypatch, 1)
    done = world.open().gc(keep_days=0)
    monkeypatch.undo()
    assert done.left == ()
    assert done.floor == world.open()._now().floor
    assert world.open().get([90]).num_rows == 1


def test_gc__others_go_further_each_time__gives_up_and_all_rows_are_there(monkeypatch):
    world = grown()
    world.clock.advance(8 * DAY_S)
    before = world.open().count()
    collected_meanwhile(world, monkeypatch, gc.ROUNDS_MAX)
    with pytest.raises(ConflictError, match=f"went further {gc.ROUNDS_MAX} times"):
        world.open().gc(keep_days=0)
    monkeypatch.undo()
    assert world.open().count() == before + 1
    assert world.open().gc(keep_days=0).left == ()


def test_gc__writers_are_first_all_the_time__is_told_as_any_other_change_is():
    world = grown()
    world.clock.advance(8 * DAY_S)
    store, numbers = world.interleaves(), itertools.count()
    table = world.open(store)
    other = world.open()
    whenever(store, "create", lambda: other.checkpoint(f"c{next(numbers)}", keep_days=100), key=ENTRIES)
    with pytest.raises(ConflictError, match="other writers were first"):
        table.gc(keep_days=0)
    world.note(rows=False)
    assert len(world.open().checkpoints()) == next(numbers)
