"""search: hits for people, rows for programs, and nothing that steers a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import unicodedata

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.api import create_table, open_table
from sources import ROOT
from terminals import read_terminal

HOSTILE = "slow\x1b]0;owned\x07 \x1b[31m delivery\x1b[0m \0\0 late\r\x9b2J \u202etxt **bold**"
ROWS = [
    (1, "a slow delivery, and a refund", 1),
    (2, "the delivery was late: a late delivery", 2),
    (3, "a quick brown fox", 5),
    (4, HOSTILE, 3),
    (5, None, 4),
]


@pytest.fixture
def notes(tmp_path):
    """A keyed table of five rows with an index, at version 2."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string()), ("stars", pa.int64())])
    with create_table(tmp_path / "notes", schema=schema, key="id", shards=1) as table:
        table.append([dict(zip(schema.names, row, strict=True)) for row in ROWS])
        table.create_text_index("body")
    return tmp_path / "notes"


def on_a_terminal(*argv: object, **environment: str) -> tuple[int, str]:
    """Exit code and output of a process whose output goes to a terminal of 60 columns."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "siltstone", *map(str, argv)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        | {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "COLUMNS": "60"}
        | environment,
    )
    os.close(theirs)
    said = read_terminal(ours)
    return child.wait(240), said.decode().replace("\r\n", "\n")


def steering(text):
    return [one for one in text if unicodedata.category(one) in {"Cc", "Cf"} and one != "\n"]


def test_search__in_a_pipe__has_place_score_key_and_text(cli, notes):
    said = cli("search", notes, "body", "refund fox")
    assert said.err == ""
    lines = said.out.splitlines()
    assert [re.sub(r"\d\.\d{3}", "S", line) for line in lines] == [
        "1  S  id=1",
        "   a slow delivery, and a refund",
        "2  S  id=3",
        "   a quick brown fox",
    ]


def test_search__as_json__has_the_rows_of_the_library(cli, notes):
    query = 'slow "late delivery"~2 deliv*'
    expected = open_table(notes).search("body", query).to_arrow().to_pylist()
    assert len(expected) == 3
    assert cli("search", notes, "body", query, "--json").rows == expected


def test_search__snippets__are_a_column_of_rows(cli, notes):
    rows = cli("search", notes, "body", "late", "--json", "--snippets", "--columns", "id", "--where", "id < 4").rows
    (row,) = rows
    assert set(row) == {"id", "_score", "_snippet"}
    assert row["_snippet"] == "the delivery was **late**: a **late** delivery"


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("delivery",), {1, 2, 4}),
        (("delivery", "--where", "stars <= 2"), {1, 2}),
        (("delivery", "--limit", "1"), {2}),
        (("delivery", "--limit", "0"), set()),
        (("delivery", "--all"), {1, 2, 4}),
        (("delivery -refund",), {2, 4}),
        (("--plain", "delivery -refund"), {1, 2, 4}),
        (('"slow delivery"',), {1}),
        (("recieve~2 qick~",), {3}),
        (("the",), set()),
        (("",), set()),
    ],
)
def test_search__query_and_options__choose_rows(words, ids, cli, notes):
    result = cli("search", notes, "body", *words, "--json")
    assert result.code == 0, result.out
    assert {row["id"] for row in result.rows} == ids


def test_search__many_rows__the_best_ten_unless_told(cli, notes):
    rows = "".join(f'{{"id": {n}, "body": "word", "stars": 0}}\n' for n in range(10, 25)).encode()
    cli("append", notes, "-", "--format", "jsonl", stdin=rows)
    cli("index", "optimize", notes, "body")
    assert len(cli("search", notes, "body", "word", "--json").rows) == 10
    assert len(cli("search", notes, "body", "word", "--limit", "12", "--json").rows) == 12
    assert len(cli("search", notes, "body", "word", "--all", "--json").rows) == 15
    assert cli("search", notes, "body", "word", "--count").out == "15\n"
    assert cli("search", notes, "body", "word", "--count", "--limit", "12").out == "12\n"
    assert cli("search", notes, "body", "word", "--all", "--limit", "1").code == 2
    for words, more in (((), 5), (("--limit", "12"), 3), (("--limit", "15"), 0), (("--all",), 0)):
        found = cli("search", notes, "body", "word", *words)
        assert found.out.splitlines()[-2].startswith(f"{15 - more}  ")
        assert found.err == (f"note: {more} more match: --limit N or --all shows them\n" if more else "")


def test_search__of_an_earlier_version_or_tag__finds_its_rows(cli, notes):
    cli("tag", notes, "before")
    cli("delete", notes, "--where", "id = 2")
    assert [row["id"] for row in cli("search", notes, "body", "late", "--where", "id < 4", "--json").rows] == []
    for name in ("before", "2"):
        rows = cli("search", f"{notes}@{name}", "body", "late", "--where", "id < 4", "--json").rows
        assert [row["id"] for row in rows] == [2]
    assert cli("search", f"{notes}@before", "body", "late", "--fresh", "--json").error == (1, "invalid-input")


def test_search__fresh__finds_rows_that_are_not_merged(cli, notes):
    cli("put", notes, "-", "--format", "jsonl", stdin=b'{"id": 7, "body": "another fox", "stars": 1}')
    assert [row["id"] for row in cli("search", notes, "body", "fox", "--json").rows] == [3]
    assert {row["id"] for row in cli("search", notes, "body", "fox", "--fresh", "--json").rows} == {3, 7}


def test_search__count_and_explain__say_only_that(cli, notes):
    document = cli("search", notes, "body", "slow", "--count", "--json").json
    assert set(document) == {"uri", "version", "count", "unindexed_rows"}
    assert (document["version"], document["count"]) == (2, 2)
    document = cli("search", notes, "body", "slow", "--explain", "--json").json
    assert set(document) == {"uri", "version", "explain", "unindexed_rows"}
    assert "5 are indexed" in document["explain"]
    assert cli("search", notes, "body", "slow", "--explain").out == document["explain"] + "\n"
    assert cli("search", notes, "body", "slow", "--explain", "--count").code == 2


def test_search__to_a_file__has_the_rows(cli, notes, tmp_path):
    said = cli("search", notes, "body", "delivery", "--columns", "id", "--output", tmp_path / "hits.parquet")
    assert said.out == ""
    assert "3 rows written" in said.err
    written = pq.read_table(tmp_path / "hits.parquet")
    assert written.column_names == ["id", "_score"]
    assert set(written["id"].to_pylist()) == {1, 2, 4}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("body", '"open'), (1, "invalid-input")),
        (("body", "-refund"), (2, "usage")),
        (("body", "x" * 70_000), (1, "limit-exceeded")),
        (("body", "slow\udcff"), (1, "invalid-input")),
        (("\udcff", "slow"), (1, "invalid-input")),
        (("stars", "one"), (1, "invalid-input")),
        (("other", "one"), (1, "invalid-input")),
        (("body", "one", "--where", "nothing ="), (1, "invalid-input")),
        (("body", "one", "--columns", "id,,stars"), (2, "usage")),
        (("body", "one", "--columns", "none"), (1, "invalid-input")),
        (("body", "one", "--index", "none"), (1, "not-found")),
        (("body", "one", "--limit", "-1"), (2, "usage")),
        (("body",), (2, "usage")),
    ],
)
def test_search__bad_words__are_refused(words, error, cli, notes):
    assert cli("search", notes, *words, "--json").error == error


def test_search__column_without_an_index__is_read_unless_refused(cli, notes):
    cli("index", "drop", notes, "body")
    assert cli("search", notes, "body", "fox", "--count").out == "1\n"
    assert cli("search", notes, "body", "fox", "--indexed-only", "--json").error == (1, "not-found")


def test_search__table_without_a_key__shows_its_other_columns(cli, tmp_path):
    schema = pa.schema([("body", pa.string()), ("stars", pa.int64()), ("tags", pa.list_(pa.string()))])
    with create_table(tmp_path / "t", schema=schema) as table:
        table.append([{"body": "a fox", "stars": None, "tags": ["x", "\x1b"]}])
    with create_table(tmp_path / "one", schema=schema.remove(2).remove(1)) as table:
        table.append([{"body": "a fox"}])
    assert (
        cli("search", tmp_path / "t", "body", "fox").out.splitlines()[0].endswith(r'  stars=null  tags=["x","\u001b"]')
    )
    assert len(cli("search", tmp_path / "one", "body", "fox").out.splitlines()) == 2


def test_search__hostile_text_in_a_pipe__is_written_out(cli, notes):
    shown = cli("search", notes, "body", "txt", "--columns", "id,body").out
    assert steering(shown) == []
    assert r"slow\x1b]0;owned\x07" in shown
    assert r"\x00\x00" in shown
    assert cli("search", notes, "body", "txt", "--json").rows[0]["body"] == HOSTILE


def test_search__on_a_terminal__marks_matches_and_sends_nothing_else(notes):
    code, said = on_a_terminal("search", notes, "body", "delivery txt slow", "--columns", "id,body")
    assert code == 0
    bold = re.findall(r"\x1b\[1m(.*?)\x1b\[0m", said)
    assert {"delivery", "slow", "txt"} <= set(bold)
    plain = re.sub(r"\x1b\[[012]m", "", said)
    assert steering(plain) == []
    assert plain.rstrip().endswith("(3 rows)")
    heads = [line for line in plain.splitlines() if re.match(r"\d  ", line)]
    assert len(heads) == 3
    assert all(len(line) <= 60 for line in heads)
    _, first = on_a_terminal("search", notes, "body", "delivery", "--limit", "1")
    assert re.search(r"\(the best 1 row; [1-9] more match: --limit N or --all shows them\)", first)


def test_search__on_a_terminal_without_colours__has_plain_text(notes):
    code, said = on_a_terminal("search", notes, "body", "delivery", NO_COLOR="1")
    assert code == 0
    assert steering(said) == []


def test_search__rows_that_the_index_has_not__a_note_with_the_command(cli, notes):
    with open_table(notes) as table:
        table.append([{"id": 6, "body": "a fox again", "stars": 1}])
    said = cli("search", notes, "body", "fox")
    assert len(said.out.splitlines()) == 4
    note = f"note: 1 of 6 rows is not in the index, and was read: siltstone index optimize {notes} body\n"
    assert said.err == note
    assert cli("search", notes, "body", "fox", "--format", "csv").err == note
    assert cli("search", notes, "body", "fox", "--count").err == note
    assert cli("search", notes, "body", "fox", "--json").err == ""
    for way in ("--count", "--explain"):
        assert cli("search", notes, "body", "fox", way, "--json").json["unindexed_rows"] == 1
    assert cli("search", f"{notes}@3", "body", "fox").err == "note: 1 of 6 rows is not in the index, and was read\n"
    assert cli("index", "optimize", notes, "body").code == 0
    assert cli("search", notes, "body", "fox").err == ""


def test_search__column_without_an_index__a_note_with_the_command(cli, notes):
    assert cli("index", "drop", notes, "body").code == 0
    said = cli("search", notes, "body", "fox").err
    assert said == f"note: 5 of 5 rows are not in an index, and were read: siltstone index create {notes} body\n"


def test_search__rows_that_the_index_has_not_on_a_terminal__it_says_what_it_reads(notes):
    with open_table(notes) as table:
        table.append([{"id": 6, "body": "a fox again", "stars": 1}])
    code, said = on_a_terminal("search", notes, "body", "fox")
    assert code == 0
    assert "search: reading 1 rows that no index has" in said


# -- nothing found while rows wait in shards -------------------------------------------------------


def test_reads__nothing_found_while_rows_wait_in_shards__say_so(cli, notes):
    hint = "1 entry of WALs waits in shards: --fresh reads them too"
    nothing = (
        ("search", notes, "body", "zebra"),
        ("search", notes, "body", "zebra", "--count"),
        ("search", notes, "body", "zebra", "--format", "csv"),
        ("scan", notes, "--where", "id = 7"),
        ("scan", notes, "--where", "id = 7", "--count"),
        ("get", notes, "7"),
    )
    for words in nothing:
        assert "--fresh" not in cli(*words).err
    assert cli("put", notes, "-", "--format", "jsonl", stdin=b'{"id": 7, "body": "zebra", "stars": 1}\n').code == 0
    for words in nothing:
        assert hint in cli(*words).err, words
        assert "--fresh" not in cli(*words, "--json").err
        assert "--fresh" not in cli(*words, "--fresh").err
    assert cli("scan", notes, "--where", "id = 1").err == ""
    assert "--fresh" not in cli("scan", f"{notes}@1", "--where", "id = 7").err
