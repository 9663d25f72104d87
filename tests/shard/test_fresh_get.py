from __future__ import annotations

import pytest

from fresh_world import NUMBERS, World, check_gets, live, shop
from siltstone.errors import InvalidInputError
from siltstone.shard import fresh_cache
from siltstone.shard.fresh import Freshness
from siltstone.table import layout


def test_fresh_get__keys_of_fragments_are_never_kept__reads_as_the_model(monkeypatch):
    monkeypatch.setattr(fresh_cache, "KEYS_ROWS_MAX", 0)
    monkeypatch.setattr(layout, "PAGE_ROWS", 4)
    monkeypatch.setattr(layout, "_BATCH_ROWS", 4)
    for kind in ("int64", "two numbers"):
        world = World(kind, seed=4)
        world.add([world.row(one) for one in range(0, NUMBERS, 2)])
        for _ in live(world, 10):
            check_gets(world)


def test_get__keys_in_every_place__come_in_the_order_asked_for():
    world, shard = shop()
    shard.put([world.row(one) for one in (1, 2, 3, 41)])
    shard.flush()
    shard.put([world.row(one) for one in (2, 42)])
    shard.flush()
    shard.put([world.row(one) for one in (3, 43)])
    shard.delete([world.key_of(one) for one in (4, 41)])
    rows = {row["id"]: row for row in world.rows()}
    asked = [world.key_of(one)[0] for one in (43, 3, 41, 42, 2, 1, 4, 5, 77, 3)]
    for _ in range(8):  # the first ones read pages, later ones what is kept
        assert world.get(asked).to_pylist() == [rows[one] for one in dict.fromkeys(asked) if one in rows]
        assert [world.get(one).to_pylist() for one in asked] == [[rows[one]] if one in rows else [] for one in asked]
        assert [world.get([one], ["name"]).column_names for one in asked] == [["name"]] * len(asked)


def test_get__fragment_is_partly_merged__the_table_is_asked_for_the_rest():
    world, shard = shop()
    for number in range(4):
        shard.put([world.row(one) for one in range(number * 10, number * 10 + 15)])
    shard.flush()
    shard.merge(2)
    world.lose([world.key_of(3)])  # gone from the table after it was merged: the shard's row is older
    world.add([world.row(4)])
    rows = {row["id"]: row for row in world.rows()}
    asked = [world.key_of(one)[0] for one in (50, 3, 4, 5, 22, 12, 39)]
    for _ in range(2 * fresh_cache.OFTEN):
        assert world.get(asked).to_pylist() == [rows[one] for one in asked if one in rows]
        assert [world.get(one).num_rows for one in asked] == [one in rows for one in asked]


def test_get__rows_of_fragments_are_too_many_to_keep__are_read_from_the_file():
    world, shard = shop()
    world.freshness = Freshness(world.tools, cache_bytes=1)
    shard.put([world.row(one) for one in range(20, 60)])
    shard.flush()
    rows = {row["id"]: row for row in world.rows()}
    asked = [world.key_of(one)[0] for one in (50, 22, 21, 59, 3, 70)]
    for _ in range(2 * fresh_cache.OFTEN):
        assert world.get(asked).to_pylist() == [rows[one] for one in asked if one in rows]
        assert world.get(asked[1]).to_pylist() == [rows[asked[1]]]


def test_get__of_a_key_often__asks_the_store_for_nothing_more():
    world, shard = shop()
    for number in range(3):
        shard.put([world.row(one) for one in range(number, 40, 3)])
        shard.flush()
    key = world.key_of(6)[0]
    for _ in range(fresh_cache.OFTEN + 1):
        world.get(key)
    world.store.reset()
    for number in range(0, 40, 3):
        assert world.get(world.key_of(number)[0]).num_rows == 1
    assert world.store.usage().total == 0


def test_get__tail_goes_on__only_new_rows_are_indexed():
    world, shard = shop()
    shard.put([world.row(one) for one in range(50, 60)])
    world.get(world.key_of(55)[0])
    first = world.freshness.tail(world.state, world.snapshots[0])
    index = first._table
    shard.put([world.row(55)])
    newest = world.get(world.key_of(55)[0])
    second = world.freshness.tail(world.state, world.snapshots[0])
    assert second is not first
    assert second._table is index
    assert newest.to_pylist() == [row for row in world.rows() if row["id"] == world.key_of(55)[0]]
    # Whoever still has the earlier one sees what it had.
    assert first.get_one(world.key_of(55)[0]).column("name").to_pylist() != newest.column("name").to_pylist()


@pytest.mark.parametrize(("keys", "reason"), [("x", "id"), (None, "id"), ([1.5], "id"), ({"other": [1]}, "other")])
def test_get__key_of_another_type__is_refused(keys, reason):
    world, shard = shop()
    shard.put([world.row(1)])
    with pytest.raises(InvalidInputError, match=reason):
        world.get(keys)


def test_get__no_such_column__is_refused():
    world, shard = shop()
    shard.put([world.row(1)])
    with pytest.raises(InvalidInputError, match="nothing_such"):
        world.get(world.key_of(1)[0], ["nothing_such"])


def test_get__table_without_a_key__is_refused():
    world = World(None)
    with pytest.raises(InvalidInputError, match="no key"):
        world.get([1])
