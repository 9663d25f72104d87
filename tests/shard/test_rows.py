"""Rows and the bytes that they are in an entry of a WAL."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from shard_chunks import EVERY, GOOD, KEYED, LENGTH, ROWS, SCHEMA, batch_of, chunk_of, made, rows_of, same_rows
from siltstone.errors import CorruptionError, InvalidInputError
from siltstone.format.shard import WalHeader
from siltstone.shard.rows import Chunk, adapt, chunk_schema, decode_body, encode_body, fitted, tombstones
from siltstone.table.evolve import add_column, drop_column, rename_column, widen_column
from siltstone.table.schema import make_schema


def back(data, schema=KEYED):
    return decode_body(data, schema, 7, name="wal/entry 7")


# -- what was put in comes back --------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_body__each_type__comes_back(name):
    table = ROWS.select(["key", name])
    schema = make_schema(table.schema, "key")

    found = back(encode_body([Chunk(0, table)], schema), schema)

    same_rows(found.chunk.rows, fitted(table, schema))


def test_body__all_types_sliced_and_in_many_chunks__come_back_in_order():
    table = fitted(ROWS, SCHEMA)
    parts = [table.slice(1, 2), table.slice(0, 0), table.slice(2), pa.concat_tables([table, table.slice(1, 1)])]

    found = back(encode_body([Chunk(number, part) for number, part in enumerate(parts)], SCHEMA), SCHEMA)

    same_rows(found.chunk.rows, pa.concat_tables(parts))
    assert found.chunk.position == 7
    assert found.chunk.deleted is None
    assert found.header == WalHeader(rows=7)


def test_body__tombstones_of_all_types__have_their_key_and_nulls():
    keys = pa.table({"key": pa.array([5, 6], pa.int64())})
    chunks = [Chunk(0, fitted(ROWS, SCHEMA)), tombstones(keys, SCHEMA)]

    chunk = back(encode_body(chunks, SCHEMA), SCHEMA).chunk

    assert chunk.deleted.tolist() == [False, False, False, True, True]
    assert chunk.rows.column("key").to_pylist() == [1, 2, 3, 5, 6]
    gone = chunk.rows.slice(3).drop_columns("key")
    assert all(column.null_count == 2 for column in gone.columns)


def test_body__no_rows__says_what_counts_once():
    found = back(encode_body([], KEYED, once=("a", "b"), batches={"stream": 3}))

    assert found.header == WalHeader(rows=0, once=("a", "b"), batches={"stream": 3})
    assert found.chunk.count == 0
    assert found.chunk.rows.schema.equals(chunk_schema(KEYED))


def test_body__many_small_chunks__is_little_larger_than_the_rows():
    chunks = [chunk_of([number]) for number in range(32)]
    raw = 32 * (8 + 20 + 100)

    assert len(encode_body(chunks, KEYED)) <= 1.25 * raw


def test_body__seen_by_any_arrow_reader__is_one_batch_named_by_ids():
    data = encode_body([Chunk(0, fitted(ROWS, SCHEMA)), tombstones(ROWS.select(["key"]), SCHEMA)], SCHEMA)
    start = LENGTH.size + LENGTH.unpack_from(data)[0]

    batches = list(pa.ipc.open_stream(data[start:]))

    assert start % 8 == 0
    assert [batch.num_rows for batch in batches] == [6]
    assert batches[0].schema.names == [*(str(field.id) for field in SCHEMA.fields), "_deleted"]
    part = next(field for field in SCHEMA.fields if field.name == "part")
    kind = batches[0].schema.field(str(part.id)).type
    assert [kind.field(place).name for place in range(2)] == [str(child.id) for child in part.children]


def test_decode_body__large_columns__lie_in_the_bytes_that_were_given():
    data = encode_body([chunk_of(range(1000))], KEYED)
    whole = pa.py_buffer(data)

    rows = back(data).chunk.rows

    for column in rows.columns:
        for buffer in column.chunk(0).buffers():
            assert buffer is None or whole.address <= buffer.address < whole.address + whole.size


@pytest.mark.parametrize("spaces", range(9))
def test_decode_body__rows_at_any_place__are_read(spaces):
    batch = batch_of(**GOOD)

    found = back(made(batch, header=b'{"rows":2}' + b" " * spaces))

    assert found.chunk.rows.column("id").to_pylist() == [1, 2]


def test_encode_body__other_columns__are_refused():
    with pytest.raises(InvalidInputError, match="the table has"):
        encode_body([Chunk(0, rows_of([1]).drop_columns("name"))], KEYED)
    with pytest.raises(InvalidInputError, match="the table has"):
        encode_body([Chunk(0, ROWS)], KEYED)


def test_encode_body__what_columns_say_of_nulls__does_not_matter():
    loose = pa.table({name: rows_of([1]).column(name) for name in ("id", "name", "payload")})

    assert encode_body([Chunk(0, loose), Chunk(0, rows_of([1]))], KEYED) == encode_body([chunk_of([1, 1])], KEYED)


# -- older schemas ---------------------------------------------------------------------------------

OLD = make_schema(
    pa.schema(
        [
            pa.field("id", pa.int32()),
            pa.field("n", pa.uint8()),
            pa.field("x", pa.float32()),
            pa.field("s", pa.string()),
            pa.field("d", pa.decimal128(5, 2), nullable=False),
            pa.field("parts", pa.struct([("a", pa.int8())])),
        ]
    ),
    "id",
)
OLD_ROWS = pa.table(
    {
        "id": pa.array([1, -2], pa.int32()),
        "n": pa.array([200, None], pa.uint8()),
        "x": pa.array([0.1, None], pa.float32()),
        "s": ["dropped", "too"],
        "d": pa.array([1, 2], pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(5, 2)),
        "parts": pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())])),
    }
)


def evolved(schema):
    schema = widen_column(schema, "id", pa.int64())
    schema = widen_column(schema, "n", pa.int16())
    schema = widen_column(schema, "x", pa.float64())
    schema = widen_column(schema, "d", pa.decimal256(40, 2), nullable=True)
    schema = rename_column(drop_column(schema, "s"), "n", to="s")
    schema = add_column(schema, pa.field("word", pa.string(), nullable=False), "none")
    firm = pa.struct([pa.field("y", pa.int8(), nullable=False)])
    return add_column(add_column(schema, pa.field("later", pa.list_(pa.int64()))), pa.field("firm", firm))


def by_bytes(rows, written, now):
    return back(encode_body([Chunk(0, fitted(rows, written))], written), now).chunk.rows


@pytest.mark.parametrize("way", [by_bytes, adapt])
def test_older_rows__of_changed_columns__are_as_the_table_has_them(way):
    now = evolved(OLD)

    found = way(OLD_ROWS, OLD, now)

    assert found.schema.equals(chunk_schema(now))
    assert found.to_pydict() == {
        "id": [1, -2],
        "s": [200, None],
        "x": [float(np.float32(0.1)), None],
        "d": OLD_ROWS.column("d").to_pylist(),
        "parts": [{"a": 1}, None],
        "word": ["none", "none"],
        "later": [None, None],
        "firm": [None, None],
    }
    assert found.column("firm").chunk(0).field(0).null_count == 0


@pytest.mark.parametrize("way", [by_bytes, adapt])
def test_older_rows__read_under_a_schema_that_they_can_not_have__are_refused(way):
    narrow = make_schema(pa.schema([("id", pa.int32()), ("n", pa.int8())]), "id")
    wide = widen_column(narrow, "n", pa.int64())
    rows = pa.table({"id": pa.array([1], pa.int32()), "n": pa.array([2**40], pa.int64())})

    with pytest.raises((CorruptionError, InvalidInputError), match="'n'"):
        way(rows, wide, narrow)


@pytest.mark.parametrize("way", [by_bytes, adapt])
def test_older_rows__without_a_column_that_is_never_null__are_refused(way):
    now = make_schema(pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int8(), nullable=False)]), "id")
    less = drop_column(now, "n")

    with pytest.raises((CorruptionError, InvalidInputError), match="'n'"):
        way(pa.table({"id": pa.array([1], pa.int64())}), less, now)


def test_decode_body__a_part_has_another_name_now__is_found_by_its_id():
    schema = make_schema(pa.schema([("p", pa.struct([("a", pa.int8()), ("b", pa.string())]))]), None)
    column = schema.fields[0]
    parts = tuple(msgspec.structs.replace(one, name=f"new {one.name}") for one in column.children)
    now = msgspec.structs.replace(schema, fields=(msgspec.structs.replace(column, children=parts),))
    rows = pa.table({"p": pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int8()), ("b", pa.string())]))})

    assert by_bytes(rows, schema, now).column("p").to_pylist() == [{"new a": 1, "new b": "x"}]


def test_decode_body__columns_that_came_later__are_left_out():
    now = add_column(KEYED, pa.field("later", pa.int8()))
    rows = rows_of([1]).append_column("later", pa.array([5], pa.int8()))

    same_rows(by_bytes(rows, now, KEYED), rows_of([1]))
