"""log, tag, restore, compact and column."""

from __future__ import annotations

import pytest

from siltstone.api import open_table

VERSION_KEYS = {
    "version", "time", "operation", "inserted", "updated", "deleted", "fragments_added", "fragments_removed", "once",
    "message", "op", "shards",
}  # fmt: skip


# -- log -----------------------------------------------------------------------------------------


def test_log__some_versions__newest_first_in_columns(cli, reviews):
    cli("delete", reviews, "--where", "id = 1", "--message", "as asked\x1b[31m")
    cli("tag", reviews, "v1")
    lines = cli("log", reviews).out.splitlines()
    assert lines[0].split() == ["version", "time", "operation", "rows", "tags", "message"]
    assert [line.split()[0] for line in lines[1:5]] == ["3", "2", "1", "0"]
    assert "delete" in lines[2]
    assert "1 deleted" in lines[2]
    assert lines[2].endswith("v1    as asked\\x1b[31m")
    assert lines[5] == "4 versions: 0 to 3"


def test_log__versions_that_were_made_once__have_their_ids(cli, reviews):
    cli("append", reviews, "-", "--format", "jsonl", "--once", "load 7", stdin=b'{"id": 9}\n')
    lines = cli("log", reviews).out.splitlines()
    assert lines[0].split() == ["version", "time", "operation", "rows", "tags", "once", "message"]
    assert "load 7" in lines[1]
    assert cli("log", reviews, "--limit", "1").out.splitlines()[-1] == "the newest 1 version, 2; --limit N shows more"


def test_log__json__has_the_stable_keys(cli, reviews):
    cli("tag", reviews, "v1", "--version", "0")
    found = cli("log", reviews, "--json").json
    assert set(found) == {"uri", "version", "versions"}
    assert all(set(one) == VERSION_KEYS | {"tags", "indexes"} for one in found["versions"])
    assert [(one["version"], one["operation"], one["tags"]) for one in found["versions"]] == [
        (2, "tag", []),
        (1, "append", []),
        (0, "create", ["v1"]),
    ]
    assert found["versions"][1]["time"].endswith("Z")


def test_log__limit__so_many(cli, reviews):
    assert len(cli("log", reviews, "--limit", "1", "--json").json["versions"]) == 1
    assert cli("log", reviews, "--limit", "0", "--json").json["versions"] == []


# -- tag -----------------------------------------------------------------------------------------


def test_tag__with_and_without_its_verb__the_same(cli, reviews):
    first = cli("tag", reviews, "v1", "--json").json
    assert set(first) == {"uri", "tag", "tagged"} | VERSION_KEYS
    assert (first["tag"], first["tagged"], first["version"]) == ("v1", 1, 2)
    assert cli("tag", "--version", "0", reviews, "v0").code == 0
    assert "v2 is version 1" in cli("tag", "create", reviews, "v2", "--version", "1").out
    assert cli("tag", "list", reviews, "--json").json["tags"] == {"v0": 0, "v1": 1, "v2": 1}
    assert [line.split() for line in cli("tag", "list", reviews).out.splitlines()[1:]] == [
        ["v0", "0"],
        ["v1", "1"],
        ["v2", "1"],
    ]


def test_tag_delete__tag__is_gone_and_its_version_stays(cli, reviews):
    cli("tag", reviews, "v1")
    assert cli("tag", "delete", reviews, "v1").code == 0
    assert cli("tag", "list", reviews, "--json").json["tags"] == {}
    assert cli("tag", "delete", reviews, "v1", "--json").error == (1, "not-found")
    assert cli("scan", f"{reviews}@1", "--count").out == "3\n"


@pytest.mark.parametrize("words", [("7",), ("",), ("a b",), ("v1", "--version", "9")])
def test_tag__bad_name_or_version__refused(words, cli, reviews):
    assert cli("tag", "create", reviews, *words).code == 1
    assert open_table(reviews).version == 1


# -- restore and compact -------------------------------------------------------------------------


def test_restore__version_or_tag__its_rows_are_back(cli, reviews):
    cli("tag", reviews, "v1")
    cli("delete", reviews, "--all")
    result = cli("restore", f"{reviews}@v1", "--json")
    assert (result.code, result.json["operation"], result.json["changed"]) == (0, "restore", True)
    assert cli("scan", reviews, "--count").out == "3\n"
    assert cli("restore", f"{reviews}@0").code == 0
    assert cli("scan", reviews, "--count").out == "0\n"
    assert cli("restore", f"{reviews}@99", "--json").error == (1, "not-found")
    assert cli("restore", f"{reviews}@nope", "--json").error == (1, "not-found")


def test_compact__several_fragments__fewer_and_the_same_rows(cli, reviews):
    for number in range(4, 8):
        assert cli("append", reviews, "-", stdin=b'{"id": %d}' % number).code == 0
    before = cli("scan", reviews, "--json").rows
    result = cli("compact", reviews, "--json")
    assert set(result.json) == {
        "uri", "version", "versions", "rows", "fragments_before", "fragments_after", "bytes_before", "bytes_after",
        "indexes",
    }  # fmt: skip
    assert (result.json["fragments_before"], result.json["fragments_after"], result.json["rows"]) == (5, 1, 7)
    assert cli("scan", reviews, "--json").rows == before
    assert cli("compact", reviews).out.startswith("nothing to do: 1 fragment,")


# -- column --------------------------------------------------------------------------------------


def test_column__each_verb__changes_the_columns(cli, reviews):
    assert cli("column", "add", reviews, "score", "double", "--default", "1.5").code == 0
    assert cli("column", "add", reviews, "tags", "list<string>").code == 0
    assert cli("column", "rename", reviews, "lang", "language").code == 0
    assert cli("column", "widen", reviews, "stars", "int64").code == 0
    dropped = cli("column", "drop", reviews, "at", "--json")
    assert (dropped.json["operation"], dropped.json["changed"]) == ("schema", True)
    found = cli("column", "list", reviews, "--json").json
    assert set(found) == {"uri", "version", "key", "columns"}
    assert [(column["name"], column["type"]) for column in found["columns"]] == [
        ("id", "int64"),
        ("language", "string"),
        ("stars", "int64"),
        ("score", "double"),
        ("tags", "list<item: string>"),
    ]
    assert cli("scan", reviews, "--limit", "1", "--json").rows == [
        {"id": 1, "language": "en", "stars": 5, "score": 1.5, "tags": None}
    ]
    assert [column["name"] for column in cli("column", "list", f"{reviews}@1", "--json").json["columns"]][-1] == "at"


def test_column_widen__nullable__nulls_are_taken(cli, tmp_path):
    cli("create", tmp_path / "t", "--schema", "a int64, b int64 not null")
    assert cli("append", tmp_path / "t", "-", stdin=b'{"a": 1}').code == 1
    assert cli("column", "widen", tmp_path / "t", "b", "--nullable").code == 0
    assert cli("append", tmp_path / "t", "-", stdin=b'{"a": 1}').code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("add", "lang", "string"),
        ("add", "more", "strong"),
        ("add", "more", "int64", "--default", "x"),
        ("add", "_version", "int64"),
        ("drop", "nope"),
        ("drop", "id"),
        ("rename", "lang", "stars"),
        ("rename", "nope", "x"),
        ("widen", "stars", "int16"),
        ("widen", "lang", "int64"),
    ],
)
def test_column__change_that_can_not_be__refused_and_nothing_changed(words, cli, reviews):
    verb, *rest = words
    result = cli("column", verb, reviews, *rest, "--json")
    assert result.error in {(1, "invalid-input"), (1, "unsupported-type")}
    assert open_table(reviews).version == 1


@pytest.mark.parametrize(
    "words", [("add", "x", "int8"), ("drop", "lang"), ("rename", "lang", "x"), ("widen", "lang", "x")]
)
def test_column__earlier_version__refused_as_usage(words, cli, reviews):
    verb, *rest = words
    assert cli("column", verb, f"{reviews}@1", *rest).code in {1, 2}
    assert open_table(reviews).version == 1
