"""Columns that others add, drop, rename or widen while a writer is open: rows of before and after are right."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from shard_worlds import MODES, ShardWorld, rows


@MODES
def test_put__columns_were_added_by_others__old_rows_and_new_ones_are_taken(enable_memtable):
    world = ShardWorld()
    writer = world.writer(enable_memtable=enable_memtable)
    writer.put([{"id": 1, "note": "a"}])
    world.table().add_column("stars", pa.int64(), default=5)
    writer.put([{"id": 2, "note": "b"}])
    writer.put([{"id": 3, "note": "c", "stars": 1}])
    writer.put([{"id": 4, "note": "d"}])
    expected = [(1, 5), (2, 5), (3, 1), (4, 5)]
    assert [(row["id"], row["stars"]) for row in world.table().scan(fresh=True).to_arrow().to_pylist()] == expected
    world.writer(enable_memtable=enable_memtable)
    world.table().merge_shards()
    assert [(row["id"], row["stars"]) for row in world.table().scan().to_arrow().to_pylist()] == expected


CHANGES = {
    "dropped": (lambda table: table.drop_column("note"), {}),
    "renamed": (lambda table: table.rename_column("note", "text"), {"text": "x"}),
    "replaced": (
        lambda table: (table.drop_column("note"), table.add_column("note", pa.int64())),
        {"note": 3},
    ),
}


@MODES
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("flushes", [True, False])
def test_put__columns_were_changed_by_others__rows_of_before_and_after_are_right(change, flushes, enable_memtable):
    world = ShardWorld()
    writer = world.writer(enable_memtable=enable_memtable)
    writer.put([{"id": 1, "note": "a"}])
    act, new = CHANGES[change]
    act(world.table())
    if flushes and enable_memtable:
        writer.freeze()
        writer.flush_memtables()
    writer.put([{"id": 2, **new}])
    old = {"dropped": {}, "renamed": {"text": "a"}, "replaced": {"note": None}}[change]
    expected = [{"id": 1, **old}, {"id": 2, **new}]

    def seen(scan):
        return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])

    assert seen(world.table().scan(fresh=True)) == expected
    if enable_memtable:
        assert seen(writer.scan()) == expected
        writer.freeze()
        writer.flush_memtables()
        assert seen(world.table().scan(fresh=True)) == expected
    second = world.writer(enable_memtable=enable_memtable)
    second.put([{"id": 3, **new}])
    world.table().merge_shards()
    assert world.table().scan().to_arrow().to_pylist() == [*expected, {"id": 3, **new}]


@pytest.mark.parametrize("flushes", [True, False])
def test_put__column_was_widened_by_others__small_and_large_values_are_right(flushes, tmp_path):
    table = ss.create(tmp_path / "t", schema=pa.schema([("id", pa.int64()), ("n", pa.int16())]))
    other = ss.open(tmp_path / "t")
    with table.shard("a").writer() as writer:
        writer.put([{"id": 1, "n": 7}])
        other.widen_column("n", pa.int64())
        if flushes:
            writer.freeze()
            writer.flush_memtables()
        writer.put([{"id": 2, "n": 8}])
        writer.put([{"id": 3, "n": 2**40}])
        expected = [{"id": 1, "n": 7}, {"id": 2, "n": 8}, {"id": 3, "n": 2**40}]
        assert writer.scan().to_arrow().to_pylist() == expected
        assert other.scan(fresh=True).to_arrow().to_pylist() == expected
    with other.shard("a").writer() as writer:
        assert writer.scan().to_arrow().to_pylist() == expected
    other.merge_shards()
    assert other.scan().to_arrow().to_pylist() == expected


def test_flush_memtables__columns_were_changed_meanwhile__later_puts_go_by_the_new_ones():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1)
    other = world.table()
    other.drop_column("note")
    other.add_column("note", pa.string())  # another column of the same name
    writer.freeze()
    writer.flush_memtables()
    world.put(writer, 2)
    assert world.table().scan(fresh=True).to_arrow().column("note").to_pylist() == [None, "x2"]


def test_queue__rows_were_checked_against_columns_of_before__are_brought_to_the_new_ones():
    world = ShardWorld()
    writer = world.writer()
    checked = writer.intake.rows(rows(1))
    world.table().rename_column("note", "text")
    writer.put([{"id": 2, "text": "b"}])
    writer.queue(checked, room=True).wait()
    assert world.table().scan(fresh=True).to_arrow().to_pylist() == [{"id": 2, "text": "b"}, {"id": 1, "text": "x1"}]
