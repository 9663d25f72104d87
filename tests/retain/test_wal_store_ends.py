"""Splits, drops and collection of tables whose WALs are, or were, in other stores."""

from __future__ import annotations

import pytest

import siltstone as ss
from siltstone.errors import FencedError, NotFoundError, WrongWalStoreError
from wal_worlds import DAY_S, SHARD, WalWorld, attempt, rows


@pytest.mark.parametrize("how", ["written", "never", "closed", "moved"])
def test_split__shards_with_a_wal_store__rows_are_in_the_new_ones(how):
    world = WalWorld(wal="fast", keyed=True) if how != "moved" else WalWorld(keyed=True)
    if how == "moved":
        world.life()
    if how != "never":
        writer = world.life("fast", close=how == "closed")
    world.open("fast").split_shards(2)
    world.open("fast").split_shards(3)
    if how == "written":
        assert isinstance(attempt(writer.put, rows(50), wait=True), FencedError)
    world.check(found=world.open("fast").scan().to_arrow().column("id").to_pylist())
    with world.open("fast").writer() as routed:
        routed.put(rows(*range(100, 120)))
    assert world.open("fast").count(fresh=True) == 20 + len(world.acknowledged)


@pytest.mark.parametrize("given", [None, "other"])
def test_split__without_the_wal_store__is_refused_and_changes_nothing(given):
    world = WalWorld(wal="fast", keyed=True)
    world.life("fast", close=False)
    with pytest.raises(WrongWalStoreError):
        world.open(given).split_shards(2)
    assert not world.state().sealed
    world.go_on("fast")


def test_split__closed_and_merged_without_the_wal_store__works():
    world = WalWorld(wal="fast", keyed=True)
    world.life("fast")
    world.merge("fast")
    world.wipe("fast")
    world.open().split_shards(2)
    world.check()
    with world.open().writer() as routed:
        routed.put(rows(100, 101))
    assert world.open().count(fresh=True) == 2 + len(world.acknowledged)


@pytest.mark.parametrize("keyed", [True, False])
def test_drop__with_its_wal_store__fences_writers_and_leaves_no_rows(keyed):
    world = WalWorld(keyed=keyed)
    world.life()
    writer = world.writer("fast")
    world.put(writer)
    world.drop("fast")
    assert isinstance(world.put(writer), FencedError)
    world.clock.advance(DAY_S)
    world.drop("fast", missing_ok=True)
    left = [*world.keys("fast"), *world.keys("table")]
    assert not [key for key in left if "/wal" in key and "/entries/" in key]
    assert not [key for key in left if "/data/" in key]
    ss.create(world.store("table"), schema=rows().schema, wal=world.store("fast"), probe=False, env=world.env())
    with world.open("fast").shard("b").writer() as again:
        again.put(rows(1))
    assert world.open("fast").count(fresh=True) == 1


def test_drop__without_its_wal_store__is_refused_while_a_writer_may_be_at_work():
    world = WalWorld(wal="fast")
    writer = world.life("fast", close=False)
    with pytest.raises(WrongWalStoreError, match="wal="):
        world.drop()
    world.put(writer)
    writer.close()
    world.go_on("fast")
    world.drop()
    with pytest.raises(NotFoundError):
        world.open()


def test_drop__its_wal_store_was_lost__goes_by_naming_the_empty_place():
    world = WalWorld(wal="fast")
    world.life("fast", close=False)
    world.wipe("fast")
    with pytest.raises(WrongWalStoreError):
        world.drop()
    world.drop("fast")
    with pytest.raises(NotFoundError):
        world.open()


def test_gc__wals_that_were_moved_away_from__keep_identity_and_floor_alone():
    world = WalWorld()
    world.life(puts=3)
    world.life("fast", puts=3)
    world.merge("fast")
    world.life("faster", puts=3)
    world.merge("faster")
    for _ in range(3):
        world.clock.advance(DAY_S)
        world.open("fast").gc(keep_days=0)
        world.open("faster").gc(keep_days=0)
    now = f"shards/{SHARD}/wal-{world.state().wal.begins:020d}/"
    for name in ("table", "fast", "faster"):
        there = [key.split("/")[3] for key in world.keys(name, f"shards/{SHARD}") if "/wal" in key and now not in key]
        assert set(there) <= {"identity", "floor", "hint", "clock"}
        assert there.count("floor") == there.count("identity")
    world.go_on("faster")


def test_gc__entries_of_an_old_wal_are_kept_by_a_checkpoint__stay_until_it_is_deleted():
    world = WalWorld()
    world.life(puts=3)
    world.open().checkpoint("kept", scope="durable")
    kept = list(world.acknowledged)
    world.life("fast", puts=3)
    world.merge("fast")
    for _ in range(3):
        world.clock.advance(DAY_S)
        world.open("fast").gc(keep_days=0)
        found = world.open("fast").at(checkpoint="kept").scan().to_arrow().column("id").to_pylist()
        assert sorted(found) == kept
    assert world.open().at(checkpoint="kept").count() == 3  # its own WAL is here
    clone = world.open().clone(world.store("clone"), at="kept", probe=False)
    assert clone.count() == 3
    world.open("fast").delete_checkpoint("kept")
    for _ in range(3):
        world.clock.advance(DAY_S)
        world.open("fast").gc(keep_days=0)
    assert not world.keys("table", f"shards/{SHARD}/wal/entries")
