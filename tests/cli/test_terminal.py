"""What a terminal gets: widths, colours, progress, and nothing that steers it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
import unicodedata

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.api import create_table, open_table
from siltstone.cli.output import Output
from siltstone.cli.progress import Progress, size_text, time_text
from siltstone.cli.text_table import TextTable
from sources import ROOT
from terminals import read_terminal

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\r\x9b2J\u202etxt"


def on_a_terminal(*argv: object, stdin: bytes = b"", columns: int = 60) -> tuple[int, str]:
    """Exit code and output of a process whose output and errors go to a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "siltstone", *map(str, argv)],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        env={k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        | {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "COLUMNS": str(columns)},
    )
    os.close(theirs)
    child.stdin.write(stdin)
    child.stdin.close()
    said = read_terminal(ours)
    return child.wait(240), said.decode().replace("\r\n", "\n")


@pytest.fixture
def hostile(tmp_path):
    schema = pa.schema(
        [("id", pa.int64()), ("text", pa.string()), ("long", pa.string()), ("tags", pa.list_(pa.string()))]
    )
    with create_table(tmp_path / "t", schema=schema) as table:
        table.append([{"id": 1, "text": HOSTILE, "long": "word " * 50, "tags": [HOSTILE]}])
    return tmp_path / "t"


def without_colours(text):
    return re.sub(r"\x1b\[(?:0|1|2|31|32|33)m", "", text)


def steering(text):
    return [one for one in text if unicodedata.category(one) in {"Cc", "Cf"} and one not in "\n\r"]


def test_scan__hostile_cells_on_a_terminal__escaped_and_cut_to_its_width(hostile):
    code, said = on_a_terminal("scan", hostile)
    assert code == 0
    assert "\x1b[1m" in said  # the heads, by us
    plain = without_colours(said)
    assert steering(plain) == []
    assert all(len(line) <= 60 for line in plain.splitlines())
    assert "…" in plain
    assert plain.rstrip().endswith("(1 row)")


@pytest.mark.parametrize("words", [("--json",), ("--format", "csv")])
def test_scan__hostile_cells_as_json_or_csv_on_a_terminal__escaped(words, hostile):
    code, said = on_a_terminal("scan", hostile, *words)
    assert code == 0
    assert steering(said) == []
    if words == ("--json",):
        assert json.loads(said)["text"] == HOSTILE


def test_scan__hostile_cells_in_a_pipe__table_is_escaped_and_data_is_exact(cli, hostile):
    assert steering(cli("scan", hostile).out) == []
    assert cli("scan", hostile, "--json").rows[0]["text"] == HOSTILE
    assert "…" not in cli("scan", hostile).out


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_scan__binary_format_on_a_terminal__refused(format_, hostile):
    code, said = on_a_terminal("scan", hostile, "--format", format_)
    assert code == 2
    assert "is not written to a terminal" in said


def test_scan__many_rows_on_a_terminal__first_ones_unless_told(tmp_path):
    with create_table(tmp_path / "t", schema=pa.schema([("a", pa.int64())])) as table:
        table.append({"a": list(range(250))})
    _, said = on_a_terminal("scan", tmp_path / "t")
    assert "the first 100 rows; --limit N shows more" in said
    assert len(said.splitlines()) == 102
    _, said = on_a_terminal("scan", tmp_path / "t", "--limit", "250")
    assert len(said.splitlines()) == 252
    _, said = on_a_terminal("sql", tmp_path / "t", "select a from t")
    assert len(said.splitlines()) == 102


def test_progress__on_a_terminal__a_line_on_standard_error_that_goes_away(cli, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr("siltstone.cli.progress.SHOW_EVERY_S", 0.0)
    lines = "".join(f'{{"id": {number}}}\n' for number in range(10, 500))
    (tmp_path / "a.jsonl").write_text(lines)
    quiet = cli("append", reviews, tmp_path / "a.jsonl")
    assert quiet.err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    (tmp_path / "b.jsonl").write_text(lines.replace('"id": ', '"id": 1000'))
    shown = cli("append", reviews, tmp_path / "b.jsonl")
    assert re.search(r"append reviews  \[#+\.*\] +\d+%", shown.err)
    assert "490 rows" in shown.err
    assert shown.out == "version 3: append, 490 inserted\n"
    assert "rows/s" in cli("scan", reviews, "--output", tmp_path / "rows.csv").err
    assert "compact" in cli("compact", reviews).err


def test_progress__nothing_is_told_for_a_while__the_time_goes_on(monkeypatch):
    monkeypatch.setattr("siltstone.cli.progress.TICK_S", 0.001)
    monkeypatch.setattr("siltstone.cli.progress.SHOW_EVERY_S", 0.0)
    drawn = threading.Event()

    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def write(self, text):
            if "merge events" in text:
                drawn.set()
            return super().write(text)

    terminal = Terminal()
    output = Output(as_json=False, stdout=io.StringIO(), stderr=terminal)
    with Progress(output, "merge events"):
        assert drawn.wait(60)
    last = terminal.getvalue().split("\r")
    assert last[-1] == ""
    assert last[-2].strip() == ""  # it is gone


def test_progress__a_line_wider_than_the_terminal__is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    Output(as_json=False, stdout=io.StringIO(), stderr=terminal).progress("x" * 100)
    assert len(terminal.getvalue().strip("\r")) == 29


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_append__of_a_file_on_a_terminal__shows_its_share(kind, reviews, tmp_path):
    if kind == "parquet":
        ids = pa.array(range(10, 200_000), pa.int64())
        with open_table(reviews) as table:
            rest = [pa.nulls(len(ids), field.type) for field in list(table.schema)[1:]]
            rows = pa.Table.from_arrays([ids, *rest], schema=table.schema)
        pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=20_000)
    else:
        (tmp_path / "rows.jsonl").write_text("".join(f'{{"id": {id_}}}\n' for id_ in range(10, 200_000)))
    code, said = on_a_terminal("append", reviews, tmp_path / f"rows.{kind}", columns=120)
    assert code == 0
    assert re.search(r"append reviews  \[#*\.*\] +\d+%", said)
    assert said.rstrip("\n").split("\r")[-1].strip() == "version 2: append, 199,990 inserted"


def test_scan__to_a_file_with_a_terminal_on_standard_error__shows_its_share(cli, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr("siltstone.cli.progress.SHOW_EVERY_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "scan reviews  [####################] 100%" in cli("scan", reviews, "-o", tmp_path / "a.csv").err
    assert "100%" not in cli("scan", reviews, "--where", "id > 1", "-o", tmp_path / "b.csv").err
    assert "%" not in cli("scan", reviews, "--where", "id > 1").err
    for words in (("verify", reviews, "--deep"), ("compact", reviews), ("delete", reviews, "--where", "id = 1")):
        done = cli(*words)
        assert done.code == 0
        assert done.err.endswith("\r") or done.err == ""  # nothing stays


def test_log__long_messages_on_a_terminal__are_cut_to_its_width(cli, reviews):
    cli("append", reviews, "-", "--message", "words " * 40, stdin=b'{"id": 9}')
    code, said = on_a_terminal("log", reviews, columns=80)
    assert code == 0
    assert all(len(line) <= 80 for line in without_colours(said).splitlines())
    assert "…" in said
    assert "words " * 39 in cli("log", reviews).out


def test_index_status__on_a_narrow_terminal__names_of_builds_stay_whole(cli, reviews):
    build = cli("index", "create", reviews, "lang", "--begin", "--json").json["build"]
    code, said = on_a_terminal("index", "status", reviews, columns=60)
    assert code == 0
    assert build in said


def test_progress__its_text__rows_bytes_rate_and_share():
    progress = Progress(Output(as_json=False), "append t", total=1000)
    progress.rows, progress.bytes = 2000, 500
    assert progress.text(500, 2.0) == (
        "append t  [##########..........]  50%  2,000 rows  1,000 rows/s  500 B  250 B/s  2 s left"
    )
    assert progress.text(0, 3.0).endswith("  3 s")
    assert "left" not in progress.text(1000, 9.0)
    assert "left" not in progress.text(500, 0.5)  # too early to tell
    files = Progress(Output(as_json=False), "gc t", total=8, unit="objects")
    assert files.text(2, 60.0) == "gc t  [#####...............]  25%  2 of 8 objects  3 min 00 s left"
    assert [time_text(seconds) for seconds in (0.4, 59, 61, 3599, 7325)] == [
        "0 s", "59 s", "1 min 01 s", "59 min 59 s", "2 h 02 min",
    ]  # fmt: skip
    assert [size_text(size) for size in (0, 999, 1500, 123_456, 5_000_000_000, 2e18)] == [
        "0 B", "999 B", "1.5 KB", "123 KB", "5.0 GB", "2000.0 PB",
    ]  # fmt: skip


def table_text(rows, *, width=0):
    sink = io.BytesIO()
    schema = pa.schema([(name, pa.string()) for name in rows[0]])
    table = TextTable(schema, sink, width=width)
    table.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    table.close()
    return sink.getvalue().decode()


def test_text_table__wide_and_combining_characters__stay_aligned():
    text = table_text([{"a": "日本語", "b": "x"}, {"a": "e\u0301", "b": "y"}, {"a": "abc", "b": "z"}])
    ends = [line[:-1] for line in text.splitlines()]
    assert ends == ["a       ", "日本語  ", "e\u0301       ", "abc     "]


def test_text_table__many_columns_on_a_narrow_terminal__each_keeps_some_room():
    row = {f"column_{number}": "value" * 5 for number in range(8)}
    text = table_text([row], width=60)
    assert all(len(line) <= 60 for line in text.splitlines())
    narrow = table_text([row], width=10)
    assert all(len(line.split()) == 8 for line in narrow.splitlines())


def test_text_table__rows_behind_the_sample__are_written_too():
    sink = io.BytesIO()
    schema = pa.schema([("a", pa.int64())])
    table = TextTable(schema, sink)
    for start in (0, 900, 1800):
        table.write(pa.RecordBatch.from_pydict({"a": list(range(start, start + 900))}, schema=schema))
    table.close()
    assert sink.getvalue().decode().split() == ["a", *map(str, range(2700))]


@pytest.mark.parametrize("format_", ["table", "csv", "jsonl", "parquet", "arrow"])
def test_scan__reader_closes_the_pipe__ends_quietly(format_, tmp_path):
    with create_table(tmp_path / "t", schema=pa.schema([("a", pa.int64())])) as table:
        table.append({"a": list(range(200_000))})
    child = subprocess.Popen(
        [sys.executable, "-m", "siltstone", "scan", str(tmp_path / "t"), "--format", format_],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    child.stdout.close()  # before anything was written: the child's first write meets a closed pipe
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait(240) == 141
    assert said == b""
