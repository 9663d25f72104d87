"""Clones keep the indexes of their parents without copying them: searches give the same, and each goes on by itself."""

from __future__ import annotations

import contextlib

import pytest

import shares
from clone_worlds import DAY_S, World, rows_of
from indexed_worlds import QUERIES, all_hits, all_texts, builds, check, grown, hits, named, texts
from siltstone import paths
from siltstone.errors import ConflictError, NotFoundError, SiltstoneError
from siltstone.testing.script import ANY, Crashed, Fault


@pytest.fixture
def world():
    made = World()
    grown(made)
    return made


def test_clone__of_a_table_with_an_index__searches_give_the_same_and_nothing_is_copied(world):
    parent = world.open("parent")
    clone = world.clone("parent", "clone")
    assert check(clone) == check(parent)
    assert clone.indexes() == parent.indexes()
    assert clone.indexes()[0].unindexed_rows == 6
    assert world.keys("clone", "indexes") == []
    assert named(clone) == {paths.foreign(name, 1) for name in named(parent)}
    assert all_hits(world.open("clone"), indexed_only=True) == all_hits(parent)


def test_clone__of_a_clone__names_the_builds_of_both(world):
    first = world.clone("parent", "first")
    first.append(rows_of(texts(60, 70)))
    first.create_text_index("v", name="second", stem=False)
    last = world.clone("first", "last")
    assert check(last) == check(first)
    assert {paths.origin_of(name) for name in named(last)} == {1, 2}
    assert {index: hits(last, "colours", index=index) for index in ("v", "second")} == {
        index: hits(first, "colours", index=index) for index in ("v", "second")
    }
    assert hits(last, "colours", index="second") != hits(last, "colours", index="v")
    assert sorted(world.pins("parent")) == sorted([world.uri("first"), world.uri("last")])


def test_clone__the_parent_of_its_parent_is_named_by_an_index_alone__is_pinned(world):
    first = world.clone("parent", "first")
    first.compact()
    assert {paths.origin_of(live.fragment.name) for live in first._now().fragments} == {0}
    last = world.clone("first", "last")
    assert {paths.origin_of(name) for name in named(last)} == {2}
    assert world.uri("last") in world.pins("parent")
    check(last)


def test_clone__some_rows__are_searched_alone(world):
    clone = world.clone("parent", "clone", where="id % 3 = 0")
    found = check(clone)
    assert {id_ for query in QUERIES for id_ in found[query]} <= {id_ for id_ in range(60) if id_ % 3 == 0}
    assert any(found.values())
    assert clone.indexes()[0].indexed_rows > 0


def test_clone__no_row__has_an_index_that_can_be_optimized_away(world):
    clone = world.clone("parent", "clone", where="id < 0")
    assert not any(check(clone).values())
    clone.optimize_index("v")
    assert named(clone) == set()
    clone.append(rows_of(texts(0, 5)))
    check(clone)


def test_clone__of_a_checkpoint_with_rows_in_shards__they_are_found(world):
    table = grown(world, "sharded", shards=2)
    with table.writer() as writer:
        writer.put(rows_of(texts(70, 75)))
    table.checkpoint("kept", scope="durable")
    clone = world.clone("sharded", "clone", at="kept")
    assert {70, 71, 72, 73, 74} <= set(clone.scan().to_arrow()["id"].to_pylist())
    check(clone)
    clone.optimize_index("v")
    check(clone)


def test_clone__of_a_version_before_its_index__has_none(world):
    clone = world.clone("parent", "clone", at=2)
    assert clone.indexes() == []
    assert all_hits(clone) == all_texts(clone)


def test_clone__optimized__reads_the_parts_of_its_parent_and_writes_its_own(world):
    before = check(world.open("parent"))
    clone = world.clone("parent", "clone")
    there = world.keys("parent", "indexes")
    clone.optimize_index("v", whole=True)
    assert check(clone) == before
    assert {paths.origin_of(name) for name in named(clone)} == {0}
    assert named(clone) == builds(world, "clone")
    assert clone.indexes()[0].unindexed_rows == 0
    assert world.keys("parent", "indexes") == there
    clone.delete("id < 10")
    clone.compact()
    clone.optimize_index("v")
    check(clone)
    last = world.clone("clone", "last")
    last.optimize_index("v", whole=True)
    assert check(last) == check(clone)


def test_clone__index_is_dropped_on_either_side__the_other_keeps_it(world):
    clone = world.clone("parent", "clone")
    clone.drop_index("v")
    assert clone.indexes() == []
    check(clone)
    other = world.clone("parent", "other")
    parent = world.open("parent")
    parent.drop_index("v")
    parent.overwrite(rows_of(texts(0, 2)))
    for _ in range(3):
        world.clock.advance(2 * DAY_S)
        parent.gc(keep_days=0)
    assert len(other.indexes()) == 1
    check(other)
    assert all_hits(world.open("other"), indexed_only=True) == all_hits(other)


def test_clone__builds_that_were_begun_at_the_parent__are_not_there(world):
    begun = world.open("parent").begin_optimize_index("v")
    clone = world.clone("parent", "clone")
    with pytest.raises(NotFoundError):
        clone.index_build(begun.name)
    begun.run_all()
    check(clone)


def test_clone__a_build_of_it_is_worked_on_by_others__they_open_it_by_name(world):
    clone = world.clone("parent", "clone")
    begun = clone.begin_optimize_index("v", items=3, whole=True)
    for item in begun.missing():
        world.open("clone").index_build(begun.name).run(item)
    world.open("clone").index_build(begun.name).commit()
    check(world.open("clone"))


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_clone__cut_off_at_every_call__the_same_call_ends_it_with_its_indexes(fault):
    for nth in shares.calls():
        world = World()
        expected = all_hits(grown(world))
        store = world.faulty("clone")
        store.on(ANY, fault, nth=nth)
        with contextlib.suppress(Crashed, SiltstoneError):
            world.clone("parent", "clone", store=store)
        clone = world.clone("parent", "clone")
        assert hits(clone, "deliv*", indexed_only=True) == expected["deliv*"]
        if len(store.calls) < nth:
            assert nth > 5
            check(clone)
            return


def test_gc__of_a_clone_whose_index_alone_needs_the_parent__keeps_it_until_it_is_optimized(world):
    clone = world.clone("parent", "clone")
    clone.compact()
    clone.gc(keep_days=0)
    assert clone._now().origins.keys() == {"1"}
    with pytest.raises(ConflictError, match="clones read from it"):
        world.drop("parent")
    check(world.open("clone"))
    clone.optimize_index("v")
    clone.gc(keep_days=0)
    assert clone._now().origins == {}
    assert world.pins("parent") == []
    world.drop("parent")
    check(world.open("clone"))
