"""Earlier versions are searched with the indexes that they had; a restore leaves indexes as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clone_worlds import World, rows_of
from indexed_worlds import all_hits, all_texts, check, grown, named, texts
from siltstone.errors import SiltstoneError


@pytest.fixture
def table():
    return grown(World())


def test_at__versions_before_and_behind_each_change_of_an_index__searched_with_what_they_had(table):
    table.optimize_index("v", whole=True)
    table.drop_index("v")
    table.delete("id > 10")
    for version in range(1, table.version + 1):
        then = table.at(version=version)
        state = then._now()
        assert [one.name for one in then.indexes()] == sorted(state.indexes)
        check(then)
        if state.indexes:
            assert all_hits(then, indexed_only=True) == all_texts(then)
        else:
            with pytest.raises(SiltstoneError):
                all_hits(then, indexed_only=True)


def test_restore__of_a_version_before_the_index__it_stays_and_covers_what_came_back(table):
    before = named(table)
    table.compact()
    table.restore(version=2)
    assert named(table) == before
    assert table.indexes()[0].unindexed_rows == 0
    assert table.count() == 30
    check(table)


def test_restore__of_a_version_from_before_compaction_and_optimize__the_rows_are_found(table):
    then = table.version
    expected = check(table)
    table.compact()
    table.optimize_index("v", whole=True)
    after = named(table)
    table.restore(version=then)
    assert named(table) == after
    assert table.indexes()[0].indexed_rows == 0
    assert check(table) == expected
    table.optimize_index("v")
    assert table.indexes()[0].unindexed_rows == 0
    assert check(table) == expected


def test_restore__a_column_comes_back__without_the_index_that_went_with_it(table):
    then = table.version
    expected = check(table)
    table.drop_column("v")
    table.restore(version=then)
    assert table.indexes() == []
    assert check(table) == expected
    table.create_text_index("v")
    assert check(table) == expected
    assert table.indexes()[0].unindexed_rows == 0


def test_restore__of_a_version_without_the_column__its_index_goes_and_the_version_keeps_it():
    world = World()
    table = world.create("t", key="id")
    table.append(rows_of(texts(0, 8)))
    table.add_column("w", pa.string())
    table.update({"w": "v"})
    table.create_text_index("w")
    then, other = table.version, table.search("w", "delivery").count()
    table.restore(version=1)
    assert table.indexes() == []
    assert table.at(version=then).search("w", "delivery", indexed_only=True).count() == other > 0
    table.restore(version=then)
    assert table.indexes() == []
    assert table.search("w", "delivery").count() == other
