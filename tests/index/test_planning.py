"""Which fragments a build indexes, and how the work is cut."""

from __future__ import annotations

import numpy as np
import pytest

from build_worlds import World, rows_of, seeded
from siltstone.errors import InvalidInputError
from siltstone.index import planning
from siltstone.index.build import open_build
from siltstone.index.planning import coverage, plan_more, plan_whole, text_items


def table_of(*sizes):
    """A table whose fragments have so many rows."""
    table = World().create()
    start = 0
    for size in sizes:
        table.append(rows_of(range(start, start + size)))
        start += size
    return table


def covered(work):
    return [one.name for item in work.items for one in item.fragments]


def names(table):
    return [live.fragment.name for live in table._now().fragments.select(None)]


def markers(table):
    index = table._now().indexes["body"]
    return {one: table._covers.marker(table._log.store, one) for one in index.segments}


@pytest.mark.parametrize("sizes", [(1,), (1, 1, 1), (2000, 1, 1), (1, 1, 2000), (5, 1, 9, 2, 700, 3)])
def test_text_items__any_sizes__every_fragment_once_in_order_and_items_enough(sizes):
    table = table_of(*sizes)
    for at_least in range(1, len(sizes) + 3):
        work = plan_whole(table._now(), at_least=at_least)
        assert covered(work) == names(table)
        assert len(work.items) >= min(at_least, len(sizes))
        assert all(item.fragments for item in work.items)


def test_text_items__random_sizes__items_enough_and_none_much_larger_than_its_share(monkeypatch):
    rng = np.random.default_rng(5)
    table = table_of(*rng.integers(1, 50, 20).tolist())
    lives = table._now().fragments.select(None)
    for at_least in range(1, 22):
        items = text_items(lives, at_least=at_least)
        assert len(items) >= min(at_least, len(lives))
        assert [one.name for item in items for one in item.fragments] == names(table)


def test_text_items__limits_of_an_item__are_kept(monkeypatch):
    table = table_of(*[3] * 8)
    lives = table._now().fragments.select(None)
    monkeypatch.setattr(planning, "ITEM_ROWS", 6)
    assert [len(item.fragments) for item in text_items(lives)] == [2] * 4
    monkeypatch.setattr(planning, "ITEM_ROWS", 10**6)
    monkeypatch.setattr(planning, "ITEM_BYTES", 1)
    assert [len(item.fragments) for item in text_items(lives)] == [1] * 8


def test_plan_whole__no_rows__no_items():
    table = World().create()
    assert plan_whole(table._now(), at_least=5).items == ()
    table.append(rows_of(range(3)))
    table.delete(None)
    assert plan_whole(table._now()).items == ()


def test_plan__same_version__same_plan():
    world = seeded()
    one, two = (world.open().begin_text_index("body", items=2).name for _ in range(2))
    table = world.open()
    assert open_build(table._log, one).plan.items == open_build(table._log, two).plan.items


@pytest.mark.parametrize("items", [0, -1, 100_001, True, "2", None, 1.5])
def test_begin__bad_number_of_items__is_told(items):
    world = seeded()
    with pytest.raises(InvalidInputError, match="items"):
        world.open().begin_text_index("body", items=items)
    assert world.builds() == []


# -- more ------------------------------------------------------------------------------------------------


def test_plan_more__all_is_indexed__nothing_to_do():
    table = table_of(3, 4)
    table.create_text_index("body")
    for whole in (False, True):
        assert plan_more(table._now(), markers(table), whole=whole) == planning.Work()
        assert table.optimize_index("body", whole=whole) is None


def test_plan_more__rows_came_since__small_segment_is_merged_and_new_ones_are_indexed():
    table = table_of(3, 4)
    table.create_text_index("body")
    table.append(rows_of(range(50, 55)))
    work = plan_more(table._now(), markers(table))
    assert [len(item.sources) for item in work.items] == [1, 0]
    assert set(work.replaces) == set(markers(table))
    assert sorted(covered(work)) == sorted(names(table))


def test_plan_more__segment_is_large__is_left_alone_unless_whole_is_asked_for(monkeypatch):
    monkeypatch.setattr(planning, "SMALL_TOKENS", 0)
    table = table_of(3, 4)
    table.create_text_index("body")
    table.append(rows_of(range(50, 55)))
    work = plan_more(table._now(), markers(table))
    assert (len(work.items), work.replaces) == (1, ())
    assert covered(work) == [live.fragment.name for live in coverage(table._now(), markers(table).values()).rest]
    table.optimize_index("body")
    assert table.indexes()[0].segments == 2
    assert table.optimize_index("body") is None
    work = plan_more(table._now(), markers(table), whole=True)
    assert len(work.replaces) == 2
    assert sorted(covered(work)) == sorted(names(table))


def test_plan_more__fragments_are_gone__segment_is_made_anew_without_them(monkeypatch):
    monkeypatch.setattr(planning, "SMALL_TOKENS", 0)
    table = table_of(3, 4, 5, 6)
    table.create_text_index("body")
    table.delete("id < 3")
    assert plan_more(table._now(), markers(table)) == planning.Work(), "few are gone"
    table.delete("id < 7")
    work = plan_more(table._now(), markers(table))
    assert len(work.replaces) == 1
    assert sorted(covered(work)) == sorted(names(table))
    table.optimize_index("body")
    assert [(one.segments, one.indexed_rows) for one in table.indexes()] == [(1, 11)]
    assert table.optimize_index("body") is None


def test_plan_more__parts_over_the_limit_of_a_merge__stay_apart(monkeypatch):
    table = table_of(3, 4, 5)
    table.create_text_index("body")
    tokens = sum(part.tokens for marker in markers(table).values() for part in marker.parts)
    monkeypatch.setattr(planning, "MERGED_TOKENS", tokens)
    for begin in (50, 60):
        table.append(rows_of(range(begin, begin + 5)))
        table.optimize_index("body")
    parts = table.indexes()[0].parts
    assert parts > 1
    assert table.optimize_index("body", whole=True) is None or table.indexes()[0].parts < parts
    assert table.optimize_index("body", whole=True) is None
    assert table.indexes()[0].unindexed_rows == 0
