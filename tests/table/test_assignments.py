"""New values of columns: made from the row as it was, and refused where the column can't hold them exactly."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from every_type import DAY, NOON, SCHEMA, TABLE, UTC, naive
from siltstone.errors import InvalidInputError
from siltstone.table import engine
from siltstone.table.assignments import parse_assignments
from siltstone.table.predicate import parse_predicate

MOMENT = 1_700_000_000_123_456_789
ZONED = pa.timestamp("us", "Europe/Berlin")


def changed(table=TABLE, **values):
    return parse_assignments(values, table.schema).apply(table)


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
    rest = [name for name in SCHEMA.names if name not in {column, "x"}]  # NaN is not equal to itself
    assert after.select(rest).equals(TABLE.select(rest))


@pytest.mark.parametrize(
    ("column", "text", "told"),
    [
        ("i", "1.5", "truncated"),
        ("i", "big", "not in range"),
        ("i", "x", "truncated"),
        ("i", "s", "is string, the column holds int32"),
        ("i", "random()", "truncated"),
        ("big", "big * 1000", "leaves the range of its type"),
        ("big", "big + 9223372036854775807", "leaves the range of its type"),
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
        ("price", "123456789", "is not exactly a decimal128(10, 2)"),
        ("price", "i * 123456789", "too large"),
        ("price", "1.123 + i", "is not exactly a decimal128(10, 2)"),
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


def test_parse_assignments__the_clock__is_read_by_each():
    table = pa.table({"at": pa.array([None, None], pa.timestamp("ns", "UTC"))})
    for text in ("now()", "current_timestamp", "coalesce(at, NOW())"):
        for _ in range(2):
            before = time.time_ns()
            after = changed(table, at=text)["at"].cast(pa.int64()).to_pylist()
            assert before <= after[0] == after[1] <= time.time_ns()


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("s", "CAST(now() AS VARCHAR)", "2023-11-14T22:13:20.123456789Z"),
        ("s", "CAST(CURRENT_TIMESTAMP AS VARCHAR)", "2023-11-14T22:13:20.123456789Z"),
        ("s", "CAST(current_time AS VARCHAR)", "22:13:20.123456789"),
        ("day", "today()", dt.date(2023, 11, 14)),
        ("day", "current_date", dt.date(2023, 11, 14)),
        ("day", "current_date() - INTERVAL '1 day'", dt.date(2023, 11, 13)),
        ("big", "CASE WHEN random() < 2 THEN to_unixtime(now()) ELSE 1 / 0 END", MOMENT // 10**9),
    ],
)
def test_parse_assignments__a_moment__is_what_the_clock_gives(column, text, expected):
    after = parse_assignments({column: text}, SCHEMA, moment=MOMENT).apply(TABLE)
    assert after[column].to_pylist() == [expected] * 3


def test_parse_assignments__a_moment_before_1970__is_what_the_clock_gives():
    after = parse_assignments({"day": "today()", "s": "CAST(current_time AS VARCHAR)"}, SCHEMA, moment=-1).apply(TABLE)
    assert after["day"][0].as_py() == dt.date(1969, 12, 31)
    assert after["s"][0].as_py() == "23:59:59.999999999"


def test_parse_assignments__every_function_that_becomes_a_constant__gives_the_same_at_one_moment():
    for name in sorted(engine._changing() - {"file_row_index", "generate_series", "input_file_name", "range"}):
        first, second = (engine.parse(f"{name}()", SCHEMA, what="", moment=MOMENT).expr for _ in range(2))
        assert first.canonical_name() == second.canonical_name()
        assert (first.variant_name() == "Literal") == (name not in {"rand", "random", "uuid"})


def test_apply__random__is_another_value_in_each_row():
    for text, column in (("random()", "x"), ("uuid()", "s")):
        assert len(set(changed(**{column: text})[column].to_pylist())) == 3


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


# -- times and decimals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "text"), [("at", "zoned"), ("zoned", "at"), ("zoned", "other"), ("zoned", "day"), ("at", "day")]
)
def test_apply__a_time_with_another_zone_or_none__equals_it_in_a_filter(column, text):
    noon = pa.array([NOON, naive(2026, 7, 1, 23), None], pa.timestamp("us", "UTC"))
    table = pa.table(
        {
            "at": noon.cast(pa.timestamp("us")),
            "zoned": noon.cast(pa.timestamp("us", "Europe/Berlin")),
            "other": noon.cast(pa.timestamp("us", "America/New_York")),
            "day": pa.array([DAY, DAY, None]),
        }
    )
    after = changed(table, **{column: text})
    assert parse_predicate(f"{column} = {text}", table.schema).mask(after).to_pylist() == [True, True, False]


def test_apply__a_time_with_a_zone_to_one_without__is_what_its_clocks_show():
    table = pa.table({"at": pa.array([None], pa.timestamp("us")), "zoned": pa.array([NOON], ZONED)})
    after = changed(table, at="zoned")
    assert after["at"].to_pylist() == [naive(2026, 1, 1, 13)]
    assert changed(after, zoned="at")["zoned"].equals(table["zoned"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1234567.89", "1234567.89"),
        (" -1234567.89\n", "-1234567.89"),
        ("- 0.10", "-0.10"),
        ("+.5", "0.5"),
        ("1e3", "1000"),
        ("1.2300", "1.23"),
        ("0e999", "0"),
        ("12345678901234567890.12", "12345678901234567890.12"),
        ("99999999999999999999.99", "99999999999999999999.99"),
    ],
)
@pytest.mark.parametrize("kind", [pa.decimal128(22, 2), pa.decimal256(60, 20)])
def test_apply__a_number_to_a_decimal__is_taken_as_it_is_written(text, expected, kind):
    after = changed(pa.table({"price": pa.array([None, None], kind)}), price=text)
    assert after["price"].to_pylist() == [Decimal(expected)] * 2


@pytest.mark.parametrize(
    "text", ["0.001", "1e-3", "100000000000000000000", "1e20", "1e9999", "-99999999999999999999.999"]
)
def test_parse_assignments__a_number_that_a_decimal_cannot_hold__is_refused(text):
    with pytest.raises(InvalidInputError, match=r"is not exactly a decimal128\(22, 2\)"):
        parse_assignments({"price": text}, pa.schema([("price", pa.decimal128(22, 2))]))


def test_apply__a_double_in_an_expression_of_a_decimal__hints_at_a_cast():
    table = pa.table({"price": pa.array([None], pa.decimal128(12, 2))})
    with pytest.raises(InvalidInputError) as caught:
        changed(table, price="1234567.891 + 0")
    assert "CAST('1.5' AS DECIMAL(2, 1))" in str(caught.value.hint)
    after = changed(table, price="CAST('1234567.89' AS DECIMAL(12, 2)) + 0")
    assert after["price"].to_pylist() == [Decimal("1234567.89")]


def test_apply__a_sum_of_decimals_with_a_digit_too_many__is_refused():
    table = pa.table({"price": pa.array([Decimal(10) ** 37], pa.decimal128(38, 0))})
    with pytest.raises(InvalidInputError, match="does not fit in precision"):
        changed(table, price="price + price * 9")
