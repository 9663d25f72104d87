"""Every store call of a build goes wrong once, in every way; another handle goes on, and the end is the same bytes.

A reader finds no index or all of it at any time, and the same rows.
"""

from __future__ import annotations

import pytest

import shares
from build_worlds import World, begun, found, read_as_anyone, rows_of, seeded
from siltstone.errors import SiltstoneError
from siltstone.testing.script import ANY, Crashed, Fault
from worlds import FOR_EVER, ONCE

ITEMS = 3
DOWN = (Fault.REFUSE, Fault.DELAY)
CREATES = (Fault.EXISTS_OWN, Fault.EXISTS_NOTHING, Fault.FULL)  # they happen to few calls
# A write whose answer is lost is not the caller's problem when the next one does come.
HEALED = (Fault.REFUSE, Fault.LOSE, Fault.FAIL_AFTER, Fault.EXISTS_OWN, Fault.EXISTS_NOTHING)
WRITES = ("create", "put", "copy")


class Stage:
    """A build that got so far, with what comes next and what must come of it."""

    def __init__(self, objects, build, call):
        self.objects, self.build, self.call = objects, build, call


@pytest.fixture(scope="module")
def stages():
    world = seeded()
    nothing = world.objects()
    build = begun(world, items=ITEMS)
    begun_ = world.objects()
    handle = world.open().index_build(build)
    for item in range(ITEMS):
        handle.run(item, threads=1)
    staged = world.objects()
    handle.finalize()
    final = world.objects()
    handle.commit()
    return {
        "begin": Stage(nothing, None, lambda table, _: table.begin_text_index("body", items=ITEMS)),
        "run": Stage(begun_, build, lambda table, name: table.index_build(name).run(1, threads=1)),
        "finalize": Stage(staged, build, lambda table, name: table.index_build(name).finalize()),
        "commit": Stage(final, build, lambda table, name: table.index_build(name).commit()),
        "all": Stage(begun_, build, lambda table, name: table.index_build(name).run_all()),
        "end": (world.finals(build), found(world.open())),
    }


def attempt(call, *arguments):
    """What became of a call: its error, or None."""
    try:
        call(*arguments)
    except (Crashed, SiltstoneError) as error:
        return error
    return None


def go_on(world, build, end):
    """Another handle brings it to its end, and a third one finds that it is there."""
    finals, rows = end
    handle = world.open()
    there = handle.index_build(build) if build in world.builds() else None
    if there is None:
        there = handle.begin_text_index("body", items=ITEMS)
    for item in there.missing():
        there.run(item, threads=1)
    there.commit()
    table = world.open()
    version = table.version
    assert table.index_build(there.name).commit().version <= version, "it became part of the table twice"
    assert table.version == version
    assert [(one.name, one.unindexed_rows, one.segments) for one in table.indexes()] == [("body", 0, 1)]
    assert found(table) == rows
    made = world.finals(there.name)
    assert made.keys() == finals.keys()
    assert all(data == finals[name] for name, data in made.items() if there.name == build or name != "metadata")
    assert read_as_anyone(world.plain(), there.name)


def look(world, end):
    """What a reader finds while nobody goes on."""
    table = world.open()
    indexes = table.indexes()
    if indexes:
        assert [one.unindexed_rows for one in indexes] == [0]
        assert found(table) == end[1]
    for build in world.builds():
        read_as_anyone(world.plain(), build)


def hit(stage, fault, times=1):
    """(world, store, error, what was hit) for each call of a stage; nothing was hit in the last one."""
    for nth in shares.calls():
        world = World(stage.objects)
        store = world.faulty()
        table = world.open(store)
        store.script.clear()
        store.on(ANY, fault, nth=nth, times=times)
        error = attempt(stage.call, table, stage.build)
        calls = [call for call in store.calls if store.script.applies(fault, call.verb)]
        yield world, store, error, calls[nth - 1] if len(calls) >= nth else None
        if len(calls) < nth:
            assert error is None
            return


@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", ["begin", "run", "finalize", "commit"])
def test_build__a_store_call_goes_wrong__another_handle_ends_it_with_the_same_bytes(stages, name, fault):
    hits = 0
    for world, store, error, call in hit(stages[name], fault):
        if fault in HEALED and call is not None and call.verb in WRITES:
            assert error is None, call
        look(world, stages["end"])
        store.script.clear()
        store.release()
        look(world, stages["end"])
        go_on(world, stages["all"].build, stages["end"])
        hits += call is not None
    assert hits or fault in CREATES


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOSE], ids=lambda fault: fault.name)
def test_run_all__a_store_call_goes_wrong__another_handle_ends_it_with_the_same_bytes(stages, fault):
    for world, store, _, _ in hit(stages["all"], fault):
        store.script.clear()
        go_on(world, stages["all"].build, stages["end"])


@pytest.mark.parametrize("fault", DOWN, ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", ["begin", "run", "finalize", "commit"])
def test_build__the_store_fails_for_good_from_a_call_on__another_handle_ends_it_with_the_same_bytes(
    stages, name, fault
):
    for world, store, _, _ in hit(stages[name], fault, FOR_EVER):
        look(world, stages["end"])
        store.script.clear()
        store.release()
        go_on(world, stages["all"].build, stages["end"])


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOSE], ids=lambda fault: fault.name)
def test_optimize__a_store_call_goes_wrong__another_handle_ends_it_with_the_same_bytes(fault):
    world = seeded(fragments=2)
    table = world.open()
    table.create_text_index("body")
    table.append(rows_of(range(20, 24)))
    build = table.begin_optimize_index("body").name
    stage = Stage(world.objects(), build, lambda table, name: table.index_build(name).run_all())
    world.open().index_build(build).run_all()
    finals, rows = world.finals(build), found(world.open())
    for number, (other, store, _, _) in enumerate(hit(stage, fault)):
        if number % 4 == 0:
            assert found(other.open()) == rows, "it is searched meanwhile"
        store.script.clear()
        other.open().index_build(build).run_all()
        table = other.open()
        assert [(one.segments, one.unindexed_rows) for one in table.indexes()] == [(1, 0)]
        assert other.finals(build) == finals
        if number % 4 == 0:
            assert found(table) == rows
