"""Copies of a table's objects elsewhere: they work, and the original never notices."""

from __future__ import annotations

import shutil

import pytest

import siltstone as ss
from clone_worlds import SCHEMA, content, numbered, parent, rows_of
from siltstone.errors import CommitStoreBehindError, ConflictError, WrongWalStoreError
from siltstone.format.records import decode_identity


def copy(world, source, target):
    """All objects of a table, at another place."""
    there = world.store(target)
    for key in world.keys(source):
        there.put(key, world.store(source).get(key))


def made(place, commits=None):
    table = ss.create(place, schema=SCHEMA, key="id", shards=1, commits=commits, sync=False)
    table.append(rows_of(numbered(0, 5)))
    with table.writer() as writer:
        writer.put(rows_of({5: "put"}))
    return table


ROWS = numbered(0, 5) | {5: "put"}


def test_copy__of_a_table__is_read_and_written_apart_from_it(tmp_path):
    table = made(tmp_path / "original")
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    other = ss.open(tmp_path / "copy", sync=False)
    assert content(other, fresh=True) == ROWS
    other.upsert(rows_of({1: "copy"}))
    table.upsert(rows_of({1: "original"}))
    with other.writer() as writer:
        writer.put(rows_of({6: "copy"}))
    with table.writer() as writer:
        writer.put(rows_of({6: "original"}))
    assert content(ss.open(tmp_path / "copy"), fresh=True) == ROWS | {1: "copy", 6: "copy"}
    assert content(ss.open(tmp_path / "original"), fresh=True) == ROWS | {1: "original", 6: "original"}
    ss.drop(tmp_path / "copy")
    assert content(ss.open(tmp_path / "original"), fresh=True) == ROWS | {1: "original", 6: "original"}


def test_copy__with_the_same_commit_store__takes_no_place_of_the_original(tmp_path):
    commits = f"sqlite:///{tmp_path}/claims.db"
    table = made(tmp_path / "original", commits)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    other = ss.open(tmp_path / "copy", commits=commits, sync=False)
    assert content(other, fresh=True) == ROWS
    with pytest.raises(CommitStoreBehindError, match="made at another place"):
        other.append(rows_of({10: "copy"}))
    before = len(table.history())
    table.append(rows_of({10: "original"}))
    assert len(table.history()) == before + 1, "no place was lost"
    ss.repair(tmp_path / "copy", commits=commits)
    other = ss.open(tmp_path / "copy", commits=commits, sync=False)
    other.append(rows_of({11: "copy"}))
    with other.writer() as writer:
        writer.put(rows_of({12: "copy"}))
    table.append(rows_of({13: "original"}))
    with table.writer() as writer:
        writer.put(rows_of({14: "original"}))
    assert content(ss.open(tmp_path / "original", commits=commits), fresh=True) == ROWS | {
        10: "original", 13: "original", 14: "original",
    }  # fmt: skip
    assert content(ss.open(tmp_path / "copy", commits=commits), fresh=True) == ROWS | {11: "copy", 12: "copy"}
    for place in ("original", "copy"):
        assert [one for one in ss.verify(tmp_path / place, commits=commits) if not one.ok] == []
    assert len(table.history()) == before + 2


def test_copy__of_a_table_with_a_wal_store__needs_a_copy_of_that_too(tmp_path):
    table = ss.create(tmp_path / "original", schema=SCHEMA, key="id", shards=1, wal=tmp_path / "wal", sync=False)
    with table.writer() as writer:
        writer.put(rows_of({5: "put"}))
        shutil.copytree(tmp_path / "original", tmp_path / "copy")
        shutil.copytree(tmp_path / "wal", tmp_path / "copied wal")
        with pytest.raises(WrongWalStoreError, match="is a copy of"):
            ss.open(tmp_path / "copy", wal=tmp_path / "wal").writer()
        other = ss.open(tmp_path / "copy", wal=tmp_path / "copied wal", sync=False)
        assert content(other, fresh=True) == {5: "put"}
        with other.writer() as apart:
            apart.put(rows_of({6: "copy"}))
        writer.put(rows_of({6: "original"}))
    assert content(table, fresh=True) == {5: "put", 6: "original"}
    assert content(other, fresh=True) == {5: "put", 6: "copy"}


def test_restore__of_a_table_to_its_own_place__goes_on_as_before(tmp_path):
    commits = f"sqlite:///{tmp_path}/claims.db"
    made(tmp_path / "original", commits).close()
    shutil.copytree(tmp_path / "original", tmp_path / "backup")
    shutil.rmtree(tmp_path / "original")
    shutil.move(tmp_path / "backup", tmp_path / "original")
    table = ss.open(tmp_path / "original", commits=commits, sync=False)
    table.append(rows_of({10: "again"}))
    assert content(table, fresh=True) == ROWS | {10: "again"}


def test_create__home__is_noted_where_a_commit_store_decides(tmp_path):
    made(tmp_path / "plain")
    made(tmp_path / "decided", f"sqlite:///{tmp_path}/claims.db")
    homes = [
        decode_identity((tmp_path / name / "log" / "identity").read_bytes(), name=name).home
        for name in ("plain", "decided")
    ]
    assert homes[0] == ""
    assert len(homes[1]) == 64


@pytest.mark.parametrize("how", ["detach", "drop"])
def test_copy__of_a_clone__never_lets_go_of_what_the_clone_holds(how):
    world = parent()
    world.clone("parent", "clone")
    copy(world, "clone", "copy")
    assert content(world.open("copy")) == world.expected
    if how == "detach":
        world.open("copy").detach()
        assert content(world.open("copy")) == world.expected
    else:
        world.drop("copy")
    assert world.pins("parent") == [world.uri("clone")]
    assert content(world.open("clone")) == world.expected
    world.open("clone").detach()
    assert world.pins("parent") == []


def test_copy__of_a_parent__clones_go_on_reading_from_the_original():
    world = parent()
    world.clone("parent", "clone")
    copy(world, "parent", "copy")
    world.open("copy").overwrite(rows_of({1: "copy"}))
    assert content(world.open("clone")) == world.expected
    assert content(world.clone("copy", "other")) == {1: "copy"}
    assert content(world.open("parent"), fresh=True) == world.expected


def test_copy__of_a_clone_that_was_not_ended__is_not_ended_and_takes_no_pin_away():
    world = parent()
    store = world.store("clone")
    world.clone("parent", "clone")
    entry = "log/entries/00000000000000000001"
    kept = store.get(entry)
    store.delete([entry])
    copy(world, "clone", "copy")
    store.put(entry, kept)
    with pytest.raises(ConflictError, match="was copied from"):
        world.clone("parent", "copy")
    world.drop("copy")
    assert world.pins("parent") == [world.uri("clone")]
    assert content(world.open("clone")) == world.expected
