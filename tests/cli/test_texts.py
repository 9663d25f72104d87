"""Values of every type through text and back, and schemas as text."""

from __future__ import annotations

import math
from datetime import date, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table
from siltstone.cli.schemas import parse_schema, parse_type
from siltstone.errors import InvalidInputError, LimitExceededError

TYPES = {
    "bool": [True, False, None],
    "int8": [-128, 127, None],
    "uint64": [0, 2**64 - 1, None],
    "float": [0.1, -0.0, 1e38],
    "double": [0.1, 1e308, None],
    "string": ['a,b\n"c"', "", None, "\x00\x1b\u202e\U0001f600", "null"],
    "binary": [b"", b"\x00\xff", None],
    "fixed_size_binary[2]": [b"ab", b"\x00\xff", None],
    "date32[day]": [date(2026, 11, 14), date(1900, 2, 28), None],
    "time32[ms]": [time(9, 30, 0, 5000), time(0), None],
    "time64[us]": [time(23, 59, 59, 999999), None],
    "duration[ms]": [timedelta(days=-1), timedelta(milliseconds=5), None],
    "decimal128(38, 10)": [Decimal("1.5"), Decimal("-1234567890123456789012345678.0123456789"), None],
    "decimal256(50, 2)": [Decimal("1.25"), None],
}
ARROW = {
    "timestamp[us]": pa.array([0, 1_794_648_600_000_001, -1, None], pa.int64()),
    "timestamp[ns, tz=UTC]": pa.array([0, 1, -1, None], pa.int64()),
    "timestamp[ms, tz=Europe/Vienna]": pa.array([0, 1_794_648_600_000, None], pa.int64()),
    "timestamp[s, tz=+05:30]": pa.array([0, 1_794_648_600, None], pa.int64()),
}
NESTED = {
    "list<item: int64>": [[1, None], [], None],
    "fixed_size_list<item: float>[2]": [[0.5, 1.5], None],
    "struct<x: int32, y: list<item: string>>": [{"x": 1, "y": ["a", None]}, {"x": None, "y": None}, None],
    "map<string, date32[day]>": [[("a", date(2026, 1, 1)), ("b", None)], [], None],
    "list<item: struct<b: binary, d: decimal128(5, 2)>>": [[{"b": b"\xff", "d": Decimal("1.25")}, None], None],
}


def arrays():
    made = {kind: pa.array(values, parse_type(kind)) for kind, values in {**TYPES, **NESTED}.items()}
    return made | {kind: numbers.cast(parse_type(kind)) for kind, numbers in ARROW.items()}


@pytest.mark.parametrize("kind", [*TYPES, *ARROW, *NESTED])
@pytest.mark.parametrize("format_", ["csv", "jsonl", "parquet", "arrow"])
def test_scan_and_append__values_of_each_type__come_back_the_same(kind, format_, cli, tmp_path):
    values = arrays()[kind]
    schema = pa.schema([("n", pa.int64()), ("v", values.type)])
    given = pa.table([pa.array(range(len(values))), values], schema=schema)
    with create_table(tmp_path / "from", schema=schema) as table:
        table.append(given)
    assert cli("scan", tmp_path / "from", "--output", tmp_path / f"rows.{format_}").code == 0
    assert cli("create", tmp_path / "to", "--schema", f"n int64, v {kind}").code == 0
    result = cli("append", tmp_path / "to", tmp_path / f"rows.{format_}")
    if format_ == "csv" and kind in NESTED:
        assert "CSV can't hold" in result.err
        return
    assert result.code == 0, result.err
    assert open_table(tmp_path / "to").scan().to_arrow().equals(given)


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_append__numbers_that_are_too_large_for_floats__refused_not_infinite(format_, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "n int64, f float, d double")
    for name, value in (("f", "1e50"), ("d", "1e999")):
        row = {"f": "1", "d": "1"} | {name: value}
        text = f"n,f,d\n1,{row['f']},{row['d']}\n" if format_ == "csv" else f'{{"n":1,"f":{row["f"]},"d":{row["d"]}}}\n'
        result = cli("append", tmp_path / "t", "-", "--format", format_, stdin=text.encode())
        assert result.code == 1
        assert "standard input, row 1: " in result.err


def test_append__nan_and_infinity__in_csv_come_back_and_in_json_are_null(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "d double")
    assert cli("append", tmp_path / "t", "-", "--format", "csv", stdin=b"d\nnan\ninf\n-inf\n").code == 0
    found = open_table(tmp_path / "t").scan().to_arrow().column("d").to_pylist()
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf]
    assert cli("scan", tmp_path / "t", "--format", "csv").out == '"d"\nnan\ninf\n-inf\n'
    assert cli("scan", tmp_path / "t", "--json").out == '{"d":null}\n' * 3


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date32", '"2026-02-30"'),
        ("time64[us]", '"25:00:00"'),
        ("time32[s]", '"09:30:00.5"'),
        ("timestamp[us, UTC]", '"2026-11-14T09:30:00"'),
        ("timestamp[us]", '"2026-11-14T09:30:00Z"'),
        ("timestamp[us]", '"2026-11-14T09:30:00.1234567"'),
        ("binary", '"xyz"'),
        ("fixed_size_binary[2]", '"ff"'),
        ("decimal128(5, 2)", "1.234"),
        ("duration[s]", "1.5"),
        ("bool", '"true"'),
        ("list<int64>", '[1, "x"]'),
        ("map<string, int64>", '[{"key": null, "value": 1}]'),
        ("struct<x: int64>", '{"y": 1}'),
    ],
)
def test_append__json_value_of_another_kind__row_and_column_are_named(kind, text, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", f"n int64, v {kind}")
    result = cli("append", tmp_path / "t", "-", stdin=f'{{"n": 1}}\n{{"n": 2, "v": {text}}}\n'.encode())
    assert result.code == 1
    assert "row 2: column 'v'" in result.err
    assert open_table(tmp_path / "t").version == 0


# -- schemas -------------------------------------------------------------------------------------


def test_parse_schema__all_types__as_arrow_prints_them():
    for kind, values in arrays().items():
        assert str(parse_type(kind)) == kind == str(values.type)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a int64", [pa.field("a", pa.int64())]),
        ("a: int64 NOT NULL , b text null,", [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())]),
        ('"my ""col"" , x" int8', [pa.field('my "col" , x', pa.int8())]),
        ("größe double", [pa.field("größe", pa.float64())]),
        ("t timestamp, d date, n decimal(9,2), b bytes", [
            pa.field("t", pa.timestamp("us")), pa.field("d", pa.date32()), pa.field("n", pa.decimal128(9, 2)),
            pa.field("b", pa.binary()),
        ]),
        ("v timestamp[us, tz=UTC]", [pa.field("v", pa.timestamp("us", "UTC"))]),
        ("l list<struct<a: int8 not null, b list<string>>>", [
            pa.field("l", pa.list_(pa.struct([
                pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.list_(pa.string())),
            ]))),
        ]),
        ("int64 int64, list string", [pa.field("int64", pa.int64()), pa.field("list", pa.string())]),
    ],
)  # fmt: skip
def test_parse_schema__spellings__give_these_fields(text, fields):
    assert parse_schema(text).equals(pa.schema(fields))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "character 1: expected the name of a column, found the end"),
        ("id", "character 3: expected a type, found the end"),
        ("id int65", "character 4: 'int65' is no type"),
        ("id int64, , b int8", "character 11: expected the name of a column, found ','"),
        ("id int64 nope", "character 10: expected the end or a comma, found 'nope'"),
        ("id int64 not", "expected 'null' behind 'not'"),
        ("a list<int64", "expected '>' at the end of the list, found the end"),
        ("a list", "expected '<' behind 'list'"),
        ("a map<string>", "expected ',' between the key and the value"),
        ("a struct<>", "expected the name of a column"),
        ("a timestamp[xx]", "'timestamp[xx]' is no type"),
        ("a timestamp[us", "expected ']'"),
        ("a decimal128(99, 2)", "is no type"),
        ("a bool[3]", "'bool[3]' is no type"),
        ("a fixed_size_list<float>[0]", "expected a number of values from 1 on"),
        ("a! int64", "character 2: '!'"),
        ("a\x1b int64", "'\\x1b'"),
    ],
)
def test_parse_schema__what_is_no_schema__says_where(text, says):
    with pytest.raises(InvalidInputError) as error:
        parse_schema(text)
    assert says in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("int", "int64"), ("integer", "int64"), ("bigint", "int64"), ("long", "int64"), ("varchar", "string"),
        ("varchar(20)", "string"), ("datetime", "timestamp[us, UTC]"),
    ],
)  # fmt: skip
def test_parse_schema__type_of_another_system__the_hint_names_ours(word, meant):
    with pytest.raises(InvalidInputError) as error:
        parse_schema(f"id {word}")
    assert error.value.hint == f"did you mean {meant}?"
    parse_schema(f"id {meant}")


@pytest.mark.parametrize("text", ["a " + "list<" * 40 + "int8" + ">" * 40, "a" * 300_000 + " int8"])
def test_parse_schema__far_too_much__limit(text):
    with pytest.raises(LimitExceededError):
        parse_schema(text)
