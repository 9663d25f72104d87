"""Merges: what they take, what they leave, and how changes made at the table stand to rows that are still in shards."""

from __future__ import annotations

import random
import threading

import pyarrow as pa
import pytest

import siltstone as ss
from shard_models import (
    COMPACT,
    MERGE,
    SCHEMA,
    World,
    append,
    content,
    delete,
    ids_of,
    number_of,
    once,
    overwrite,
    plain,
    restore,
    rows_of,
    split,
    told,
    update,
    upsert,
)
from siltstone.api import create_table
from siltstone.errors import ClosedError, CommitUnknownError, DuplicateKeyError, FencedError, InvalidInputError
from siltstone.shard.config import ShardWriterConfig
from siltstone.testing.script import Fault

DAY_S = 86_400
BEFORE = {id_: id_ for id_ in range(10)}


def begun(**options):
    """A table with rows, and the writers of its shards."""
    world = World(**options)
    table = world.open()
    world.do(table, append(BEFORE))
    return world, table, world.writers(table)


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


def test_merge_shards__nothing_new__makes_no_version():
    world, table, writers = begun()
    world.put_all(writers, {1: 1})
    version = world.do(table, MERGE).version
    assert table.merge_shards().operation == "none"
    assert table.version == version


def test_merge_shards__of_a_table_without_shards__makes_no_version():
    world = World()
    world.bucket.objects.clear()
    world.bucket.keys.clear()
    table = create_table(world.store(), schema=SCHEMA, key="id", probe=False, env=world.env())
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


# -- changes made at the table -------------------------------------------------------------------------


def test_upsert__rows_of_its_keys_are_in_shards__is_newer_than_they_are_and_older_than_the_next_put():
    world, table, writers = begun()
    world.put_all(writers, {3: 1, 4: 1, 30: 1})
    world.do(table, upsert({3: 2, 30: 2}))
    assert (world.check(merge=False)[3], table.get([3])["n"].to_pylist()) == (2, [2])
    world.put_all(writers, {3: 3})
    assert world.check()[3] == 3


def test_upsert__of_keys_of_one_shard__merges_that_one_alone():
    world, table, writers = begun()
    world.put_all(writers, dict.fromkeys(range(10), 5))
    id_ = next(ids_of(1, 2, start=3))
    done = world.do(table, upsert({id_: 6}))
    assert (done.shards, done.inserted, done.updated) == (("0000-0001",), 0, 1)
    assert [one.wal_lag > 0 for one in table.shards()] == [True, False]
    world.check()


def test_append__a_key_is_in_a_shard_alone__is_refused():
    world, table, writers = begun()
    world.put_all(writers, {40: 1})
    world.flush(writers[number_of(40, 2)])
    world.put_all(writers, {41: 1})
    for id_ in (40, 41):
        with pytest.raises(DuplicateKeyError, match=str(id_)):
            table.append(rows_of({id_: 2, 50: 2}))
    world.do(table, append({50: 3}))
    world.check()


def test_append__a_key_was_deleted_in_a_shard__is_taken():
    world, table, writers = begun()
    world.delete(writers[number_of(4, 2)], [4])
    world.do(table, append({4: 44}))
    assert world.check()[4] == 44


@pytest.mark.parametrize(
    "operation", [delete(0), update(50), overwrite({1: 1, 2: 2}), restore(0, {})], ids=lambda one: one.name
)
def test_change__of_rows_that_are_in_shards__comes_behind_all_of_them(operation):
    world, table, writers = begun()
    world.put_all(writers, dict.fromkeys(range(5, 25), 7))
    for writer in writers:
        world.flush(writer)
    world.put_all(writers, dict.fromkeys(range(20, 30), 8))
    world.do(table, operation)
    assert [one.wal_lag for one in table.shards()] == [0, 0]
    world.put_all(writers, {6: 99, 60: 99})
    fresh = world.check()
    assert (fresh[6], fresh[60]) == (99, 99)


@pytest.mark.parametrize("operation", [overwrite({1: 1}), restore(1, BEFORE)], ids=lambda one: one.name)
def test_change__that_leaves_no_row_of_shards__writes_none_of_them(operation):
    world, table, writers = begun()
    world.put_all(writers, dict.fromkeys(range(5, 25), 7))
    before = set(world.keys("data/"))
    world.do(table, operation)
    assert len(set(world.keys("data/")) - before) == (1 if operation.name == "overwrite" else 0)
    world.check()


def test_transaction__appends_and_then_overwrites__a_key_in_a_shard_is_still_refused():
    world, table, writers = begun()
    world.put_all(writers, {40: 1})

    def run():
        with table.transaction() as tx:
            tx.append(rows_of({40: 2}))
            tx.overwrite(rows_of({1: 1}))

    with pytest.raises(DuplicateKeyError):
        run()
    world.check()


def test_transaction__of_several_operations__sees_what_was_in_shards():
    world, table, writers = begun()
    world.put_all(writers, {30: 1, 31: 1, 2: 1})
    with table.transaction(message="several") as tx:
        tx.delete("id = 30")
        tx.upsert(rows_of({31: 2}))
        tx.update({"n": "n + 10", "note": "concat(id, ' is ', n + 10)"}, where="id in (2, 31)")
    assert table.history(1)[0].message == "several"
    wanted = plain({**BEFORE, 31: 12, 2: 11})
    assert content(table.scan()) == content(table.scan(fresh=True)) == wanted


def test_delete__without_a_key__takes_rows_of_shards_too():
    world = World(keyed=False)
    table = world.open()
    writer = world.writer("a", table)
    world.put(writer, {1: 1, 2: 2, 3: 3})
    world.do(table, delete(0))
    assert world.check() == {1: 1, 2: 2}


def test_delete__another_handle_made_the_first_shard_since__its_rows_go_too():
    world = World(keyed=False)
    stale = world.open()
    world.do(world.open(), append({6: 6, 7: 7}))
    writer = world.writer("a")
    world.put(writer, {1: 1, 3: 3})
    world.do(stale, delete(0))
    assert world.check() == {7: 7, 1: 1}


def test_append__another_handle_gave_the_table_shards_since__a_key_in_one_is_refused():
    world = World()
    world.bucket.objects.clear()
    world.bucket.keys.clear()
    create_table(world.store(), schema=SCHEMA, key="id", probe=False, env=world.env())
    stale, other = world.open(), world.open()
    world.do(other, split(2))
    writers = world.writers(other)
    world.put_all(writers, dict.fromkeys(range(4), 1))
    with pytest.raises(DuplicateKeyError):
        stale.append(rows_of({2: 2}))
    world.do(stale, upsert({3: 3}))
    assert world.check()[3] == 3


def test_append__threads_at_once_to_a_table_with_shards__each_is_told_and_rows_are_there_once():
    world, table, writers = begun()
    world.put_all(writers, {100: 1})
    errors = []

    def run(number):
        try:
            table.append(rows_of({200 + number: number} if number else {100: 2}))
        except DuplicateKeyError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1
    assert content(table.scan(fresh=True)) == plain({**BEFORE, 100: 1, **{200 + n: n for n in range(1, 6)}})


# -- columns -------------------------------------------------------------------------------------------


def evolved():
    """Rows of the first columns in a fragment and in the WAL; the writer knows no others."""
    world, table, writers = begun()
    writer, ids = writers[0], list(zip(range(4), ids_of(0, 2, start=60), strict=False))
    world.put(writer, {ids[0][1]: 0})
    world.flush(writer)
    world.put(writer, {ids[1][1]: 1})
    return world, table, writer, [id_ for _, id_ in ids]


def both(table, columns, where):
    """What a fresh read says, which must be what a read behind a merge says."""
    fresh = sorted(map(repr, table.scan(columns, where=where, fresh=True).to_arrow().to_pylist()))
    table.merge_shards()
    assert sorted(map(repr, table.scan(columns, where=where).to_arrow().to_pylist())) == fresh
    return table.scan(columns, where=where).to_arrow().to_pylist()


def test_merge_shards__a_column_was_added__older_rows_have_its_default():
    _, table, writer, ids = evolved()
    table.add_column("extra", pa.int64(), default=5)
    writer.put(rows_of({ids[2]: 2}))
    writer.put([{**rows_of({ids[3]: 3})[0], "extra": 6}])
    found = both(table, ["id", "extra"], "id >= 60")
    assert {row["id"]: row["extra"] for row in found} == {ids[0]: 5, ids[1]: 5, ids[2]: 5, ids[3]: 6}


def test_merge_shards__a_column_was_dropped__older_rows_lose_it():
    _, table, writer, ids = evolved()
    table.drop_column("note")
    writer.put([{"id": ids[2], "n": 2}])
    found = both(table, None, "id >= 60")
    assert sorted(map(repr, found)) == sorted(repr({"id": id_, "n": n}) for n, id_ in enumerate(ids[:3]))


def test_merge_shards__a_column_was_renamed__older_rows_have_it_under_the_new_name():
    _, table, writer, ids = evolved()
    table.rename_column("note", "remark")
    writer.put([{"id": ids[2], "n": 2, "remark": "new"}])
    found = both(table, ["id", "remark"], "id >= 60")
    assert {row["id"]: row["remark"] for row in found} == {
        ids[0]: f"{ids[0]} is 0",
        ids[1]: f"{ids[1]} is 1",
        ids[2]: "new",
    }


def test_merge_shards__a_column_was_dropped_and_another_of_its_name_added__values_are_not_mixed():
    _, table, writer, ids = evolved()
    table.drop_column("note")
    table.add_column("note", pa.int64())
    writer.put([{"id": ids[2], "n": 2, "note": 7}])
    found = both(table, ["id", "note"], "id >= 60")
    assert {row["id"]: row["note"] for row in found} == {ids[0]: None, ids[1]: None, ids[2]: 7}


def test_merge_shards__a_column_was_widened__older_values_are_the_same():
    world = World()
    columns = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    table = create_table(
        ss.store.memory.MemoryStore(), schema=columns, key="id", shards=1, probe=False, env=world.env()
    )
    writer = table._open_writer(0, None, "", background=False)
    writer.put([{"id": 1, "n": 1}])
    writer.freeze()
    writer.flush_memtables()
    writer.put([{"id": 2, "n": 2}])
    table.widen_column("n", pa.int64())
    writer.put([{"id": 3, "n": 2**40}])
    assert both(table, None, None) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 2**40}]


def test_merge_shards__the_key_was_renamed__rows_are_found_by_it():
    _, table, writer, ids = evolved()
    table.rename_column("id", "key")
    writer.put([{"key": ids[0], "n": 50, "note": ""}])
    found = both(table, ["key", "n"], "key >= 60")
    assert {row["key"]: row["n"] for row in found} == {ids[0]: 50, ids[1]: 1}


# -- closing -------------------------------------------------------------------------------------------


def test_close__table_with_open_writers__their_rows_are_durable_and_they_are_closed(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=2)
    writer = table.writer(ShardWriterConfig(durable_write=False, max_wal_flush_interval_ms=3_600_000))
    earlier = table.shard(0).writer(ShardWriterConfig(durable_write=False, max_wal_flush_interval_ms=3_600_000))
    writer.writers[1].put(rows_of({next(ids_of(1, 2)): 1}))
    earlier.put(rows_of({next(ids_of(0, 2)): 1}))
    table.close()
    table.close()
    for one in (*writer.writers, earlier):
        assert isinstance(told(lambda one=one: one.put(rows_of({1: 1}))), ClosedError | FencedError)
    assert ss.open(tmp_path / "t").count(fresh=True) == 2


def test_close__rows_of_a_writer_can_not_be_made_durable__is_told_and_the_table_is_closed():
    world = World()
    store = world.faulty()
    table = world.open(store)
    writer = world.writer(0, table, max_wal_append_attempts=1)
    writer.put(rows_of({next(ids_of(0, 2)): 1}), wait=False)
    store.on("create", Fault.REFUSE, key="wal/", times=10**9)
    with pytest.raises(CommitUnknownError):
        table.close()
    with pytest.raises(ClosedError):
        table.count()


# -- a writer of all shards ----------------------------------------------------------------------------


def test_writer__bad_rows_behind_good_ones__nothing_is_queued_for_any_shard():
    world, table, _ = begun()
    with table.writer(ShardWriterConfig(durable_write=False)) as writer:
        good = pa.Table.from_pylist(rows_of(dict.fromkeys(range(100, 110), 1)), SCHEMA)
        bad = pa.table({"id": [None], "n": [1], "note": ["x"]})
        for data in ([good, bad], iter([good, bad])):
            with pytest.raises(InvalidInputError):
                writer.put(data)
    assert world.open().count("id >= 100", fresh=True) == 0


def test_writer__columns_were_added_since__takes_rows_with_them_and_without():
    world, table, _ = begun()
    with table.writer() as writer:
        world.open().add_column("extra", pa.int64(), default=5)
        writer.put([{**row, "extra": 6} for row in rows_of(dict.fromkeys(range(100, 110), 1))])
        writer.put(rows_of(dict.fromkeys(range(110, 120), 2)))
        writer.delete([100, 110])
    found = world.open().scan(["id", "extra"], where="id >= 100", fresh=True).to_arrow().to_pylist()
    assert {row["id"]: row["extra"] for row in found} == {
        **dict.fromkeys(range(101, 110), 6),
        **dict.fromkeys(range(111, 120), 5),
    }


def test_writer__of_all_shards__brings_each_row_to_its_own():
    world, table, _ = begun()
    with table.writer() as writer:
        ack = writer.put(rows_of(dict.fromkeys(range(100, 150), 1)), wait=False)
        ack.wait()
        assert ack.done
        writer.delete(list(range(100, 110)))
        assert writer.scan(where="id >= 100").count() == 40
        assert writer.get([105, 115])["id"].to_pylist() == [115]
        assert sum(one.rows for one in writer.stats()) == 60
    table.merge_shards()
    assert table.count("id >= 100") == 40


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
            world.check_fresh(chance.choice(readers), fresh)
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
