"""What was acknowledged, overwritten and truncated: kept aside, told, named by verify, and brought back."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.errors import SiltstoneError, UnsafeStoreError
from siltstone.testing.script import Crashed, Fault
from siltstone.verify import repair, verify
from worlds import ONCE, World, each_call


def overwritten(world=None):
    """A world whose newest entry was acknowledged, and overwritten by one who died before its witness; its op."""
    world = world or World("witness").seeded()
    first, store = world.open(), world.fault_store()
    second = world.open(store)
    tip = second.tip()
    before = set(world.acknowledged)
    world.append(first, tip, b"first")
    [op] = world.acknowledged.keys() - before
    store.on("create", Fault.LIE, key="entries/")
    store.on("put", Fault.CRASH_BEFORE, key="witness/")
    assert isinstance(world.append(second, tip, b"second"), Crashed)
    return world, op


def truncated(world, store=None):
    """What a collector is told that folds all there is."""
    try:
        log = world.open(store, create=False)
        return log.truncate(log.tip())
    except SiltstoneError as error:
        return error


def kept(world):
    return [info.key for info in world.store().list(paths.LOST)]


def lost_ops(world):
    [report] = verify(world.store())
    return [problem.op for problem in report.problems if problem.fault == "lost"]


def test_truncate__an_acknowledged_entry_had_been_overwritten__is_kept_told_named_and_brought_back():
    world, op = overwritten()
    told = truncated(world)
    assert isinstance(told, UnsafeStoreError)
    assert op in str(told)
    assert "repair" in told.hint
    assert len(kept(world)) == 1
    assert lost_ops(world) == [op]
    for _ in range(2):
        repair(world.store())
        assert [entry.body for entry in world.open().entries() if entry.op == op] == [b"first"]
    assert kept(world) == []
    assert verify(world.store())[0].ok


def test_truncate__the_overwritten_bytes_arrive_once_more__are_still_told_to_be_lost():
    """What is in the place now is what the witness says; it is not what was folded."""
    world, op = overwritten()
    log = world.open()
    place = paths.entry(log.root, log.tip().position - 1)
    [witness] = [info.key for info in world.store().list(f"{paths.WITNESS}/{place.rpartition('/')[2]}")]
    late = world.interleaves()
    late.before("list", lambda: world.store().put(place, world.store().get(witness)), key=paths.WITNESS)
    told = truncated(world, late)
    assert isinstance(told, UnsafeStoreError)
    assert lost_ops(world) == [op]


def test_truncate__what_was_folded_is_only_in_its_witness__is_not_set_aside():
    world = World("witness").seeded()
    log = world.open()
    mark = world.add(log, b"folded")
    place = paths.entry(log.root, mark.position - 1)
    late = world.interleaves()
    late.before("list", lambda: world.store().put(place, b"something else"), key=paths.WITNESS)
    assert not isinstance(truncated(world, late), SiltstoneError)
    assert kept(world) == []


def test_truncate__what_was_lost_is_appended_again_before__is_not_told_twice():
    world, op = overwritten()
    repair(world.store())
    log = world.open()
    for entry in list(log.entries()):
        assert log.truncate(entry.end).floor == entry.position + 1
    assert op in {entry.op for entry in list(log.entries())} or log.tip() == log.first()
    assert kept(world) == []
    assert verify(world.store())[0].ok


def test_truncate__what_was_brought_back_is_folded__nothing_is_kept_of_it():
    world, op = overwritten()
    assert isinstance(truncated(world), UnsafeStoreError)
    [key] = kept(world)
    data = world.store().get(key)
    repair(world.store())
    world.store().put(key, data)  # repair died before it let go of it
    assert verify(world.store())[0].ok
    assert not isinstance(truncated(world), SiltstoneError)
    assert kept(world) == []
    assert op not in lost_ops(world)


def test_truncate__a_witness_comes_late_on_an_honest_store__nobody_is_alarmed():
    world = World("witness").seeded()
    slow = world.interleaves()
    log = world.open(slow)
    slow.before("put", lambda: truncated(world), key=f"{paths.WITNESS}/")
    world.add(log, b"slow")
    assert [info.key for info in world.store().list(paths.WITNESS)]
    world.add(world.open(), b"next")
    assert not isinstance(truncated(world), SiltstoneError)
    assert kept(world) == []
    assert verify(world.store())[0].ok


def test_truncate__another_collector_removes_all_meanwhile__nobody_is_alarmed():
    for verb, key, nth in (
        ("get", paths.ENTRIES, 1),
        ("list", paths.WITNESS, 1),
        ("get", paths.ENTRIES, 2),
        ("list", paths.LOST, 1),
    ):
        world = World("witness").seeded()
        slow = world.interleaves()
        log = world.open(slow, create=False)
        tip = log.tip()
        slow.before(verb, lambda world=world: truncated(world), key=key, nth=nth)
        log.truncate(tip)
        assert kept(world) == []
        assert verify(world.store())[0].ok


@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: fault.name)
def test_truncate__any_call_meets_a_fault__what_was_lost_is_told_or_named(fault):
    def workflow(world, store, registry):
        del registry
        return truncated(world, store)

    for met in each_call(workflow, lambda: overwritten()[0], "store", fault):
        world = met.world
        [op] = [op for op, mark in world.acknowledged.items() if mark.position == 4]
        told = isinstance(met.result, UnsafeStoreError)
        again = truncated(world)
        assert told or isinstance(again, UnsafeStoreError) or op in lost_ops(world), met.call
        assert op in lost_ops(world), met.call
        repair(world.store())
        assert [entry.body for entry in world.open().entries() if entry.op == op] == [b"first"], met.call
