from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from fresh_world import KEYS, NUMBERS, World, check_gets, live, shop
from siltstone import paths
from siltstone.errors import CorruptionError, MissingObjectError
from siltstone.shard.chunks import PENDING
from siltstone.shard.fresh import Freshness, fresh
from siltstone.shard.fresh_get import fresh_get
from siltstone.store.base import Traits
from siltstone.store.connect import open_store
from siltstone.table import evolve, layout, stream, tasks
from siltstone.table.scan import Scan

FILTERS = {
    "grp = 3": lambda row: row["grp"] == 3,
    "score is null": lambda row: row["score"] is None,
    "score > 20 and grp <> 1": lambda row: row["score"] is not None and row["score"] > 20 and row["grp"] != 1,
    "name is not null": lambda row: row["name"] is not None,
    "name like '%7'": lambda row: row["name"].endswith("7"),
    "grp < 0": lambda row: row["grp"] < 0,
}


def plain(rows):
    """Rows in an order of their own."""
    return sorted(rows, key=repr)


def read(table):
    return plain(table.to_pylist())


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(layout, "GROUP_ROWS", 16)
    monkeypatch.setattr(layout, "PAGE_ROWS", 4)
    monkeypatch.setattr(layout, "_BATCH_ROWS", 4)


# -- random histories ------------------------------------------------------------------------------


def check_scans(world):
    wanted, whole = world.rows(), world.scan().to_arrow()
    assert read(whole) == plain(wanted)
    assert whole.schema == world.scan().schema
    assert world.scan().count() == len(wanted)
    text = str(world.random.choice(list(FILTERS)))
    chosen = [{"grp": row["grp"], "name": row["name"]} for row in wanted if FILTERS[text](row)]
    assert read(world.scan(where=text, columns=["grp", "name"]).to_arrow()) == plain(chosen)
    assert world.scan(where=text).count() == len(chosen)
    limit, offset = (int(one) for one in world.random.integers(0, 40, 2))
    found = world.scan(limit=limit, offset=offset).to_arrow()
    assert found.to_pylist() == whole.slice(offset, limit).to_pylist()


def check_sql(world):
    numbers = [row["grp"] for row in world.rows() if row["grp"] > 4]
    found = world.sql("select count(*) as c, sum(grp) as s from t where grp > 4").to_pylist()
    assert found == [{"c": len(numbers), "s": sum(numbers) if numbers else None}]


def run(world, steps):
    world.add([world.row(one) for one in range(0, NUMBERS, 2)])
    for _ in live(world, steps):
        check_scans(world)
        if world.key:
            check_gets(world)
    check_sql(world)


@pytest.mark.parametrize("kind", KEYS)
def test_fresh__random_history_of_a_keyed_table__reads_as_the_model(kind):
    run(World(kind, seed=len(kind)), 14)


@pytest.mark.parametrize("kind", ["int64", "odd text", "text and day"])
def test_fresh__random_history_with_small_pages__reads_as_the_model(kind, small_pages):
    run(World(kind, shards=3, seed=2), 24)


@pytest.mark.parametrize("seed", range(2))
def test_fresh__random_history_of_a_table_without_a_key__reads_as_the_model(seed):
    run(World(None, seed=seed), 24)


def test_fresh__random_history_on_a_disk__reads_as_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "processors", lambda: 2)
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    run(World(store=open_store(str(tmp_path / "table")), seed=7), 24)


def test_fresh__nothing_is_kept__reads_as_the_model():
    world = World(seed=5)
    world.freshness = Freshness(world.tools, cache_bytes=1)
    run(world, 24)


# -- one thing at a time ---------------------------------------------------------------------------


def test_read__shards_have_nothing__gives_the_table_itself():
    world, _ = shop()
    assert world.fresh() == (world.tools, world.state)


def test_read__all_rows_of_a_fragment_are_replaced__it_is_not_read():
    world, shard = shop()
    shard.put([world.row(one) for one in range(40)])
    shard.flush()
    before = {one.fragment.name for one in world.state.fragments}
    after = {one.fragment.name for one in world.fresh()[1].fragments}
    assert len(after) == 1
    assert not before & after


def test_read__tombstones_alone__hide_rows_and_add_none():
    world, shard = shop()
    shard.delete([world.key_of(one) for one in range(10)])
    assert world.scan().count() == 30
    shard.flush()
    assert world.scan().count() == 30
    assert [one.rows for one in world.fresh()[1].fragments] == [30]


def test_read__fragment_without_keys_is_partly_merged__the_rest_counts():
    world = World(None, shards=1)
    shard = world.shards[0]
    for _ in range(3):
        shard.put([world.row(0), world.row(0)])
    shard.flush()
    shard.merge(2)
    assert read(world.scan().to_arrow()) == plain(world.rows())
    assert world.scan().count() == 6


def test_read__far_keys_of_a_fragment_are_partly_merged__the_rest_counts():
    world = World(shards=1)
    shard = world.shards[0]
    shard.put([world.row(one) for one in range(60, 80)])
    shard.put([world.row(one) for one in (*range(10), *range(70, 75))])
    shard.flush()
    shard.merge(1)  # makes a fragment of the last keys alone
    assert read(world.scan().to_arrow()) == plain(world.rows())
    assert world.scan().count() == 30


def test_read__fragment_is_partly_merged__the_rest_counts():
    world, shard = shop()
    for number in range(4):
        shard.put([world.row(one) for one in range(number * 10, number * 10 + 15)])
    shard.flush()
    shard.merge(2)
    world.lose([world.key_of(3)])  # gone from the table after it was merged: the shard's row is older
    assert read(world.scan().to_arrow()) == plain(world.rows())
    assert world.get([world.key_of(3)[0]]).num_rows == 0


def test_read__rows_are_in_no_entry_yet__are_the_newest():
    world, shard = shop()
    shard.put([world.row(1)])
    shard.put([world.row(1), world.row(50)])
    shard.merge(1)
    shard.tail[-1] = shard.tail[-1]._replace(position=PENDING)
    assert read(world.scan().to_arrow()) == plain(world.rows())
    key = world.key_of(1)[0]
    assert world.get(key).to_pylist() == [row for row in world.rows() if row["id"] == key]


def test_read__nothing_changed__is_the_last_one():
    world, shard = shop()
    shard.put([world.row(1)])
    first = world.fresh()
    assert world.fresh() is first
    shard.put([world.row(2)])
    second = world.fresh()
    assert second is not first
    shard.flush()
    third = world.fresh()
    assert third is not second
    shard.merge(2)
    assert world.fresh() is not third


def test_read__a_second_time__asks_the_store_for_nothing():
    world, shard = shop()
    for number in range(3):
        shard.put([world.row(one) for one in range(number, 40, 3)])
        shard.flush()
    world.fresh()
    shard.put([])
    world.store.reset()
    world.fresh()
    assert world.store.usage().total == 0


def test_read__keys_far_from_most_fragments__opens_only_the_near_ones():
    world = World("int8", shards=1)
    world.add([world.row(one) for one in range(120)])
    assert len(world.state.fragments) == 3
    shard = world.shards[0]
    shard.put([world.row(119)])
    world.store.reset()
    tools, state = world.fresh()
    assert world.store.usage().requests == {"get": 1}
    assert state.fragments.rows == 120
    assert Scan(tools, state, where=f"id < {world.key_of(40)[0]}").count() == 40


def test_explain__fresh_read__counts_what_is_laid_over():
    world, shard = shop()
    shard.put([world.row(one) for one in range(30, 50)])
    shard.flush()
    shard.put([world.row(60)])
    text = world.scan(where="grp < 100").explain()
    assert "3 of 3 are read" in text
    assert "10 of them deleted; 51 in the table" in text


def test_fresh__without_anything_kept__reads_the_same():
    world, shard = shop()
    shard.put([world.row(one) for one in range(30, 50)])
    found = Scan(*fresh(world.tools, world.state, world.snapshots)).to_arrow()
    assert read(found) == plain(world.rows())


def test_read__very_many_fragments_are_masked__reads_as_the_model():
    world = World(shards=1)
    world.rows_per_fragment = 2
    world.add([world.row(one) for one in range(300)])
    shard = world.shards[0]
    shard.put([world.row(one) for one in range(0, 300, 2)])
    shard.flush()
    shard.delete([world.key_of(one) for one in range(1, 300, 30)])
    assert read(world.scan().to_arrow()) == plain(world.rows())
    assert world.scan().count() == 290
    assert len(world.fresh()[1].fragments) == 141  # 10 have no row left, and the shard's is one more


def test_read__store_behind_a_network__gives_the_same():
    world = World("text", shards=2, seed=3)
    world.store.traits = Traits(kind="s3", known_good=True, cheap_probes=False)
    run(world, 12)


def test_read__by_many_threads__gives_each_the_same():
    world, shard = shop()
    for number in range(4):
        shard.put([world.row(one) for one in range(number * 5, number * 5 + 20)])
        shard.flush()
    shard.put([world.row(one) for one in range(60, 70)])
    snapshots, wanted, found = world.snapshots, plain(world.rows()), []

    def work():
        rows = read(Scan(*world.freshness.read(world.state, snapshots)).to_arrow())
        one = fresh_get(world.tools, world.freshness, world.state, snapshots, [world.key_of(n)[0] for n in range(70)])
        found.append((rows, plain(one.to_pylist())))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(wanted, wanted)] * 6


def test_read__shard_fragment_is_gone__says_which():
    world, shard = shop()
    shard.put([world.row(1)])
    shard.flush()
    name = shard.state.fragments[0].fragment.name
    shard.store.delete([paths.data(name)])
    with pytest.raises(MissingObjectError, match=name):
        world.fresh()
    with pytest.raises(MissingObjectError, match=name):
        world.get(world.key_of(1)[0])


def test_read__shard_fragment_is_damaged__says_which():
    world, shard = shop()
    shard.put([world.row(1)])
    shard.flush()
    name = shard.state.fragments[0].fragment.name
    data = bytearray(shard.store.get(paths.data(name)))
    data[20:40] = bytes(20)
    shard.store.put(paths.data(name), bytes(data))
    with pytest.raises(CorruptionError, match=name):
        world.scan().to_arrow()


# -- columns ---------------------------------------------------------------------------------------


def test_read__column_was_renamed_since_the_flush__is_found():
    world, shard = shop()
    shard.put([world.row(one) for one in range(20, 50)])
    shard.delete([world.key_of(2)])
    shard.flush()
    world.apply(operation="schema", schema=evolve.rename_column(world.state.schema, "id", to="number"))
    rows = [{"number": row.pop("id"), **row} for row in world.rows()]
    assert read(world.scan().to_arrow()) == plain(rows)
    assert world.get([rows[0]["number"], rows[-1]["number"]]).to_pylist() == [rows[0], rows[-1]]
    assert world.get(world.key_of(2)[0]).num_rows == 0


def test_read__key_was_widened_since_the_flush__is_matched():
    world = World("int8", shards=1)
    world.add([world.row(one) for one in range(40)])
    shard = world.shards[0]
    shard.put([world.row(one) for one in range(20, 50)])
    shard.delete([world.key_of(2)])
    shard.flush()
    assert read(world.scan().to_arrow()) == plain(world.rows())
    world.apply(operation="schema", schema=evolve.widen_column(world.state.schema, "id", pa.int64()))
    shard.put([world.row(21) | {"id": 2**40}, world.row(22)])
    shard.flush()
    shard.put([world.row(23)])
    assert read(world.scan().to_arrow()) == plain(world.rows())
    rows = {row["id"]: row for row in world.rows()}
    asked = [2**40, *(world.key_of(one)[0] for one in (22, 23, 24, 2, 39))]
    assert world.get(asked).to_pylist() == [rows[one] for one in asked if one in rows]


def test_read__column_was_added_since_the_flush__has_its_default():
    world, shard = shop()
    shard.put([world.row(one) for one in range(20, 50)])
    shard.flush()
    schema = evolve.add_column(world.state.schema, pa.field("extra", pa.int64(), nullable=False), default=7)
    world.apply(operation="schema", schema=schema)
    assert read(world.scan().to_arrow()) == plain({**row, "extra": 7} for row in world.rows())
    assert world.scan(where="extra = 7").count() == 50
    for _ in range(10):
        assert world.get(world.key_of(30)[0], ["extra"]).to_pylist() == [{"extra": 7}]


def test_read__columns_that_are_never_null__tombstones_do_no_harm():
    vector = pa.list_(pa.field("item", pa.float32(), nullable=False), 2)
    part = pa.struct([pa.field("at", vector, nullable=False), pa.field("x", pa.int64(), nullable=False)])
    fields = [
        pa.field("vector", vector, nullable=False),
        pa.field("part", part, nullable=False),
        pa.field("list", pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False),
        pa.field("flag", pa.bool_(), nullable=False),
    ]
    world = World(shards=1, values=fields)

    def row(number):
        values = [number, number / 2]
        return {
            "id": number,
            "vector": values,
            "part": {"at": values, "x": number},
            "list": [str(number)] * (number % 3),
            "flag": number % 2 == 0,
        }

    world.add([row(number) for number in range(30)])
    shard = world.shards[0]
    shard.put([row(number) for number in range(20, 40)])
    shard.delete([(number,) for number in range(0, 40, 3)])
    shard.flush()
    shard.delete([(1,), (31,)])
    gone = {*range(0, 40, 3), 1, 31}
    wanted = plain(row(number) for number in range(40) if number not in gone)
    assert read(world.scan().to_arrow()) == wanted
    assert world.scan(where="flag or vector is null or part is null").count() == sum(one["flag"] for one in wanted)
    assert world.scan(where="part['x'] >= 0 and flag is not null").count() == len(wanted)
    assert world.sql("select sum(part['x']) as x from t").to_pylist() == [{"x": sum(one["id"] for one in wanted)}]
    for _ in range(6):
        assert world.get(list(range(45))).num_rows == len(wanted)
        assert world.get(31).num_rows == 0
