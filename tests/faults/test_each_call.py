"""Every call of every workflow goes wrong once, in every way: the log stays whole, and the next writer goes on."""

from __future__ import annotations

import pytest

from siltstone.testing.script import Fault
from worlds import FOR_EVER, MODES, ONCE, WORKFLOWS, World, each_call, is_false_alarm, make

CREATES = (Fault.EXISTS_OWN, Fault.EXISTS_NOTHING, Fault.FULL)  # they happen to few calls, and to no claim
WAYS_OF_CLAIMS = tuple(fault for fault in ONCE if fault not in CREATES)
DOWN = (Fault.REFUSE, Fault.LOSE, Fault.DENY, Fault.DELAY)
# An answer that comes late or not at all is not the caller's problem when the next one does come.
HEALED = (Fault.LOSE, Fault.FAIL_AFTER, Fault.EXISTS_OWN, Fault.EXISTS_NOTHING)


def settle(met):
    """Look at the log, let what was delayed happen, look again, and go on."""
    before = met.world.check()
    met.store.script.clear()
    met.registry.script.clear()
    met.store.release()
    met.registry.release()
    seen = {entry.position: entry.digest for entry in before}
    after = met.world.check()
    assert all(seen.get(entry.position, entry.digest) == entry.digest for entry in after)
    met.world.go_on()


@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: fault.name)
@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize("mode", MODES)
def test_workflow__a_call_to_the_store_goes_wrong__log_is_whole_and_goes_on(mode, workflow, fault):
    reached = 0
    for met in each_call(WORKFLOWS[workflow], lambda: World(mode).seeded(), "store", fault):
        assert not is_false_alarm(met.result), f"call {met.nth}: {met.result!r}"
        settle(met)
        reached += met.reached
    assert reached or fault in CREATES


@pytest.mark.parametrize("fault", WAYS_OF_CLAIMS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize("mode", ["external", "fork"])
def test_workflow__a_call_to_the_commit_store_goes_wrong__log_is_whole_and_goes_on(mode, workflow, fault):
    reached = 0
    for met in each_call(WORKFLOWS[workflow], lambda: World(mode).seeded(), "registry", fault):
        assert not is_false_alarm(met.result), f"call {met.nth}: {met.result!r}"
        settle(met)
        reached += met.reached
    assert reached


@pytest.mark.parametrize("fault", [*DOWN, Fault.FULL, Fault.EXISTS_NOTHING], ids=lambda fault: fault.name)
@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize("mode", MODES)
def test_workflow__the_store_fails_for_good_from_a_call_on__ends_and_log_is_whole(mode, workflow, fault):
    for met in each_call(WORKFLOWS[workflow], lambda: World(mode).seeded(), "store", fault, times=FOR_EVER):
        assert not is_false_alarm(met.result), f"call {met.nth}: {met.result!r}"
        settle(met)


@pytest.mark.parametrize("fault", DOWN, ids=lambda fault: fault.name)
@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize("mode", ["external", "fork"])
def test_workflow__the_commit_store_fails_for_good_from_a_call_on__ends_and_log_is_whole(mode, workflow, fault):
    for met in each_call(WORKFLOWS[workflow], lambda: World(mode).seeded(), "registry", fault, times=FOR_EVER):
        assert not is_false_alarm(met.result), f"call {met.nth}: {met.result!r}"
        settle(met)


@pytest.mark.parametrize("fault", HEALED, ids=lambda fault: fault.name)
@pytest.mark.parametrize("mode", MODES)
def test_append__one_answer_of_a_write_is_lost__is_acknowledged_all_the_same(mode, fault):
    for verb in ("create", "put"):
        world = World(mode).seeded()
        store = world.fault_store()
        log = world.open(store)
        tip = log.tip()
        if not store.script.applies(fault, verb):
            continue
        store.on(verb, fault)
        world.append(log, tip)
        assert (world.refused, world.unknown) == ({}, set())
        world.check()


MADE = [
    *(("store", mode, fault) for mode in MODES for fault in ONCE),
    *(("registry", mode, fault) for mode in ("external", "fork") for fault in WAYS_OF_CLAIMS),
]


@pytest.mark.parametrize(("place", "mode", "fault"), MADE, ids=lambda one: getattr(one, "name", one))
def test_open__a_call_of_making_the_log_goes_wrong__one_log_in_the_end(place, mode, fault):
    for met in each_call(make, lambda: World(mode), place, fault):
        met.store.script.clear()
        met.registry.script.clear()
        log = met.world.open()
        if not isinstance(met.result, BaseException):
            assert met.result.identity == log.identity
        met.store.release()
        met.registry.release()
        assert met.world.open().identity == log.identity
        met.world.add(log)
        met.world.check()
