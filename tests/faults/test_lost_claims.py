"""A commit store that forgot, or claims whose bytes are gone: told aloud or closed, never a second history."""

from __future__ import annotations

import copy

import pytest

from siltstone.errors import (
    CommitStoreBehindError,
    MissingObjectError,
    SplitHistoryError,
    UnavailableError,
    WrongCommitStoreError,
)
from siltstone.testing.script import Crashed, Fault
from worlds import FOR_EVER, World


def claimed_only(mode):
    """A world in which a writer died between its claim and publishing, and the name of its staged bytes."""
    world = World(mode).seeded()
    registry = world.fault_registry()
    log = world.open(registry=registry)
    tip = log.tip()
    registry.on("claim", Fault.CRASH_AFTER)
    assert isinstance(world.append(log, tip, b"half"), Crashed)
    [staged] = [info.key for info in world.store().list("staged")]
    return world, log, staged


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_entries__writer_died_after_its_claim__reader_publishes_it(mode):
    world, _, _ = claimed_only(mode)
    assert [entry.body for entry in world.open().entries()][3:] == [b"half"]
    assert [entry.body for entry in world.check()][3:] == [b"half"]
    assert list(world.store().list("staged")) == []
    world.go_on()


def test_add__claimed_bytes_are_gone__place_is_closed_and_the_log_goes_on():
    world, _, staged = claimed_only("external")
    world.store().delete([staged])
    end = world.add(world.open(), b"next")
    assert end.position == 5
    assert [(entry.kind, entry.body) for entry in world.check() if entry.kind != "abort"][3:] == [("data", b"next")]
    assert [entry.kind for entry in world.check()] == ["data", "data", "data", "abort", "data"]
    world.add(world.open(), b"after")
    world.go_on()


def test_append__its_claim_was_closed_meanwhile__is_told_of_a_conflict_not_of_success():
    world = World("external").seeded()
    registry = world.fault_registry()
    store = world.fault_store()
    log = world.open(store, registry)
    tip = log.tip()

    def lose_and_close():
        plain = world.store()
        plain.delete([info.key for info in plain.list("staged")])
        assert [entry.kind for entry in world.open().entries()][3:] == ["abort"]

    registry.after("claim", lose_and_close)
    told = world.append(log, tip)
    assert told.kind == "conflict"
    world.check()
    assert world.add(log).position == 5
    world.go_on()


def test_add__claimed_bytes_are_gone_where_published_by_fork__is_told_aloud():
    world, _, staged = claimed_only("fork")
    world.store().delete([staged])
    with pytest.raises(MissingObjectError, match="repair"):
        world.open().add(b"next")


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_entries__published_entry_was_deleted__is_missing_and_nothing_is_put_there(mode):
    world = World(mode).seeded(5)
    [key] = [info.key for info in world.store().list("entries") if info.key.startswith(f"entries/{2:020d}")]
    world.store().delete([key])
    with pytest.raises(MissingObjectError):
        list(world.open().entries())
    assert not [info for info in world.store().list("entries") if info.key.startswith(f"entries/{2:020d}")]


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_add__commit_store_was_emptied__is_refused(mode):
    world = World(mode).seeded()
    before = [entry.digest for entry in world.check()]
    open_handle = world.open()
    open_handle.tip()
    world.service.empty()
    with pytest.raises(WrongCommitStoreError):
        world.open().add(b"next")
    with pytest.raises((WrongCommitStoreError, CommitStoreBehindError)):
        open_handle.append(b"next", after=open_handle.tip())
    assert [entry.digest for entry in world.open().entries()] == before


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_add__commit_store_was_restored_from_a_backup__is_refused(mode):
    world = World(mode).seeded()
    backup = copy.deepcopy(world.service.claims)
    for _ in range(3):
        world.add(world.open())
    world.service.claims = backup
    told = world.add(world.open())
    assert isinstance(told, CommitStoreBehindError)
    assert "repair" in told.hint
    assert len(world.check()) == 6


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_append__commit_store_forgot_the_newest_claim_of_another__never_two_acknowledged(mode):
    world = World(mode).seeded()
    one, two = world.open(), world.open()
    tip = one.tip()
    two.tip()
    won = world.append(one, tip)
    scope = one.identity.log
    del world.service.claims[scope][3]
    told = world.append(two, tip)
    assert won.position == 4
    assert told.kind in {"conflict", "split-history"}
    if mode == "external":  # the published object is the authority
        world.check()
    else:  # both are there, and everyone is told
        with pytest.raises(SplitHistoryError):
            list(world.open().entries())


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_entries__commit_store_is_down__published_ones_are_read(mode):
    world = World(mode).seeded()
    registry = world.fault_registry()
    log = world.open(registry=registry)
    registry.on("*", Fault.REFUSE, times=FOR_EVER)
    assert len(list(log.entries())) == 3
    assert log.tip().position == 3
    told = world.append(log, log.tip())
    assert told.kind in {"unavailable", "commit-unknown"}
    world.check()
    registry.script.clear()
    world.go_on()


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_open_log__commit_store_is_down__existing_log_reads_new_one_is_refused(mode):
    world = World(mode).seeded()
    registry = world.fault_registry()
    registry.on("*", Fault.REFUSE, times=FOR_EVER)
    assert len(list(world.open(registry=registry).entries())) == 3
    empty = World(mode)
    with pytest.raises(UnavailableError):
        empty.open(registry=registry)
    assert list(empty.store().list()) == []


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_lookup__claim_names_bytes_outside_of_the_staged_ones__is_refused(mode):
    world, log, _ = claimed_only(mode)
    scope = log.identity.log
    claim = world.service.claims[scope][3]
    for value in ("identity", "../../etc/passwd", "staged/x", f"staged/{2:020d}-{'a' * 32}", ""):
        world.service.claims[scope][3] = type(claim)(scope, 3, claim.digest, claim.parent, value)
        with pytest.raises(Exception) as caught:
            list(world.open().entries())
        assert caught.value.kind == "corruption"
