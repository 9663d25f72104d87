"""JSON lines: a line is one object, or it is refused by its number, and no number is bent on its way in."""

from __future__ import annotations

import pytest

from siltstone.api import open_table
from siltstone.cli import files

NO_OBJECTS = {
    "null": "the line is null, not an object",
    "true": "the line is a boolean, not an object",
    "7": "the line is a number, not an object",
    "-7.5": "the line is a number, not an object",
    '"x"': "the line is a string, not an object",
    "[]": "the line is a list, not an object",
    '[{"a": 1}]': "the line is a list, not an object",
    "nope": "the line is no JSON",
    "}": "the line is no JSON",
    '{"a": 1},': "the line is no JSON",
    '{"a": 1} null': "the line is no JSON",
}
PLACES = {
    "alone": ("{}\n", 1),
    "alone, without a line end": ("{}", 1),
    "every line": ("{0}\n{0}\n{0}\n", 1),
    "first": ('{}\n{{"a": 1}}\n', 1),
    "last": ('{{"a": 1}}\n{}\n', 2),
    "between good ones": ('{{"a": 1}}\n\n{}\n{{"a": 2}}\n', 2),
    "among spaces": ('{{"a": 1}}\n \t{} \t\n{{"a": 2}}\n', 2),
    "behind a BOM": ("\ufeff{}\n", 1),
    "CRLF": ('{{"a": 1}}\r\n{}\r\n{{"a": 2}}\r\n', 2),
}


@pytest.fixture
def table(cli, tmp_path):
    assert cli("create", tmp_path / "t", "--schema", "a int64").code == 0
    return tmp_path / "t"


def values(uri, column="a"):
    with open_table(uri) as table:
        return table.scan().to_arrow().column(column).to_pylist()


# -- lines that are no objects -------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("line", NO_OBJECTS)
def test_append__line_that_is_no_object__refused_with_its_row(line, place, cli, table):
    text, row = PLACES[place]
    result = cli("append", table, "-", stdin=text.format(line).encode())
    assert result.code == 1
    assert f"standard input, row {row}: {NO_OBJECTS[line]}" in result.err
    with open_table(table) as found:
        assert found.version == 0


def test_append__null_in_a_process_of_its_own__refused_and_not_ended_by_a_signal(process, table, tmp_path):
    (tmp_path / "one.jsonl").write_text("null\n")
    for words in (("append", table), ("overwrite", table), ("create", tmp_path / "new", "--like")):
        result = process(*words, tmp_path / "one.jsonl")
        assert result.code == 1
        assert "row 1: the line is null, not an object" in result.err


def test_append__no_object_in_a_later_block__row_counts_from_the_start(cli, table, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    lines = b'{"a": 1}\n' * 50
    assert "row 51: the line is null" in cli("append", table, "-", stdin=lines + b"null\n" + lines).err


def test_append__objects_over_two_lines_that_make_up_for_two_on_one__refused(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "a struct<x: int64>")
    result = cli("append", tmp_path / "t", "-", stdin=b'{"a": {}} {"a": {}}\n{"a":\n{"x": 1}}\n')
    assert "row 2: the line is no JSON" in result.err


def test_append__byte_order_mark_that_is_not_first__refused_with_its_row(cli, table):
    line = '\ufeff{"a": 1}\n'.encode()
    assert "row 2: the line is no JSON" in cli("append", table, "-", stdin=line * 2).err
    assert "row 1: the line is no JSON" in cli("append", table, "-", stdin=b"\xef\xbb\xbf" + line).err
    assert cli("append", table, "-", stdin=line).code == 0


def test_append__spaces_around_objects__are_rows(cli, table):
    assert cli("append", table, "-", stdin=b'\xef\xbb\xbf \t{"a": 1} \r\n\r\n{"a": 2}\t\n  {}').code == 0
    assert values(table) == [1, 2, None]


@pytest.mark.parametrize(("text", "row"), [("null\n", 1), ('{"a": 1}\n\n 7 \n', 2), ('{"a": 1}\n[]\n', 2)])
def test_create__like_lines_that_are_no_objects__refused_with_the_row(text, row, cli, tmp_path):
    (tmp_path / "r.jsonl").write_text(text)
    result = cli("create", tmp_path / "t", "--like", tmp_path / "r.jsonl")
    assert result.code == 1
    assert f"r.jsonl can't be read as jsonl: row {row}: the line is " in result.err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("line", ["null", "7", "[]"])
def test_put__line_that_is_no_object__refused_and_what_came_before_stays(line, cli, events):
    result = cli("put", events, "-", stdin=f'{{"id": 1, "name": "a"}}\n{line}\n'.encode())
    assert result.code == 1
    assert "row 2: the line is " in result.err


# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double", "9007199254740993"),
        ("double", "-9007199254740993"),
        ("double", "18446744073709551617"),
        ("double", "9" * 400),
        ("double", "9" * 5_000),
        ("float", "9007199254740993"),
        ("list<double>", "[1, 9007199254740993]"),
        ("struct<x: double>", '{"x": 9007199254740993}'),
        ("map<string, double>", '[{"key": "k", "value": 9007199254740993}]'),
    ],
)
def test_append__whole_number_that_a_double_would_round__refused_with_its_row(kind, value, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", f"n int64, v {kind}")
    lines = f'{{"n": 9007199254740993}}\n{{"n": 2, "v": {value}}}\n{{"n": 3}}\n'
    result = cli("append", tmp_path / "t", "-", stdin=lines.encode())
    assert result.code == 1
    assert "row 2: column 'v': " in result.err
    assert "exactly" in result.err
    with open_table(tmp_path / "t") as table:
        assert table.version == 0


def test_append__large_numbers_that_doubles_hold__come_in(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "n int64, v double")
    given = ["9007199254740992", "9007199254740994", "-1152921504606846976", "1e300", "9007199254740993.0", "12.5"]
    lines = "".join(f'{{"n": 9007199254740993, "v": {one}}}\n' for one in given)
    assert cli("append", tmp_path / "t", "-", stdin=lines.encode()).code == 0
    assert values(tmp_path / "t", "v") == [float(one) for one in given]
    assert values(tmp_path / "t", "n") == [9007199254740993] * len(given)


@pytest.mark.parametrize("kind", ["float", "double", "list<float>"])
def test_append__column_of_floats_without_a_value__nulls(kind, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", f"n int64, v {kind}")
    assert cli("append", tmp_path / "t", "-", stdin=b'{"n": 1}\n{"n": 2, "v": null}\n').code == 0
    assert values(tmp_path / "t", "v") == [None, None]
