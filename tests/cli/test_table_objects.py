"""show of a table's objects, verify of tables, and what raw verbs refuse to do to them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siltstone import paths
from siltstone.api import create_table, open_table
from siltstone.format.describe import part_of
from siltstone.ids import SystemIds
from siltstone.log import open_log

TABLE_KEYS = {
    "ok", "uri", "root", "version", "rows", "fragments", "vectors", "indexes", "bytes", "deep", "shards", "problems",
    "notes",
}  # fmt: skip


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.fixture
def busy(reviews):
    """The table with deletion vectors, a tag, a second fragment and, after 32 versions, a rollup."""
    with open_table(reviews) as table:
        table.append([{"id": 4, "lang": "fr", "stars": 4, "at": None}])
        table.delete("id in (1, 4) and stars > 0 or id = 2")
        for number in range(40):
            table.tag(f"t{number}")
    return reviews


def objects(uri, folder):
    return sorted((uri / folder).iterdir())


# -- show ----------------------------------------------------------------------------------------


def test_show__version_of_a_table__its_change_decoded(cli, reviews):
    place = reviews / "log" / paths.entry("", 1)
    found = cli("show", place, "--json").json
    assert (found["kind"], found["role"], found["body"]["form"]) == ("entry", "entry", "change")
    assert found["body"]["value"]["change"]["operation"] == "append"
    assert found["body"]["value"]["change"]["counts"] == {"inserted": 3}
    [repeated] = found["body"]["value"]["repeats"]
    assert (repeated["version"], repeated["operation"]) == (0, "create")
    assert '"operation": "append"' in cli("show", place).out


def test_show__compressed_version__its_change_decoded(cli, tmp_path):
    schema = pa.schema([(f"column_{number}", pa.string()) for number in range(200)])
    create_table(tmp_path / "wide", schema=schema).close()
    entry = tmp_path / "wide" / "log" / paths.entry("", 0)
    assert b"column_199" not in entry.read_bytes()
    found = cli("show", entry, "--json").json
    assert found["body"]["form"] == "change"
    assert len(found["body"]["value"]["change"]["schema"]["fields"]) == 200


@pytest.mark.parametrize(
    "body", [b"Zebra", b"Z" + b"\xff" * 20, b'{"change": {"operation": "dance"}}', b'{"change": 1}']
)
def test_show__body_that_is_no_change__shown_as_it_is(body, cli, tmp_path):
    open_log(tmp_path, create=True).add(body)
    found = cli("show", tmp_path / paths.entry("", 0), "--json").json
    assert found["body"]["form"] in {"text", "hex", "json"}
    assert found["body"]["bytes"] == len(body)


def test_show__fragment__its_footer_briefly(cli, reviews):
    [fragment] = objects(reviews, "data")
    found = cli("show", fragment, "--json").json
    assert (found["kind"], found["role"], found["bytes"]) == ("fragment", "fragment", fragment.stat().st_size)
    assert found["record"] == {"rows": 3, "row_groups": 1, "columns": 4}
    columns = found["parts"]["columns"]
    assert columns["count"] == 4
    assert [(column["id"], column["name"], column["nulls"]) for column in columns["first"]] == [
        (1, "id", 0),
        (2, "lang", 1),
        (3, "stars", 0),
        (4, "at", 1),
    ]
    text = cli("show", fragment).out
    assert "columns (4)" in text
    assert "digest" not in text


def test_show__deletion_vectors__each_of_them(cli, busy):
    [vectors] = objects(busy, "vectors")
    found = cli("show", vectors, "--json").json
    assert (found["kind"], found["role"]) == ("vectors", "vectors")
    listed = found["parts"]["vectors"]
    assert listed["count"] == len(listed["first"]) == found["record"]["vectors"]
    assert found["record"]["deleted"] == sum(one["deleted"] for one in listed["first"]) > 0
    assert "vectors (" in cli("show", vectors).out


def test_show__rollup__header_summary_and_first_fragments(cli, busy):
    rollup = objects(busy, "rollups")[0]
    found = cli("show", rollup, "--json").json
    assert (found["kind"], found["role"], found["doubts"]) == ("rollup", "rollup", [])
    assert found["record"]["position"] == 32
    assert found["body"]["value"]["tags"]["t0"] == 3
    assert found["parts"]["versions"]["count"] == 32
    assert len(found["parts"]["versions"]["first"]) == 10
    assert found["parts"]["fragments"]["count"] >= 1
    text = cli("show", rollup).out
    assert "versions (32, the first 10)" in text
    moved = rollup.with_name(paths.rollup(64).rpartition("/")[2])
    rollup.rename(moved)
    assert "its name says position 64, its bytes say 32" in cli("show", moved).out


@pytest.mark.parametrize("folder", ["data", "vectors", "rollups"])
def test_show__damaged_or_cut_object__typed_error(folder, cli, busy):
    file = objects(busy, folder)[0]
    whole = file.read_bytes()
    for data in (whole[:-3], whole[: len(whole) // 2], whole[:8], b"", whole + b"x"):
        file.write_bytes(data)
        result = cli("show", file, "--json")
        assert result.code == 1, (folder, len(data))
        assert result.json["error"]["kind"] == "corruption"


def test_part_of__names_of_a_table__parts_are_told():
    name = paths.name(3, SystemIds().new())
    assert part_of(f"s3://b/t/data/{name}.parquet").role == "fragment"
    assert part_of(f"t/vectors/{name}.bits").role == "vectors"
    assert part_of(paths.rollup(64)) == ("rollup", 64, "")
    assert part_of(f"t/data/{name}.csv").role == "unknown"
    assert part_of(f"t/log/{paths.entry('', 3)}") == ("entry", 3, "")


# -- verify --------------------------------------------------------------------------------------


def test_verify__whole_table__says_what_it_holds(cli, busy):
    for words, read in (((), "their sizes compared"), (("--deep",), "all of them read")):
        result = cli("verify", busy, *words)
        assert result.code == 0, result.out
        assert read in result.out
        assert "Everything is there: 1 log with 44 entries, 1 table with" in result.out
    [table] = cli("verify", busy, "--json").json["tables"]
    assert set(table) == TABLE_KEYS
    assert (table["ok"], table["version"], table["rows"], table["problems"]) == (True, 43, 1, [])


@pytest.mark.parametrize("folder", ["data", "vectors"])
def test_verify__object_is_gone__named(folder, cli, busy):
    file = live(busy, folder)
    file.unlink()
    result = cli("verify", busy)
    assert result.code == 1
    assert f"missing: {folder}/{file.name}: " in result.out
    assert "1 problem in 1 log with 44 entries" in result.out
    assert "none of them can be mended" in result.out


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_repair__fragment_is_gone__named_and_code_1(words, cli, busy):
    file = live(busy, "data")
    file.unlink()
    result = cli("repair", busy, *words)
    assert result.code == 1
    assert f"missing: data/{file.name}: " in result.out
    assert "can't be mended" in result.out
    assert "Nothing to mend" not in result.out
    assert "come from a copy" in result.out
    found = cli("repair", busy, *words, "--json").json
    assert (found["ok"], [one["ok"] for one in found["tables"]]) == (False, [False])


def live(uri, folder):
    """An object of the folder that the newest version names."""
    with open_table(uri) as table:
        lives = list(table._now().fragments)
    if folder == "data":
        return uri / paths.data(lives[0].fragment.name)
    return uri / paths.vectors(next(one.vector.name for one in lives if one.vector))


@pytest.mark.parametrize("folder", ["data", "vectors"])
def test_verify__object_is_cut__named_by_its_size(folder, cli, busy):
    file = live(busy, folder)
    file.write_bytes(file.read_bytes()[:-1])
    result = cli("verify", busy, "--json")
    assert result.code == 1
    assert result.json["ok"] is False
    assert result.json["logs"][0]["ok"] is True
    [problem] = result.json["tables"][0]["problems"]
    assert (problem["fault"], problem["object"], problem["repairable"]) == ("corrupt", f"{folder}/{file.name}", False)


@pytest.mark.parametrize("folder", ["data", "vectors"])
def test_verify__one_bit_flipped__found_by_deep_only(folder, cli, busy):
    file = live(busy, folder)
    flip(file)
    assert cli("verify", busy).code == 0
    result = cli("verify", busy, "--deep", "--json")
    assert result.code == 1
    [problem] = result.json["tables"][0]["problems"]
    assert (problem["fault"], problem["object"]) == ("corrupt", f"{folder}/{file.name}")


def test_verify__files_that_no_version_names__no_problem(cli, busy):
    for folder, ending in (("data", "parquet"), ("vectors", "bits")):
        (busy / folder / f"{paths.name(1, SystemIds().new())}.{ending}").write_bytes(b"left by a writer that died")
    assert cli("verify", busy, "--deep").code == 0


def test_verify__tables_and_logs_below_one_uri__each_is_reported(cli, busy, tmp_path):
    open_log(tmp_path / "raw" / "log", create=True).add(b"not a table")
    create_table(tmp_path / "deep" / "er" / "t", schema=pa.schema([("a", pa.int64())])).close()
    found = cli("verify", tmp_path, "--deep", "--json").json
    assert found["ok"] is True
    assert [log["root"] for log in found["logs"]] == ["deep/er/t/log/", "raw/log/", "reviews/log/"]
    assert [(table["root"], table["version"]) for table in found["tables"]] == [("deep/er/t/", 0), ("reviews/", 43)]


def test_verify__version_lost_from_the_log__both_are_told(cli, reviews):
    (reviews / "log" / paths.entry("", 0)).unlink()
    result = cli("verify", reviews, "--json")
    assert result.code == 1
    assert result.json["logs"][0]["problems"][0]["fault"] == "missing"


def test_verify__table_on_s3_with_a_commit_store__checked(cli, lying, tmp_path):
    words = (*lying.words, "--commits", f"sqlite://{tmp_path}/claims.db")
    assert cli("create", "s3://bkt/t", "--schema", "a int64", *words).code == 0
    assert cli("append", "s3://bkt/t", "-", *words, stdin=b'{"a": 1}').code == 0
    for uri in ("s3://bkt/t", "s3://bkt"):
        result = cli("verify", uri, "--deep", *words, "--json")
        assert (result.code, len(result.json["tables"])) == (0, 1)
    assert cli("verify", "s3://bkt/t", *lying.words).code == 0


def test_verify__while_a_writer_works__no_false_alarm(cli, reviews):
    with open_table(reviews) as table:
        for number in range(10, 20):
            table.append([{"id": number, "lang": None, "stars": None, "at": None}])
            assert cli("verify", reviews, "--deep").code == 0


# -- raw verbs -----------------------------------------------------------------------------------


def test_entries__log_of_a_table__listed_and_otherwise_left_alone(cli, reviews):
    assert [entry["position"] for entry in cli("entries", "list", reviews / "log", "--json").json["entries"]] == [1, 0]
    for words in (("add", reviews / "log", "-"), ("truncate", reviews / "log", "--until", "1")):
        result = cli("entries", *words, stdin=b"x")
        assert result.code == 1
        assert "is that of a table" in result.err
    assert open_table(reviews).version == 1
    assert cli("verify", reviews).code == 0
