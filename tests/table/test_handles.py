"""Handles: what they see of each other, and threads that share one."""

from __future__ import annotations

import pickle
import threading
import uuid
from functools import partial

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import DuplicateKeyError, InvalidInputError, SchemaMismatchError
from siltstone.store.connect import open_store
from siltstone.testing.stores import Interleaves
from waiting import waiting_behind

SCHEMA = pa.schema([("id", pa.int64()), ("stars", pa.int64())])


def rows(*keys, stars=0):
    return [{"id": key, "stars": stars} for key in keys]


def ids(table):
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.fixture
def place():
    return f"memory://handles-{uuid.uuid4().hex}"


@pytest.fixture
def two(place):
    """Two handles on one table, as two processes would have them."""
    one = ss.create(place, schema=SCHEMA, key="id")
    return one, ss.open(place)


def test_scan__another_handle_committed__sees_it(two):
    one, other = two
    one.append(rows(1, 2))
    assert ids(other) == [1, 2]
    assert other.version == one.version == 1


def test_at__while_others_write_and_compact__stays_as_it_is(two):
    one, other = two
    for key in range(10):
        one.append(rows(key))
    then = other.at(version=5)
    one.delete("id < 3")
    one.compact()
    one.overwrite(rows(99))
    assert ids(then) == [0, 1, 2, 3, 4]
    assert then.version == 5
    assert then.get([2]).num_rows == 1
    with pytest.raises(InvalidInputError, match="pinned"):
        then.append(rows(5))


def test_delete__rows_that_another_appended_meanwhile__go_too(two):
    one, other = two
    other.append(rows(1, 2, 3))
    assert one.delete("id >= 2").deleted == 2
    assert ids(one) == ids(other) == [1]


def test_append__key_that_another_deleted_meanwhile__is_taken(two):
    one, other = two
    one.append(rows(1, 2))
    other.delete("id = 1")
    one.append(rows(1))
    assert ids(other) == [1, 2]


def test_append__key_that_another_appended_meanwhile__is_refused(two):
    one, other = two
    other.append(rows(7))
    with pytest.raises(DuplicateKeyError, match="7"):
        one.append(rows(6, 7))
    assert ids(one) == [7]


def test_append__column_that_another_added_meanwhile__is_known(two):
    one, other = two
    other.add_column("lang", pa.string())
    one.append([{"id": 1, "stars": 1, "lang": "en"}])
    assert other.get([1]).to_pylist() == [{"id": 1, "stars": 1, "lang": "en"}]
    other.append(rows(2))  # a column that was added later may be left out
    assert one.get([2]).to_pylist() == [{"id": 2, "stars": 0, "lang": None}]
    with pytest.raises(SchemaMismatchError, match="stars"):
        other.append([{"id": 3, "lang": "en"}])


def test_append__rows_from_before_a_column_was_added__have_its_default(place):
    store = Interleaves(open_store(place))
    table = ss.create(store, schema=SCHEMA, key="id")
    store.before("create", lambda: ss.open(place).add_column("n", pa.int64(), default=5), key="log/entries")
    table.append(rows(1))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "stars": 0, "n": 5}]


def test_upsert__another_upserts_the_same_new_key_first__one_row_is_left(place):
    store = Interleaves(open_store(place))
    table = ss.create(store, schema=SCHEMA, key="id")
    store.before("create", lambda: ss.open(place).upsert(rows(1, stars=1)), key="log/entries")
    done = table.upsert(rows(1, stars=2))
    assert (done.version, done.updated, done.inserted) == (2, 1, 0)
    assert table.scan().to_arrow().to_pylist() == rows(1, stars=2)


def test_append__from_many_threads_of_one_handle__each_is_there_once(place):
    table = ss.create(place, schema=SCHEMA, key="id")
    told = []

    def work(number):
        told.extend(table.append(rows(*range(number * 1000 + n * 10, number * 1000 + n * 10 + 3))) for n in range(20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 160
    assert all(one.inserted == 3 for one in told)
    assert table.count() == 480
    assert sum(one.inserted for one in table.history()) == 480
    assert {one.version for one in told} == set(range(1, table.version + 1))


def test_append__while_another_thread_commits__shares_the_next_version_and_spoils_nobody(place):
    store = Interleaves(open_store(place))
    table = ss.create(store, schema=SCHEMA, key="id")
    results = {}

    def work(name, keys):
        try:
            results[name] = table.append(rows(*keys))
        except DuplicateKeyError as error:
            results[name] = error

    others = {"good": (10, 11), "bad": (1,), "also good": (12,)}
    waiting_behind(store, table, lambda: work("first", (1, 2)), [partial(work, *one) for one in others.items()])
    assert isinstance(results.pop("bad"), DuplicateKeyError)
    assert {name: one.inserted for name, one in results.items()} == {"first": 2, "good": 2, "also good": 1}
    assert ids(table) == [1, 2, 10, 11, 12]
    assert ids(ss.open(place)) == [1, 2, 10, 11, 12]


def test_pickle__of_a_handle_and_of_a_version__opens_the_same(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", sync=False)
    table.append(rows(1))
    then = table.at(version=1)
    table.append(rows(2))
    again, pinned = pickle.loads(pickle.dumps((table, then)))
    assert (ids(again), ids(pinned)) == ([1, 2], [1])
    assert repr(pinned).endswith("@1)")
    again.append(rows(3))
    assert ids(table) == [1, 2, 3]


def test_resolve__op_of_a_version__is_its_number(two):
    one, other = two
    for key in range(70):
        one.append(rows(key))
    told = {version.op: version.version for version in one.history()}
    assert all(other.resolve(op) == version for op, version in told.items())
    assert other.resolve("0" * 32) is None


def test_at__timestamp__is_the_newest_version_of_then(two):
    one, _ = two
    one.append(rows(1))
    first = one.history()[0].time
    one.append(rows(2))
    assert one.at(timestamp=first).version >= 1
    assert one.at(timestamp=one.history()[0].time).version == 2
    assert one.at(timestamp="2099-01-01").version == 2
    with pytest.raises(ss.errors.NotFoundError, match="first one"):
        one.at(timestamp="2001-01-01")
