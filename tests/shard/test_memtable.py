"""The rows of a shard that are in no fragment yet."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from key_types import KEYS
from shard_chunks import KEYED, UNKEYED, chunk_of, rows_of
from siltstone.errors import InternalError, InvalidInputError
from siltstone.shard.memtable import GONE, MemTable
from siltstone.shard.rows import PENDING, Chunk, chunk_schema, fitted, shard_schema, tombstones
from siltstone.table.schema import arrow_schema, make_schema


def ids(*values):
    return pa.table({"id": pa.array(values, pa.int64())})


def table_of(*chunks, schema=KEYED):
    found = MemTable(schema, generation=3)
    for chunk in chunks:
        found.add(chunk)
    return found


def text_of(table):
    return table.column("payload")[0].as_py()[0]


def test_memtable__nothing_added__is_empty():
    table = MemTable(KEYED, generation=3)

    assert table.is_empty
    assert (table.rows, table.batches, table.nbytes, table.generation) == (0, 0, 0, 3)
    assert (table.first_position, table.last_position) == (PENDING, PENDING)
    assert table.chunks() == []
    assert table.get_one(1) is None
    assert table.newest().schema.equals(arrow_schema(shard_schema(KEYED)))
    found = table.get(ids(1))
    assert (found.rows.num_rows, len(found.which), len(found.gone)) == (0, 0, 0)
    assert found.rows.schema.equals(chunk_schema(KEYED))


def test_add__rows__are_counted():
    chunks = [chunk_of([1, 2]), chunk_of([3], deleted=[True])]
    table = table_of(*chunks)

    assert not table.is_empty
    assert (table.rows, table.batches) == (3, 2)
    assert table.nbytes == sum(chunk.nbytes for chunk in chunks)
    assert table.add(chunk_of([4]), nbytes=7) == 2
    assert table.nbytes == sum(chunk.nbytes for chunk in chunks) + 7
    assert repr(table) == f"MemTable(generation 3, 4 rows, {table.nbytes} bytes)"


def test_add__rows_of_other_columns__changes_nothing():
    table = table_of(chunk_of([1]))

    with pytest.raises(InvalidInputError):
        table.add(Chunk(0, ids(2)))

    assert (table.rows, table.batches) == (1, 1)
    assert table.chunks()[0].count == 1


def test_settle__in_order__rows_have_their_positions():
    table = table_of(chunk_of([1]), chunk_of([2], position=99), chunk_of([3]))

    table.settle(0, 5)
    table.settle(1, 5)

    assert [chunk.position for chunk in table.chunks()] == [5, 5, PENDING]
    assert [chunk.position for chunk in table.chunks(durable_only=True)] == [5, 5]
    assert (table.first_position, table.last_position) == (5, 5)
    assert table.newest().column("_position").to_pylist() == [5, 5, PENDING]
    assert table.newest(durable_only=True).column("id").to_pylist() == [1, 2]


@pytest.mark.parametrize(("number", "position"), [(0, 6), (2, 6), (3, 6), (1, 4)])
def test_settle__out_of_order__is_refused(number, position):
    table = table_of(chunk_of([1]), chunk_of([2]), chunk_of([3]))
    table.settle(0, 5)

    with pytest.raises(InternalError):
        table.settle(number, position)

    assert [chunk.position for chunk in table.chunks()] == [5, PENDING, PENDING]


def test_chunks__more_rows_come_later__stay_as_they_were():
    table = table_of(chunk_of([1]))
    before, durable = table.chunks(), table.chunks(durable_only=True)

    table.add(chunk_of([2]))
    table.settle(0, 5)

    assert [chunk.position for chunk in before] == [PENDING]
    assert durable == []


def test_newest__rows_of_one_key__only_the_last_durable_one():
    table = table_of(chunk_of([1], text="a"), chunk_of([1, 2], text="b"))
    table.settle(0, 8)

    assert text_of(table.newest(durable_only=True)) == "a"
    assert table.newest().column("id").to_pylist() == [1, 2]
    assert text_of(table.newest()) == "b"


def test_get_one__several_rows_of_a_key__the_last_one_is_found():
    table = table_of(chunk_of([1, 2, 1], text="a"), chunk_of([], text="b"))
    assert text_of(table.get_one(1)) == "a"

    table.add(chunk_of([2], text="c"))

    assert text_of(table.get_one(2)) == "c"
    assert table.get_one(2).column("id").to_pylist() == [2]
    assert table.get_one(3) is None


def test_get_one__deleted_and_put_again__is_there():
    table = table_of(chunk_of([1, 2]), tombstones(ids(2, 9), KEYED))

    assert table.get_one(1).num_rows == 1
    assert table.get_one(2) is GONE
    assert table.get_one(9) is GONE
    table.add(chunk_of([2], text="new"))
    assert text_of(table.get_one(2)) == "n"


@pytest.mark.parametrize("value", ["1", 1.5, None, True, b"1", [1]])
def test_get_one__what_is_no_key__is_refused(value):
    with pytest.raises(InvalidInputError):
        table_of(chunk_of([1])).get_one(value)


def test_get_one__numbers_that_are_no_python_integers__are_found():
    assert table_of(chunk_of([1])).get_one(np.int64(1)).num_rows == 1
    assert table_of(chunk_of([1])).get_one(2**70) is None


def test_get__no_key__is_refused():
    table = table_of(Chunk(0, rows_of([1], UNKEYED)), schema=UNKEYED)

    with pytest.raises(InvalidInputError, match="no key"):
        table.get(ids(1))
    with pytest.raises(InvalidInputError, match="no key"):
        table.get_one(1)


@pytest.mark.parametrize(
    "keys", [pa.table({"id": ["a"]}), pa.table({"x": [1]}), pa.table({"id": pa.array([1], pa.int32())})]
)
def test_get__other_columns__are_refused(keys):
    with pytest.raises(InvalidInputError, match="not the columns"):
        table_of(chunk_of([1])).get(keys)


@pytest.mark.parametrize("count", [3, 500], ids=["few", "many"])
def test_get__found_gone_and_unknown_keys__are_told_by_their_places(count):
    chunks = [chunk_of([number], text=str(number % 10)) for number in range(count)]
    table = table_of(*chunks, tombstones(ids(*range(0, count, 2)), KEYED), chunk_of(range(count, 2 * count), text="z"))
    asked = [2 * count + 5, *range(2 * count - 1, -1, -1), 1]

    found = table.get(ids(*asked))

    there = [place for place, one in enumerate(asked) if one < 2 * count and (one >= count or one % 2)]
    assert found.which.tolist() == there
    assert found.gone.tolist() == [place for place, one in enumerate(asked) if one < count and not one % 2]
    assert found.rows.column("id").to_pylist() == [asked[place] for place in there]
    assert [one[0] for one in found.rows.column("payload").to_pylist()] == [
        "z" if asked[place] >= count else str(asked[place] % 10) for place in there
    ]
    assert found.rows.schema.equals(chunk_schema(KEYED))


@pytest.mark.parametrize("name", KEYS)
def test_get__each_type_of_key__is_found(name):
    kind, value = KEYS[name]
    schema = make_schema(pa.schema([("k", kind), ("n", pa.int64())]), "k")
    made = fitted(pa.table({"k": pa.array([value(one) for one in range(100)], kind), "n": range(100)}), schema)
    table = table_of(Chunk(0, made), schema=schema)
    asked = pa.table({"k": pa.array([value(one) for one in (120, 99, 0)], kind)})

    found = table.get(asked)

    assert found.which.tolist() == [1, 2]
    assert found.rows.column("n").to_pylist() == [99, 0]
    assert table.get_one(value(7)).column("n").to_pylist() == [7]
    assert table.get_one(value(110)) is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("ns"), [10**18, 10**18 + 1]),
        (pa.time64("ns"), [1, 2]),
        (pa.timestamp("us", "Europe/Vienna"), [0, 1]),
        (pa.decimal128(38, 0), [Decimal(10**37), Decimal(10**37 + 1)]),
        (pa.string(), ["é", "e\u0301"]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1, 1, 2)]),
    ],
    ids=str,
)
def test_get__keys_that_differ_in_the_least__are_told_apart(kind, values):
    schema = make_schema(pa.schema([("k", kind)]), "k")
    both = pa.table({"k": pa.array(values, kind)})
    table = table_of(Chunk(0, fitted(both, schema)), schema=schema)

    assert table.get(both).which.tolist() == [0, 1]
    assert table_of(Chunk(0, fitted(both.slice(1), schema)), schema=schema).get(both).which.tolist() == [1]


def test_get__keys_of_several_columns__are_compared_as_a_whole():
    schema = make_schema(pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.int32())]), ["b", "a"])
    rows = fitted(pa.table({"a": ["x", "xy"], "b": ["yz", "z"], "n": pa.array([1, 2], pa.int32())}), schema)
    table = table_of(Chunk(0, rows), schema=schema)

    found = table.get(pa.table({"b": ["z", "yz", "xyz"], "a": ["xy", "x", ""]}))

    assert found.which.tolist() == [0, 1]
    assert found.rows.column("n").to_pylist() == [2, 1]
    assert table.get_one(("yz", "x")).column("n").to_pylist() == [1]
    assert table.get_one(("x", "yz")) is None


PUT = st.tuples(st.just("put"), st.lists(st.integers(0, 12), max_size=5))
DELETE = st.tuples(st.just("delete"), st.lists(st.integers(0, 12), max_size=3))
LOOK = st.tuples(st.just("look"), st.lists(st.integers(0, 15), max_size=6))
SETTLE = st.tuples(st.just("settle"), st.just([]))


@settings(max_examples=150, deadline=None)
@given(st.lists(PUT | DELETE | LOOK | SETTLE, max_size=25))
def test_memtable__any_order_of_calls__is_like_a_dict(steps):
    table = MemTable(KEYED, generation=0)
    model: dict[int, tuple[int, bool]] = {}  # by key: the number of its chunk, whether it is gone
    durable = 0
    for what, keys in steps:
        if what == "put":
            number = table.add(chunk_of(keys, text="x"))
            model |= dict.fromkeys(keys, (number, False))
        elif what == "delete":
            number = table.add(tombstones(ids(*keys), KEYED))
            model |= dict.fromkeys(keys, (number, True))
        elif what == "settle" and durable < table.batches:
            table.settle(durable, durable // 2)
            durable += 1
        elif what == "look":
            found = table.get(ids(*keys))
            assert found.which.tolist() == [
                place for place, one in enumerate(keys) if one in model and not model[one][1]
            ]
            assert found.gone.tolist() == [place for place, one in enumerate(keys) if one in model and model[one][1]]
            assert found.rows.column("id").to_pylist() == [keys[place] for place in found.which]

    newest = table.newest()
    positions = [number // 2 if number < durable else PENDING for number in range(table.batches)]
    assert {
        key: (position, gone)
        for key, position, gone in zip(
            *(newest.column(one).to_pylist() for one in ("id", "_position", "_deleted")), strict=True
        )
    } == {key: (positions[number], gone) for key, (number, gone) in model.items()}
    assert newest.num_rows == len(model)
