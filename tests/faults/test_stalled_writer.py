"""A writer that stalls: past a truncation it is never told "committed", past a fence it is told that it is over."""

from __future__ import annotations

import pytest

from siltstone.errors import CommitUnknownError, FencedError
from siltstone.testing.script import Fault
from worlds import MODES, World


@pytest.mark.parametrize("mode", MODES)
def test_append__put_arrives_after_its_place_was_truncated__is_never_told_committed(mode):
    world = World(mode).seeded()
    store = world.interleaves()
    stalled, other = world.open(store), world.open()
    tip = stalled.tip()

    def move_on():
        for _ in range(3):
            world.add(other)
        other.truncate(other.tip())

    store.before("put" if mode == "fork" else "create", move_on, key="entries/")
    told = world.append(stalled, tip)
    assert isinstance(told, CommitUnknownError)
    assert told.facts["position"] == 3
    assert world.check() == []
    world.go_on()


@pytest.mark.parametrize("mode", ["conditional", "external"])
def test_append__trusts_an_earlier_look__within_it_nothing_is_deleted(mode):
    world = World(mode, trust_ms=30_000).seeded()
    store = world.interleaves()
    stalled, other = world.open(store), world.open()
    world.add(stalled)
    tip = stalled.tip()

    def move_on():
        world.add(other)
        done = other.truncate(other.tip())
        assert done.deleted_objects == 0

    store.before("create", move_on, key="entries/")
    told = world.append(stalled, tip)
    if mode == "conditional":
        assert told.facts["end"].position == tip.position + 1  # a conflict, since the place is still held
    else:
        assert told.position == tip.position + 1  # claimed before, so the other one went behind it
    world.check()


@pytest.mark.parametrize("mode", ["conditional", "external"])
def test_append__stalled_for_longer_than_the_trust__looks_again_and_is_not_told_committed(mode):
    world = World(mode, trust_ms=30_000).seeded()
    store = world.interleaves()
    stalled, other = world.open(store), world.open()
    world.add(stalled)
    tip = stalled.tip()

    def move_on():
        world.add(other)
        other.truncate(other.tip())
        world.clock.advance(62)
        assert other.truncate(other.tip()).deleted_objects > 0

    store.before("create", move_on, key="entries/")
    told = world.append(stalled, tip)
    assert isinstance(told, CommitUnknownError)
    assert world.check() == []
    world.go_on()


def test_append__own_entry_folded_and_truncated_before_the_look__lookup_says_committed():
    folded = {}
    world = World("conditional").seeded()
    store = world.interleaves()
    writer = world.open(store, lookup=folded.get)
    tip = writer.tip()
    collector = world.open()

    def fold():
        entries = list(collector.entries())
        folded.update({entry.op: entry.end for entry in entries})
        collector.truncate(entries[-1].end)

    store.after("create", fold, key="entries/")
    op = world.new_op()
    assert writer.add(b"x", op=op) == folded[op]
    assert tip.position + 1 == folded[op].position
    assert world.check() == []


@pytest.mark.parametrize("mode", MODES)
def test_append__fenced_while_its_put_was_under_way__is_told_and_leaves_nothing_alive(mode):
    world = World(mode).seeded()
    store = world.interleaves()
    old, new = world.open(store), world.open()
    tip = old.tip()
    store.before("put" if mode == "fork" else "create", lambda: new.fence(7), key="entries/")
    registry_first = mode in {"external", "fork"}
    told = world.append(old, tip)
    if registry_first:  # its claim came before the fence, so the fence went behind it
        assert told.position == 4
        assert [entry.kind for entry in world.check()][3:] == ["data", "fence"]
    else:
        assert isinstance(told, FencedError)
        assert (told.facts["epoch"], told.facts["found"]) == (0, 7)
        assert [entry.kind for entry in world.check()][3:] == ["fence"]
    late = world.append(old, tip, epoch=0)
    assert isinstance(late, FencedError) or registry_first
    assert isinstance(world.add(old, epoch=0), FencedError)
    world.check()


@pytest.mark.parametrize("mode", MODES)
def test_append__delayed_put_lands_after_the_fence__is_refused_there(mode):
    world = World(mode).seeded()
    store = world.fault_store()
    old = world.open(store)
    tip = old.tip()
    store.on("create", Fault.DELAY, key="entries/", times=10**6)
    store.on("put", Fault.DELAY, key="entries/", times=10**6)
    told = world.append(old, tip)
    assert isinstance(told, CommitUnknownError)
    store.script.clear()
    world.open().fence(9)
    before = [entry.digest for entry in world.check()]
    store.release()
    assert [entry.digest for entry in world.check()] == before
    world.go_on()
