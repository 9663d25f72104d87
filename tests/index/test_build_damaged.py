"""Builds whose log, marker or parts say what they can't: refused in words, and nothing gets a final name."""

from __future__ import annotations

import msgspec
import pytest

from build_worlds import begun, found, seeded
from siltstone import paths
from siltstone.errors import CorruptionError, NotFoundError
from siltstone.format.text import encode
from siltstone.index.build import open_build
from siltstone.log.open import open_beside
from siltstone.testing.script import Fault


def build_of(world, name):
    return open_build(world.open()._log, name)


def say(build, staged):
    """Put an entry into the log of a build, past all rules."""
    build.log.add(encode(staged))


def test_finalize__an_entry_is_of_another_plan__is_refused_and_nothing_is_copied():
    world = seeded()
    name = begun(world, staged=True)
    build = build_of(world, name)
    say(build, msgspec.structs.replace(build.staged()[0], plan="0" * 64))
    with pytest.raises(CorruptionError, match="is of another plan"):
        world.open().index_build(name).finalize()
    assert world.finals(name) == {}


def test_finalize__an_entry_is_of_an_item_that_the_plan_has_not__is_refused():
    world = seeded()
    name = begun(world, staged=True)
    build = build_of(world, name)
    say(build, msgspec.structs.replace(build.staged()[0], item=len(build.plan.items)))
    with pytest.raises(CorruptionError, match="is of another plan"):
        build_of(world, name).finalize()
    assert world.finals(name) == {}


def test_finalize__a_part_has_the_name_of_another__is_refused_and_nothing_is_copied():
    world = seeded()
    name = begun(world)
    handle, build = world.open().index_build(name), build_of(world, name)
    for item in range(1, handle.items):
        handle.run(item, threads=1)
    honest = build_of(world, name).staged()[1]
    parts = tuple(msgspec.structs.replace(one, name=paths.part(1, 7)) for one in honest.parts)
    say(build, msgspec.structs.replace(honest, item=0, parts=parts))
    with pytest.raises(CorruptionError, match="part 0 of item 0 is called"):
        world.open().index_build(name).finalize()
    assert world.finals(name) == {}


def test_finalize__the_marker_is_another_builds__is_refused():
    world = seeded()
    other, name = begun(world, staged=True, name="other"), begun(world, staged=True, name="mine")
    world.open().index_build(other).finalize()
    data = world.plain().get(paths.index(other, paths.MARKER))
    world.plain().put(paths.index(name, paths.MARKER), data)
    with pytest.raises(CorruptionError, match=f"is of build {other}"):
        world.open().index_build(name).commit()
    assert world.open()._looked().indexes == {}


def test_index_build__its_plan_is_of_another_build__is_refused():
    world = seeded()
    name = begun(world)
    table = world.open()
    stranger = paths.name(table.version, "ab" * 16)
    log = open_beside(table._log, paths.index_log(stranger), create=True)
    log.append(encode(build_of(world, name).plan), after=log.start)
    with pytest.raises(CorruptionError, match=f"the plan of build {stranger} is of build {name}"):
        world.open().index_build(stranger)


def test_index_build__whoever_began_it_died_before_its_plan__is_told_as_none():
    world = seeded()
    table = world.open()
    name = paths.name(table.version, "ab" * 16)
    open_beside(table._log, paths.index_log(name), create=True)
    with pytest.raises(NotFoundError, match="there is no build"):
        world.open().index_build(name)


def test_finalize__refused_as_there_with_nothing_there__is_written_all_the_same():
    world = seeded()
    name = begun(world, staged=True)
    store = world.faulty()
    handle = world.open(store).index_build(name)
    store.on("create", Fault.EXISTS_NOTHING, key=paths.MARKER)
    handle.commit()
    assert paths.MARKER in world.finals(name)
    assert found(world.open(), "slow")
    assert [call.verb for call in store.calls if call.key.endswith(paths.MARKER)].count("create") == 2
