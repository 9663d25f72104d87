"""scan, sql, get and changes: rows, formats, versions, and what is refused."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.api import create_table, open_table
from siltstone.cli.errors import UsageError
from siltstone.cli.opening import Named, newest_only, parse_named

FIRST = {"id": 1, "lang": "en", "stars": 5, "at": "2026-11-14T09:30:00.000000Z"}


# -- scan ----------------------------------------------------------------------------------------


def test_scan__in_a_pipe__aligned_text_and_nothing_else(cli, reviews):
    result = cli("scan", reviews)
    assert result.code == 0
    assert result.out.splitlines() == [
        "id  lang  stars  at",
        " 1  en        5  2026-11-14T09:30:00.000000Z",
        " 2  null      3  null",
        " 3  de        1  2026-11-14T09:30:00.000000Z",
    ]
    assert result.err == ""


def test_scan__json__a_line_for_each_row(cli, reviews):
    result = cli("scan", reviews, "--json")
    assert result.rows[0] == FIRST
    assert result.rows[1]["at"] is None
    assert result.out == cli("scan", reviews, "--format", "jsonl").out


def test_scan__columns_filter_and_limit__choose_rows(cli, reviews):
    result = cli("scan", reviews, "--columns", "stars,id", "--where", "stars >= 3", "--limit", "1", "--json")
    assert result.out == '{"stars":5,"id":1}\n'
    assert cli("scan", reviews, "--columns", "stars", "--columns", "id", "--limit", "0", "--json").out == ""


def test_scan__csv__reads_back(cli, reviews):
    found = list(csv.DictReader(io.StringIO(cli("scan", reviews, "--format", "csv").out)))
    assert [row["id"] for row in found] == ["1", "2", "3"]
    assert found[1] == {"id": "2", "lang": "", "stars": "3", "at": ""}


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl", "txt"])
def test_scan__output_file__by_its_name_and_nothing_on_stdout(ending, cli, reviews, tmp_path):
    target = tmp_path / "out" / f"rows.{ending}"
    target.parent.mkdir()
    target.write_text("what was there before")
    result = cli("scan", reviews, "--output", target)
    assert (result.code, result.out) == (0, "")
    assert "3 rows written to" in result.err
    assert list(target.parent.iterdir()) == [target]
    expected = open_table(reviews).scan().to_arrow()
    if ending == "parquet":
        assert pq.read_table(target).equals(expected)
    elif ending == "arrow":
        assert pa.ipc.open_file(target).read_all().equals(expected)
    else:
        assert len(target.read_text().splitlines()) == (3 if ending == "jsonl" else 4)


def test_scan__output_that_fails_in_the_middle__file_stays_as_it_was(cli, reviews, tmp_path):
    target = tmp_path / "rows.csv"
    target.write_text("before")
    for file in (reviews / "data").iterdir():
        file.write_bytes(b"garbage")
    before = sorted(tmp_path.iterdir())
    result = cli("scan", reviews, "--output", target, "--json", "--format", "jsonl")
    assert result.error == (1, "corruption")
    assert target.read_text() == "before"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("place", ["no/such/dir/rows.csv", "."])
def test_scan__output_that_can_not_be_made__refused(place, cli, reviews, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("scan", reviews, "--output", place, "--json").error == (1, "invalid-input")


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_scan__binary_format_through_a_pipe__reads_back(format_, reviews, tmp_path, process_bytes):
    done = process_bytes("scan", reviews, "--format", format_)
    assert (done.returncode, done.stderr) == (0, b"")
    source = pa.BufferReader(done.stdout)
    found = pq.read_table(source) if format_ == "parquet" else pa.ipc.open_stream(source).read_all()
    assert found.equals(open_table(reviews).scan().to_arrow())


def test_scan__count_and_explain__no_rows(cli, reviews):
    assert cli("scan", reviews, "--count").out == "3\n"
    assert cli("scan", reviews, "--count", "--where", "stars > 1", "--limit", "1").out == "1\n"
    found = cli("scan", reviews, "--count", "--json").json
    assert (set(found), found["count"], found["version"]) == ({"uri", "version", "count"}, 3, 1)
    assert "fragments  1 of 1 are read" in cli("scan", reviews, "--explain").out
    assert set(cli("scan", reviews, "--explain", "--json").json) == {"uri", "version", "explain"}


def test_scan__empty_table__heads_alone(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "a int64, b string")
    assert cli("scan", tmp_path / "t").out == "a  b\n"
    assert cli("scan", tmp_path / "t", "--json").out == ""
    assert cli("scan", tmp_path / "t", "--format", "csv").out == '"a","b"\n'


@pytest.mark.parametrize(
    "words",
    [
        ("--where", "stars <"),
        ("--where", "sters = 1"),
        ("--where", "stars"),
        ("--where", ""),
        ("--columns", "id,nope"),
        ("--columns", "id,id"),
    ],
)
def test_scan__bad_filter_or_column__one_line_of_json(words, cli, reviews):
    result = cli("scan", reviews, *words, "--json")
    assert result.error == (1, "invalid-input")
    assert result.out.count("\n") == 1
    assert cli("scan", reviews, *words).err.startswith("error: ")


def test_scan__empty_column_name__usage_error(cli, reviews):
    assert cli("scan", reviews, "--columns", "id,,lang").code == 2


def test_scan__error_behind_rows__last_line_says_so(cli, tmp_path):
    with create_table(tmp_path / "t", schema=pa.schema([("a", pa.int64())])) as table:
        table.append({"a": list(range(20_000))})
        table.append({"a": list(range(20_000))})
        last = table.history(1)[0].version
    newest = max((tmp_path / "t" / "data").iterdir(), key=lambda file: file.name)
    assert newest.name.startswith(f"{last - 1:020d}")
    newest.write_bytes(b"garbage")
    result = cli("scan", tmp_path / "t", "--json")
    assert result.code == 1
    assert "error" in json.loads(result.out.splitlines()[-1])


# -- versions ------------------------------------------------------------------------------------


def test_scan__version_and_tag__rows_of_then(cli, reviews):
    cli("tag", reviews, "v1.0-rc")
    cli("delete", reviews, "--all")
    for name, rows in (("@1", 3), ("@v1.0-rc", 3), ("@0", 0), ("", 0)):
        assert cli("scan", f"{reviews}{name}", "--count").out == f"{rows}\n"
    assert cli("sql", f"{reviews}@1", "select max(id) m from reviews", "--json").out == '{"m":3}\n'
    assert cli("get", f"{reviews}@1", "2", "--columns", "id", "--json").out == '{"id":2}\n'
    assert len(cli("log", f"{reviews}@1", "--json").json["versions"]) == 2


@pytest.mark.parametrize(
    ("behind", "says"), [("@9", "there is no version 9"), ("@nope", "there is no tag and no checkpoint 'nope'")]
)
def test_scan__version_that_is_not_there__not_found(behind, says, cli, reviews):
    result = cli("scan", f"{reviews}{behind}")
    assert result.code == 1
    assert says in result.err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("dir", Named("dir")),
        ("dir@3", Named("dir", version=3)),
        ("dir@v1", Named("dir", tag="v1")),
        ("a@b/dir", Named("a@b/dir")),
        ("a@b/dir@3", Named("a@b/dir", version=3)),
        ("dir@3/", Named("dir@3/")),
        ("a@b@7", Named("a@b", version=7)),
        ("s3://bucket/t@v1", Named("s3://bucket/t", tag="v1")),
        ("s3://bucket/t", Named("s3://bucket/t")),
        ("s3://bucket@3", Named("s3://bucket@3")),
        ("s3://bucket/@3", Named("s3://bucket/", version=3)),
        ("abfss://box@account.example.com", Named("abfss://box@account.example.com")),
        ("abfss://box@account.example.com/t", Named("abfss://box@account.example.com/t")),
        ("abfss://box@account.example.com/t@3", Named("abfss://box@account.example.com/t", version=3)),
        ("file:///x/dir@3", Named("file:///x/dir", version=3)),
    ],
)
def test_parse_named__uris_with_and_without_a_version__split_at_the_last_at(text, named):
    assert parse_named(text) == named


@pytest.mark.parametrize("text", ["dir@", "@3", "s3://bucket/t@"])
def test_parse_named__nothing_on_one_side__usage_error(text):
    with pytest.raises(UsageError, match="names no"):
        parse_named(text)


def test_newest_only__directory_with_an_at__slash_at_its_end(cli, tmp_path):
    assert newest_only("my@dir/", "append") == "my@dir/"
    assert cli("create", f"{tmp_path}/my@dir/", "--schema", "a int64").code == 0
    assert cli("append", f"{tmp_path}/my@dir/", "-", stdin=b'{"a": 1}').code == 0
    assert cli("scan", f"{tmp_path}/my@dir/", "--count").out == "1\n"


# -- sql -----------------------------------------------------------------------------------------


def test_sql__query__its_answer_in_any_format(cli, reviews):
    query = "select lang, count(*) as n from reviews group by lang order by lang nulls last"
    assert cli("sql", reviews, query, "--json").rows == [
        {"lang": "de", "n": 1},
        {"lang": "en", "n": 1},
        {"lang": None, "n": 1},
    ]
    assert cli("sql", reviews, query).out.splitlines()[0].split() == ["lang", "n"]
    assert cli("sql", reviews, query, "--format", "csv").out.startswith('"lang","n"\n')


def test_sql__other_tables__by_their_names(cli, reviews):
    cli("delete", reviews, "--where", "id = 2")
    query = "select id from old where id not in (select id from reviews)"
    result = cli("sql", reviews, query, "--table", f"old={reviews}@1", "--json")
    assert result.rows == [{"id": 2}]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--table", "old"), 2),
        (("--table", "a b=x"), 2),
        (("--table", "reviews=x"), 2),
        (("--table", "old=no/such/dir"), 1),
    ],
)
def test_sql__bad_other_table__refused(words, code, cli, reviews):
    assert cli("sql", reviews, "select 1", *words).code == code


@pytest.mark.parametrize(
    "query",
    ["", "selec 1", "select nope from reviews", "select 1 from nope", "drop table reviews", "select 1; select 2"],
)
def test_sql__bad_query__refused(query, cli, reviews):
    assert cli("sql", reviews, query, "--json").error == (1, "invalid-input")
    assert open_table(reviews).count() == 3


# -- get -----------------------------------------------------------------------------------------


def test_get__keys__rows_in_the_order_asked_for(cli, reviews):
    result = cli("get", reviews, "3", "1", "--columns", "id,lang", "--json")
    assert result.rows == [{"id": 3, "lang": "de"}, {"id": 1, "lang": "en"}]
    assert result.err == ""


def test_get__some_keys_are_missing__note_on_standard_error(cli, reviews):
    result = cli("get", reviews, "1", "77", "78")
    assert result.code == 0
    assert result.err == "note: 2 of 3 keys are not there\n"


def test_get__no_key_is_there__code_1(cli, reviews):
    assert cli("get", reviews, "77", "--json").error == (1, "not-found")
    assert "there is no row with the key 77" in cli("get", reviews, "77").err


def test_get__key_of_the_wrong_type__names_it(cli, reviews):
    result = cli("get", reviews, "1", "seven")
    assert result.code == 1
    assert "key 'seven': column 'id': 'seven' is no int64" in result.err


def test_get__table_without_a_key__refused(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "a int64")
    assert cli("get", tmp_path / "t", "1", "--json").error == (1, "invalid-input")


@pytest.mark.parametrize(
    ("kind", "given", "key"),
    [
        ("string", '"a,b"', "a,b"),
        ("date32", '"2026-11-14"', "2026-11-14"),
        ("timestamp[us, UTC]", '"2026-11-14T09:30:00Z"', "2026-11-14T09:30:00Z"),
        ("binary", '"00ff"', "00ff"),
        ("decimal128(10, 2)", '"1.50"', "1.5"),
        ("uint64", "18446744073709551615", "18446744073709551615"),
    ],
)
def test_get__keys_of_other_types__as_in_json_lines(kind, given, key, cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", f"k {kind}, v int64", "--key", "k")
    assert cli("append", tmp_path / "t", "-", stdin=f'{{"k": {given}, "v": 1}}'.encode()).code == 0
    assert cli("get", tmp_path / "t", key, "--columns", "v", "--json").rows == [{"v": 1}]


def test_get__key_of_two_columns__by_commas_or_as_a_list(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "day date32, place string, n int64", "--key", "day,place")
    lines = b'{"day": "2026-11-14", "place": "berlin", "n": 1}\n{"day": "2026-11-14", "place": "a, b", "n": 2}\n'
    assert cli("append", tmp_path / "t", "-", stdin=lines).code == 0
    words = ('["2026-11-14", "a, b"]', "2026-11-14,berlin")
    assert [row["n"] for row in cli("get", tmp_path / "t", *words, "--json").rows] == [2, 1]
    assert "has 1 parts, the table's has 2" in cli("get", tmp_path / "t", "2026-11-14").err
    assert "is no JSON list" in cli("get", tmp_path / "t", '["2026-11-14"').err


# -- changes -------------------------------------------------------------------------------------


def test_changes__since_a_version__what_happened_to_rows(cli, reviews):
    cli("upsert", reviews, "-", stdin=b'{"id": 3, "stars": 2}\n{"id": 4}\n')
    cli("delete", reviews, "--where", "id = 1")
    found = cli("changes", reviews, "--since", "1", "--columns", "id,stars", "--json").rows
    assert {(row["id"], row["stars"], row["_change"], row["_version"]) for row in found} == {
        (3, 1, "update_before", 2),
        (3, 2, "update_after", 2),
        (4, None, "insert", 2),
        (1, 5, "delete", 3),
    }
    assert {row["_version"] for row in cli("changes", reviews, "--since", "1", "--until", "2", "--json").rows} == {2}
    assert cli("changes", reviews, "--since", "3", "--json").out == ""
    assert len(cli("changes", reviews, "--since", "0", "--limit", "2", "--json").rows) == 2


@pytest.mark.parametrize(
    ("words", "kind"),
    [(("--since", "9"), "not-found"), (("--since", "1", "--until", "0"), "invalid-input")],
)
def test_changes__versions_that_can_not_be__refused(words, kind, cli, reviews):
    assert cli("changes", reviews, *words, "--json").error == (1, kind)
