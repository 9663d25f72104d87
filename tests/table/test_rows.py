"""Rows from anything a user may have: what is accepted, how it is cut, and what a stream's errors say."""

from __future__ import annotations

import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from siltstone.errors import InvalidInputError, LimitExceededError, SchemaMismatchError
from siltstone.table.evolve import add_column
from siltstone.table.rows import batches
from siltstone.table.rows_split import CHUNK_BYTES, ROWS_PER_CHUNK, VALUE_BYTES_MAX, value_bytes
from siltstone.table.schema import arrow_schema, make_schema

SCHEMA = make_schema(pa.schema([("id", pa.int64()), ("name", pa.string())]), None)
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": None, "name": "\U0001f600\0"}]
TABLE = pa.Table.from_pylist(ROWS, schema=arrow_schema(SCHEMA))


def read(data, schema=SCHEMA):
    """All chunks, checked to be what the table's writers may rely on."""
    chunks = list(batches(data, schema))
    for chunk in chunks:
        assert isinstance(chunk, pa.Table)
        assert chunk.schema.equals(arrow_schema(schema), check_metadata=True)
        assert 0 < chunk.num_rows <= ROWS_PER_CHUNK
        assert all(column.num_chunks == 1 for column in chunk.columns)
        chunk.validate(full=True)
    return chunks


def rows(data, schema=SCHEMA):
    return [row for chunk in read(data, schema) for row in chunk.to_pylist()]


class Capsule:
    """Something that speaks Arrow's C interface and nothing else."""

    def __init__(self, table, *, array=False):
        if array:
            self.__arrow_c_array__ = table.to_batches()[0].__arrow_c_array__
        else:
            self.__arrow_c_stream__ = table.__arrow_c_stream__


def dataset(tmp_path):
    for number in range(3):
        pq.write_table(TABLE.slice(number, 1), tmp_path / f"{number}.parquet")
    return ds.dataset(tmp_path)


SOURCES = {
    "Table": lambda _: TABLE,
    "Table of many chunks": lambda _: pa.Table.from_batches(TABLE.to_batches(max_chunksize=1)),
    "RecordBatch": lambda _: TABLE.to_batches()[0],
    "RecordBatchReader": lambda _: TABLE.to_reader(max_chunksize=1),
    "Dataset": dataset,
    "Scanner": lambda path: dataset(path).scanner(),
    "in-memory Dataset": lambda _: ds.dataset(TABLE),
    "stream capsule": lambda _: Capsule(TABLE),
    "array capsule": lambda _: Capsule(TABLE, array=True),
    "StructArray": lambda _: TABLE.to_struct_array().combine_chunks(),
    "polars": lambda _: pl.from_arrow(TABLE),
    "duckdb": lambda _: duckdb.from_arrow(TABLE),
    "pandas": lambda _: pd.DataFrame({"id": pd.array([1, 2, None], "Int64"), "name": ["a", None, "\U0001f600\0"]}),
    "pandas with arrow types": lambda _: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "list of dicts": lambda _: ROWS,
    "tuple of dicts": lambda _: tuple(ROWS),
    "generator of dicts": lambda _: (row for row in ROWS),
    "dict of lists": lambda _: TABLE.to_pydict(),
    "dict of arrays": lambda _: {"name": TABLE["name"], "id": TABLE["id"].chunk(0)},
    "dict of series": lambda _: {
        "name": pl.Series(["a", None, "\U0001f600\0"]),
        "id": pd.Series([1, 2, None], dtype=object),
    },
    "list of batches": lambda _: TABLE.to_batches(max_chunksize=2),
    "generator of tables": lambda _: (TABLE.slice(number, 1) for number in range(3)),
    "generator of lists of dicts": lambda _: (ROWS[number : number + 1] for number in range(3)),
    "generator of all kinds": lambda _: iter([ROWS[0], pl.from_arrow(TABLE.slice(1, 1)), [ROWS[2]]]),
    "columns in another order": lambda _: TABLE.select(["name", "id"]),
    "dict rows in another order": lambda _: [dict(reversed(row.items())) for row in ROWS],
    "sliced": lambda _: pa.concat_tables([TABLE, TABLE, TABLE]).combine_chunks().slice(3, 3),
}


@pytest.mark.parametrize("source", SOURCES)
def test_batches__of_each_kind_of_input__gives_the_rows(source, tmp_path):
    assert rows(SOURCES[source](tmp_path)) == ROWS


@pytest.mark.parametrize(
    "empty",
    [
        TABLE.slice(0, 0),
        TABLE.to_batches()[0].slice(0, 0),
        pa.RecordBatchReader.from_batches(TABLE.schema, []),
        [],
        (),
        iter([]),
        [TABLE.slice(0, 0), []],
        {"id": [], "name": []},
        {"id": np.array([]), "name": np.array([], dtype=object)},
        pd.DataFrame(columns=["id", "name"]),
        pl.DataFrame(schema={"id": pl.Int64, "name": pl.String}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_batches__of_nothing__gives_no_chunk(empty):
    assert read(empty) == []


@pytest.mark.parametrize(
    "data", [None, 7, "rows.csv", b"rows", pl.LazyFrame(), object()], ids=lambda one: type(one).__name__
)
def test_batches__of_what_has_no_rows__says_what_is_accepted(data):
    with pytest.raises(InvalidInputError, match=rf"'{type(data).__name__}'.*pass a pyarrow Table.*list of dicts"):
        read(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([ROWS[0], 7], "the data has something of the type 'int' at row 1"),
        ([[ROWS[0], 7]], "batch 1 of the data has something of the type 'int' at row 1"),
        (["id", "name"], "something of the type 'str' at row 0"),
        ([[[ROWS[0]]]], "batch 1 of the data has something of the type 'list' at row 0"),
        (pa.array([1, 2]), "'Int64Array' has no rows"),
        (pa.chunked_array([[1]]), "'ChunkedArray' has no rows"),
    ],
)
def test_batches__with_something_else_inside__names_it(data, words):
    with pytest.raises(InvalidInputError, match="pass a pyarrow Table") as caught:
        read(data)
    assert words in str(caught.value)


def test_batches__generator_raises__its_exception_is_unchanged():
    class MineError(Exception):
        pass

    mine = MineError("boom")

    def generate():
        yield TABLE
        raise mine

    with pytest.raises(MineError) as caught:
        read(generate())
    assert caught.value is mine
    batch = TABLE.to_batches()[0]
    for error in (mine, OSError("disk")):

        def behind(error=error):
            yield batch
            raise error

        with pytest.raises(type(error), match=r"boom|disk"):
            read(pa.RecordBatchReader.from_batches(TABLE.schema, behind()))


@pytest.mark.parametrize("how", ["generator", "reader", "list"])
def test_batches__third_batch_has_another_schema__is_named(how):
    good, bad = TABLE.to_batches()[0], pa.record_batch({"id": ["x"], "name": ["y"]})
    parts = [good, good, bad]
    data = {
        "generator": lambda: (one for one in parts),
        "reader": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, iter(parts)),
        "list": lambda: parts,
    }[how]()
    found = []
    with pytest.raises(SchemaMismatchError, match="batch 3: column 'id' is string, and int64 in the table"):
        found.extend(batches(data, SCHEMA))
    assert sum(chunk.num_rows for chunk in found) == 6


def test_batches__broken_source__is_wrapped(tmp_path):
    source = dataset(tmp_path)
    (tmp_path / "1.parquet").write_bytes(b"PAR1 not any more")
    with pytest.raises(InvalidInputError, match=r"it can't be read.*check where the data comes from"):
        read(source)
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(InvalidInputError, match="it can't be read"):
        read(source)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (TABLE.drop_columns(["name"]), ["lack 'name'", "expected 'id', 'name', got 'id'", "give None"]),
        (TABLE.append_column("x", TABLE["id"]), ["have 'x', which the table has not", "add_column"]),
        (TABLE.rename_columns(["ID", "name"]), ["lack 'id' and have 'ID'", "got 'ID', 'name'"]),
        (pa.Table.from_arrays([TABLE["id"]] * 2, names=["id", "id"]), ["two columns have the name 'id'"]),
        (pd.DataFrame({"id": [1]}), ["lack 'name'"]),
        (pd.DataFrame([[1, "a"]]), ["the name 0, which is no string"]),
        (pd.DataFrame([[1, "a", "b"]], columns=["id", "name", "name"]), ["two columns have the name 'name'"]),
        ({"id": [1]}, ["lack 'name'"]),
        ({"id": [1], "name": ["a"], 3: [1]}, ["the name 3, which is no string"]),
        ({}, ["lack 'id', 'name'", "got none"]),
        (pl.DataFrame(), ["lack 'id', 'name'"]),
        (pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), []), ["lack 'name'"]),
        ({"id": [1, 2], "name": ["a"]}, ["'name' has 1 values, and 'id' has 2"]),
        ({"id": 1, "name": ["a"]}, ["'id' is of the type 'int', not a list of values"]),
        ({"id": 1, "name": "a"}, ["one row? put it in a list"]),
        ({"id": None, "name": "a"}, ["one row? put it in a list"]),
        ({"id": np.array(1), "name": ["a"]}, ["'id' is of the type 'int'"]),
        ({"id": "12", "name": ["a"]}, ["'id' is of the type 'str'"]),
        ([ROWS[0], {"id": 2}], ["row 1 (counting from 0): it lacks 'name'", "give None"]),
        ([ROWS[0], {**ROWS[0], "z": 2}], ["row 1", "has 'z', which is not in the table", "add_column"]),
        ([ROWS[0], {"id": 1, "Name": "a"}], ["row 1", "lacks 'name' and it has 'Name'"]),
        ([ROWS[0], {1: 2}], ["row 1", "lacks 'id' and it has 1"]),
    ],
)
def test_batches__other_columns__are_refused_with_expected_and_got(data, words):
    with pytest.raises(SchemaMismatchError) as caught:
        read(data)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_batches__many_columns_missing__lists_the_first_five():
    wide = make_schema(pa.schema([(f"c{number}", pa.int8()) for number in range(9)]), None)
    with pytest.raises(SchemaMismatchError, match="lack 'c0', 'c1', 'c2', 'c3', 'c4' and 4 more"):
        read(pa.table({"x": [1]}), wide)


@pytest.mark.parametrize(
    "data", [TABLE, ROWS, TABLE.to_pydict(), pl.from_arrow(TABLE)], ids=lambda one: type(one).__name__
)
def test_batches__column_with_a_default_is_missing__is_filled(data):
    schema = add_column(SCHEMA, pa.field("level", pa.int8(), nullable=False), default=7)
    assert rows(data, schema) == [{**row, "level": 7} for row in ROWS]


def test_batches__some_dicts_lack_a_column_with_a_default__only_they_are_filled():
    schema = add_column(SCHEMA, pa.field("level", pa.int8()), default=7)
    assert [row["level"] for row in rows([{**ROWS[0], "level": None}, ROWS[1]], schema)] == [None, 7]


def test_batches__frame_with_an_index__uses_it_only_for_a_column_it_lacks():
    named = pd.DataFrame({"name": ["a"]}, index=pd.Index([5], name="id"))
    assert rows(named) == [{"id": 5, "name": "a"}]
    both = pd.DataFrame({"name": ["a"], "id": [1]}, index=pd.Index([5], name="id"))
    assert rows(both) == [{"id": 1, "name": "a"}]
    other = pd.DataFrame({"name": ["a"], "id": [1]}, index=pd.Index([5], name="x"))
    assert rows(other) == [{"id": 1, "name": "a"}]
    levels = pd.DataFrame({"x": [0]}, index=pd.MultiIndex.from_tuples([(5, "a")], names=["id", "name"]))
    assert rows(levels.drop(columns="x")) == [{"id": 5, "name": "a"}]


def test_batches__long_input__comes_in_bounded_chunks_in_order():
    count = 2 * ROWS_PER_CHUNK + 5
    table = pa.table({"id": pa.array(np.arange(count)), "name": pa.nulls(count, pa.string())})
    for data in (table, table.to_reader(), table.to_pandas(), [table, table.slice(0, 1)]):
        chunks = read(data)
        assert np.array_equal(pa.concat_tables(chunks)["id"].to_numpy()[:count], np.arange(count))


def test_batches__small_chunks_of_one_table__are_joined():
    many = pa.Table.from_batches(pa.concat_tables([TABLE] * 500).to_batches(max_chunksize=1))
    assert [chunk.num_rows for chunk in read(many)] == [1500]


def test_batches__endless_generator__is_read_as_far_as_asked():
    def endless():
        while True:
            yield {"id": 1, "name": "x"}

    stream = batches(endless(), SCHEMA)
    assert sum(next(stream).num_rows for _ in range(8)) > ROWS_PER_CHUNK


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_batches__large_values__cut_the_chunks_by_bytes(kind):
    table = pa.table({"id": pa.array(range(20)), "name": pa.array(["x" * (8 * 2**20)] * 20, kind)})
    chunks = read(table)
    assert len(chunks) >= 3
    assert max(chunk.nbytes for chunk in chunks) <= CHUNK_BYTES * 1.01
    assert pa.concat_tables(chunks)["id"].to_pylist() == list(range(20))


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()], ids=str)
def test_batches__dictionary_that_grows_when_decoded__stays_bounded(kind):
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int8)), pa.array(["x" * 2**20], kind))
    stream = batches(pa.table({"id": pa.array(range(1000)), "name": values}), SCHEMA)
    assert all(next(stream).nbytes <= CHUNK_BYTES * 1.01 for _ in range(3))


def test_batches__views_of_one_buffer__stay_bounded():
    text = pa.array([b"x" * 2**20], pa.binary_view())
    view = np.frombuffer(text.buffers()[1], np.uint8)
    shared = pa.Array.from_buffers(
        pa.binary_view(), 1000, [None, pa.py_buffer(np.tile(view, 1000)), *text.buffers()[2:]]
    )
    schema = make_schema(pa.schema([("b", pa.binary())]), None)
    stream = batches(pa.table({"b": shared}), schema)
    assert all(next(stream).nbytes <= CHUNK_BYTES * 1.01 for _ in range(3))


@pytest.mark.parametrize("make", ["string", "list of dicts", "dictionary", "nested"])
def test_batches__value_over_the_limit__names_column_and_row(make):
    long = "x" * (VALUE_BYTES_MAX + 1)
    schema = SCHEMA
    if make == "nested":
        schema = make_schema(pa.schema([("id", pa.int64()), ("name", pa.list_(pa.string()))]), None)
        data = pa.table({"id": [1, 2], "name": pa.array([["a"], ["x" * 2**20] * 65])})
    else:
        data = pa.table({"id": [1, 2], "name": pa.array(["a", long])})
        if make == "dictionary":
            data = data.set_column(1, "name", data["name"].dictionary_encode())
        if make == "list of dicts":
            data = data.to_pylist()
    with pytest.raises(LimitExceededError, match=rf"column 'name'.*row 1, counting from 0, over the limit of {2**26}"):
        read([TABLE.slice(0, 0), data] if make == "string" else data, schema)


def test_batches__value_at_the_limit__is_accepted():
    data = pa.table({"id": [1], "name": ["x" * VALUE_BYTES_MAX]})
    assert read(data)[0]["name"][0].as_buffer().size == VALUE_BYTES_MAX


def test_value_bytes__of_each_layout__are_those_of_the_decoded_values():
    texts = ["", "abc", None, "\u00e9" * 20]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        array = pa.array(["zz", *texts], kind).slice(1)
        assert value_bytes(array).tolist() == [0, 3, 0, 40]
    assert value_bytes(pa.array(["zz", *texts]).dictionary_encode().slice(1)).tolist() == [0, 3, 0, 40]
    assert value_bytes(pa.array([["abc", "d"], None, []])).tolist() == [5, 1, 1]
    assert value_bytes(pa.array([[1, 2], None], pa.list_(pa.int32(), 2))).tolist() == [9, 1]
    assert value_bytes(pa.array([{"a": 1, "b": "xyz"}, None])).tolist() == [11, 8]
    assert value_bytes(pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8()))).tolist() == [3, 1]


def test_batches__of_arrow_input__imports_neither_pandas_nor_datasets():
    # pyarrow itself imports pandas to make an array or a scalar of Python values, so there are none here.
    code = (
        "import sys, pyarrow as pa\n"
        "from siltstone.table.rows import batches\n"
        "from siltstone.table.schema import make_schema\n"
        "schema = make_schema(pa.schema([('a', pa.int64()), ('b', pa.int64())]), None)\n"
        "table = pa.table([pa.nulls(2, pa.int64()), pa.nulls(2, pa.int32())], names=['a', 'b'])\n"
        "before = set(sys.modules)\n"
        "assert sum(chunk.num_rows for chunk in batches([table, table.to_reader()], schema)) == 4\n"
        "print(sorted({'pandas', 'polars', 'pyarrow.dataset'} & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
