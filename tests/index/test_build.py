"""A handle on a build: what it is asked for and tells, and what it refuses."""

from __future__ import annotations

import pytest

from build_worlds import begun, seeded
from siltstone.errors import InvalidInputError, NotFoundError, SiltstoneError


@pytest.mark.parametrize("name", ["", "x", "../x", "00000000000000000001-" + "a" * 32, 7, None])
def test_index_build__no_such_build__is_told(name):
    world = seeded()
    with pytest.raises((InvalidInputError, NotFoundError)):
        world.open().index_build(name)


@pytest.mark.parametrize("item", [-1, 99, "0", True, None, 0.0])
def test_run__no_such_item__is_told(item):
    world = seeded()
    with pytest.raises(InvalidInputError, match="missing"):
        world.open().index_build(begun(world)).run(item)


@pytest.mark.parametrize("options", [{"threads": -1}, {"threads": "2"}, {"threads": True}, {"progress": 7}])
def test_run__bad_options__are_told_before_anything_is_done(options):
    world = seeded()
    build = begun(world)
    before = world.objects()
    with pytest.raises(InvalidInputError):
        world.open().index_build(build).run(0, **options)
    assert world.objects() == before


@pytest.mark.parametrize("call", ["finalize", "commit", "run_all"])
def test_build__progress_is_no_function__is_told_before_anything_is_done(call):
    world = seeded()
    build = begun(world, staged=True)
    before = world.objects()
    with pytest.raises(InvalidInputError):
        getattr(world.open().index_build(build), call)(7)
    assert world.objects() == before


def test_run_all__some_items_are_done__progress_ends_with_all_rows():
    world = seeded()
    build = begun(world, items=3)
    handle = world.open().index_build(build)
    handle.run(0, threads=1)
    told = []
    handle.run_all(lambda *facts: told.append(facts))
    assert [one for one in told if one[0] == "index"][-1] == ("index", handle.rows, handle.rows)
    assert [one for one in told if one[0] == "copy"][-1] == ("copy", handle.items, handle.items)


def test_begin__pinned_or_closed_handle__is_refused():
    world = seeded()
    world.open().create_text_index("body")
    pinned = world.open().at(version=2)
    for call in (
        lambda: pinned.begin_text_index("body"),
        lambda: pinned.create_text_index("body"),
        lambda: pinned.optimize_index("body"),
        lambda: pinned.drop_index("body"),
    ):
        with pytest.raises(SiltstoneError, match="pinned"):
            call()
