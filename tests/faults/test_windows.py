"""The windows of docs/protocol.md that need a world made for them; elsewhere each call in turn meets the others."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.commit.memory import MemoryRegistry
from siltstone.commit.registry import Claim
from siltstone.errors import (
    CommitStoreBehindError,
    CommitUnknownError,
    CorruptionError,
    FencedError,
    MissingObjectError,
    SiltstoneError,
    UnsafeStoreError,
    WrongCommitStoreError,
)
from siltstone.format.records import encode_entry
from siltstone.testing.manual import manual_env
from siltstone.testing.script import Fault
from siltstone.verify import repair, verify
from worlds import MODES, World

EXTERNAL = ("external", "fork")


# -- decided by the object store -----------------------------------------------------------------------------


def test_append__answer_lost_then_denied__unknown_and_not_denied():
    world = World("conditional").seeded()
    store = world.fault_store()
    log = world.open(store)
    tip = log.tip()
    store.on("create", Fault.LOSE)
    store.on("create", Fault.DENY, nth=2)
    told = world.append(log, tip)
    assert isinstance(told, CommitUnknownError)
    assert told.facts["position"] == tip.position
    assert len(world.check()) == tip.position + 1
    world.go_on()


def test_append__log_was_removed_and_made_anew__entry_is_never_taken_for_one_of_the_new_log():
    world = World("conditional").seeded(1)
    stale = world.open()
    tip = stale.add(b"old")
    world.store().delete(list(world.bucket.objects))
    fresh = world.open()
    fresh.add(b"new")
    fresh.add(b"new too")
    stale.append(b"stale", after=tip)  # its own mark, which it does not look up again
    for call in (
        lambda: fresh.add(b"newer"),
        lambda: list(fresh.entries()),
        lambda: stale.append(b"x", after=stale.start),
    ):
        with pytest.raises(CorruptionError, match="belongs to log"):
            call()


def test_entries__an_entry_was_overwritten_by_another__corruption():
    world = World("conditional").seeded()
    log = world.open()
    first = next(iter(log.entries()))
    other = encode_entry(log._header(first.end, 0, world.new_op(), "data"), b"other")
    world.store().put(paths.entry("", 1), other)
    with pytest.raises(CorruptionError, match="overwritten"):
        list(world.open().entries())


# -- decided by a commit store -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", EXTERNAL)
def test_add__commit_store_lost_older_claims__behind_until_repaired(mode):
    world = World(mode).seeded()
    log = world.open()
    for position in (1, 2):
        del world.service.claims[log.identity.log][position]
    assert isinstance(world.add(log), CommitStoreBehindError)
    repair(world.store(), commits=world.registry())
    world.go_on()


@pytest.mark.parametrize("mode", EXTERNAL)
def test_add__commit_store_forgot_where_a_log_without_entries_begins__behind_until_repaired(mode):
    world = World(mode).seeded()
    log = world.open()
    log.truncate(log.tip())
    del world.service.ranges[log.scope]
    assert isinstance(world.add(world.open()), CommitStoreBehindError)
    for _ in range(2):
        repair(world.store(), commits=world.registry())
    world.go_on()


@pytest.mark.parametrize("mode", EXTERNAL)
def test_add__commit_store_was_emptied__refused_until_it_is_adopted(mode):
    world = World(mode).seeded()
    world.service.empty()
    emptied = MemoryRegistry(world.service, ids=manual_env(7).ids)
    with pytest.raises(WrongCommitStoreError):
        world.open(registry=emptied).add(b"x")
    repair(world.store(), commits=emptied, adopt=True)
    world.go_on()


def test_add__staged_bytes_are_gone_published_by_fork__missing_until_repaired():
    world = World("fork").seeded()
    log = world.open()
    tip = log.tip()
    world.registry().claim(Claim(log.identity.log, 3, "ab" * 32, tip.digest, paths.staged("", 3, world.new_op())))
    assert isinstance(world.add(log), MissingObjectError)
    repair(world.store(), commits=world.registry())
    assert world.check()[-1].kind == "abort"
    world.go_on()


# -- epochs and floor ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_fence__epoch_is_no_longer_the_callers__fenced(mode):
    world = World(mode).seeded()
    with pytest.raises(FencedError):
        world.open().fence(5, confirm=lambda: False)


@pytest.mark.parametrize("order", [(1, 3), (3, 1)])
@pytest.mark.parametrize("mode", MODES)
def test_truncate__two_collectors_in_any_order__floor_is_the_higher(mode, order):
    world = World(mode).seeded(5)
    marks = [entry.end for entry in world.open().entries()]
    for until in order:
        world.open().truncate(marks[until - 1])
    assert world.open().first() == marks[2]
    world.check()
    world.go_on()


# -- a store that lies ---------------------------------------------------------------------------------------


def test_append__store_overwrites_an_acknowledged_entry__told_at_once_and_repaired_once():
    world = World("witness").seeded()
    first, store = world.open(), world.fault_store()
    second = world.open(store)
    tip = second.tip()
    world.append(first, tip, b"first")
    store.on("create", Fault.LIE, key="entries/")
    told = world.append(second, tip, b"second")
    assert isinstance(told, UnsafeStoreError)
    [report] = verify(world.store())
    [op] = world.acknowledged.keys() - {entry.op for entry in world.open().entries()}
    assert op in {problem.op for problem in report.problems if problem.repairable}
    for _ in range(2):
        repair(world.store())
        assert [entry.op for entry in world.open().entries()].count(op) == 1
    assert verify(world.store())[0].ok


def test_append__chain_alone_on_a_lying_store__overwritten_tip_is_seen_by_its_receipt():
    world = World("conditional").seeded()
    first, store = world.open(), world.fault_store()
    second = world.open(store)
    tip = second.tip()
    receipt = world.append(first, tip, b"first")
    store.on("create", Fault.LIE, key="entries/")
    assert not isinstance(world.append(second, tip, b"second"), SiltstoneError)
    with pytest.raises(UnsafeStoreError):
        first.check_receipt(receipt)
    [report] = verify(world.store(), receipts=[receipt])
    assert [problem.fault for problem in report.problems] == ["receipt"]
