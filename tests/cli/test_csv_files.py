"""CSV: what the command line writes it reads back, and no text is taken for another value than it is."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table
from siltstone.cli import files

ONE_COLUMN = {
    "int64": [1, None, 2, None],
    "double": [None, 1.5, None],
    "string": ["a", None, "", "b", " ", "x\n\ny", None],
    "binary": [b"", None, b"\x00"],
    "bool": [None],
}


def values(uri, column="c"):
    with open_table(uri) as table:
        return table.scan().to_arrow().column(column).to_pylist()


def append(cli, uri, text):
    return cli("append", uri, "-", "--format", "csv", stdin=text.encode())


# -- one column ----------------------------------------------------------------------------------


@pytest.mark.parametrize("block_bytes", [8, files.BLOCK_BYTES])
@pytest.mark.parametrize("kind", ONE_COLUMN)
def test_scan_and_append__nulls_in_a_table_of_one_column__come_back(kind, block_bytes, cli, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", block_bytes)
    for name in ("from", "to"):
        assert cli("create", tmp_path / name, "--schema", f"c {kind}").code == 0
    with open_table(tmp_path / "from") as table:
        table.append([{"c": value} for value in ONE_COLUMN[kind]])
    assert cli("scan", tmp_path / "from", "--output", tmp_path / "a.csv").code == 0
    assert cli("append", tmp_path / "to", tmp_path / "a.csv").code == 0
    assert values(tmp_path / "to") == ONE_COLUMN[kind]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c\n\n\n", [None, None]),
        ("c\r\n\r\n1\r\n\r\n", [None, 1, None]),
        ("\ufeffc\n1\n\n", [1, None]),
        ("\n\r\nc\n1\n\n2", [1, None, 2]),
        ("\ufeff\nc\n1\n", [1]),
        ('"c"\n""\n1\n', [None, 1]),
    ],
)
def test_append__blank_lines_of_one_column__are_nulls(text, expected, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "c int64")
    assert append(cli, tmp_path / "t", text).code == 0
    assert values(tmp_path / "t") == expected


def test_append__one_column_of_a_table_with_defaults__blank_line_is_null(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "c int64")
    assert cli("column", "add", tmp_path / "t", "d", "int64", "--default", "7").code == 0
    assert append(cli, tmp_path / "t", "c\n1\n\n").code == 0
    assert values(tmp_path / "t") == [1, None]
    assert values(tmp_path / "t", "d") == [7, 7]


def test_append__blank_line_where_the_column_is_the_key__refused_with_its_row(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "c int64", "--key", "c")
    assert "column 'c', row 2: null in a key" in append(cli, tmp_path / "t", "c\n1\n\n2\n").err


@pytest.mark.parametrize("head", ["c,d", '"c","d"', '"c, and more",d', '"c\nd",e'])
def test_append__blank_lines_among_several_columns__are_no_rows(head, cli, tmp_path):
    names = [name.strip('"') for name in (head.rpartition(",")[0], head.rpartition(",")[2])]
    text = f"\n{head}\n\n1,2\n\n3,4\n\n"
    if "\n" in head:  # no column can have such a name, but the head is two columns all the same
        cli("create", tmp_path / "t", "--schema", "c int64")
        assert "and have" in append(cli, tmp_path / "t", text).err
        return
    create_table(tmp_path / "t", schema=pa.schema([(name, pa.int64()) for name in names])).close()
    assert append(cli, tmp_path / "t", text).code == 0
    assert values(tmp_path / "t", names[0]) == [1, 3]


# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int8", "int64", "uint64", "duration[s]", "double", "decimal(9, 2)"])
@pytest.mark.parametrize("text", ["0x10", "0X1f"])
def test_append__hexadecimal_number__refused_with_its_row(text, kind, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", f"n int64, v {kind}")
    result = append(cli, tmp_path / "t", f"n,v\n1,7\n2,{text}\n")
    assert result.code == 1
    assert f"row 2: column 'v': '{text}' is no " in result.err


def test_get_and_default__hexadecimal_number__refused(cli, reviews):
    assert "'0x1' is no int64" in cli("get", reviews, "0x1").err
    assert "--default '0x1' is no int8" in cli("column", "add", reviews, "n", "int8", "--default", "0x1").err


@pytest.mark.parametrize("kind", ["int64", "float", "double", "bool", "decimal(9, 2)", "date", "timestamp[us, UTC]"])
@pytest.mark.parametrize("values_", list(itertools.product(["", '""'], repeat=2)))
def test_append__no_value_in_a_whole_column__nulls(values_, kind, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", f"n int64, v {kind}")
    result = append(cli, tmp_path / "t", f"n,v\n1,{values_[0]}\n2,{values_[1]}\n")
    assert result.code == 0, result.err
    assert values(tmp_path / "t", "v") == [None, None]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_append__whole_number_that_a_double_would_round__refused_with_its_row(kind, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", f"n int64, v {kind}")
    result = append(cli, tmp_path / "t", "n,v\n1,9007199254740992\n2,9007199254740993\n3,\n")
    assert "row 2: column 'v': '9007199254740993' is no " in result.err
    assert "exactly" in result.err


def test_append__large_numbers_that_doubles_hold__come_in(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "v double")
    given = ["9007199254740992", "-1152921504606846976", "1e300", "9007199254740993.0", "inf", "12.5"]
    assert append(cli, tmp_path / "t", "\n".join(["v", *given])).code == 0
    assert values(tmp_path / "t", "v") == [float(one) for one in given]


# -- names of columns ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (['"x,y"'], ["x,y"]),
        (['"x,y",a b'], ["x,y", "a b"]),
        ([' "x,y" , "a b" '], ["x,y", "a b"]),
        (['q"q,"x,y"'], ['q"q', "x,y"]),
        (['"q""q"', '"x,y"'], ['q"q', "x,y"]),
        (["a b", 'q"q'], ["a b", 'q"q']),
    ],
)
def test_columns__names_with_commas_and_quotes__in_double_quotes(given, expected, cli, tmp_path):
    assert cli("create", tmp_path / "t", "--schema", '"a b" int64, "x,y" string, "q""q" double').code == 0
    cli("append", tmp_path / "t", "-", stdin=b'{"a b": 1, "x,y": "z", "q\\"q": 2}')
    words = [word for names in given for word in ("--columns", names)]
    assert list(cli("scan", tmp_path / "t", *words, "--json").rows[0]) == expected


@pytest.mark.parametrize("given", ["", " ", "id,", ",id", "id,,lang", '""', 'id,""'])
def test_columns__empty_name__usage_error(given, cli, reviews):
    assert cli("scan", reviews, "--columns", given).code == 2


def test_create__key_with_a_comma__in_double_quotes(cli, tmp_path):
    assert cli("create", tmp_path / "t", "--schema", '"x,y" string, z int64', "--key", '"x,y",z').code == 0
    with open_table(tmp_path / "t") as table:
        assert table.key == ("x,y", "z")
