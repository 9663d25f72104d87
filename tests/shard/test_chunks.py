"""Rows on their way through a shard, in memory and in its fragments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from key_types import KEYS
from shard_chunks import FIRM, KEYED, PAIR, ROWS, SCHEMA, UNKEYED, as_lists, chunk_of, rows_of
from siltstone import paths
from siltstone.env import REAL
from siltstone.errors import InvalidInputError
from siltstone.shard.rows import (
    DELETED_ID,
    PENDING,
    POSITION_ID,
    Chunk,
    chunk_schema,
    fitted,
    newest,
    shard_schema,
    to_columns,
    tombstones,
)
from siltstone.store.memory import MemoryStore
from siltstone.table.fragment import write_fragment
from siltstone.table.schema import arrow_schema, make_schema
from siltstone.table.tools import make_tools

# A struct that is never null, with a list of a fixed size that is never null.
INNER = pa.struct([pa.field("pair", PAIR, nullable=False), pa.field("s", pa.string())])
STAYS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field(
            "inner", pa.struct([pa.field("pair", PAIR, nullable=False), pa.field("s", pa.string())]), nullable=False
        ),
        pa.field("firm", FIRM, nullable=False),
        pa.field("lists", pa.list_(pa.field("item", FIRM, nullable=False)), nullable=False),
        pa.field("pair", PAIR, nullable=False),
    ]
)


def test_shard_schema__of_any_table__is_the_table_with_nulls_and_two_more():
    found = shard_schema(make_schema(STAYS, "id"))

    assert [(one.name, one.nullable) for one in found.fields] == [
        ("id", False), ("inner", False), ("firm", True), ("lists", True), ("pair", True),
        ("_position", False), ("_deleted", False),
    ]  # fmt: skip
    assert [one.id for one in found.fields[-2:]] == [POSITION_ID, DELETED_ID]
    assert found.key == (1,)


def test_chunk_schema__of_any_table__has_its_columns_and_types():
    assert chunk_schema(SCHEMA).names == ROWS.schema.names
    assert chunk_schema(SCHEMA).types == arrow_schema(SCHEMA).types


def test_to_columns__tombstones__are_marked():
    chunk = chunk_of([1, 2], position=9, deleted=[False, True])

    found = to_columns(chunk)

    assert found.column("_position").to_pylist() == [9, 9]
    assert found.column("_deleted").to_pylist() == [False, True]
    assert found.schema.equals(arrow_schema(shard_schema(KEYED)))
    assert to_columns(chunk_of([1, 2])).column("_deleted").to_pylist() == [False, False]


def test_chunk__rows_and_tombstones__says_how_much_it_holds():
    assert chunk_of([1, 2, 3]).count == 3
    assert chunk_of([1, 2], deleted=[False, True]).nbytes == chunk_of([1, 2]).nbytes + 2


def test_newest__several_rows_of_a_key__the_last_one_stays_in_its_place():
    chunks = [
        chunk_of([1, 2, 1], position=3, text="a"),
        chunk_of([4, 2], position=5, text="b", deleted=[False, True]),
        chunk_of([5], position=5, text="c"),
    ]

    found = newest(chunks, ["id"])

    assert found.column("id").to_pylist() == [1, 4, 2, 5]
    assert found.column("_position").to_pylist() == [3, 5, 5, 5]
    assert found.column("_deleted").to_pylist() == [False, False, True, False]
    assert [one[0] for one in found.column("payload").to_pylist()] == ["a", "b", "b", "c"]


def test_newest__no_key__all_rows_are_there():
    chunks = [Chunk(1, rows_of([1, 1], UNKEYED)), Chunk(2, rows_of([1], UNKEYED))]

    assert newest(chunks, []).column("_position").to_pylist() == [1, 1, 2]


def test_newest__chunks_that_say_other_things_of_nulls__are_put_together():
    loose = pa.table({name: rows_of([2]).column(name) for name in ("id", "name", "payload")})

    assert newest([chunk_of([1]), Chunk(4, loose)], ["id"]).column("id").to_pylist() == [1, 2]


def test_newest__no_chunks__is_refused():
    with pytest.raises(InvalidInputError, match="no chunks"):
        newest([], ["id"])


@pytest.mark.parametrize("name", KEYS)
def test_newest__each_type_of_key__has_each_key_once(name):
    kind, value = KEYS[name]
    schema = make_schema(pa.schema([("k", kind), ("n", pa.int64())]), "k")
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(121), 3))
    table = fitted(pa.table({"k": pa.array([value(int(one)) for one in order], kind), "n": order}), schema)
    chunks = [Chunk(start, table.slice(start, 50)) for start in range(0, table.num_rows, 50)]

    found = newest(chunks, ["k"])

    last = [place for place, one in enumerate(order) if one not in order[place + 1 :]]
    assert found.column("n").to_pylist() == order[last].tolist()
    assert found.column("_position").to_pylist() == [place // 50 * 50 for place in last]


def test_tombstones__keys__have_nothing_else_and_a_place_behind_all():
    found = tombstones(pa.table({"id": pa.array([1, 2], pa.int64())}), KEYED)

    assert found.position == PENDING
    assert found.deleted.tolist() == [True, True]
    assert found.rows.to_pydict() == {"id": [1, 2], "name": [None, None], "payload": [None, None]}
    assert found.rows.schema.equals(chunk_schema(KEYED))


def test_tombstones__no_keys__are_none():
    assert tombstones(pa.table({"id": pa.array([], pa.int64())}), KEYED).count == 0


@pytest.mark.parametrize(
    "keys",
    [pa.array([1, None], pa.int64()), pa.array(["a"]), pa.array([1], pa.int32())],
    ids=["null", "text", "narrow"],
)
def test_tombstones__what_is_no_key__is_refused(keys):
    with pytest.raises(InvalidInputError):
        tombstones(pa.table({"id": keys}), KEYED)


@pytest.mark.parametrize("schema", [SCHEMA, make_schema(STAYS, "id")], ids=["every type", "parts that are never null"])
def test_tombstones__of_any_type__are_written_to_a_fragment_and_read_back(schema):
    hidden = shard_schema(schema)
    name = schema.fields[0].name
    chunks = [tombstones(pa.table({name: pa.array([5, 9], pa.int64())}), schema, position=4)]
    if schema is SCHEMA:
        chunks.insert(0, Chunk(3, fitted(ROWS, SCHEMA)))
    table = newest(chunks, [name])
    store = MemoryStore()

    fragment = write_fragment(store, table, hidden, name=paths.name(0, REAL.ids.new()))
    found = make_tools(store, REAL).files.open(fragment).take(np.arange(table.num_rows), hidden.fields)

    assert found.schema.equals(arrow_schema(hidden))
    assert as_lists(found) == as_lists(table)
    gone = found.filter(pc.field("_deleted"))
    assert gone.column(name).to_pylist() == [5, 9]
    assert gone.column("_position").to_pylist() == [4, 4]


def test_fitted__other_columns__are_refused():
    with pytest.raises(InvalidInputError, match="the table has"):
        fitted(rows_of([1]).select(["name", "id", "payload"]), KEYED)
