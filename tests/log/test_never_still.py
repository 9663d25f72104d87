"""Logs while others never stand still, and answers of the state beside them that don't come: told as what is known."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    MissingObjectError,
    TruncatedError,
    UnavailableError,
)
from siltstone.log.reader import CHASES_MAX
from worlds import World

ENTRIES = paths.entry("", 0)[:-20]


def whenever(store, verb, action, *, key):
    """Do something before each call of a kind."""

    def act():
        action()
        store.before(verb, act, key=key)

    store.before(verb, act, key=key)


# -- others are first ------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["", "a" * 32], ids=["without an op", "with an op"])
def test_add__others_are_first_all_the_time__is_a_conflict_and_not_in_the_log(op):
    world = World("conditional").seeded()
    store = world.interleaves()
    log, rival = world.open(store), world.open()
    whenever(store, "create", lambda: rival.add(b"rival"), key=ENTRIES)
    with pytest.raises(ConflictError) as caught:
        log.add(b"mine", op=op)
    assert b"mine" not in [entry.body for entry in world.open().entries()]
    assert caught.value.facts["op"] == (op or caught.value.facts["op"])
    assert len(caught.value.facts["op"]) == 32


def test_tip__the_log_grows_whenever_it_is_looked_at__gives_up_in_words():
    world = World("conditional").seeded()
    store = world.interleaves()
    log, rival = world.open(store), world.open()
    whenever(store, "get", lambda: rival.add(b"rival"), key=ENTRIES)
    with pytest.raises(UnavailableError, match=f"grew {CHASES_MAX} times"):
        log.tip(log.start)
    assert world.open().tip().position > CHASES_MAX


# -- the floor rises -------------------------------------------------------------------------------


def test_find__truncated_whenever_it_is_read__gives_up_and_says_so(monkeypatch):
    world = World("conditional").seeded()
    log, rival = world.open(), world.open()
    entries = log.entries

    def truncated_behind(after):
        rival.add(b"more")
        found = entries(after)
        rival.truncate(rival.tip())
        world.clock.advance(10)
        return found

    monkeypatch.setattr(log, "entries", truncated_behind)
    with pytest.raises(UnavailableError, match="truncated all the time while it was read"):
        log.find("f" * 32)


def away(op):
    """A lookup of what was folded, that can't be asked."""
    raise UnavailableError(f"the state of {op} is away")


def test_append__passed_by_the_floor_and_the_state_can_not_be_asked__is_unknown_and_not_refused():
    world = World("conditional").seeded()
    store = world.interleaves()
    log = world.open(store, lookup=away)
    rival = world.open()
    tip = log.tip()
    store.after("create", lambda: rival.truncate(rival.tip()), key=ENTRIES)
    op = world.new_op()
    with pytest.raises(CommitUnknownError) as caught:
        log.append(b"mine", after=tip, op=op)
    assert caught.value.facts["op"] == op
    assert isinstance(caught.value.__cause__, UnavailableError)


def test_add__folded_between_the_look_at_the_log_and_its_place__is_not_added_again():
    world = World("conditional").seeded()
    op, known = world.new_op(), {}
    mark = world.open().add(b"mine", op=op)
    rival = world.open()

    def lookup(wanted):
        return known.get(wanted)

    log = world.open(lookup=lookup)
    rival.truncate(rival.tip())
    known[op] = mark
    assert log.add(b"mine", op=op) == mark
    assert [entry.body for entry in world.open().entries()] == []


# -- marks that name what is not there -------------------------------------------------------------


def test_check_stands__marks_of_entries_that_are_not_there__are_told_apart():
    world = World("conditional").seeded(4)
    log = world.open()
    ends = [entry.end for entry in log.entries()]
    log.check_stands(log.start)
    for end in ends:
        log.check_stands(end)
    with pytest.raises(CorruptionError, match="is not the beginning of this log"):
        log.check_stands(log.start._replace(digest="0" * 64))
    with pytest.raises(CorruptionError, match="entry 1 is not the one that stood there"):
        log.check_stands(ends[1]._replace(digest="0" * 64))
    world.store().delete([paths.entry("", 1)])
    with pytest.raises(MissingObjectError, match="entries behind it are there"):
        log.check_stands(ends[1])
    world.open().truncate(ends[2])
    world.store().delete([paths.entry("", 2)])
    with pytest.raises(TruncatedError):
        log.check_stands(ends[2])


def test_check_receipt__the_acknowledged_entry_is_gone__is_lost_unless_the_floor_passed_it():
    world = World("conditional").seeded()
    log = world.open()
    receipt = log.add(b"mine")
    log.check_receipt(receipt)
    world.store().delete([paths.entry("", receipt.position - 1)])
    with pytest.raises(MissingObjectError, match="it was acknowledged"):
        world.open().check_receipt(receipt)


def test_truncate__a_mark_of_an_entry_that_is_not_there__is_refused_and_raises_no_floor():
    world = World("conditional").seeded()
    log = world.open()
    tip = log.tip()
    for wrong in (tip._replace(digest="0" * 64), tip._replace(position=tip.position + 3)):
        with pytest.raises(InvalidInputError, match="does not hold the entry that the mark names"):
            log.truncate(wrong)
    assert log.floors() == []
