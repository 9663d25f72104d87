"""create, append, upsert, overwrite, delete and update: what they do, and what they refuse."""

from __future__ import annotations

import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.api import open_table
from siltstone.cli import files
from siltstone.errors import ConflictError

VERSION_KEYS = {
    "uri", "changed", "version", "time", "operation", "inserted", "updated", "deleted", "fragments_added",
    "fragments_removed", "once", "message", "op", "shards",
}  # fmt: skip
HEADER = "id,lang,stars,at\n"


def rows(uri):
    with open_table(uri) as table:
        return table.scan(["id", "lang", "stars"]).to_arrow().sort_by("id").to_pylist()


def ids(uri):
    return [row["id"] for row in rows(uri)]


def unchanged(uri):
    """The table as the fixture made it."""
    with open_table(uri) as table:
        return table.version == 1 and table.count() == 3


# -- create --------------------------------------------------------------------------------------


def test_create__schema_and_key__table_with_these_columns(cli, tmp_path):
    text = "id int64 not null, name string, ts timestamp[us, UTC]"
    result = cli("create", tmp_path / "t", "--schema", text, "--key", "id", "--json")
    assert result.code == 0
    assert set(result.json) == {"uri", "version", "created", "key", "columns", "shards"}
    assert (result.json["version"], result.json["created"], result.json["key"]) == (0, True, ["id"])
    assert result.json["columns"] == [
        {"name": "id", "type": "int64", "nullable": False},
        {"name": "name", "type": "string", "nullable": True},
        {"name": "ts", "type": "timestamp[us, tz=UTC]", "nullable": True},
    ]
    assert open_table(tmp_path / "t").key == ("id",)
    assert "not null  key" in cli("column", "list", tmp_path / "t").out


def test_create__key_of_two_columns__by_commas_or_repeated(cli, tmp_path):
    for number, words in enumerate((("--key", "a,b"), ("--key", "a", "--key", "b"))):
        assert cli("create", tmp_path / str(number), "--schema", "a int8, b string, c double", *words).code == 0
        assert open_table(tmp_path / str(number)).key == ("a", "b")


def test_create__table_is_there__refused_unless_exist_ok_and_alike(cli, tmp_path):
    words = ("create", tmp_path / "t", "--schema", "a int64", "--json")
    assert cli(*words).json["created"] is True
    assert cli(*words).error == (1, "already-exists")
    again = cli(*words, "--exist-ok")
    assert (again.code, again.json["created"]) == (0, False)
    assert cli("create", tmp_path / "t", "--schema", "a int32", "--exist-ok", "--json").error == (1, "already-exists")


def test_create__like_files__columns_of_each_format(cli, tmp_path):
    (tmp_path / "r.csv").write_text("id,score,at,day,ok,name\n1,1.5,2026-01-01T00:00:00Z,2026-01-01,true,x\n")
    (tmp_path / "r.jsonl").write_text('{"id": 1, "tags": ["a"], "in": {"x": 1.5}}\n{"id": 2, "more": true}\n')
    table = pa.table({"id": pa.array([1], pa.int16()), "b": pa.array([b"x"])})
    pq.write_table(table, tmp_path / "r.parquet")
    with pa.OSFile(str(tmp_path / "r.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    found = {}
    for ending in ("csv", "jsonl", "parquet", "arrow"):
        result = cli("create", tmp_path / ending, "--like", tmp_path / f"r.{ending}", "--key", "id", "--json")
        found[ending] = [(column["name"], column["type"]) for column in result.json["columns"]]
    assert found["csv"] == [
        ("id", "int64"), ("score", "double"), ("at", "timestamp[us, tz=UTC]"), ("day", "date32[day]"), ("ok", "bool"),
        ("name", "string"),
    ]  # fmt: skip
    assert found["jsonl"] == [
        ("id", "int64"), ("tags", "list<item: string>"), ("in", "struct<x: double>"), ("more", "bool"),
    ]  # fmt: skip
    assert found["parquet"] == found["arrow"] == [("id", "int16"), ("b", "binary")]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("r.csv", "", "can't be read as csv"),
        ("r.csv", "id,x\n1,\n", "column 'x' has no value in the first rows"),
        ("r.jsonl", "", "has no columns"),
        ("r.jsonl", "nope\n", "can't be read as jsonl"),
        ("r.parquet", "nope", "can't be read as parquet"),
        ("r.arrow", "nope", "can't be read as arrow"),
        ("r.csv.gz", "nope", "can't be read as csv"),
    ],
)
def test_create__like_a_file_that_tells_no_columns__refused(name, text, says, cli, tmp_path):
    (tmp_path / name).write_text(text)
    result = cli("create", tmp_path / "t", "--like", tmp_path / name)
    assert result.code == 1
    assert says in result.err
    assert name in result.err
    assert not (tmp_path / "t").exists()


def test_create__with_a_commit_store__writing_needs_it(cli, tmp_path):
    commits = ("--commits", f"sqlite://{tmp_path}/claims.db")
    assert cli("create", tmp_path / "t", "--schema", "a int64", *commits).code == 0
    assert cli("append", tmp_path / "t", "-", "--json", stdin=b'{"a": 1}').error == (1, "wrong-commit-store")
    assert cli("append", tmp_path / "t", "-", *commits, stdin=b'{"a": 1}').code == 0
    assert cli("scan", tmp_path / "t", "--count").out == "1\n"


def test_create__store_that_lies__refused(cli, lying):
    words = ("create", "s3://bkt/t", "--schema", "a int64", "--json", *lying.words)
    assert cli(*words).error == (1, "unsafe-store")


# -- rows from files -----------------------------------------------------------------------------


def test_append__csv_jsonl_parquet_and_arrow__one_version(cli, reviews, tmp_path):
    (tmp_path / "a.csv").write_text(HEADER + '4,fr,4,2026-01-01T00:00:00Z\n5,"",,\n')
    (tmp_path / "b.jsonl").write_text('{"id": 6, "stars": 2}\n\n{"id": 7, "lang": "ja", "at": null}\n')
    schema = open_table(reviews).schema
    pq.write_table(pa.table([[8], ["en"], [1], [None]], schema=schema), tmp_path / "c.parquet")
    with pa.OSFile(str(tmp_path / "d.arrow"), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table([[9], ["en"], [1], [None]], schema=schema))
    names = [tmp_path / name for name in ("a.csv", "b.jsonl", "c.parquet", "d.arrow")]
    result = cli("append", reviews, *names, "--message", "four files", "--json")
    assert result.code == 0
    assert set(result.json) == VERSION_KEYS
    found = result.json
    assert (found["changed"], found["version"], found["operation"], found["inserted"]) == (True, 2, "append", 6)
    assert found["message"] == "four files"
    assert [(row["id"], row["lang"], row["stars"]) for row in rows(reviews)[3:]] == [
        (4, "fr", 4), (5, "", None), (6, None, 2), (7, "ja", None), (8, "en", 1), (9, "en", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ((), b'{"id": 4}\n{"id": 5}'),
        (("--format", "jsonl"), b'\xef\xbb\xbf{"id": 4}\r\n{"id": 5}\r\n'),
        (("--format", "csv"), HEADER.encode() + b"4,,,\n5,,,"),
        (("--format", "csv"), b"at,stars,lang,id\r\n,,,4\r\n,,,5\r\n"),
    ],
)
def test_append__standard_input__rows_of_its_format(words, data, cli, reviews):
    result = cli("append", reviews, "-", *words, stdin=data)
    assert (result.code, result.out) == (0, "version 2: append, 2 inserted\n")
    assert ids(reviews) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_append__standard_input_of_a_binary_format__through_a_pipe(format_, process, reviews, tmp_path):
    assert process("create", tmp_path / "t", "--schema", "id int64 not null, lang string, stars int32").code == 0
    target = tmp_path / f"rows.{format_}"
    assert process("scan", reviews, "--columns", "id,lang,stars", "--output", target).code == 0
    done = process("append", tmp_path / "t", "-", "--format", format_, stdin=target.read_bytes())
    assert (done.code, done.out, done.err) == (0, "version 1: append, 3 inserted\n", "")
    assert rows(tmp_path / "t") == rows(reviews)


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("zst", "zstd"), ("bz2", "bz2")])
def test_append__compressed_file__is_unpacked(ending, codec, cli, reviews, tmp_path):
    with pa.CompressedOutputStream(str(tmp_path / f"a.csv.{ending}"), codec) as stream:
        stream.write((HEADER + "4,,,\n").encode())
    assert cli("append", reviews, tmp_path / f"a.csv.{ending}").code == 0
    assert ids(reviews) == [1, 2, 3, 4]


def test_append__named_pipe__is_read_to_its_end(cli, reviews, tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    feeder = threading.Thread(target=(tmp_path / "pipe.jsonl").write_bytes, args=(b'{"id": 4}\n',))
    feeder.start()
    result = cli("append", reviews, tmp_path / "pipe.jsonl")
    feeder.join()
    assert result.code == 0
    assert ids(reviews) == [1, 2, 3, 4]


def test_append__file_of_many_blocks__all_rows_in_bounded_parts(cli, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 256)
    lines = [f"{number},de,{number % 5},2026-01-01T00:00:00Z" for number in range(10, 1010)]
    (tmp_path / "a.csv").write_text(HEADER + "\n".join(lines))
    (tmp_path / "b.jsonl").write_text("".join(f'{{"id": {number}, "lang": "ü"}}\n' for number in range(2000, 3000)))
    assert cli("append", reviews, tmp_path / "a.csv", tmp_path / "b.jsonl").code == 0
    assert ids(reviews) == [1, 2, 3, *range(10, 1010), *range(2000, 3000)]


def test_append__once_twice__the_second_does_nothing_and_reads_nothing(cli, reviews, tmp_path):
    words = ("append", reviews, "-", "--once", "job-7", "--json")
    first = cli(*words, stdin=b'{"id": 4}').json
    second = cli(*words, stdin=b"this is not even JSON").json
    assert (first["changed"], first["once"], second["changed"], second["version"]) == (True, ["job-7"], False, 2)
    assert ids(reviews) == [1, 2, 3, 4]


def test_append__no_rows__nothing_to_do(cli, reviews):
    result = cli("append", reviews, "-", stdin=b"\n")
    assert (result.code, result.out) == (0, "nothing to do: the table is at version 1\n")
    assert unchanged(reviews)


def test_append__column_with_a_default__may_be_missing_from_all_rows_only(cli, reviews):
    assert cli("column", "add", reviews, "score", "int64", "--default", "7").code == 0
    assert cli("append", reviews, "-", stdin=b'{"id": 4}\n{"id": 5}\n').code == 0
    assert cli("append", reviews, "-", stdin=b'{"id": 6, "score": 1}\n{"id": 7, "score": null}\n').code == 0
    mixed = cli("append", reviews, "-", stdin=b'{"id": 8}\n{"id": 9, "score": 1}\n')
    assert "standard input, row 2: it has 'score', which the first row has not" in mixed.err
    found = cli("scan", reviews, "--columns", "id,score", "--json").rows
    assert {row["id"]: row["score"] for row in found} == {1: 7, 2: 7, 3: 7, 4: 7, 5: 7, 6: 1, 7: None}


def test_upsert__some_keys_there__replaced_and_added(cli, reviews):
    result = cli("upsert", reviews, "-", stdin=b'{"id": 3, "stars": 2}\n{"id": 4}\n{"id": 4, "lang": "last"}\n')
    assert result.out == "version 2: upsert, 1 inserted, 1 updated\n"
    assert [(row["id"], row["lang"], row["stars"]) for row in rows(reviews)[2:]] == [(3, None, 2), (4, "last", None)]


def test_upsert__table_without_a_key__refused(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "a int64")
    assert cli("upsert", tmp_path / "t", "-", "--json", stdin=b'{"a": 1}').error == (1, "invalid-input")


def test_overwrite__new_rows__take_the_place_of_all(cli, reviews):
    result = cli("overwrite", reviews, "-", "--json", stdin=b'{"id": 9}\n')
    assert (result.json["operation"], result.json["inserted"], result.json["deleted"]) == ("overwrite", 1, 3)
    assert ids(reviews) == [9]
    assert cli("scan", f"{reviews}@1", "--count").out == "3\n"


# -- rows that are refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", HEADER + "4,en,1,\n5,en,2,\n6,en,many,\n", "a.csv, row 3: column 'stars': 'many' is no int32"),
        ("a.csv", HEADER + "4,en,1,\n5,en,99999999999,\n", "a.csv, row 2: column 'stars': '99999999999' is no int32"),
        ("a.csv", HEADER + "4,en,1,2026-01-01 00:00:00\n", "a.csv, row 1: column 'at': '2026-01-01 00:00:00' is no"),
        ("a.csv", HEADER + "4,en,1,\n5,en\n", "a.csv, row 2: Expected 4 columns, got 2"),
        ("a.csv", HEADER + "4,en,1,\n,en,1,\n", "a.csv: column 'id', row 2: null in a key"),
        ("a.csv", "id,lang\n4,en\n", "a.csv: the rows lack 'stars', 'at'"),
        ("a.csv", "id,lang,stars,at,more\n4,en,1,,x\n", "a.csv: the rows have 'more', which the table has not"),
        ("a.csv", "id,id,lang,stars,at\n4,4,en,1,\n", "a.csv: two columns have the name 'id'"),
        ("a.csv", "", "a.csv can't be read as csv: Empty CSV file"),
        ("a.csv", "nope\n", "a.csv: the rows lack 'id', 'lang', 'stars', 'at'"),
        ("a.jsonl", '{"id": 4}\n\n{"id": 5}\n{"id": "six"}\n', "a.jsonl, row 3: column 'id': \"six\" is no int64"),
        ("a.jsonl", '{"id": 4}\n{"id": 5.5}\n', "a.jsonl, row 2: column 'id': 5.5 is no int64"),
        ("a.jsonl", '{"id": 4}\n{"id": 5, "stars": 3000000000}\n', "row 2: column 'stars': 3000000000 is no int32"),
        ("a.jsonl", '{"id": 4}\n{"id": 5, "at": "soon"}\n', "a.jsonl, row 2: column 'at': 'soon' is no timestamp"),
        ("a.jsonl", '{"id": 4}\n{"id": 5, "star": 1}\n', "a.jsonl, row 2: it has 'star', which the table has not"),
        ("a.jsonl", '{"id": 4}\n{"stars": 5}\n', "a.jsonl: column 'id', row 2: null in a key"),
        ("a.jsonl", '{"id": 4}\nnope\n', "a.jsonl, row 2: the line is no JSON"),
        ("a.jsonl", '{"id": 4}\n[1, 2]\n', "a.jsonl, row 2: the line is a list, not an object"),
        ("a.jsonl", '{"id": 4} {"id": 5}\n', "a.jsonl, row 1: the line is no JSON"),
        ("a.jsonl", '{"id": 4,\n"stars": 5}\n', "a.jsonl, row 1: the line is no JSON"),
        ("a.jsonl", '{"id": 4, "lang": ' + "[" * 100_000, "a.jsonl, row 1: the line is no JSON"),
        ("a.parquet", "PAR1 and nothing more", "a.parquet can't be read as parquet"),
        ("a.arrow", "nope", "a.arrow can't be read as arrow"),
        ("a.csv.gz", "nope", "a.csv.gz can't be read as csv"),
    ],
)
def test_append__bad_file__named_with_its_row_and_nothing_committed(name, text, says, cli, reviews):
    tmp_path = reviews.parent
    (tmp_path / "good.jsonl").write_text('{"id": 100}\n{"id": 101}\n')
    (tmp_path / name).write_text(text)
    for verb in ("append", "upsert", "overwrite"):
        result = cli(verb, reviews, tmp_path / "good.jsonl", tmp_path / name)
        assert result.code == 1
        assert says in result.err
        assert result.out == ""
        assert "Traceback" not in result.err
        assert unchanged(reviews)


def test_append__invalid_utf8__row_is_named(cli, reviews, tmp_path):
    (tmp_path / "a.csv").write_bytes(HEADER.encode() + b"4,en,,\n5,\xff\xfe,,\n")
    result = cli("append", reviews, tmp_path / "a.csv")
    assert "a.csv: column 'lang', row 2 is not valid UTF-8" in result.err
    assert unchanged(reviews)


def test_append__wrong_type_in_a_later_block__row_counts_from_the_start(cli, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 128)
    (tmp_path / "a.csv").write_text(HEADER + "".join(f"{number},en,1,\n" for number in range(10, 60)) + "60,en,x,\n")
    assert "a.csv, row 51: column 'stars': 'x'" in cli("append", reviews, tmp_path / "a.csv").err
    lines = [f'{{"id": {number}}}\n' for number in range(10, 60)]
    (tmp_path / "a.jsonl").write_text("".join(lines) + '{"id": true}\n')
    assert "a.jsonl, row 51: column 'id': true is no int64" in cli("append", reviews, tmp_path / "a.jsonl").err
    assert unchanged(reviews)


def test_append__parquet_of_other_types__refused_with_both(cli, reviews, tmp_path):
    pq.write_table(pa.table({"id": ["x"], "lang": ["en"], "stars": [1], "at": [None]}), tmp_path / "a.parquet")
    result = cli("append", reviews, tmp_path / "a.parquet", "--json")
    assert result.error == (1, "schema-mismatch")
    assert "a.parquet: column 'id' is string, and int64 in the table" in result.json["error"]["message"]


def test_append__key_is_there__refused(cli, reviews):
    result = cli("append", reviews, "-", "--json", stdin=b'{"id": 4}\n{"id": 2}\n')
    assert result.error == (1, "duplicate-key")
    assert "2" in result.json["error"]["message"]
    assert cli("append", reviews, "-", "--json", stdin=b'{"id": 4}\n{"id": 4}\n').error == (1, "duplicate-key")
    assert unchanged(reviews)


def test_append__nested_column_from_csv__refused_with_a_way_out(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "a list<int64>")
    result = cli("append", tmp_path / "t", "-", "--format", "csv", stdin=b"a\n1\n")
    assert "CSV can't hold" in result.err
    assert "JSON lines or Parquet" in result.err


def test_append__file_of_unknown_format__usage_error(cli, reviews, tmp_path):
    (tmp_path / "rows.txt").write_text('{"id": 4}\n')
    result = cli("append", reviews, tmp_path / "rows.txt")
    assert result.code == 2
    assert "--format" in result.err
    assert cli("append", reviews, tmp_path / "rows.txt", "--format", "jsonl").code == 0


@pytest.mark.parametrize("verb", ["append", "upsert", "overwrite"])
def test_append__earlier_version__refused_as_usage(verb, cli, reviews):
    result = cli(verb, f"{reviews}@1", "-", stdin=b'{"id": 4}')
    assert result.code == 2
    assert "makes a new version and can't work on an earlier one: '@1' is too much" in result.err
    assert unchanged(reviews)


def test_append__conflict__code_3(cli, reviews, monkeypatch):
    def lose(*_, **__):
        raise ConflictError("others were first")

    monkeypatch.setattr("siltstone.api.Table._commit", lose)
    assert cli("append", reviews, "-", stdin=b'{"id": 4}').code == 3


# -- rows by condition ---------------------------------------------------------------------------


def test_delete__condition__rows_that_match_are_gone(cli, reviews):
    result = cli("delete", reviews, "--where", "stars < 4", "--message", "poor ones", "--json")
    assert set(result.json) == VERSION_KEYS
    assert (result.json["deleted"], result.json["message"]) == (2, "poor ones")
    assert ids(reviews) == [1]
    assert cli("delete", reviews, "--where", "stars < 4").out == "nothing to do: the table is at version 2\n"
    assert cli("delete", reviews, "--all").out == "version 3: delete, 1 deleted\n"
    assert ids(reviews) == []


def test_update__several_values__from_the_row_as_it_was(cli, reviews):
    words = ("--set", "lang='en'", "--set", "stars=stars + 1", "--where", "lang is null")
    assert cli("update", reviews, *words).out == "version 2: update, 1 updated\n"
    assert rows(reviews)[1] == {"id": 2, "lang": "en", "stars": 4}
    assert cli("update", reviews, "--set", "stars = 0", "--all", "--once", "zero").code == 0
    assert {row["stars"] for row in rows(reviews)} == {0}


@pytest.mark.parametrize(
    "words",
    [
        ("delete", "--where", "stars <"),
        ("delete", "--where", "sters < 3"),
        ("delete", "--where", "stars"),
        ("delete", "--where", " "),
        ("update", "--set", "sters=1", "--all"),
        ("update", "--set", "stars='many'", "--all"),
        ("update", "--set", "stars=1 +", "--all"),
        ("update", "--set", "stars=99999999999", "--all"),
        ("update", "--set", "id=null", "--all"),
    ],
)
def test_delete_and_update__bad_expression__refused_and_nothing_changed(words, cli, reviews):
    verb, *rest = words
    assert cli(verb, reviews, *rest, "--json").error == (1, "invalid-input")
    assert unchanged(reviews)


def test_delete__unknown_column__names_near_ones(cli, reviews):
    assert "stars" in cli("delete", reviews, "--where", "star < 3").err
