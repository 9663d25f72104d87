"""Filters: parsed by DataFusion, evaluated on Arrow tables, refused with reasons."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

from every_type import SCHEMA, TABLE
from siltstone.errors import InvalidInputError, SiltstoneError
from siltstone.table import engine
from siltstone.table.predicate import parse_predicate


def chosen(text, table=TABLE):
    return parse_predicate(text, table.schema).mask(table).to_pylist()


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
