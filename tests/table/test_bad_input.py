"""Rows that do not fit are refused by column and row, places that hold no table are told; nothing is written."""

from __future__ import annotations

import datetime as dt
import decimal
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bad_tables import (
    NO_SETTINGS,
    NO_TYPE,
    NOT_TEXT,
    QUICK,
    SCHEMA,
    SECRET,
    check_works,
    new_table,
    print_of,
    refused,
    row,
    store_of,
    told,
)
from siltstone.api import create_table, open_table
from siltstone.errors import (
    AlreadyExistsError,
    DuplicateKeyError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    SchemaMismatchError,
    UnsupportedTypeError,
)
from siltstone.store.connect import open_store


@pytest.fixture
def table():
    return new_table()


# -- rows ------------------------------------------------------------------------------------------

ROWS = pa.Table.from_pylist([row(100), row(101)], schema=SCHEMA)


def with_column(name, array):
    return ROWS.set_column(SCHEMA.get_field_index(name), name, array)


def raw(kind, *buffers):
    """An array of two values that pyarrow has not looked at."""
    return pa.Array.from_buffers(kind, 2, [None, *(pa.py_buffer(one) for one in buffers)])


def offsets(*numbers):
    return np.array(numbers, np.int32)


def late_schema():
    yield ROWS.slice(0, 1)
    yield ROWS.slice(1)
    yield ROWS.select(["id"])


def huge(**values):
    return [row(100), row(101, **values)]


NO_ROWS = {
    "none": (None, InvalidInputError, "type 'NoneType'"),
    "number": (7, InvalidInputError, "type 'int'"),
    "large number": (10**5000, InvalidInputError, "type 'int'"),
    "text": ("rows.csv", InvalidInputError, "type 'str'"),
    "bytes": (b"x", InvalidInputError, "type 'bytes'"),
    "object": (object(), InvalidInputError, "type 'object'"),
    "class": (dict, InvalidInputError, "type 'type'"),
    "list of numbers": ([1], InvalidInputError, "'int' at row 0"),
    "list of none": ([row(100), None], InvalidInputError, "'NoneType' at row 1"),
    "nested lists": ([[[row(100)]]], InvalidInputError, "batch 1"),
    "dict of values": (row(100), SchemaMismatchError, "'id' is of the type 'int'"),
    "dict of texts": (dict.fromkeys(SCHEMA.names, "abc"), SchemaMismatchError, "not a list"),
    "dict of lengths": ({name: [1] for name in SCHEMA.names} | {"n": [1, 2]}, SchemaMismatchError, "'n' has 2 values"),
    "dict of odd names": ({10**5000: [1]}, SchemaMismatchError, "no string"),
    "rows with odd names": ([{10**5000: 1}], SchemaMismatchError, "row 0.*lacks"),
    "column missing": ([row(100), {"id": 101}], SchemaMismatchError, "row 1.*lacks 'at'"),
    "column extra": ([row(100, zzz=1)], SchemaMismatchError, "row 0.*'zzz'.*add_column"),
    "column in another case": ([{"ID": 1}], SchemaMismatchError, "lacks"),
    "null key": (huge(id=None), SchemaMismatchError, "'id', row 1.*null in a key"),
    "null key in a column": (with_column("id", pa.array([5, None])), SchemaMismatchError, "'id', row 1.*null"),
    "key that is there": ([row(100), row(1)], DuplicateKeyError, "already.*upsert"),
    "key twice": ([row(100), row(100)], DuplicateKeyError, "twice.*100"),
    "key twice in two batches": ([ROWS, ROWS], DuplicateKeyError, "twice"),
    "key of another type": (huge(id=1.0), SchemaMismatchError, "'id', row 1.*float"),
    "key that is true": (huge(id=True), SchemaMismatchError, "'id', row 1.*bool"),
    "number too large": (huge(n=2**31), SchemaMismatchError, "'n', row 1.*2147483648"),
    "number far too large": (huge(n=10**5000), SchemaMismatchError, "'n', row 1"),
    "float too large": (huge(x=10**5000), SchemaMismatchError, "'x', row 1"),
    "number as text": (huge(n="5"), SchemaMismatchError, "'n', row 1.*str"),
    "text as bytes": (huge(text=b"x"), SchemaMismatchError, "'text', row 1.*bytes"),
    "lone surrogate": (huge(text="\ud800"), SchemaMismatchError, "'text', row 1"),
    "time without a zone": (huge(at=dt.datetime(2020, 1, 1)), SchemaMismatchError, "'at', row 1.*no time zone"),  # noqa: DTZ001
    "time as text": (huge(at="2020-01-01"), SchemaMismatchError, "'at', row 1.*str"),
    "decimal too large": (huge(price=decimal.Decimal("123456789012.12")), SchemaMismatchError, "'price', row 1"),
    "decimal too fine": (huge(price=decimal.Decimal("1.234")), SchemaMismatchError, "'price', row 1"),
    "decimal not a number": (huge(price=decimal.Decimal("NaN")), SchemaMismatchError, "'price', row 1"),
    "decimal as float": (huge(price=1.5), SchemaMismatchError, "'price', row 1.*float"),
    "table lacks columns": (ROWS.select(["id"]), SchemaMismatchError, "lack 'text'.*expected.*got 'id'"),
    "table has more": (ROWS.append_column("zz", pa.array([1, 2])), SchemaMismatchError, "'zz'.*add"),
    "table has one twice": (ROWS.append_column("text", pa.array(["a", "b"])), SchemaMismatchError, "two columns"),
    "table without columns": (pa.table({}), SchemaMismatchError, "lack"),
    "texts for numbers": (with_column("n", pa.array(["1", "2"])), SchemaMismatchError, "'n' is string"),
    "wider numbers": (with_column("n", pa.array([1, 2])), SchemaMismatchError, "'n' is int64.*widen"),
    "times without a zone": (with_column("at", pa.array([1, 2], pa.timestamp("us"))), SchemaMismatchError, "UTC"),
    "finer times": (with_column("at", pa.array([0, 1], pa.timestamp("ns", "UTC"))), SchemaMismatchError, "row 1"),
    "times that overflow": (
        with_column("at", pa.array([0, 2**62], pa.timestamp("s", "UTC"))),
        SchemaMismatchError,
        "row 1",
    ),
    "wider decimals": (
        with_column("price", pa.array([1, decimal.Decimal("123456789012.12")], pa.decimal128(38, 2))),
        SchemaMismatchError,
        "row 1",
    ),
    "run ends": (with_column("n", pa.RunEndEncodedArray.from_arrays([2], [1])), SchemaMismatchError, "run_end"),
    "list view": (with_column("n", pa.array([[1], []], pa.list_view(pa.int8()))), SchemaMismatchError, "list_view"),
    "extension": (with_column("text", pa.array([b"0" * 16] * 2, pa.uuid())), UnsupportedTypeError, "storage type"),
    "invalid UTF-8": (
        with_column("text", raw(pa.string(), offsets(0, 2, 4), b"ab\xff\xfe")),
        InvalidInputError,
        "'text', row 1.*UTF-8",
    ),
    "broken offsets": (
        with_column("text", raw(pa.string(), offsets(0, 99, 5), b"hello")),
        InvalidInputError,
        "'text'.*not a valid Arrow array",
    ),
    "broken dictionary": (
        with_column("text", pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a"]), safe=False)),
        InvalidInputError,
        "'text'.*not a valid Arrow array",
    ),
    "large value": (huge(text="x" * (65 << 20)), LimitExceededError, "'text'.*row 1"),
    "mixed frame": (pd.DataFrame([row(100, text=1), row(101)]), SchemaMismatchError, "'text', row 0"),
    "empty frame": (pd.DataFrame(), SchemaMismatchError, "lack"),
}


@pytest.mark.parametrize("name", NO_ROWS)
@pytest.mark.parametrize("call", ["append", "upsert", "overwrite"])
def test_append__rows_that_do_not_fit__are_refused_by_column_and_row(table, call, name):
    data, kind, words = NO_ROWS[name]
    if kind is DuplicateKeyError and (call == "upsert" or (call == "overwrite" and "already" in words)):
        getattr(table, call)(data)
        check_works(table)
        return
    with refused(table, kind, match=words):
        getattr(table, call)(data)
    with table.transaction() as transaction:
        transaction.delete("id = 0")
        if "already" not in words:  # which keys are there counts at the end
            with told(kind, match=words):
                getattr(transaction, call)(data)
    assert transaction.result.deleted == 1


def test_append__a_later_batch_has_other_columns__names_the_batch(table):
    for call in (table.append, table.upsert, table.overwrite):
        with refused(table, SchemaMismatchError, match="batch 3"):
            call(late_schema())


class MineError(Exception):
    """Not one of siltstone's."""


def broken():
    yield ROWS
    raise MineError


@pytest.mark.parametrize("call", ["append", "upsert", "overwrite"])
def test_append__generator_raises__the_error_is_the_users_and_nothing_is_committed(table, call):
    before = print_of(store_of(table))
    with pytest.raises(MineError):
        getattr(table, call)(broken())
    assert print_of(store_of(table)) == before
    check_works(table)


@pytest.mark.parametrize(
    "data",
    [SCHEMA.empty_table(), [], (), iter([]), {name: [] for name in SCHEMA.names}],
    ids=["table", "list", "tuple", "iterator", "dict"],
)
def test_append__no_rows__makes_no_version(table, data):
    before = print_of(store_of(table))
    for call in (table.append, table.upsert):
        done = call(data)
        assert (done.version, done.operation, done.inserted) == (table.version, "none", 0)
    assert print_of(store_of(table)) == before


class Once:
    """Can be iterated over, and gives its batches once."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return self._batches


def test_append__columns_change_while_a_stream_is_read__no_batch_is_left_out(table):
    wider = ROWS.append_column("new", pa.array(["a", "b"]))

    def batches():
        yield ROWS
        open_table(store_of(table), env=QUICK).add_column("new", pa.string())
        yield wider.set_column(0, SCHEMA.field(0), pa.array([200, 201]))
        yield wider.set_column(0, SCHEMA.field(0), pa.array([300, 301]))

    count = table.count()
    with told(SchemaMismatchError, match="batch 2.*'new'"):
        table.append(Once(batches()))
    assert table.count() == count
    assert table.schema.names[-1] == "new"


def test_append__values_at_the_edge__come_back_as_they_are(table):
    rows = [
        row(100, x=float("inf"), text="a\0b"),
        row(101, x=-0.0, text="\u202e\U0001f600"),
        row(102, x=float("-inf"), at=dt.datetime(1, 1, 1, tzinfo=dt.UTC), price=decimal.Decimal("-99999999.99")),
        row(-(2**63), n=-(2**31), at=dt.datetime(9999, 12, 31, tzinfo=dt.UTC)),
        row(2**63 - 1, n=2**31 - 1),
    ]
    table.append(pa.Table.from_pylist([row(1), *rows], schema=SCHEMA).slice(1))
    assert table.get([one["id"] for one in rows]).to_pylist() == rows


# -- creating and opening --------------------------------------------------------------------------


def anywhere():
    return f"memory://{os.urandom(6).hex()}"


def two_columns(name, other):
    return pa.schema([(name, pa.int64()), (other, pa.int64())])


def deep(levels):
    kind = pa.int8()
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


NAMES = ["a", "A", "", " ", "_rowid", "_siltstone_x", "x" * 129, "b\0c", "b\nc", "e\u0301"]
CREATE = {
    "schema": [None, 7, "x", [("id", pa.int64())], {"id": pa.int64()}, pa.schema([]), SCHEMA.field(0)],
    "names": [two_columns("a", name) for name in NAMES],
    "types": [pa.schema([("a", kind)]) for kind in (*NO_TYPE, deep(40)) if isinstance(kind, pa.DataType)],
    "width": [pa.schema([(f"c{number}", pa.int8()) for number in range(5_001)])],
}


@pytest.mark.parametrize("what", CREATE)
def test_create__columns_that_can_not_be__are_refused_and_nothing_is_made(what):
    for schema in CREATE[what]:
        place = anywhere()
        with told(InvalidInputError):
            create_table(place, schema=schema)
        assert list(open_store(place).list()) == []


NO_KEY = [
    *(7, 1.5, b"id", [], (), {}, {"id"}, Ellipsis, True, 10**5000, [10**5000], ["id", 7], ["id", "id"]),
    *("", "nope", "ID", "\ud800", "x" * 5000, "x", ["id", "x"]),
]
OPTIONS = [
    *({"key": bad} for bad in NO_KEY),
    *({"exist_ok": bad} for bad in [None, 1, "yes", [], 10**5000]),
    *({"settings": bad} for bad in NO_SETTINGS if bad is not None),
    *({"commits": bad} for bad in [7, b"x", [], "", f"nosuch://user:{SECRET}@host/x"]),
]


def test_create__an_option_is_wrong__is_refused_and_nothing_is_made():
    for options in OPTIONS:
        place = anywhere()
        with told(InvalidInputError):
            create_table(place, schema=SCHEMA, **options)
        assert list(open_store(place).list()) == [], list(options)


NO_URI = [
    *(None, *NOT_TEXT[:-1], "", "  ", "a\0b", "a\nb", "ftp://host/x", "s3://"),
    *(f"s3://user:{SECRET}@bucket/x", f"s3://bucket/x?secret={SECRET}", f"http://[{SECRET}"),
]


@pytest.mark.parametrize("call", [open_table, lambda uri: create_table(uri, schema=SCHEMA)], ids=["open", "create"])
@pytest.mark.parametrize("uri", NO_URI, ids=lambda uri: ascii(uri)[:20])
def test_open__uri_is_none__is_refused_and_shows_no_secret(call, uri):
    with pytest.raises(InvalidInputError, match="URI") as caught:
        call(uri)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.facts}"


def test_open__nothing_there__is_told_with_how_to_make_one(tmp_path):
    with told(NotFoundError, match=r"no table at .*siltstone\.create"):
        open_table(anywhere())
    (tmp_path / "notes.txt").write_text("mine")
    with told(NotFoundError, match=r"other objects are there, such as 'notes\.txt'"):
        open_table(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_create__table_there__is_refused_or_opened_where_it_is_the_same(table):
    store = table._log.store
    with refused(table, AlreadyExistsError, match=r"already.*exist_ok"):
        create_table(store, schema=SCHEMA, key="id", env=QUICK)
    assert create_table(store, schema=SCHEMA, key="id", exist_ok=True, env=QUICK).version == table.version
    for schema, key in ((SCHEMA, None), (SCHEMA, ["id", "n"]), (two_columns("id", "b"), "id")):
        with refused(table, AlreadyExistsError, match="other columns or another key"):
            create_table(store, schema=schema, key=key, exist_ok=True, env=QUICK)


def test_open__a_version_or_tag_that_is_not_there__is_told_with_those_that_are(table):
    table.tag("first", version=1)
    for options, words in (
        ({"version": 99}, r"no version 99.*newest version is 4"),
        ({"tag": "frist"}, r"no tag 'frist'.*first"),
        ({"version": 1, "tag": "first"}, "are given"),
    ):
        with refused(table, InvalidInputError, NotFoundError, match=words):
            open_table(table._log.store, env=QUICK, **options)


def test_open__uri_written_in_other_ways__is_the_same_table(tmp_path):
    create_table(tmp_path / "t", schema=SCHEMA).append([row(1)])
    for uri in (f"{tmp_path}/t/", f"{tmp_path}//t", f"{tmp_path}/./t", f"{tmp_path}/x/../t", f"file://{tmp_path}/t/"):
        assert open_table(uri).count() == 1
