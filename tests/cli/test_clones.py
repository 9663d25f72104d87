"""clone, detach and drop, and verify of tables that read from others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table


def ids(uri):
    return sorted(open_table(uri).scan().to_arrow()["id"].to_pylist())


def test_clone__a_table__says_what_was_made(cli, reviews, tmp_path):
    trial = tmp_path / "trial"
    found = cli("clone", reviews, trial, "--json").json
    assert set(found) == {"uri", "version", "rows", "parent", "parent_version", "where"}
    assert found["uri"] == f"file://{trial}"
    assert found["rows"] == len(ids(reviews))
    assert ids(trial) == ids(reviews)
    assert "is a clone of" in cli("clone", reviews, trial).out


@pytest.mark.parametrize("name", ["1", "v1", "kept"])
def test_clone__of_a_version_a_tag_or_a_checkpoint__has_its_rows(cli, reviews, tmp_path, name):
    before = ids(reviews)
    cli("tag", reviews, "v1", "--version", "1")
    open_table(reviews).checkpoint("kept", version=1)
    cli("delete", reviews, "--where", "true")
    assert cli("clone", f"{reviews}@{name}", tmp_path / "trial").code == 0
    assert ids(tmp_path / "trial") == before


def test_clone__where__has_those_rows(cli, reviews, tmp_path):
    found = cli("clone", reviews, tmp_path / "trial", "--where", "id = 1", "--json").json
    assert (found["rows"], found["where"]) == (1, "id = 1")
    assert ids(tmp_path / "trial") == [1]


def test_clone__what_is_wrong__is_said(cli, reviews, tmp_path):
    assert cli("clone", f"{reviews}@nothing", tmp_path / "a", "--json").error == (1, "not-found")
    assert cli("clone", reviews, reviews, "--json").error == (1, "already-exists")
    assert cli("clone", reviews, tmp_path / "a", "--where", "x = 1", "--json").error == (1, "invalid-input")
    assert cli("clone", reviews, f"{tmp_path}/a@3", "--json").code == 2
    assert cli("clone", reviews, tmp_path / "a", "--clone-option", "x", "--json").code == 2
    assert not (tmp_path / "a").exists()


def test_drop__a_table_that_a_clone_reads_from__is_refused_until_it_is_detached(cli, reviews, tmp_path):
    trial = tmp_path / "trial"
    cli("clone", reviews, trial)
    refused = cli("drop", reviews, "--yes", "--json")
    assert refused.error == (3, "conflict")
    assert str(trial) in refused.out
    before = ids(trial)
    assert cli("detach", trial, "--json").json["operation"] == "detach"
    assert "nothing to do" in cli("detach", trial).out
    assert cli("drop", reviews, "--yes", "--json").json == {"uri": str(reviews), "dropped": True, "checkpoints": []}
    assert ids(trial) == before
    assert cli("scan", reviews, "--json").error == (1, "not-found")


def test_drop__without_yes__does_nothing(cli, reviews):
    before = ids(reviews)
    refused = cli("drop", reviews)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert ids(reviews) == before


def test_drop__a_table_with_checkpoints__names_those_that_are_not_over(cli, reviews):
    cli("checkpoint", reviews, "before")
    cli("checkpoint", reviews, "week", "--keep-days", "7")
    cli("checkpoint", reviews, "over", "--keep-days", "0.0000001")
    refused = cli("drop", reviews)
    assert refused.code == 2
    assert "and with its checkpoints before, week, which would be kept otherwise" in refused.err
    assert cli("drop", reviews, "--yes").out.endswith(" is gone, and its checkpoints before, week\n")


def test_clone__with_an_option_for_the_version__the_hint_says_how_it_is_written(cli, reviews, tmp_path):
    refused = cli("clone", reviews, tmp_path / "trial", "--at", "1")
    assert (refused.code, refused.err.splitlines()[1]) == (2, "hint: write TABLE@1; see `siltstone clone --help`")
    assert "TABLE@v1;" in cli("scan", reviews, "--tag=v1").err


def test_log__of_a_clone__says_what_came_along_and_where_it_begins(cli, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("body", pa.string())])
    with create_table(tmp_path / "texts", schema=schema, key="id") as table:
        with table.transaction(once="load 1") as load:
            load.append([{"id": 1, "body": "fox"}])
        table.create_text_index("body")
        with table.clone(tmp_path / "trial") as trial:
            trial.append([{"id": 2, "body": "fox"}])
    lines = cli("log", tmp_path / "trial").out.splitlines()
    assert "clone with index body" in lines[2]
    assert "load 1" not in lines[2]
    assert lines[-1] == "2 versions: 1 to 2"
    assert cli("log", tmp_path / "trial", "--json").json["versions"][1]["indexes"] == {"body": "cloned"}
    with open_table(tmp_path / "trial") as trial:
        trial.detach()
    assert "detach body copied" in cli("log", tmp_path / "trial").out


def test_drop__nothing_there__is_not_found_unless_that_is_fine(cli, tmp_path):
    assert cli("drop", tmp_path / "x", "--yes", "--json").error == (1, "not-found")
    assert cli("drop", tmp_path / "x", "--yes", "--missing-ok").code == 0


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_verify__a_clone__its_fragments_are_looked_for_where_they_are(cli, reviews, tmp_path, deep):
    cli("delete", reviews, "--where", "id = 1")
    trial = tmp_path / "trial"
    cli("clone", reviews, trial)
    cli("delete", trial, "--where", "id = 2")
    assert cli("verify", trial, *deep).code == 0
    assert cli("verify", reviews, *deep).code == 0
    doomed = next((tmp_path / reviews).glob("data/*.parquet"))
    data = doomed.read_bytes()
    doomed.unlink()
    found = cli("verify", trial, *deep, "--json")
    assert found.code == 1
    assert f"origins/0001/data/{doomed.name}" in found.out
    doomed.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert cli("verify", trial, "--deep").code == 1


def test_verify__a_clone_whose_parent_is_gone_or_does_not_keep_it__says_so(cli, reviews, tmp_path):
    trial, moved = tmp_path / "trial", tmp_path / "moved"
    cli("clone", reviews, trial)
    trial.rename(moved)
    found = cli("verify", moved)
    assert found.code == 1
    assert "does not keep version" in found.out
    cli("detach", moved)
    assert cli("verify", moved).code == 0


def test_verify__dropped_tables_and_clones_that_were_not_ended__is_fine(cli, reviews, tmp_path):
    trial = tmp_path / "trial"
    cli("clone", reviews, trial)
    (trial / "log" / "entries" / f"{1:020d}").unlink()
    assert cli("scan", trial, "--json").error == (1, "not-found")
    assert cli("verify", trial).code == 0
    assert cli("drop", trial, "--yes").code == 0
    assert cli("verify", trial).code == 0
    assert cli("drop", reviews, "--yes").code == 0
    assert cli("verify", reviews).code == 0
