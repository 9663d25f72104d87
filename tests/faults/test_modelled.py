"""Windows that the models of the commit paths led to, each played with the real code."""

from __future__ import annotations

import pytest

from siltstone.errors import CommitUnknownError, SiltstoneError
from siltstone.testing.script import Fault
from worlds import FOR_EVER, World


def test_append__the_floor_passes_while_its_witness_is_put__is_not_acknowledged():
    world = World("witness").seeded()
    slow, lying = world.interleaves(), world.fault_store()
    first, second = world.open(slow), world.open(lying)
    tip = second.tip()
    first.tip()
    told = []

    def meanwhile():
        lying.on("create", Fault.LIE, key="entries/")
        told.append(world.append(second, tip, b"second"))
        third = world.open()
        told.append(third.truncate(third.tip()))

    slow.before("put", meanwhile, key="witness/")
    outcome = world.append(first, tip, b"first")
    assert told[0].position == tip.position + 1  # the other one was acknowledged
    assert told[1].deleted_below == tip.position + 1
    assert isinstance(outcome, CommitUnknownError)


def test_append__answer_lost_and_the_floor_unreadable_behind_a_latecomer__is_unknown():
    world = World("conditional").seeded()
    store, held = world.fault_store(), world.fault_store()
    log, latecomer = world.open(store), world.open(held)
    tip = log.tip()
    latecomer.tip()
    store.on("create", Fault.LOSE, key="entries/")
    held.on("create", Fault.DELAY, key="entries/", times=FOR_EVER)
    assert isinstance(world.append(latecomer, tip, b"late"), SiltstoneError)
    create, tries = store.create, []

    def create_later(key, data):
        tries.append(key)
        if len(tries) == 2:  # what the first try wrote is folded and removed; the latecomer's arrives in its place
            other = world.open()
            other.truncate(other.tip())
            held.release()
            store.on("list", Fault.REFUSE, times=FOR_EVER)
        return create(key, data)

    store.create = create_later
    assert isinstance(world.append(log, tip, b"mine"), CommitUnknownError)
    assert len(tries) == 2


def test_append__a_loser_that_can_not_help__does_not_know_whether_it_lost():
    world = World("external").seeded()
    mine, others = world.fault_registry(), world.fault_registry()
    store = world.fault_store()
    log, rival = world.open(store, mine), world.open(registry=others)
    tip = log.tip()
    rival.tip()
    others.on("claim", Fault.DELAY)
    mine.on("claim", Fault.LOSE)
    claim, tries = mine.claim, []

    def claim_later(wanted):
        tries.append(wanted)
        if len(tries) == 2:
            world.append(rival, tip, b"rival")  # loses, and publishes what was claimed before
            del world.service.claims[log.scope][tip.position]
            others.release()  # its first claim arrives at a registry that forgot
            store.on("get", Fault.REFUSE, key="entries/", times=FOR_EVER)
        return claim(wanted)

    mine.claim = claim_later
    outcome = world.append(log, tip, b"mine")
    assert b"mine" in [entry.body for entry in world.open().entries()]
    assert isinstance(outcome, CommitUnknownError)


@pytest.mark.parametrize("kind", ["external", "fork"])
def test_append__the_registry_forgets_behind_a_lost_answer__is_unknown(kind):
    world = World(kind).seeded()
    registry = world.fault_registry()
    log = world.open(registry=registry)
    tip = log.tip()
    registry.on("claim", Fault.LOSE)
    claim, tries = registry.claim, []

    def claim_later(wanted):
        tries.append(wanted)
        if len(tries) == 2:
            list(world.open().entries())  # a reader publishes what was claimed
            for position in (tip.position, tip.position - 1):
                del world.service.claims[log.scope][position]
        return claim(wanted)

    registry.claim = claim_later
    outcome = world.append(log, tip, b"mine")
    assert b"mine" in [entry.body for entry in world.open().entries()]
    assert isinstance(outcome, CommitUnknownError)
