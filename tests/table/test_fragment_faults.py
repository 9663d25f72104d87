"""Fragments: what is refused, and what a store can do to one that is being written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fragment_files import NAME, people, read_all, same, write
from siltstone import paths
from siltstone.errors import (
    ClosedError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    PermissionDeniedError,
    StoreFullError,
    UnavailableError,
)
from siltstone.store.memory import MemoryStore
from siltstone.table.fragment import FragmentWriter, write_fragment
from siltstone.table.schema import make_schema
from siltstone.testing.stores import Fault, FaultStore


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (pa.table({"id": [1]}), "no column 'name'"),
        (pa.table({"id": [1], "name": [2]}), "column 'name' is int64, the table's is string"),
        (pa.table({"id": pa.array([None], pa.int64()), "name": ["a"]}), "'id' has 1 nulls"),
    ],
)
def test_write__rows_of_another_schema__are_refused_by_column(table, text):
    schema = make_schema(pa.schema([("id", pa.int64()), ("name", pa.string())]), "id")
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match=text):
        FragmentWriter(store, schema, base=0).write(table)
    assert [*store.list()] == []


def test_write__columns_in_another_order__are_put_in_the_schemas():
    schema = make_schema(pa.schema([("id", pa.int64()), ("name", pa.string())]), "id")
    store = MemoryStore()
    writer = FragmentWriter(store, schema, base=0)
    writer.write(pa.table({"name": ["a"], "other": [1], "id": [7]}))
    assert read_all(store, writer.finish()).to_pylist() == [{"id": 7, "name": "a"}]


def test_write__a_time_that_parquet_can_not_hold__names_the_column():
    table = pa.table({"id": [1], "when": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(InvalidInputError, match="column 'when' can't be written as Parquet"):
        write(MemoryStore(), table)


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.FAIL_AFTER, Fault.REFUSE, Fault.EXISTS_OWN, Fault.EXISTS_NOTHING])
@pytest.mark.parametrize("reads", [None, Fault.REFUSE])
def test_writer__the_store_answers_wrongly_once__the_object_is_there_once(fault, reads):
    store = FaultStore(MemoryStore())
    store.on("create", fault)
    if reads:
        store.on("get", reads)
    written = write(store, people(10))
    assert len([*store.inner.list()]) == 1
    assert same(read_all(store.inner, written), people(10))


def test_writer__the_store_never_answers__says_which_object():
    store = FaultStore(MemoryStore())
    store.on("create", Fault.REFUSE, times=10_000)
    with pytest.raises(UnavailableError, match=r"data/0{19}3-.*could not be written") as raised:
        write(store, people(10))
    assert raised.value.hint


def test_writer__the_store_is_full__is_not_tried_again():
    store = FaultStore(MemoryStore())
    store.on("create", Fault.FULL)
    with pytest.raises(StoreFullError):
        write(store, people(10))
    assert [call.verb for call in store.calls] == ["create"]


def test_writer__other_bytes_are_at_the_fresh_name__is_corruption():
    store = MemoryStore()
    store.put(paths.data(NAME), b"other")
    with pytest.raises(CorruptionError, match="holds other bytes"):
        write_fragment(store, people(3), make_schema(people(3).schema, None), name=NAME)


@pytest.mark.parametrize("threads", [1, 2])
def test_writer__one_of_many_fragments_fails__raises_and_is_finished(threads):
    store = FaultStore(MemoryStore())
    store.on("create", Fault.DENY, nth=3)
    table = people(10_000)
    writer = FragmentWriter(store, make_schema(table.schema, None), base=3, rows_per_fragment=1000, threads=threads)
    with pytest.raises(PermissionDeniedError):  # noqa: PT012 - either call may say so
        writer.write(table)
        writer.finish()
    writer.close()
    before = len(store.calls)
    with pytest.raises(ClosedError):
        writer.finish()
    assert len(store.calls) == before


def test_finish__twice__is_refused():
    writer = FragmentWriter(MemoryStore(), make_schema(people(1).schema, None), base=0)
    assert writer.finish() == []
    with pytest.raises(ClosedError):
        writer.finish()
    with pytest.raises(ClosedError):
        writer.write(people(1))


def test_writer__used_as_a_context_and_left_early__writes_nothing():
    store = MemoryStore()
    with FragmentWriter(store, make_schema(people(1).schema, None), base=0) as writer:
        writer.write(people(10))
    with pytest.raises(ClosedError):
        writer.finish()
    assert [*store.list()] == []


def test_writer__limits_that_make_no_sense__are_refused():
    schema = make_schema(people(1).schema, None)
    for options in ({"rows_per_fragment": 0}, {"bytes_per_fragment": 0}, {"threads": 0}, {"bytes_per_fragment": 2**40}):
        with pytest.raises(InternalError):
            FragmentWriter(MemoryStore(), schema, base=0, **options)
