"""Filters and new values: parsed by DataFusion, evaluated on Arrow tables, refused with reasons."""

from __future__ import annotations

import datetime as dt
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from siltstone.errors import InvalidInputError, LimitExceededError, SiltstoneError
from siltstone.table import engine
from siltstone.table.predicate import parse_assignments, parse_predicate

UTC = dt.UTC
DAY = dt.date(2026, 1, 1)


def naive(*parts):
    return dt.datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


NOON = naive(2026, 1, 1, 12)
COLUMNS = {
    "i": pa.array([1, 2, None], pa.int32()),
    "big": pa.array([2**62, -5, None], pa.int64()),
    "unsigned": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "x": pa.array([1.5, math.nan, None], pa.float64()),
    "half": pa.array([0.5, 0.25, None], pa.float32()),
    "flag": pa.array([True, False, None]),
    "s": pa.array(["apple", "Äpfel", None]),
    "Odd name": pa.array([10, 20, None], pa.int64()),
    "UPPER": pa.array(["a", "b", None]),
    "day": pa.array([DAY, DAY + dt.timedelta(1), None], pa.date32()),
    "at": pa.array([NOON, NOON + dt.timedelta(1), None], pa.timestamp("us")),
    "zoned": pa.array([NOON, NOON + dt.timedelta(1), None], pa.timestamp("us", "Europe/Vienna")),
    "clock": pa.array([dt.time(10), dt.time(11), None], pa.time64("us")),
    "took": pa.array([dt.timedelta(hours=1), dt.timedelta(hours=2), None], pa.duration("us")),
    "price": pa.array([Decimal("1.50"), Decimal("2.50"), None], pa.decimal128(10, 2)),
    "raw": pa.array([b"\x00\xff", b"b", None], pa.binary()),
    "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "list": pa.array([[1, 2], [3], None], pa.list_(pa.int64())),
    "part": pa.array(
        [{"x": 1, "Y": "a"}, {"x": 2, "Y": "b"}, None], pa.struct([("x", pa.int64()), ("Y", pa.string())])
    ),
}
TABLE = pa.table(COLUMNS)
SCHEMA = TABLE.schema


def chosen(text, table=TABLE):
    return parse_predicate(text, table.schema).mask(table).to_pylist()


def changed(table=TABLE, **values):
    return parse_assignments(values, table.schema).apply(table)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 1", [True, False, False]),
        ("1 < i", [False, True, False]),
        ("i IS NULL", [False, False, True]),
        ("NOT i = 1", [False, True, False]),
        ("i BETWEEN 1 AND 1", [True, False, False]),
        ("i IN (2, 3, 4, 5, NULL)", [False, True, False]),
        ("i > 3000000000", [False, False, False]),
        ("i = 1.0", [True, False, False]),
        ("big > 4611686018427387903", [True, False, False]),
        ("unsigned = 18446744073709551615", [True, False, False]),
        ("x > 1000", [False, True, False]),
        ("x = 'NaN'", [False, True, False]),
        ("half = 0.25", [False, True, False]),
        ("flag", [True, False, False]),
        ("flag IS NOT TRUE", [False, True, True]),
        ("s = 'apple'", [True, False, False]),
        ("s LIKE 'Ä%'", [False, True, False]),
        ("LOWER(s) = 'äpfel'", [False, True, False]),
        ("starts_with(s, 'app')", [True, False, False]),
        ('"Odd name" = 20', [False, True, False]),
        ("UPPER = 'b'", [False, True, False]),
        ("upper(UPPER) = 'B'", [False, True, False]),
        ("day >= '2026-01-02'", [False, True, False]),
        ("day = DATE '2026-01-01'", [True, False, False]),
        ("at >= '2026-01-02'", [False, True, False]),
        ("at < '2026-01-01T12:00:01'", [True, False, False]),
        ("zoned >= '2026-01-01T13:00:01'", [False, True, False]),
        ("zoned = '2026-01-01T12:00:00Z'", [True, False, False]),
        ("extract(day FROM at) = 2", [False, True, False]),
        ("clock > '10:30:00'", [False, True, False]),
        ("took > INTERVAL '90 minutes'", [False, True, False]),
        ("price > 1.5", [False, True, False]),
        ("price = 2.5", [False, True, False]),
        ("raw = X'00ff'", [True, False, False]),
        ("fixed = X'6364'", [False, True, False]),
        ("list[1] = 3", [False, True, False]),
        ("array_has(list, 2)", [True, False, False]),
        ("part.x = 2", [False, True, False]),
        ("part['Y'] = 'a'", [True, False, False]),
        ("CASE WHEN flag THEN i = 1 ELSE false END", [True, False, False]),
        ("i = 1 /* a comment */ OR i = 2 -- and one more", [True, True, False]),
        ("true", [True, True, True]),
        ("1 = 2", [False, False, False]),
        ("i = NULL", [False, False, False]),
    ],
)
def test_mask__each_type_and_operator__chooses_the_rows(text, expected):
    assert chosen(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not SQL"),
        ("i >", "is not SQL"),
        ("i = 1; DROP TABLE t", "is not SQL"),
        ("i = 1, i = 2", "is not SQL"),
        ("SELECT 1", "is not SQL"),
        ("i = 1 OR 1 = 1) --", "is not SQL"),
        ("i", "is int32, not true or false"),
        ("NULL", "is null, not true or false"),
        ("'text'", "is string, not true or false"),
        ("I = 1", "names column 'I', which is not there (did you mean 'i'?"),
        ('s = "apple"', "names column 'apple'"),
        ("other.i = 1", "names column 'other.i'"),
        ("i IN (SELECT 1)", "holds a query"),
        ("EXISTS (SELECT 1)", "holds a query"),
        ("(SELECT 1) = 1", "holds a query"),
        ("CASE (SELECT 1) WHEN 1 THEN true END", "holds a query"),
        ("sum(i) > 1", "holds a function over many rows"),
        ("row_number() OVER () = 1", "holds a function over many rows"),
        ("i = $1", "holds a placeholder"),
        ("i = 1 AS named", "gives a name"),
        ("random() < 0.5", "calls random()"),
        ("at < now()", "calls now()"),
        ("day = today()", "calls current_date()"),
        ("uuid() = s", "calls uuid()"),
        ("no_function(i) = 1", "Invalid function 'no_function'"),
        ("flag = 1", "Boolean = Int64"),
        ("i = 'many'", "Cannot cast string 'many'"),
        ("at > 'soon'", "soon"),
        ("s LIKE 'a!%' ESCAPE '!'", "escape_char"),
        ("i = 1\0", "null character"),
        ("s = '\ud800'", "UTF-8"),
    ],
)
def test_parse_predicate__what_is_no_filter__is_refused_with_the_reason(text, told):
    with pytest.raises(InvalidInputError) as caught:
        parse_predicate(text, SCHEMA)
    assert told in str(caught.value)
    assert str(caught.value).startswith("where ")
    assert caught.value.hint
    assert "?table?" not in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, b"i = 1", ["i = 1"]])
def test_parse_predicate__not_a_str__is_refused(value):
    with pytest.raises(InvalidInputError, match="where must be SQL in a str"):
        parse_predicate(value, SCHEMA)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s = '" + "x" * 70_000 + "'", "bytes"),
        ("(" * 60 + "flag" + ")" * 60, "nested"),
        ("NOT (" * 24 + "flag" + ")" * 24, "nested"),
        ("NOT (" * 24 + "flag 5 5" + ")" * 24, "nested"),
        ("NOT i = " * 24 + "i 5 5", "nested"),
        ("NOT i BETWEEN 1 AND " * 24 + "i 5 5", "nested"),
        ("CAST(" * 24 + "i" + ")" * 24, "nested"),
        ("CASE " * 24 + "i 5" + " END" * 24, "nested"),
        ("NOT /* ' */ (" * 24 + "flag 5 5 /* ' */" + ")" * 24, "nested"),
        ("NOT e'\\'' = " * 24 + "s 5 5", "nested"),
        (" OR ".join(["i = 1"] * 600), "deep"),
        ("i" + "+1" * 2_000 + " = 1", "deep"),
        ("i" + "+1" * 20_000 + " = 1", "words"),
        ("i" + "::int" * 10_000 + " = 1", "words"),
        (" OR ".join(["flag"] * 8_000), "words"),
        ("s = e'\\'' || " + "'' || " * 9_000 + "''", "words"),
        ("-- it's\n i" + "+1" * 20_000 + " = 1 -- '", "words"),
    ],
)
def test_parse_predicate__text_that_would_overflow_or_busy_the_parser__is_refused(text, told):
    with pytest.raises(LimitExceededError, match=told):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    "text", ["s = 'open", 's = "open', "i = 1 /* open", "/* /* */ i = 1 */", "`i` = 1", "s = $$a$$"]
)
def test_parse_predicate__text_that_may_be_split_in_two_ways__is_refused(text):
    with pytest.raises(InvalidInputError, match="is left open, or has no meaning here"):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("NOT (", ")"), ("NOT i = ", ""), ("CAST(", " AS INT)"), ("CAST(", ")"), ("POSITION((", ") IN s)"),
        ("ROW(", ")"),
        ("CASE (", ") WHEN 1 THEN 1 END"), ("CASE WHEN (", ") THEN true END"), ("ARRAY[", "]"), ("OVERLAY(", ")"),
        ("TRY_CAST((", ") AS INT)"), ("CONVERT((", "), INT)"), ("abs(", ")"), ("(flag OR NOT (", "))"), ("(", ")"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inner", ["i", "flag", "i 5 5", "i AS"])
@pytest.mark.parametrize("levels", [9, 10, 23, 49])
def test_parse_predicate__nested_text__is_answered_in_a_short_time(before, after, inner, levels):
    began = time.process_time()
    with suppress(InvalidInputError):
        parse_predicate(before * levels + inner + after * levels, SCHEMA)
    assert time.process_time() - began < 5


def test_parse_predicate__many_values_in_a_list__are_fine():
    values = ", ".join(f"'{n:032x}-{n:x}-or-and'" for n in range(1_200))
    assert chosen(f"s IN ({values}, 'apple')") == [True, False, False]


def test_parse_predicate__the_longest_chain_allowed__is_evaluated_in_a_thread():
    text = " OR ".join(f"i = {n} AND s = 'apple'" for n in range(400))
    found = []
    thread = threading.Thread(target=lambda: found.append(chosen(text)))
    thread.start()
    thread.join()
    assert found == [[True, False, False]]


@pytest.mark.parametrize("text", ["1 / (i - 1) > 0", "CAST(s AS INT) = 1", "s > 5"])
def test_mask__a_row_that_cannot_be_evaluated__names_the_filter(text):
    predicate = parse_predicate(text, SCHEMA)
    with pytest.raises(InvalidInputError, match="can't be evaluated") as caught:
        predicate.mask(TABLE)
    assert text in str(caught.value)


def test_columns__of_a_filter__are_those_it_reads():
    assert parse_predicate('"Odd name" > 1 AND (part.x = 1 OR i IS NULL)', SCHEMA).columns == {"Odd name", "part", "i"}
    assert parse_predicate("true", SCHEMA).columns == frozenset()


def test_mask__table_with_only_the_columns_it_reads__is_enough():
    assert parse_predicate("i = 1 AND flag", SCHEMA).mask(TABLE.select(["flag", "i"])).to_pylist() == [
        True,
        False,
        False,
    ]


def test_mask__columns_of_another_layout__are_cast():
    table = TABLE.set_column(SCHEMA.get_field_index("s"), "s", TABLE["s"].cast(pa.large_string()))
    assert parse_predicate("s = 'apple'", SCHEMA).mask(table).to_pylist() == [True, False, False]


def test_mask__column_missing_from_the_rows__is_an_error_of_siltstone():
    with pytest.raises(SiltstoneError, match="'i'"):
        parse_predicate("i = 1", SCHEMA).mask(TABLE.select(["s"]))


@pytest.mark.parametrize("text", ["i = 1", "true", "false"])
def test_mask__no_rows__is_empty(text):
    mask = parse_predicate(text, SCHEMA).mask(TABLE.slice(0, 0))
    assert len(mask) == 0
    assert mask.type == pa.bool_()


def test_mask__columns_said_to_hold_no_null__are_not_believed():
    schema = pa.schema([pa.field("i", pa.int32(), nullable=False)])
    assert parse_predicate("i IS NULL", schema).mask(TABLE.select(["i"])).to_pylist() == [False, False, True]


def test_mask__many_rows_in_many_chunks__keeps_their_order():
    rows = 300_000
    numbers = np.random.default_rng(7).integers(0, 1_000_000, rows)
    chunks = [pa.table({"n": part, "x": part / 7}) for part in np.array_split(numbers, 37)]
    table = pa.concat_tables(chunks)
    for text, expected in [
        ("n % 3 = 1", numbers % 3 == 1),
        ("x < 70000 OR n = 5", (numbers / 7 < 70000) | (numbers == 5)),
    ]:
        for given in (table, table.combine_chunks()):
            mask = parse_predicate(text, table.schema).mask(given)
            assert (mask.to_numpy() == expected).all()


def test_mask__many_threads_at_once__all_get_their_own_answer():
    predicate = parse_predicate("n >= 500", pa.schema([("n", pa.int64())]))
    wrong = []

    def ask(first):
        for _ in range(20):
            table = pa.table({"n": np.arange(first, first + 1_000)})
            if predicate.mask(table).to_numpy().tolist() != [n >= 500 for n in range(first, first + 1_000)]:
                wrong.append(first)

    threads = [threading.Thread(target=ask, args=(100 * place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_mask__while_it_runs__other_threads_run_too():
    table = pa.table({"s": pa.array([f"value {n}" for n in range(200_000)])})
    predicate = parse_predicate("regexp_like(s, '(v|w)+.*1.*9') OR reverse(s) LIKE '%7%8%'", table.schema)
    done = threading.Event()
    steps = 0

    def evaluate():
        predicate.mask(table)
        done.set()

    thread = threading.Thread(target=evaluate)
    thread.start()
    while not done.is_set():
        steps += 1
    thread.join()
    assert steps > 1_000


def test_mask__in_a_forked_child__works():
    predicate = parse_predicate("i = 1", SCHEMA)
    assert predicate.mask(TABLE).to_pylist() == [True, False, False]
    child = os.fork()
    if child == 0:
        os._exit(0 if predicate.mask(TABLE).to_pylist() == [True, False, False] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_predicate__pickled__is_the_same():
    for text in ("i = 1 AND flag", "i = 1 AND (flag OR true)"):
        again = pickle.loads(pickle.dumps(parse_predicate(text, SCHEMA)))
        assert again.text == text
        assert again.mask(TABLE).to_pylist() == [True, False, False]


def test_parse_predicate__panic_in_the_engine__is_an_error_of_siltstone(monkeypatch):
    class PanicException(BaseException):
        pass

    def panics(*_):
        raise PanicException("index out of bounds")

    monkeypatch.setattr(engine, "evaluate", panics)
    with pytest.raises(SiltstoneError, match="index out of bounds"):
        parse_predicate("i = 1", SCHEMA)


def test_parse_predicate__interrupted__is_not_hidden(monkeypatch):
    def interrupts(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "evaluate", interrupts)
    with pytest.raises(KeyboardInterrupt):
        parse_predicate("i = 1", SCHEMA)


def test_parse_predicate__time_zone_of_the_machine__does_not_matter():
    code = (
        "import pyarrow as pa; from siltstone.table.predicate import parse_predicate\n"
        "t = pa.table({'at': pa.array([0], pa.timestamp('us', 'UTC')), 'n': pa.array([0], pa.timestamp('us'))})\n"
        "print(parse_predicate(\"at = '1970-01-01T00:00:00' AND n = '1970-01-01'\", t.schema).mask(t).to_pylist())"
    )
    for zone in ("UTC", "Asia/Tokyo"):
        run = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=True
        )
        assert run.stdout == "[True]\n"


# -- new values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("i", "i + 1", [2, 3, None]),
        ("i", "2.0", [2, 2, 2]),
        ("i", "NULL", [None, None, None]),
        ("i", "big % 10", [4, -5, None]),
        ("big", "CASE WHEN flag THEN 1 ELSE big END", [1, -5, None]),
        ("unsigned", "i", [1, 2, None]),
        ("x", "i / 2.0", [0.5, 1.0, None]),
        ("half", "0.1", [pytest.approx(0.1)] * 3),
        ("half", "price", [1.5, 2.5, None]),
        ("flag", "i = 2", [False, True, None]),
        ("s", "concat(s, '!')", ["apple!", "Äpfel!", "!"]),
        ("s", "upper(UPPER)", ["A", "B", None]),
        ("s", "CAST(i AS VARCHAR)", ["1", "2", None]),
        ("Odd name", '"Odd name" * 2', [20, 40, None]),
        ("day", "'2026-02-03'", [dt.date(2026, 2, 3)] * 3),
        ("day", "'9999-12-31'", [dt.date(9999, 12, 31)] * 3),
        ("day", "date_trunc('month', at)", [DAY, DAY, None]),
        ("at", "'2026-02-03T04:05:06.789'", [naive(2026, 2, 3, 4, 5, 6, 789000)] * 3),
        ("at", "at + INTERVAL '1 day'", [NOON + dt.timedelta(1), NOON + dt.timedelta(2), None]),
        ("at", "day", [naive(2026, 1, 1), naive(2026, 1, 2), None]),
        ("zoned", "'2026-07-01T12:00:00Z'", [dt.datetime(2026, 7, 1, 12, tzinfo=UTC)] * 3),
        ("zoned", "'2026-07-01T12:00:00'", [dt.datetime(2026, 7, 1, 10, tzinfo=UTC)] * 3),
        ("clock", "'01:02:03'", [dt.time(1, 2, 3)] * 3),
        ("price", "1.25", [Decimal("1.25")] * 3),
        ("price", "i", [Decimal("1.00"), Decimal("2.00"), None]),
        ("price", "price * 2", [Decimal("3.00"), Decimal("5.00"), None]),
        ("raw", "'text'", [b"text"] * 3),
        ("raw", "X'00'", [b"\0"] * 3),
        ("list", "[i, 5]", [[1, 5], [2, 5], [None, 5]]),
        (
            "part",
            "named_struct('x', i, 'Y', s)",
            [{"x": 1, "Y": "apple"}, {"x": 2, "Y": "Äpfel"}, {"x": None, "Y": None}],
        ),
    ],
)
def test_apply__each_type__gives_the_new_values(column, text, expected):
    after = changed(**{column: text})
    assert after[column].to_pylist() == expected
    assert after.schema == SCHEMA
    assert after.drop_columns([column]).equals(TABLE.drop_columns([column])) or column != "x"


@pytest.mark.parametrize(
    ("column", "text", "told"),
    [
        ("i", "1.5", "truncated"),
        ("i", "big", "not in range"),
        ("i", "x", "truncated"),
        ("i", "s", "is string, the column holds int32"),
        ("i", "random()", "truncated"),
        ("big", "big * 1000", "is not exactly a int64"),
        ("big", "big + 9223372036854775807", "is not exactly a int64"),
        ("unsigned", "big", "not in range"),
        ("half", "1e300", "is not exactly a float"),
        ("flag", "1", "is int64, the column holds bool"),
        ("s", "5", "is int64, the column holds string"),
        ("s", "at", "the column holds string"),
        ("day", "'2026-01-01T10:00:00'", "is not exactly a date32"),
        ("day", "at", "is not exactly a date32"),
        ("at", "'2026-01-01T00:00:00.123456789'", "is not exactly a timestamp"),
        ("at", "TIMESTAMP '2026-01-01T00:00:00.123456789'", "lose data"),
        ("at", "'soon'", "soon"),
        ("price", "1.555", "is not exactly a decimal128(10, 2)"),
        ("price", "123456789", "too large"),
        ("i", "1 / (i - 1)", "Divide by zero"),
        ("i", "no_column", "names column 'no_column'"),
        ("i", "", "is not SQL"),
        ("i", "1; DROP TABLE t", "is not SQL"),
        ("i", "(SELECT 1)", "holds a query"),
        ("i", "max(i)", "holds a function over many rows"),
        ("i", 5, "must be SQL in a str"),
    ],
)
def test_apply__value_that_does_not_fit__names_the_column(column, text, told):
    with pytest.raises(InvalidInputError) as caught:
        changed(**{column: text})
    assert told in str(caught.value)
    assert f"column {column!r}" in str(caught.value)
    assert caught.value.hint


def test_apply__several_columns__are_made_from_the_row_as_it_was():
    after = changed(i="i + 1", big="i", s="UPPER", UPPER="s")
    assert after["i"].to_pylist() == [2, 3, None]
    assert after["big"].to_pylist() == [1, 2, None]
    assert after["s"].to_pylist() == ["a", "b", None]
    assert after["UPPER"].to_pylist() == ["apple", "Äpfel", None]


def test_apply__the_clock__is_one_value_for_all_rows_in_the_columns_unit():
    assignments = parse_assignments({"at": "now()", "zoned": "now()", "day": "today()"}, SCHEMA)
    first, second = assignments.apply(TABLE), assignments.apply(TABLE)
    assert len(set(first["at"].to_pylist())) == 1
    assert first["at"].equals(second["at"])
    assert first["zoned"][0].as_py().timestamp() == pytest.approx(dt.datetime.now(UTC).timestamp(), abs=600)


def test_apply__null_where_the_column_takes_none__is_refused():
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    table = pa.table({"k": [1, 2], "v": [3, None]}, schema=schema)
    with pytest.raises(InvalidInputError, match=r"column 'k'.*null"):
        parse_assignments({"k": "v"}, schema).apply(table)
    assert parse_assignments({"k": "coalesce(v, 0)"}, schema).apply(table)["k"].to_pylist() == [3, 0]


def test_apply__no_rows__gives_none():
    for values in ({"i": "i + 1", "price": "1.5"}, {"at": "'2026-01-01'"}):
        assert parse_assignments(values, SCHEMA).apply(TABLE.slice(0, 0)).schema == SCHEMA


def test_apply__many_chunks__keeps_the_rows_in_order():
    table = pa.concat_tables([pa.table({"n": np.arange(first, first + 1_000)}) for first in range(0, 50_000, 1_000)])
    after = parse_assignments({"n": "n * 2"}, table.schema).apply(table)
    assert (after["n"].to_numpy() == np.arange(50_000) * 2).all()


def test_parse_assignments__unknown_column__suggests_the_near_one():
    with pytest.raises(InvalidInputError, match=r"'upper'.*did you mean 'UPPER'"):
        parse_assignments({"upper": "1"}, SCHEMA)


def test_parse_assignments__nothing__is_refused():
    with pytest.raises(InvalidInputError, match="no column"):
        parse_assignments({}, SCHEMA)


def test_columns__of_new_values__are_those_they_are_made_from():
    assert parse_assignments({"i": "big + 1", "s": "UPPER"}, SCHEMA).columns == {"big", "UPPER"}
