"""Changes made at a table whose rows are still in shards.

What must hold: they come behind all that was durable when they were asked for, and before what is put later.
"""

from __future__ import annotations

import threading

import pytest

from shard_models import (
    BEFORE,
    World,
    append,
    begun,
    content,
    delete,
    ids_of,
    number_of,
    overwrite,
    plain,
    restore,
    rows_of,
    split,
    update,
    upsert,
)
from siltstone.errors import DuplicateKeyError


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
    world.do(world.open(), append({6: 6, 7: 7}))
    stale = world.open()
    writer = world.writer("a")
    world.put(writer, {1: 1, 3: 3})
    world.do(stale, delete(0))
    assert world.check() == {7: 7, 1: 1}


def test_append__another_handle_gave_the_table_shards_since__a_key_in_one_is_refused():
    world = World(shards=None)
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
