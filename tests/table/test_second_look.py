"""What a second look at commits found, each as a test."""

from __future__ import annotations

import os
import uuid

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone import paths
from siltstone.errors import (
    CommitUnknownError,
    ConflictError,
    DuplicateKeyError,
    ForkedError,
    NotFoundError,
    SchemaMismatchError,
)
from siltstone.store.connect import open_store
from siltstone.store.memory import MemoryStore
from siltstone.table import inserts
from siltstone.testing.stores import Interleaves
from waiting import waiting_behind

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def rows(*keys, v=0):
    return [{"id": key, "v": v} for key in keys]


def content(table):
    return {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


@pytest.fixture
def place():
    return f"memory://second-{uuid.uuid4().hex}"


@pytest.fixture
def table(place):
    return ss.create(place, schema=SCHEMA, key="id")


@pytest.mark.parametrize("there", [(1,), (1, 2), (1, 2, 3)])
def test_upsert__a_key_comes_again_in_a_later_lot__the_last_row_counts(table, place, monkeypatch, there):
    monkeypatch.setattr(inserts, "GATHERED_ROWS", 2)
    table.append(rows(*there))
    table.upsert(iter([rows(1, 2, v=1), rows(1, v=2), rows(9, 1, v=3)]))
    expected = dict.fromkeys(there, 0) | {2: 1, 9: 3, 1: 3}
    assert content(table) == content(ss.open(place)) == expected


@pytest.mark.parametrize("operation", ["append", "upsert", "delete"])
def test_restore__lands_first_and_brings_rows_back__the_other_operation_sees_them(place, operation):
    store = Interleaves(open_store(place))
    table = ss.create(store, schema=SCHEMA, key="id")
    table.append(rows(1, 2, 3))
    table.delete("id = 1")
    table.delete("id = 2")
    store.before("create", lambda: ss.open(place).restore(version=2), key="log/entries")
    if operation == "append":
        with pytest.raises(DuplicateKeyError):
            table.append(rows(2, v=9))
        assert content(table) == {2: 0, 3: 0}
    elif operation == "upsert":
        table.upsert(rows(2, v=9))
        assert content(table) == {2: 9, 3: 0}
    else:
        with table.transaction() as tx:
            tx.delete("id = 2")
            tx.append(rows(7))
        assert content(table) == {3: 0, 7: 0}


@pytest.mark.parametrize("key", ["a", ["a", "b"]])
@pytest.mark.parametrize("narrow", [pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()])
def test_append__key_was_widened_by_another__finds_the_rows_all_the_same(place, key, narrow):
    table = ss.create(place, schema=pa.schema([("a", narrow), ("b", narrow)]), key=key)
    table.append([{"a": 1, "b": 1}])
    other = ss.open(place)
    other.widen_column("a", pa.int64())
    with pytest.raises(DuplicateKeyError):
        table.append([{"a": 1, "b": 1}])
    table.upsert([{"a": 1, "b": 1}, {"a": 2, "b": 2}])
    assert other.count() == 2
    assert other.get([1] if key == "a" else [(1, 1)]).num_rows == 1


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int8()])
def test_get__key_of_any_integer_type__is_found_after_several_appends(place, kind):
    table = ss.create(place, schema=pa.schema([("id", kind)]), key="id")
    for key in (1, 100, 50):
        table.append([{"id": key}])
    assert table.get([50, 1]).column("id").to_pylist() == [50, 1]


def test_append__names_were_swapped_by_another__means_the_new_ones(place):
    table = ss.create(place, schema=pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    other = ss.open(place)
    with other.transaction() as tx:
        tx.rename_column("a", "c")
        tx.rename_column("b", "a")
        tx.rename_column("c", "b")
    table.append([{"a": 1, "b": 2}])
    assert other.scan().to_arrow().to_pylist() == [{"b": 2, "a": 1}]


def test_append__column_was_dropped_or_renamed_by_another__is_refused(table, place):
    other = ss.open(place)
    other.rename_column("id", "ident")
    with pytest.raises(SchemaMismatchError, match="ident"):
        table.append(rows(1))
    table.append([{"ident": 1, "v": 1}])
    other.drop_column("v")
    with pytest.raises(SchemaMismatchError, match="'v'"):
        table.append([{"ident": 2, "v": 1}])
    with table.transaction() as tx:
        tx.append([{"ident": 3}])
    assert other.count() == 2


def test_transaction__columns_change_under_its_rows__is_told_to_run_again(table, place):
    tx = table.transaction()
    tx.append(rows(1))
    ss.open(place).drop_column("v")
    with pytest.raises(ConflictError, match="columns"):
        tx.commit()
    assert table.count() == 0
    with table.transaction() as tx:
        tx.append([{"id": 1}])
    assert table.count() == 1


def test_tag_and_restore__on_a_handle_that_has_not_looked__see_the_newest(table, place):
    other = ss.open(place)
    other.append(rows(1))
    other.append(rows(2))
    table.tag("now")
    assert other.tags == {"now": 2}
    other.tag("later")
    table.untag("later")
    with pytest.raises(NotFoundError, match="later"):
        other.at(tag="later")
    other.append(rows(3))
    assert table.restore(timestamp="2099-01-01").operation == "none"
    assert content(table) == {1: 0, 2: 0, 3: 0}


def test_append__a_reader_inside_a_list__is_never_read_twice(place):
    table = ss.create(place, schema=pa.schema([("id", pa.int32())]))
    ss.open(place).widen_column("id", pa.int64())
    first = pa.table({"id": pa.array([1, 2], pa.int32())})
    late = pa.table({"id": pa.array([2**40], pa.int64())})
    table.append([pa.RecordBatchReader.from_batches(first.schema, first.to_batches()), late])
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 2, 2**40]


def test_transaction__applied_before_and_its_columns_are_others_now__is_skipped_whole(table):
    def job():
        with table.transaction(once="job") as tx:
            tx.rename_column("v", "w")
            tx.append([{"id": 1, "w": 1}])
            tx.delete("w > 5")
        return tx.result

    first, again = job(), job()
    assert again.version == first.version
    assert again.operation == "none"


def test_set_and_tag__as_they_were__make_no_version(table):
    table.set({"a": "1"})
    version = table.tag("t", version=1).version
    assert table.set({"a": "1"}).operation == "none"
    assert table.set({"nothing": None}).operation == "none"
    assert table.tag("t", version=1).operation == "none"
    assert table.version == version
    assert [one.operation for one in table.history()] == ["tag", "settings", "create"]


def test_append__the_thread_that_committed_for_others_is_interrupted__they_are_told_unknown(place):
    store = Interleaves(open_store(place))
    table = ss.create(store, schema=SCHEMA, key="id")
    told = {}

    def interrupt():
        raise KeyboardInterrupt

    def work(key):
        try:
            told[key] = table.append(rows(key))
        except BaseException as error:
            told[key] = error

    # The first one commits alone; whoever leads the three behind it is interrupted after the entry is there.
    store.after("create", interrupt, key="log/entries", nth=2)
    waiting_behind(store, table, lambda: work(1), [lambda key=key: work(key) for key in (2, 3, 4)])
    kinds = sorted(type(told[key]).__name__ for key in (2, 3, 4))
    assert kinds == ["CommitUnknownError", "CommitUnknownError", "KeyboardInterrupt"]
    unknown = [error for error in told.values() if isinstance(error, CommitUnknownError)]
    assert all(table.resolve(error.facts["op"]) == 2 for error in unknown)
    assert content(ss.open(place)) == {1: 0, 2: 0, 3: 0, 4: 0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_append__in_a_forked_child_while_a_thread_commits__is_refused_at_once(place):
    store = Interleaves(open_store(place))
    table = ss.create(store, schema=SCHEMA, key="id")
    ends = []

    def fork():
        child = os.fork()
        if child == 0:
            try:
                table.append(rows(5))
            except ForkedError:
                os._exit(7)
            os._exit(1)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    store.before("create", fork, key="log/entries")
    table.append(rows(1))
    assert ends == [7]
    assert content(table) == {1: 0}


def test_repair__a_version_of_a_table_was_lost__names_it_and_the_table_goes_on():
    store = MemoryStore(f"lost-{uuid.uuid4().hex}")
    options = {"probe": False}
    lost = ss.create(store, schema=SCHEMA, key="id", guard="witness", **options).append(rows(1))
    store.delete([paths.entry(paths.LOG, lost.version)])
    with pytest.raises(ss.errors.UnsafeStoreError):
        ss.open(store, **options).append(rows(2))
    [report] = ss.repair(store)
    assert any(lost.op in line and "run it again" in line for line in report.repaired), report
    table = ss.open(store, **options)
    table.append(rows(1, v=5))
    assert content(table)[1] == 5
