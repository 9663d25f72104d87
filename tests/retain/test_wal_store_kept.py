"""Checkpoints and clones of tables whose WALs are in another store, which is wiped or changed afterwards."""

from __future__ import annotations

import pytest

import shares
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import MissingObjectError, SiltstoneError, WrongWalStoreError
from siltstone.ids import SystemIds
from siltstone.testing.stores import Fault
from wal_worlds import DAY_S, KEYED, WalWorld, attempt, rows

HOW = ["rows in the WAL", "empty memtable", "freshly fenced", "never written", "concurrent writer", "killed writer"]


def begun(how):
    """A table in a state of which people want a checkpoint."""
    world = WalWorld(keyed=True, wal="fast")
    if how == "never written":
        world.open("fast").append(rows(1))
        world.acknowledged.append(1)
        return world, None
    writer = world.life("fast", close=False)
    if how == "empty memtable":
        writer.freeze()
        writer.flush_memtables()
    elif how == "freshly fenced":
        writer = world.writer("fast", name="second")
    return world, writer if how != "killed writer" else None


def found_in(table, **scan):
    return sorted(table.scan(**scan).to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("clone_wal", [None, "clone-fast"])
def test_clone__scope_all_and_the_wal_store_was_wiped__has_every_row_and_goes_on(how, clone_wal):
    world, writer = begun(how)
    world.open("fast").checkpoint("kept", scope="all")
    kept = list(world.acknowledged)
    if how == "concurrent writer":
        world.put(writer)  # goes on, and is not cut off from the parent
        world.check("fast")
    world.wipe("fast")
    given = None if clone_wal is None else world.store(clone_wal)
    clone = world.open().clone(world.store("clone"), at="kept", wal=given, probe=False)
    assert found_in(clone) == found_in(clone, fresh=True) == kept
    clone = world.open(given, store=world.store("clone"))
    with clone.writer() as routed:
        routed.put(rows(100, 101))
    again = world.open(given, store=world.store("clone"))
    assert found_in(again, fresh=True) == [*kept, 100, 101]
    if clone_wal is not None:
        with pytest.raises(WrongWalStoreError):
            world.open(store=world.store("clone")).writer()
    again.merge_shards()
    assert found_in(again) == [*kept, 100, 101]
    assert found_in(world.open().at(checkpoint="kept")) == kept
    if clone_wal is not None:
        assert world.keys(clone_wal, "shards/0000-0000/wal")


def test_checkpoint__through_a_writer_with_a_wal_store__has_what_it_accepted():
    world = WalWorld(keyed=True, wal="fast")
    writer = world.writer("fast")
    writer.put(rows(1, 2), wait=False)
    writer.checkpoint("kept")
    world.wipe("fast")
    assert found_in(world.open().at(checkpoint="kept")) == [1, 2]


def test_checkpoint__durable_and_the_wal_store_was_wiped__is_an_error_and_never_smaller():
    world, _ = begun("rows in the WAL")
    world.open("fast").checkpoint("kept", scope="durable")
    world.wipe("fast")
    for given in (None, "fast"):
        for call in (
            lambda given=given: world.open(given).at(checkpoint="kept").count(),
            lambda given=given: world.open(given).clone(world.store(f"clone {given}"), at="kept", probe=False),
        ):
            assert isinstance(attempt(call), WrongWalStoreError | MissingObjectError)


@pytest.mark.parametrize("moves", [["faster"], ["faster", None], ["faster", "fast"]], ids=str)
def test_checkpoint__durable_and_rows_were_moved_since__is_refused_while_they_are_needed(moves):
    """A store whose entries a checkpoint keeps can't be left behind; deleting the checkpoint lets it go."""
    world, writer = begun("rows in the WAL")
    world.open("fast").checkpoint("kept", scope="durable")
    kept = list(world.acknowledged)
    writer.close()
    world.merge("fast")
    with pytest.raises(WrongWalStoreError):
        world.writer(moves[0])
    assert found_in(world.open("fast").at(checkpoint="kept")) == kept
    assert found_in(world.open("fast").clone(world.store("clone"), at="kept", probe=False)) == kept
    world.open("fast").delete_checkpoint("kept")
    for wal in moves:
        world.life(wal)
        world.merge(wal)
    world.go_on(moves[-1])


def test_checkpoint__durable_in_the_tables_store_and_moved_afterwards__is_read_and_cloned_with_any_store():
    world = WalWorld(keyed=True)
    world.life(flush=True)
    world.life()
    world.open().checkpoint("kept", scope="durable")
    kept = list(world.acknowledged)
    world.life("fast", close=False)
    for given in ("fast", None, "other"):
        assert found_in(world.open(given).at(checkpoint="kept")) == kept
    world.merge("fast")
    world.clock.advance(DAY_S)
    world.open("fast").gc(keep_days=0)
    clone = world.open("fast").clone(world.store("clone"), at="kept", wal=world.store("clone-fast"), probe=False)
    assert found_in(clone) == kept
    with pytest.raises(WrongWalStoreError, match="another table"):
        world.open("fast").clone(world.store("second"), at="kept", wal=world.store("fast"), probe=False)
    world.go_on("fast")


@pytest.mark.parametrize("which", ["table", "fast"])
def test_checkpoint__each_call_crashes_with_a_wal_store__the_next_one_has_every_row(which):
    for nth in shares.some(range(1, 200)):
        world = WalWorld(keyed=True, wal="fast")
        world.life("fast", close=False)
        store = world.faulty(which)
        store.on("*", Fault.CRASH_AFTER, nth=nth)
        table = attempt(world.open, "fast", store=store) if which == "table" else attempt(world.open, store)
        if not isinstance(table, BaseException):
            attempt(table.checkpoint, "kept", scope="durable")
        if len(store.calls) < nth:
            assert nth > 4
            return
        made = attempt(world.open("fast").checkpoint, "kept", scope="durable")
        assert not isinstance(made, SiltstoneError) or "there" in made.message, made
        assert found_in(world.open("fast").at(checkpoint="kept")) == world.acknowledged
        world.go_on("fast")
    pytest.fail("a checkpoint takes more calls than that")


# -- who decides -------------------------------------------------------------------------------------


def test_writer__wal_store_that_lies_with_a_commit_store__keeps_every_row_of_two_writers():
    service = MemoryService()
    world = WalWorld(commits=lambda: MemoryRegistry(service, ids=SystemIds()))
    fast = world.faulty("fast")
    fast.on("create", Fault.LIE, times=10**6)
    first = world.writer(fast, name="first")
    world.put(first)
    second = world.writer(fast, name="second")
    assert isinstance(world.put(first), SiltstoneError)
    world.put(second)
    second.close()
    world.go_on(fast)


def test_writer__commit_store_and_wal_store_without_commits__is_refused():
    service = MemoryService()
    world = WalWorld(keyed=True, wal="fast", commits=lambda: MemoryRegistry(service, ids=SystemIds()))
    assert isinstance(attempt(world.writer, table=world.open("fast", commits=None)), SiltstoneError)
    assert not world.keys("fast", f"shards/{KEYED}")
    world.go_on("fast")
