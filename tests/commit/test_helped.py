"""Places that were claimed and not published, where another is at work there at the same moment."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.commit.external import abort_entry, aborts
from siltstone.commit.registry import Claim
from siltstone.format.frame import digest
from siltstone.format.records import decode_entry, encode_entry
from siltstone.testing.script import Crashed, Fault
from worlds import World

ENTRIES = paths.entry("", 0)[:-20]


def claimed(world):
    """Let a writer die between its claim and its publication; the op of its entry."""
    store = world.fault_store()
    log = world.open(store)
    store.on("create", Fault.CRASH_BEFORE, key=ENTRIES)
    op = world.new_op()
    with pytest.raises(Crashed):
        log.add(b"claimed", op=op)
    return op


def test_tip__another_publishes_and_goes_on_between_two_looks__nothing_is_taken_for_lost():
    world = World("external").seeded(2)
    op = claimed(world)
    store = world.interleaves()
    log = world.open(store)
    store.before("get", lambda: world.open().add(b"behind"), key=paths.STAGED)
    assert log.tip().position == 4
    assert store.pending == 0
    assert [entry.op for entry in log.entries()].count(op) == 1
    assert {entry.kind for entry in log.entries()} == {"data"}  # it was not closed as lost


def test_tip__published_and_truncated_between_two_looks__nothing_is_put_into_its_place():
    world = World("external").seeded(2)
    claimed(world)
    store = world.interleaves()
    log = world.open(store)

    def publish_and_truncate():
        other = world.open()
        other.truncate(other.tip())

    store.before("get", publish_and_truncate, key=paths.STAGED)
    assert log.tip().position == 3
    assert store.pending == 0
    assert [info.key for info in world.store().list(ENTRIES.rstrip("/"))] == []


def test_append__its_publication_is_not_listed_at_once__is_published_again_and_there_once():
    world = World("fork").seeded(2)
    store = world.fault_store()
    log = world.open(store)
    tip = log.tip()
    store.on("list", Fault.STALE, key=paths.entry("", tip.position))
    end = world.append(log, tip)
    assert end.position == tip.position + 1
    world.check()
    world.go_on()


def test_published__truncated_between_listing_and_reading__is_nothing():
    world = World("fork").seeded(2)
    store = world.interleaves()
    log = world.open(store)
    end = log.tip()
    place = log.place(next(iter(log.entries())).end)
    assert log.commits.published(place) is not None
    other = world.open()
    store.before("get", lambda: other.truncate(end), key=place.key)
    assert log.commits.published(place) is None
    assert store.pending == 0


def test_aborts__an_entry_of_another_kind_or_of_another_claim__is_no_abort_of_this_one():
    world = World("external").seeded(1)
    log = world.open()
    place = log.place(log.tip())
    claim = Claim(place.scope, place.position, "a" * 64, place.prev, "staged/x")
    other = Claim(place.scope, place.position, "b" * 64, place.prev, "staged/y")
    closing = abort_entry(place, claim)
    assert aborts(closing, claim)
    assert not aborts(closing, other)
    assert not aborts(log.published(0), claim)
    header, _ = decode_entry(closing, name="closing")
    assert not aborts(encode_entry(header, b"no JSON"), claim)
    assert digest(closing) == digest(abort_entry(place, claim))
