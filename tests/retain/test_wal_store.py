"""WALs in other stores: which one may be given when, and what a move leaves behind."""

from __future__ import annotations

import itertools
import pickle
import threading

import pytest

import siltstone as ss
from shard_models import number_of
from siltstone.errors import (
    ClosedError,
    ConflictError,
    FencedError,
    InvalidInputError,
    MissingObjectError,
    WrongWalStoreError,
)
from siltstone.format.table import WalPlace
from siltstone.table.once import Once
from siltstone.testing.stores import Fault
from wal_worlds import DAY_S, SCHEMA, SHARD, WalWorld, attempt, rows

WRONG = {"none": None, "another": "other", "emptied": "fast"}


def world_of(wal="fast", **options):
    return WalWorld(wal=wal, **options)


def tried(world, which):
    """The store that is given: none, another one, or the right one after it was emptied."""
    if which == "emptied":
        world.wipe("fast")
    return WRONG[which]


# -- the right store ---------------------------------------------------------------------------------


def test_create__with_a_wal_store__wals_are_there_and_nothing_of_them_is_here():
    world = world_of()
    world.life("fast", flush=True)
    assert world.keys("fast", f"shards/{SHARD}/wal/entries")
    assert not world.keys("table", f"shards/{SHARD}/wal")
    assert world.state().wal.store == world.open()._now().wal
    world.go_on("fast")


def test_open__the_same_store_elsewhere__works():
    world = world_of()
    world.life("fast", close=False)
    moved = world.store("moved")
    for key in world.keys("fast"):
        moved.put(key, world.store("fast").get(key))
    world.wipe("fast")
    world.go_on("moved")


@pytest.mark.parametrize("close", [True, False])
def test_scan__of_the_newest_version_without_the_wal_store__works(close):
    world = world_of()
    world.life("fast", close=close)
    world.merge("fast")
    assert sorted(world.open().scan().to_arrow().column("id").to_pylist()) == world.acknowledged


# -- the wrong one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", WRONG)
@pytest.mark.parametrize("close", [True, False], ids=["closed", "crashed"])
def test_open__rows_are_in_the_wal_alone__any_other_store_is_refused(which, close):
    world = world_of()
    world.life("fast", close=close)
    given = tried(world, which)
    table = world.open(given)
    calls = {
        "writer": lambda: world.writer(given),
        "fresh": lambda: table.scan(fresh=True).to_arrow(),
        "merge": table.merge_shards,
        "shards": table.shards,
        "upsert": lambda: table.delete("id = 1"),
        "checkpoint": lambda: table.checkpoint("all"),
        "clone": lambda: table.clone(world.store("clone"), probe=False),
    }
    for name, call in calls.items():
        error = attempt(call)
        assert isinstance(error, WrongWalStoreError), name
        assert "wal=" in error.hint
    assert table.count() == 0
    if which != "emptied":
        world.go_on("fast")


@pytest.mark.parametrize("which", WRONG)
@pytest.mark.parametrize("how", ["merged", "flushed", "never written"])
def test_open__closed_and_nothing_is_needed__any_store_will_do(which, how):
    world = world_of()
    world.life("fast", flush=how == "flushed", puts=0 if how == "never written" else 3)
    if how == "merged":
        world.merge("fast")
    before = world.state()
    given = tried(world, which)
    world.check(given)
    assert [one.wal_lag for one in world.open(given).shards()] == [0]
    table = world.open(given)
    table.checkpoint("kept", scope="durable")
    assert sorted(table.at(checkpoint="kept").scan().to_arrow().column("id").to_pylist()) == world.acknowledged
    world.life(given)
    state = world.state()
    assert state.epoch == before.epoch + 1
    assert state.wal.begins == before.closed.position
    assert (state.wal.store is None) == (which == "none")
    world.go_on(given)


@pytest.mark.parametrize("which", WRONG)
def test_open__merged_and_not_closed__is_refused(which):
    world = world_of()
    world.life("fast", close=False)
    world.merge("fast")
    given = tried(world, which)
    with pytest.raises(WrongWalStoreError):
        world.writer(given)


@pytest.mark.parametrize("which", WRONG)
def test_open__a_checkpoint_keeps_entries_of_it__is_refused_until_that_is_deleted(which):
    world = world_of()
    world.life("fast")
    world.open("fast").checkpoint("kept", scope="durable")
    world.merge("fast")
    given = tried(world, which)
    assert world.check(given) == world.acknowledged  # nothing but the checkpoint needs it
    with pytest.raises(WrongWalStoreError):
        world.writer(given)
    world.open(given).delete_checkpoint("kept")
    world.go_on(given)


def test_open__entries_are_gone_from_the_end_of_a_closed_wal__is_refused():
    world = world_of()
    world.life("fast")
    world.store("fast").delete([f"shards/{SHARD}/wal/entries/{1:020d}"])
    for call in (lambda: world.writer("fast"), lambda: world.ids("fast"), lambda: world.merge("fast")):
        with pytest.raises(MissingObjectError, match="may be lost"):
            call()


def test_open__wal_store_of_another_table__is_refused_by_every_call():
    world, other = world_of(), WalWorld()
    with pytest.raises(WrongWalStoreError, match="another table"):
        other.writer(world.store("fast"))
    with pytest.raises(WrongWalStoreError, match="another table"):
        ss.create(other.store("new"), schema=rows().schema, wal=world.store("fast"), probe=False)
    assert attempt(other.open, world.store("fast")).count() == 0


def test_open__wal_store_is_the_tables_own_place__is_refused():
    world = WalWorld()
    with pytest.raises(InvalidInputError, match="own place"):
        world.open(world.store("table"))


def test_open__options_without_a_wal_store__is_refused():
    with pytest.raises(InvalidInputError, match="without wal="):
        WalWorld().open(wal_options={"aws_region": "us-east-1"})


def test_writer__wal_store_was_emptied_under_an_old_handle__makes_one_that_others_can_open():
    world = world_of()
    table = world.open("fast")
    with world.writer(table=table) as writer:
        world.put(writer)
    table.merge_shards()
    world.wipe("fast")
    with world.writer(table=table) as writer:
        world.put(writer)
    world.go_on("fast")


# -- moving ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("close", [True, False], ids=["closed", "crashed"])
def test_writer__wal_was_in_the_tables_store__is_flushed_and_goes_on_in_the_other(close):
    world = WalWorld()
    world.life(close=close)
    before = world.open().shards()[0]
    writer = world.writer("fast")
    state = world.state()
    assert state.wal == WalPlace(begins=before.wal_end + 1, store=state.wal.store)  # its fence is in the old one
    assert state.wal.store == world.open()._now().wal
    assert state.replay_from.position == state.wal.begins == writer.wal_stats().next_wal_entry_position
    assert world.check("fast") == world.acknowledged
    world.put(writer)
    assert len(world.keys("fast", f"shards/{SHARD}/wal-{state.wal.begins:020d}/entries")) == 1
    writer.freeze()
    writer.flush_memtables()
    world.put(writer)
    writer.close()
    world.go_on("fast")


def test_writer__wal_only_with_rows_in_the_old_wal__is_refused_until_they_are_merged():
    world = WalWorld()
    world.life(enable_memtable=False)
    with pytest.raises(WrongWalStoreError, match="not merged") as refused:
        world.writer("fast", enable_memtable=False)
    assert "merge_shards()" in refused.value.hint
    world.check()
    world.merge()
    writer = world.life("fast", enable_memtable=False)
    assert writer.state.wal.store is not None
    world.go_on("fast", enable_memtable=False)


def test_writer__moved_twice_and_back__every_row_is_there():
    world = WalWorld()
    begins = []
    for wal in (None, "fast", "fast", "faster", None, "fast"):
        world.life(wal, puts=3)
        begins.append(world.state().wal.begins)
        world.merge(wal)
    assert begins == sorted(begins)
    assert len(set(begins)) == 5
    world.go_on("fast")


def test_writer__ids_of_puts_were_merged_and_not_noted__are_known_after_a_move():
    world = WalWorld()
    table = world.open(store=(store := world.faulty("table")))
    writer = world.writer(table=table)
    world.put(writer, once="first")
    writer.close()
    store.on("create", Fault.REFUSE, key=f"shards/{SHARD}/manifest", times=10**6)
    assert attempt(table.merge_shards).version  # committed, and the shard was not tidied
    assert world.state().replay_from.position == 0
    world.life("fast", puts=0, close=False)
    writer = world.writer("fast")
    assert writer.applied(Once(id="first"))
    writer.put(rows(999), once="first")
    writer.close()
    world.go_on("fast")


def test_flush__after_a_move__the_new_wal_is_truncated():
    world = WalWorld()
    world.life()
    writer = world.writer("fast")
    for _ in range(4):
        world.put(writer)
        writer.freeze()
        writer.flush_memtables()
        world.clock.advance(DAY_S)
    assert world.keys("fast", f"{writer._logs.wal.root}floor")[-1].endswith(f"{writer._appender.end.position:020d}")
    assert len(world.keys("fast", f"{writer._logs.wal.root}entries")) < 4


def test_put__old_writer_after_its_wal_was_moved__is_fenced():
    world = WalWorld()
    old = world.writer(name="old")
    world.put(old)
    new = world.writer("fast", name="new")
    assert isinstance(world.put(old), FencedError)
    world.unknown.clear()
    with pytest.raises(FencedError):
        old.put(rows(1000), wait=True)
    world.put(new)
    new.close()
    world.go_on("fast")


def test_close__a_put_comes_between__it_is_told_or_kept():
    """The end that is noted is behind every row that was acknowledged."""
    for at in range(1, 60):
        world = world_of()
        store = world.interleaves("table")
        writer = world.writer("fast", store=store)
        world.put(writer)
        writer.freeze()
        store.before("*", lambda world=world, writer=writer: world.put(writer), nth=at)
        told = attempt(writer.close)
        assert told is None, told
        if store.pending:
            break
        world.check("fast")
        if len(world.acknowledged) == 2:
            assert world.state().closed.position == 2
    else:
        pytest.fail("closing takes more calls than that")
    assert at > 3


def test_close__a_put_is_under_way_in_another_thread__its_end_is_noted():
    world = world_of()
    store, fast = world.interleaves("table"), world.interleaves("fast")
    writer = world.writer(table=world.open(fast, store=store))
    began, go_on = threading.Event(), threading.Event()
    stalled = threading.Thread(target=world.put, args=(writer,))

    def stall():
        began.set()
        assert go_on.wait(60)

    def meanwhile():
        fast.before("create", stall, key="entries/")
        stalled.start()
        assert began.wait(60)

    world.put(writer)
    writer.freeze()
    store.before("create", meanwhile, key="manifest/entries/")  # while the memtable is flushed
    closing = threading.Thread(target=writer.close)
    closing.start()
    tick = threading.Event()
    while not writer.is_stopped:
        tick.wait(0.001)
    go_on.set()
    stalled.join()
    closing.join()
    assert len(world.acknowledged) == 2
    assert world.state().replay_from.position == 1
    assert world.state().closed.position == 2
    assert isinstance(attempt(writer.put, rows(5)), ClosedError)
    world.check("fast")


# -- copies ------------------------------------------------------------------------------------------


def test_writer__of_a_copied_table_with_the_originals_wal_store__is_refused():
    world = world_of()
    world.life("fast", close=False)
    copy = world.store("copy")
    for key in world.keys("table"):
        copy.put(key, world.store("table").get(key))
    table = world.open("fast", store=copy)
    for call in (lambda: world.writer(table=table), table.merge_shards, lambda: table.count(fresh=True)):
        with pytest.raises(WrongWalStoreError, match="copy"):
            call()
    for key in world.keys("fast"):
        world.store("fast copy").put(key, world.store("fast").get(key))
    with world.writer(table=world.open("fast copy", store=copy)) as writer:
        writer.put(rows(77))
    assert world.open("fast copy", store=copy).count(fresh=True) == len(world.acknowledged) + 1
    world.go_on("fast")


def test_pickle__a_table_with_a_wal_store__reads_and_writes_there():
    world = world_of()
    world.life("fast")
    again = pickle.loads(pickle.dumps(world.open("fast")))
    world.check(found=again.scan(fresh=True).to_arrow().column("id").to_pylist())
    with world.writer(table=again) as writer:
        world.put(writer)
    again.merge_shards()
    world.go_on("fast")


def test_conflict__is_what_a_claim_of_a_place_that_is_taken_gets():
    world = world_of()
    world.life("fast")
    world.merge("fast")
    manifest = world.open()._shards.a_place(SHARD).manifest()
    with pytest.raises(ConflictError, match="moved"):
        manifest.claim("x", WalPlace(begins=manifest.read().closed.position + 1))


@pytest.mark.parametrize("given", ["faster", None])
def test_writer__wal_of_one_shard_of_several_is_needed__is_refused_and_no_shard_is_moved(given, tmp_path):
    home, fast = tmp_path / "table", tmp_path / "fast"
    other = given and tmp_path / given
    table = ss.create(home, schema=SCHEMA, key="id", shards=4, wal=fast)
    with table.writer() as writer:
        writer.put(rows(next(id_ for id_ in itertools.count(1000) if number_of(id_, 4) == 3)))  # the last shard's
    with pytest.raises(WrongWalStoreError):
        ss.open(home, wal=other).writer()
    again = ss.open(home, wal=fast)
    assert again.count(fresh=True) == 1
    assert again.merge_shards().operation == "merge"
    with ss.open(home, wal=other).writer() as writer:
        writer.put(rows(2000))
    assert ss.open(home, wal=other).count(fresh=True) == 2
