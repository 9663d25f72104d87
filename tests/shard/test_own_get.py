"""Single keys that a writer is asked for: rows of its memtables, unless the table says otherwise."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shard_worlds import ShardWorld, rows
from siltstone.errors import FencedError, InvalidInputError, NotFoundError
from siltstone.table.schema import arrow_schema


def notes(found):
    return found.column("note").to_pylist()


@pytest.fixture
def world():
    return ShardWorld(keyed=True)


def test_get__row_in_the_memtable__is_what_a_read_of_the_table_gives(world):
    writer = world.writer()
    writer.put(rows(1, 2))
    state = world.table()._now()
    for columns in (None, ["note"], ["note", "id"]):
        own, other = writer.get([2], columns), world.table().get([2], columns, fresh=True)
        assert own.equals(other)
        assert own.schema.equals(other.schema)
    assert writer.get(2).schema.equals(arrow_schema(state.schema))


def test_get__key_put_several_times__the_newest_row_of_all_memtables_is_found(world):
    writer = world.writer()
    writer.put(rows(1, note="old"))
    writer.freeze()
    assert notes(writer.get([1])) == ["old1"]
    writer.put(rows(1, note="mid"))
    writer.freeze()
    assert notes(writer.get([1])) == ["mid1"]
    writer.put(rows(1, note="new"))
    assert notes(writer.get([1])) == ["new1"]
    writer.put(rows(1, note="newest"), wait=False)
    assert notes(writer.get([1])) == ["newest1"]


def test_get__key_was_deleted_through_the_writer__older_rows_stay_hidden(world):
    world.table().append(rows(1, note="table"))
    writer = world.writer()
    assert notes(writer.get([1])) == ["table1"]
    writer.put(rows(1))
    writer.freeze()
    writer.delete([1])
    found = writer.get([1], ["note"])
    assert (found.num_rows, found.column_names) == (0, ["note"])


def test_get__row_was_merged_and_deleted_in_the_table__is_not_shown(world):
    writer = world.writer()
    writer.put(rows(1, 2))
    assert notes(writer.get([1])) == ["x1"]
    other = world.table()
    other.merge_shards()
    other.delete("id = 1")
    assert writer.get([1]).num_rows == 0
    assert notes(writer.get([2])) == ["x2"]


def test_get__row_was_merged_and_changed_in_the_table__the_change_is_shown(world):
    writer = world.writer()
    writer.put(rows(1))
    other = world.table()
    other.merge_shards()
    other.upsert(rows(1, note="changed"))
    assert notes(writer.get([1])) == ["changed1"]
    writer.put(rows(1, note="later"))
    assert notes(writer.get([1])) == ["later1"]


def test_get__columns_were_changed_by_others__row_has_them(world):
    writer = world.writer()
    writer.put(rows(1))
    other = world.table()
    other.add_column("stars", pa.int64(), default=5)
    assert writer.get([1]).to_pylist() == [{"id": 1, "note": "x1", "stars": 5}]
    assert writer.get([1], ["stars"]).to_pylist() == [{"stars": 5}]


def test_get__shards_were_split_since__row_is_found_in_the_table(world):
    writer = world.writer()
    writer.put(rows(1))
    world.table().split_shards(2)
    assert notes(writer.get([1])) == ["x1"]


def test_get__another_writer_took_over_unnoticed__is_refused(world):
    writer = world.writer()
    writer.put(rows(1, note="old"))
    assert notes(writer.get([1])) == ["old1"]
    other = world.writer()
    other.put(rows(1, note="new"))
    with pytest.raises(FencedError):
        writer.get([1])
    assert notes(other.get([1])) == ["new1"]


def test_get__another_writer_took_over_and_its_entries_are_truncated__is_refused(world):
    writer = world.writer()
    writer.put(rows(1, note="old"))
    other = world.writer()
    other.put(rows(1, note="new"))
    world.table().merge_shards()
    other.delete([1])
    with pytest.raises(FencedError):
        writer.get([1])


def test_get__memtable_was_flushed__row_of_its_fragment_is_found(world):
    writer = world.writer()
    writer.put(rows(1))
    assert notes(writer.get([1])) == ["x1"]
    writer.freeze()
    writer.flush_memtables()
    assert notes(writer.get([1])) == ["x1"]


@pytest.mark.parametrize("columns", [["gone"], [], ["id", "id"], "id"])
def test_get__columns_that_are_none__are_refused(world, columns):
    writer = world.writer()
    writer.put(rows(1))
    with pytest.raises((InvalidInputError, NotFoundError)):
        writer.get([1], columns)
