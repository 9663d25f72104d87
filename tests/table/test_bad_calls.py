"""A wrong argument of a table's call is refused, with what is accepted; the table stays as it was and goes on."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from bad_tables import BAD_TEXT, NO_COUNT, NO_SETTINGS, NO_TYPE, NOT_TEXT, check_each, new_table, refused, row, told
from siltstone.errors import ClosedError, InvalidInputError, NotFoundError


@pytest.fixture
def table():
    return new_table()


NO_VERSION = [*NO_COUNT, 99, ["1"], np.float64(1)]
NO_MOMENT = [
    *(1.5, True, b"1", [], float("nan"), "1", "nope", "", "\ud800", "a\0b", "x" * 5000, dt.date(2020, 1, 1)),
    *(0, -1, -(10**5000), "0001-01-01", dt.datetime.min.replace(tzinfo=dt.UTC), np.datetime64("2020-01-01")),
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
]
NO_TAG = [*NOT_TEXT, *BAD_TEXT, "nope", "../x", "a\\b", "%2e%2e", "e\u0301", "\u200e", "-x", "7", " main"]
NO_COLUMNS = [
    *("id", b"id", 7, True, Ellipsis, [], (), [7], [None], [["id"]], [{}], [b"id"], [10**5000]),
    *(["nope"], ["ID"], [""], ["id", "id"], ["\ud800"], ["x" * 5000], ["id", "a\0b"]),
]
NO_CONDITION = [
    *(7, 1.5, b"id = 1", [], {}, Ellipsis, True, 10**5000),
    *BAD_TEXT,
    # No SQL, or not one condition.
    *("id = ", "text = 'open", "id", "1", "select 1", "1; drop table x", "* ", "(a+)+$", "/* open", "id = ?"),
    # Columns and functions that are not there, or are about more than a row.
    *("nope = 1", "ID = 1", "__import__('os')", "count(id) > 1", "id in (select 1)", "row_number() over () = 1"),
    *("random() < 1", "now() > at"),
    # Values that can't be computed.
    *("id/0 = 1", "id = 'x'", "text = 5"),
    # Large ones.
    *("(" * 1000, "not " * 100 + "true", "id = 1 or " * 7000 + "true", f"id in ({','.join(map(str, range(20_000)))})"),
]
NO_VALUES = [
    *(None, 7, "x", b"n", [("n", "1")], {}, {"n"}, {7: "1"}, {None: "1"}, {10**5000: "1"}, {b"n": "1"}),
    *({"n": value} for value in [7, None, b"1", "", "\ud800", "nope", "1; drop", "9999999999", "n/0", "'x'", "1.5"]),
    *({"n": value} for value in ["(select 1)", "count(id)", "n + 2147483647", "(" * 500]),
    *({"": "1"}, {"nope": "1"}, {"N": "1"}, {"\ud800": "1"}, {"x" * 5000: "1"}, {"id": "id + 1"}, {"text": "n"}),
    *({"price": "1.234"}, {"price": "123456789012.12"}, {"at": "'no time'"}, {"n": "1", "nope": "1"}),
]
NO_QUERY = [
    *(None, *NOT_TEXT, *BAD_TEXT),
    *("drop table t", "delete from t", "insert into t values (1)", "select 1; select 2", "set x = 1", "show tables"),
    *("copy (select 1) to 'x.csv'", "create external table x stored as csv location '/etc/passwd'"),
    *("select * from '/etc/passwd'", "select * from read_csv('x.csv')", "select * from information_schema.tables"),
    *("select * from nope", "select nope from t", "select 1/0", "select id/0 from t", "with", "explain", "values"),
    *(f"select {'(' * 500}1{')' * 500}", "select 'open", 'select "open'),
]
NO_NAME = [
    *(None, *NOT_TEXT, "", "  ", "a\0b", "a\nb", "\x1b[2J", "\ud800", "x" * 129, "e\u0301"),
    *("ID", "id", "TEXT", "_version", "_change", "_rowid", "_siltstone_x"),
]
NO_COLUMN = [None, *NOT_TEXT, *BAD_TEXT, "nope", "ID", "e\u0301"]
NO_KEYS = [
    *(None, 1.5, b"1", "1", Ellipsis, True, float("nan"), 2**63, -(2**63) - 1, 10**5000, object(), dt.date.max),
    *([None], [1, "x"], [1.0], [True], [[1]], [(1, 2)], [1, 10**5000], {}, {"nope": 1}, {1: 2}, {"id": None}),
    *({"id": [1, None]}, {"id": 1, "n": 1}, pa.array([1.5]), pa.array([None], pa.int64()), pa.array(["1"])),
    *(pa.table({"nope": [1]}), np.array([1.5]), np.array([[1]])),
]
NO_OP = [None, *NOT_TEXT, *BAD_TEXT, "A" * 32, "a" * 31, "../" + "a" * 29]
NO_DEFAULT = [300, -129, "1", 1.0, 1.5, True, [], b"1", object(), float("nan")]
NO_WIDER = [*NO_TYPE, pa.int8(), pa.uint64(), pa.string(), pa.float32(), pa.list_(pa.int64())]
NO_ONCE = [*NOT_TEXT, "", " ", "\ud800", "x" * 257]
NO_MESSAGE = [*NOT_TEXT, " ", "\ud800", "x" * 5000]
NO_FLAG = [None, 1, "yes", [], 10**5000]
MISSING = (InvalidInputError, NotFoundError)

CALLS = {
    "at.version": (lambda table, bad: table.at(version=bad), NO_VERSION, MISSING),
    "at.tag": (lambda table, bad: table.at(tag=bad), NO_TAG, MISSING),
    "at.timestamp": (lambda table, bad: table.at(timestamp=bad), NO_MOMENT, MISSING),
    "restore.version": (lambda table, bad: table.restore(version=bad), NO_VERSION, MISSING),
    "restore.tag": (lambda table, bad: table.restore(tag=bad), NO_TAG, MISSING),
    "restore.timestamp": (lambda table, bad: table.restore(timestamp=bad), NO_MOMENT, MISSING),
    "tag.name": (lambda table, bad: table.tag(bad), [None, *(one for one in NO_TAG if one != "nope")], ()),
    "tag.version": (lambda table, bad: table.tag("x", version=bad), NO_VERSION, MISSING),
    "untag": (lambda table, bad: table.untag(bad), [None, *NO_TAG], MISSING),
    "history": (lambda table, bad: table.history(bad), NO_COUNT, ()),
    "changes.since": (lambda table, bad: table.changes(bad), [None, *NO_VERSION], MISSING),
    "changes.until": (lambda table, bad: table.changes(0, bad), NO_VERSION, MISSING),
    "changes.columns": (lambda table, bad: table.changes(0, columns=bad).to_arrow(), NO_COLUMNS, ()),
    "scan.columns": (lambda table, bad: table.scan(bad).to_arrow(), NO_COLUMNS, ()),
    "scan.where": (lambda table, bad: table.scan(where=bad).to_arrow(), NO_CONDITION, ()),
    "scan.limit": (lambda table, bad: table.scan(limit=bad).to_arrow(), NO_COUNT, ()),
    "count.where": (lambda table, bad: table.count(bad), NO_CONDITION, ()),
    "get.keys": (lambda table, bad: table.get(bad), NO_KEYS, ()),
    "get.columns": (lambda table, bad: table.get(1, bad), NO_COLUMNS, ()),
    "sql.query": (lambda table, bad: table.sql(bad, t=table).to_arrow(), NO_QUERY, ()),
    "sql.other": (lambda table, bad: table.sql("select 1", other=bad), [None, *NOT_TEXT, "uri"], ()),
    "delete": (lambda table, bad: table.delete(bad), NO_CONDITION, ()),
    "update.values": (lambda table, bad: table.update(bad), NO_VALUES, ()),
    "update.where": (lambda table, bad: table.update({"n": "1"}, bad), NO_CONDITION, ()),
    "set": (lambda table, bad: table.set(bad), NO_SETTINGS, ()),
    "resolve": (lambda table, bad: table.resolve(bad), NO_OP, ()),
    "transaction.once": (lambda table, bad: table.transaction(once=bad), NO_ONCE, ()),
    "transaction.message": (
        lambda table, bad: table.transaction(message=bad),
        [*NOT_TEXT, " ", "\ud800", "x" * 5000],
        (),
    ),
    "add_column.name": (lambda table, bad: table.add_column(bad, pa.string()), NO_NAME, ()),
    "add_column.kind": (lambda table, bad: table.add_column("new", bad), NO_TYPE, ()),
    "add_column.default": (lambda table, bad: table.add_column("new", pa.int8(), default=bad), NO_DEFAULT, ()),
    "drop_column": (lambda table, bad: table.drop_column(bad), [*NO_COLUMN, "id"], ()),
    "rename_column.name": (lambda table, bad: table.rename_column(bad, "new"), NO_COLUMN, ()),
    "rename_column.to": (lambda table, bad: table.rename_column("n", bad), NO_NAME, ()),
    "widen_column.name": (lambda table, bad: table.widen_column(bad, pa.int64()), NO_COLUMN, ()),
    "widen_column.to": (lambda table, bad: table.widen_column("n", bad), NO_WIDER, ()),
    "widen_column.nullable": (
        lambda table, bad: table.widen_column("n", nullable=bad),
        [None, 1, "yes", [], 10**5000],
        (),
    ),
    "compact.progress": (lambda table, bad: table.compact(progress=bad), [7, "x", [], True, b"f"], ()),
}


@pytest.mark.parametrize("name", CALLS)
def test_call__an_argument_is_wrong__is_refused_and_the_table_goes_on(table, name):
    call, values, kinds = CALLS[name]
    check_each(table, lambda bad: call(table, bad), values, *kinds)


CHANGING = ("delete", "update", "set", "add_column", "drop_column", "rename_column", "widen_column")
OPERATIONS = {name: given for name, given in CALLS.items() if name.startswith(CHANGING)}
# What is found out only where the rows are read, and that is at the end.
LATE = {"id/0 = 1", "id = 'x'", "text = 5", "9999999999", "n/0", "1.5", "n + 2147483647", "1.234", "123456789012.12"}
LATE |= {"'no time'"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_transaction__an_argument_is_wrong__is_told_at_once_and_the_rest_is_applied(table, name):
    call, values, _ = OPERATIONS[name]
    count = table.count()
    with table.transaction() as transaction:
        transaction.append([row(100)])
        for bad in values:
            late = bad.values() if isinstance(bad, dict) else [bad]
            if any(isinstance(one, str) and one in LATE for one in late):
                continue  # needs the rows
            with told():
                call(transaction, bad)
        transaction.append([row(101)])
    assert transaction.result.inserted == 2
    assert table.count() == count + 2


def test_at__no_or_two_ways_to_name_a_version__are_refused(table):
    table.tag("a")
    for call in (table.at, table.restore):
        for names in ({}, {"version": 1, "tag": "a"}, {"tag": "a", "timestamp": "2100-01-01"}):
            with refused(table, match="version=, tag=, timestamp= and checkpoint="):
                call(**names)


def test_changes__since_is_after_until__is_refused(table):
    with refused(table, match="since must not be after until"):
        table.changes(2, 1)


def test_get__table_without_a_key__says_how_to_look_rows_up():
    table = new_table(key=None)
    with refused(table, match=r"no key.*scan"):
        table.get(1)
    with refused(table, match=r"upsert needs a key.*key="):
        table.upsert([row(1)])


def test_widen_column__of_the_key_to_nullable__is_refused(table):
    with refused(table, match="part of the key"):
        table.widen_column("id", nullable=True)
    with refused(table, match="nothing is said"):
        table.widen_column("n")


def test_add_column__not_nullable_without_a_default__asks_for_one(table):
    with refused(table, match=r"'new' is not nullable.*give a default"):
        table.add_column(pa.field("new", pa.int8(), nullable=False))
    with refused(table, match="type already"):
        table.add_column(pa.field("new", pa.int8()), pa.int8())


def test_compact__progress_raises__is_the_users_error_and_nothing_is_changed():
    table = new_table(key=None)
    version = table.version

    def progress(done, rows):
        raise ZeroDivisionError(f"mine at {done} of {rows}")

    with pytest.raises(ZeroDivisionError, match="mine"):
        table.compact(progress=progress)
    assert table.count() == 7
    assert table.version in {version, version + 1}
    assert table.compact().state.version == table.version


def test_transaction__used_after_its_end__is_refused(table):
    with table.transaction() as transaction:
        transaction.append([row(100)])
    for call in (
        transaction.commit,
        lambda: transaction.append([row(101)]),
        lambda: transaction.delete("id = 1"),
        lambda: transaction.update({"n": "1"}),
        lambda: transaction.drop_column("n"),
        lambda: transaction.set({"a": "b"}),
    ):
        with refused(table, ClosedError, match="has ended"):
            call()


def test_scan__limits_of_the_sizes_that_there_are__are_accepted(table):
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert table.scan(limit=2**63 - 1).count() == 7
    assert table.scan(limit=np.int64(3)).to_arrow().num_rows == 3
    assert len(table.history(np.int32(2))) == 2
