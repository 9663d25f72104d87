"""Merges: what they take of shards, and what they leave of them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import siltstone as ss
from shard_models import (
    BEFORE,
    COMPACT,
    DAY_S,
    MERGE,
    World,
    begun,
    content,
    delete,
    ids_of,
    number_of,
    once,
    overwrite,
    plain,
    rows_of,
    split,
    update,
    upsert,
)
from siltstone.api import create_table

# -- what a merge takes --------------------------------------------------------------------------------


def test_merge_shards__rows_in_fragments_and_wal__the_newest_of_each_key_is_in_the_table():
    world, table, writers = begun()
    world.put_all(writers, {id_: 100 + id_ for id_ in range(5, 15)})
    for writer in writers:
        world.flush(writer)
    world.put_all(writers, {id_: 200 + id_ for id_ in range(8, 12)})
    world.delete(writers[number_of(6, 2)], [6])
    done = world.do(table, MERGE)
    assert (done.operation, done.shards) == ("merge", ("0000-0000", "0000-0001"))
    assert (done.inserted, done.updated, done.deleted) == (5, 4, 1)
    world.check()


def test_merge_shards__a_key_deleted_and_put_again__is_there():
    world, _, writers = begun()
    writer = writers[number_of(5, 2)]
    for again in range(3):
        world.delete(writer, [5])
        if again == 1:
            world.flush(writer)
        world.put(writer, {5: again})
    assert world.check()[5] == 2


def test_merge_shards__a_key_that_was_never_there_is_deleted__nothing_happens_to_others():
    world, table, writers = begun()
    world.delete(writers[number_of(77, 2)], [77])
    world.do(table, MERGE)
    assert world.check() == BEFORE


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "free"])
def test_merge_shards__wal_only_writers__are_merged_straight_from_the_wal(keyed):
    world = World(keyed=keyed)
    table = world.open()
    writers = [world.writer(name, table, enable_memtable=False) for name in ([0, 1] if keyed else ["a", "b"])]
    for round_ in range(3):
        for number, writer in enumerate(writers):
            ids = ids_of(number, 2, start=round_ if keyed else 100 * round_)
            world.put(writer, {next(ids): round_, next(ids): round_})
        world.do(table, MERGE)
        assert [one.wal_lag for one in table.shards()] == [0, 0]
    assert sum(len(world.shard_keys(one.name, "data/")) for one in table.shards()) == 0
    world.check()


def test_merge_shards__shards_of_any_name__no_row_is_lost_or_doubled():
    world = World(keyed=False)
    table = world.open()
    writers = [world.writer(name, table) for name in ("worker-1", "worker-2", "z")]
    for round_ in range(4):
        for number, writer in enumerate(writers):
            world.put(writer, {1000 * number + 10 * round_ + one: round_ for one in range(5)})
        if round_ % 2:
            world.flush(writers[round_ % 3])
        if round_ > 1:
            world.do(table, MERGE)
    assert len(world.check()) == 60


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "free"])
def test_merge_shards__its_handle_has_read_rows_that_were_flushed_since__they_are_taken_once(keyed):
    world = World(keyed=keyed)
    table = world.open()
    writer = world.writer(0 if keyed else "a")
    ids = ids_of(0, 2) if keyed else iter(range(9))
    for _ in range(3):
        world.put(writer, {next(ids): 1})
        assert table.count(fresh=True) == len(world.book.puts[writer.place.name])
    world.flush(writer)
    done = world.do(table, MERGE)
    assert done.inserted == 3
    world.check()


def test_merge_shards__nothing_new__makes_no_version():
    world, table, writers = begun()
    world.put_all(writers, {1: 1})
    version = world.do(table, MERGE).version
    assert table.merge_shards().operation == "none"
    assert table.version == version


def test_merge_shards__of_a_table_without_shards__makes_no_version():
    table = World(shards=None).open()
    assert table.merge_shards().operation == "none"
    assert table.scan(fresh=True).count() == 0


def test_merge_shards__keys_of_several_columns__masks_the_rows_that_it_replaces():
    world = World()
    columns = pa.schema([("shop", pa.string()), ("day", pa.date32()), ("n", pa.int64())])
    store = ss.store.memory.MemoryStore()
    table = create_table(store, schema=columns, key=["shop", "day"], shards=3, probe=False, env=world.env())
    days = pa.array(range(40), pa.date32())
    rows = pa.table({"shop": [f"s{n % 4}" for n in range(40)], "day": days, "n": list(range(40))}, schema=columns)
    table.append(rows)
    with table.writer() as writer:
        writer.put(rows.slice(10, 20).set_column(2, columns.field("n"), pa.array(range(100, 120))))
        writer.delete(rows.slice(0, 5).select(["shop", "day"]))
    table.merge_shards()
    assert sorted(table.scan(["n"]).to_arrow()["n"].to_pylist()) == [*range(5, 10), *range(30, 40), *range(100, 120)]


def test_merge_shards__the_writer_goes_on__merged_rows_are_left_out_of_its_fragments():
    world, table, writers = begun()
    writer = writers[0]
    ids = list(zip(range(6), ids_of(0, 2), strict=False))
    for n, id_ in ids[:4]:
        world.put(writer, {id_: n})
    world.do(table, MERGE)
    for n, id_ in ids[4:]:
        world.put(writer, {id_: n})
    world.flush(writer)
    status = table.shards()[0]
    assert (status.fragments, status.fragment_rows) == (1, 2)
    world.check()


# -- what it leaves ------------------------------------------------------------------------------------


def test_merge_shards__afterwards__wal_entries_and_merged_fragments_are_removed():
    world, table, writers = begun()
    for n in range(5):
        world.put_all(writers, dict.fromkeys(range(10), n))
        for writer in writers:
            world.flush(writer)
    world.put_all(writers, dict.fromkeys(range(10), 9))
    world.do(table, MERGE)
    status = table.shards()
    assert [one.fragments for one in status] == [0, 0]
    assert [one.replay_from for one in status] == [one.wal_end for one in status]
    world.clock.advance(DAY_S)
    table.merge_shards()
    for one in status:
        assert world.shard_keys(one.name, "data/") == []
        assert world.shard_keys(one.name, "wal/entries/") == []
    world.put_all(writers, dict.fromkeys(range(10), 10))
    world.check()


def test_merge_shards__files_that_were_dropped__stay_for_those_who_read_them():
    world, table, writers = begun()
    world.put_all(writers, dict.fromkeys(range(20), 5))
    for writer in writers:
        world.flush(writer)
    reading = world.open().scan(fresh=True)
    world.do(table, MERGE)
    world.clock.advance(300)
    world.put_all(writers, {1: 6})
    world.do(table, MERGE)
    assert all(len(world.shard_keys(one.name, "data/")) == 1 for one in table.shards())
    assert content(reading) == plain(dict.fromkeys(range(20), 5))


# -- puts that count once ------------------------------------------------------------------------------


@pytest.mark.parametrize("memtable", [True, False], ids=["memtable", "WAL only"])
def test_put__an_id_that_was_merged_and_truncated__counts_once(memtable):
    world, table, _ = begun()
    id_, other = list(zip(range(2), ids_of(0, 2, start=50), strict=False))
    writer = world.writer(0, table, enable_memtable=memtable)
    writer.put(rows_of({id_[1]: 1}), once=once("job 1"))
    writer.put(rows_of({other[1]: 1}), once=ss.table.once.Once(stream="s", batch=4))
    table.merge_shards()
    world.clock.advance(DAY_S)
    table.merge_shards()
    assert world.shard_keys("0000-0000", "wal/entries/") == []
    table.delete(None)
    for opened in (writer, world.writer(0, world.open(), enable_memtable=not memtable)):
        opened.put(rows_of({id_[1]: 1}), once=once("job 1"))
        for batch in (3, 4):
            opened.put(rows_of({other[1]: 1}), once=ss.table.once.Once(stream="s", batch=batch))
        assert table.count(fresh=True) == 0
    opened.put(rows_of({other[1]: 2}), once=ss.table.once.Once(stream="s", batch=5))
    assert table.count(fresh=True) == 1


# -- versions and changes ------------------------------------------------------------------------------


def test_at__versions_from_before_and_behind_merges__hold_what_they_held():
    world, table, writers = begun()
    kept = {}
    for n in range(4):
        world.put_all(writers, {id_: 100 * n + id_ for id_ in range(n, n + 6)})
        kept[table.version] = content(table.scan())
        world.do(table, MERGE)
        kept[table.version] = content(table.scan())
    for version, rows in kept.items():
        assert content(table.at(version=version).scan()) == rows


def test_changes__over_merges__tell_what_became_of_each_row():
    world, table, writers = begun()
    since = table.version
    world.put_all(writers, {3: 33, 20: 20})
    world.delete(writers[number_of(4, 2)], [4])
    world.do(table, MERGE)
    world.put_all(writers, {3: 34})
    world.do(table, upsert({3: 35}))
    found = table.changes(since).to_arrow().to_pylist()
    first, second = since + 1, since + 2
    assert sorted((row["_version"], row["_change"], row["id"], row["n"]) for row in found) == [
        (first, "delete", 4, 4),
        (first, "insert", 20, 20),
        (first, "update_after", 3, 33),
        (first, "update_before", 3, 3),
        (second, "update_after", 3, 35),
        (second, "update_before", 3, 33),
    ]


# -- many operations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "free"])
def test_table__a_random_life_of_it__rows_are_always_those_that_were_acknowledged(seed, keyed):
    chance = random.Random(f"{seed} {keyed}")
    world = World(keyed=keyed)
    life = Life(world, chance)
    readers = [world.open(), world.open()]
    for step in range(25):
        life.step()
        if step % 5 == 4:
            _, fresh = world.expected(world.open())
            world.check_fresh(chance.choice([*readers, *life.tables]), fresh)
    world.check()


class Life:
    """Writers that come and go, merges, changes, splits; whatever chance says."""

    def __init__(self, world, chance):
        self.world, self.chance, self.news = world, chance, 1000
        self.tables = [world.open(), world.open()]
        self.writers = {}

    def step(self):
        common = [self.put] * 6 + [self.flush] * 2 + [self.merge] * 2 + [self.wait, self.reopen, self.change]
        self.chance.choice([*common, self.tombstone, self.split] if self.world.keyed else common)()

    @property
    def table(self):
        return self.chance.choice(self.tables)

    def writer(self):
        sharding = self.world.open()._now().sharding
        name = self.chance.randrange(sharding.count) if sharding else self.chance.choice(["a", "b"])
        if (sharding, name) not in self.writers:
            memtable = self.chance.random() < 0.7
            self.writers[sharding, name] = self.world.writer(name, self.table, enable_memtable=memtable)
        return self.writers[sharding, name]

    def put(self):
        writer = self.writer()
        self.news += 100
        route = writer.place.route
        ids = range(self.news, self.news + 3)
        if route is not None:
            known = self.chance.sample(range(40), 6)
            ids = [id_ for id_ in [*ids, *known] if number_of(id_, route.count) == route.number]
        if ids:
            self.world.put(writer, {id_: self.news + n for n, id_ in enumerate(ids)})

    def tombstone(self):
        writer = self.writer()
        route = writer.place.route
        ids = [id_ for id_ in self.chance.sample(range(40), 8) if number_of(id_, route.count) == route.number]
        if ids:
            self.world.delete(writer, ids)

    def flush(self):
        writer = self.writer()
        if writer.knobs.enable_memtable:
            self.world.flush(writer)

    def reopen(self):
        self.writer()
        self.writers.pop(self.chance.choice([*self.writers]))

    def merge(self):
        self.world.do(self.table, MERGE)

    def wait(self):
        self.world.clock.advance(self.chance.choice([1, 100, DAY_S]))

    def split(self):
        if self.chance.random() < 0.3:
            self.world.do(self.table, split(self.chance.randrange(1, 4)))

    def change(self):
        self.news += 100
        some = dict.fromkeys(self.chance.sample(range(40), 4), self.news)
        changes = [delete(self.chance.randrange(3)), update(1), overwrite(some), COMPACT]
        self.world.do(self.table, self.chance.choice([*changes, upsert(some)] if self.world.keyed else changes))
