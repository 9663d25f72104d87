"""Answers of queries whose shape not every format can show."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.cli import main


@pytest.fixture
def table(tmp_path):
    with ss.create(tmp_path / "r", schema=pa.schema([("id", pa.int64())]), key="id", sync=False) as table:
        table.append([{"id": 1}, {"id": 2}])
    return str(tmp_path / "r")


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        ("select a.id, b.id from r a join r b on a.id <> b.id", ["--json"], "two columns are called 'id'"),
        ("select {'a': 1, 'a': 2} as s", ["--json"], "two columns are called 'a'"),
        ("select {'a': 1, 'a': 2} as s", ["--format", "csv"], "two columns are called 'a'"),
        ("select interval '1 day' as i", [], "interval"),
        ("select interval '1 day' as i", ["--json"], "interval"),
    ],
)
def test_sql__answer_that_a_format_has_no_room_for__is_refused_before_anything_is_shown(
    table, capsys, query, options, words
):
    assert main(["sql", table, query, *options]) == 1
    out, err = capsys.readouterr()
    shown = json.loads(out)["error"]["message"] if "--json" in options else err
    assert words in shown
    assert "--json" in options or out == ""


def test_sql__two_columns_of_one_name_as_csv__shows_both(table, capsys):
    query = "select a.id, b.id from r a join r b on a.id < b.id"
    assert main(["sql", table, query, "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"id","id"', "1,2"]


def test_sql__another_table_by_the_same_name__is_refused(table):
    with ss.open(table) as one, pytest.raises(ss.errors.InvalidInputError, match="'r'"):
        one.sql("select 1", r=one)
