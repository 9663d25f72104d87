"""Merging shards in Spark's tasks: rows are those that a fresh read saw, whoever else writes or merges meanwhile."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import InvalidInputError
from siltstone.spark import merge
from spark_reads import PLAIN, expected, plain_rows
from spark_shards import TABLES, busy_table, changed, wal_table


def left(table) -> list[tuple[int, int]]:
    """What shards still have: fragments, and entries of the WAL."""
    return [(one.fragments, one.wal_lag) for one in table.shards()]


def meanwhile(monkeypatch, work) -> list[int]:
    """Let something happen between what tasks read and the driver's commit, the first time; which turn it is."""
    look, turns = merge._look, []

    def looked(*arguments):
        found = look(*arguments)
        turns.append(len(turns))
        if len(turns) == 1:
            work()
        return found

    monkeypatch.setattr(merge, "_look", looked)
    return turns


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_merge_shards__rows_in_every_place__are_in_the_table_and_no_longer_in_shards(spark, tmp_path, make):
    table = make(str(tmp_path / "t"))
    wanted, before = expected(table, fresh=True), table.version

    done = ss.spark.merge_shards(spark, table)

    assert (done.operation, done.version) == ("merge", before + 1)
    assert expected(table) == expected(table, fresh=True) == wanted
    assert set(left(table)) == {(0, 0)}
    assert ss.spark.merge_shards(spark, table.uri).operation == "none"
    assert table.version == before + 1


def test_merge_shards__as_many_changes_as_a_local_merge__are_told(spark, tmp_path):
    here, there = (busy_table(str(tmp_path / name)) for name in ("here", "there"))

    local, spread = here.merge_shards(), ss.spark.merge_shards(spark, there)

    assert local.deleted
    assert (spread.inserted, spread.updated, spread.deleted) == (local.inserted, local.updated, local.deleted)


def test_merge_shards__more_in_a_wal_than_a_task_holds__several_versions(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "TAIL_BYTES_MAX", 800)
    table = wal_table(str(tmp_path / "t"))
    wanted = expected(table, fresh=True)

    done = ss.spark.merge_shards(spark, table)

    assert done.version == table.version > 2
    assert expected(table) == wanted
    assert set(left(table)) == {(0, 0)}


def test_merge_shards__another_merged_meanwhile__its_rows_are_not_taken_twice(spark, tmp_path, monkeypatch):
    table = busy_table(str(tmp_path / "t"))

    def other():
        ss.open(table.uri).merge_shards()
        with table.writer() as writer:
            writer.put(changed(2, 5, "behind the other's merge"))
            writer.delete([3])

    turns = meanwhile(monkeypatch, other)
    ss.spark.merge_shards(spark, table)

    assert len(turns) == 1
    assert table.count("s = 'behind the other''s merge'") == 0  # came behind what the tasks had read
    wanted = expected(table, fresh=True)
    ss.spark.merge_shards(spark, table)
    assert expected(table) == wanted
    assert table.count("s = 'behind the other''s merge'") == 4


def test_merge_shards__one_shard_was_merged_meanwhile__the_others_are_still_taken(spark, tmp_path, monkeypatch):
    table = busy_table(str(tmp_path / "t"))
    key = next(n for n in range(1_000, 1_100) if _shard(table, n) == 0)
    wanted = expected(table, fresh=True)
    meanwhile(monkeypatch, lambda: ss.open(table.uri).upsert(plain_rows(key, 1)))

    ss.spark.merge_shards(spark, table)

    assert expected(table, where=f"id <> {key}") == wanted
    assert set(left(table)) == {(0, 0)}


def _shard(table, key: int) -> int:
    """The number of a key's shard, by the writer that takes it."""
    for number in range(3):
        with table.shard(number).writer() as writer:
            try:
                writer.intake.rows(plain_rows(key, 1))
            except InvalidInputError:
                continue
            return number
    raise AssertionError(key)


@pytest.mark.parametrize("what", ["rows", "columns", "compaction"])
def test_merge_shards__the_table_was_changed_meanwhile__both_count(spark, tmp_path, monkeypatch, what):
    table = busy_table(str(tmp_path / "t"))
    fresh = table.scan(fresh=True).to_arrow().sort_by("id")
    works = {
        # A delete at the table comes behind all that was durable in shards, and brings it with it.
        "rows": lambda: ss.open(table.uri).delete("id < 30"),
        "columns": lambda: ss.open(table.uri).add_column("more", pa.int64(), default=7),
        "compaction": lambda: ss.open(table.uri).compact(),
    }
    turns = meanwhile(monkeypatch, works[what])

    ss.spark.merge_shards(spark, table)

    found = table.scan(PLAIN.names).to_arrow().sort_by("id")
    wanted = fresh.filter(pa.compute.field("id") >= 30) if what == "rows" else fresh
    assert found["id"].to_pylist() == wanted["id"].to_pylist()
    assert found["s"].to_pylist() == wanted["s"].to_pylist()
    assert len(turns) == (2 if what == "columns" else 1)
    assert set(left(table)) == {(0, 0)}


def test_merge_shards__writers_go_on__what_they_put_comes_later(spark, tmp_path, monkeypatch):
    table = ss.create(str(tmp_path / "t"), schema=PLAIN, key="id", shards=2)
    with table.writer() as writer:
        writer.put(plain_rows(0))
        meanwhile(monkeypatch, lambda: writer.put(changed(0, 10, "while it was merged")))
        ss.spark.merge_shards(spark, table)
        assert table.count() == 40
        assert table.count("s = 'while it was merged'") == 0
        writer.put(plain_rows(40, 10))
        assert writer.scan().count() == table.count(fresh=True) == 50
    ss.spark.merge_shards(spark, table)
    assert table.count("s = 'while it was merged'") == 10


def test_merge_shards__no_shards_or_no_session__nothing_or_a_clear_error(spark, tmp_path):
    table = ss.create(str(tmp_path / "t"), schema=PLAIN)

    assert ss.spark.merge_shards(spark, table).operation == "none"
    with pytest.raises(InvalidInputError, match="must be a SparkSession"):
        ss.spark.merge_shards(table, table)
    with pytest.raises(InvalidInputError, match="must be a Table or a URI"):
        ss.spark.merge_shards(spark, 5)
