"""wal, --wal on the verbs of tables with shards, and verify of WALs in another store."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest

from siltstone.api import open_table

COLUMNS = "id int64 not null, name string"


def jsonl(*ids):
    return b"".join(json.dumps({"id": one, "name": "a"}).encode() + b"\n" for one in ids)


@pytest.fixture
def world(cli, tmp_path):
    """A table with two shards whose WALs are in a directory of their own, and rows in them."""
    made = SimpleNamespace(table=tmp_path / "events", wal=tmp_path / "fast")
    assert cli("create", made.table, "--schema", COLUMNS, "--key", "id", "--shards", 2, "--wal", made.wal).code == 0
    assert cli("put", made.table, "-", "--format", "jsonl", "--wal", made.wal, stdin=jsonl(*range(10))).code == 0
    return made


def test_wal__of_a_table_with_a_wal_store__says_where_and_what_is_needed(cli, world):
    found = cli("wal", world.table, "--wal", world.wal, "--json").json
    assert set(found) == {"uri", "version", "store", "wals"}
    assert found["store"]["uri"] == f"file://{world.wal}"
    assert [one["store"] for one in found["wals"]] == [found["store"]["id"]] * 2
    for one in found["wals"]:
        assert one["path"].startswith("shards/0000-")
        assert (one["first"], one["replay_from"], one["merged_until"]) == (0, 0, 0)
        assert one["next"] > 0
        assert one["needed"]
        assert "not flushed" in one["needs"][0]
    said = cli("wal", world.table, "--wal", world.wal).out
    assert f"file://{world.wal}" in said
    assert "2 WALs, 2 of them needed" in said


def test_wal__without_the_store__says_what_the_manifest_knows(cli, world):
    found = cli("wal", world.table, "--json").json
    assert [(one["first"], one["next"]) for one in found["wals"]] == [(None, None)] * 2
    assert all("if there are any" in one["needs"][0] and "none was given" in one["problem"] for one in found["wals"])
    said = cli("wal", world.table)
    assert "not known" in said.out
    assert "was not looked at" in said.err


def test_wal__closed_and_merged__is_needed_by_nothing(cli, world):
    assert cli("merge", world.table, "--wal", world.wal).code == 0
    found = cli("wal", world.table, "--json").json
    assert [one["needs"] for one in found["wals"]] == [[], []]
    assert "nothing" in cli("wal", world.table).out


def test_wal__pinned_and_a_writer_at_work__says_who_needs_it(cli, world):
    assert cli("checkpoint", "create", world.table, "kept", "--scope", "durable", "--wal", world.wal).code == 0
    cli("merge", world.table, "--wal", world.wal)
    with open_table(world.table, wal=world.wal) as table:
        writer = table.shard(0).writer(name="mine")
        needs = [
            " and ".join(one["needs"]) for one in cli("wal", world.table, "--wal", world.wal, "--json").json["wals"]
        ]
        writer.close()
    assert "the writer of epoch 2 (mine): it was not closed" in needs[0]
    assert all("checkpoint kept" in one for one in needs)


def test_wal__tables_without_shards_or_with_their_own_wals__says_so(cli, reviews, tmp_path):
    assert cli("wal", reviews, "--json").json["wals"] == []
    assert "no shards" in cli("wal", reviews).out
    table = tmp_path / "own"
    cli("create", table, "--schema", COLUMNS, "--key", "id", "--shards", 1)
    [one] = cli("wal", table, "--json").json["wals"]
    assert (one["store"], one["needs"], one["next"]) == (None, [], 0)
    cli("put", table, "-", "--format", "jsonl", stdin=jsonl(1))
    assert "the table's own" in cli("wal", table).out
    assert cli("wal", f"{table}@1", "--json").code == 2


def test_verbs__of_shards_without_the_wal_store__are_refused(cli, world):
    for verb in ("shards", "merge"):
        assert cli(verb, world.table, "--json").error == (1, "wrong-wal-store")
    assert cli("scan", world.table, "--fresh", "--json").code == 1
    assert cli("put", world.table, "-", "--format", "jsonl", "--json", stdin=jsonl(77)).code == 1
    assert cli("scan", world.table, "--wal-option", "a=b", "--json").code == 2
    assert len(cli("scan", world.table, "--fresh", "--wal", world.wal, "--json").rows) == 10


def test_tail__of_a_wal_that_was_moved__shows_its_entries(cli, tmp_path):
    table, wal = tmp_path / "events", tmp_path / "fast"
    cli("create", table, "--schema", COLUMNS, "--key", "id", "--shards", 1)
    cli("put", table, "-", "--format", "jsonl", stdin=jsonl(1))
    cli("put", table, "-", "--format", "jsonl", "--wal", wal, stdin=jsonl(2))
    said = cli("tail", table, "0", "--no-follow", "--rows", "--wal", wal, "--json")
    assert said.code == 0
    assert '"id": 2' in said.out.replace('"id":2', '"id": 2')
    assert cli("entries", "list", *wal.glob("shards/*/wal-*")).code == 0


# -- verify ------------------------------------------------------------------------------------------


def test_verify__wals_in_another_store__are_checked_where_it_is_given(cli, world):
    found = cli("verify", world.table, "--wal", world.wal, "--deep", "--json")
    assert (found.code, found.json["ok"]) == (0, True)
    assert sum("/wal" in log["root"] for log in found.json["logs"]) == 2
    assert [one["wal_end"] for one in found.json["tables"][0]["shards"]] != [0, 0]
    assert found.json["tables"][0]["notes"] == []
    plain = cli("verify", world.table, "--json").json
    assert plain["ok"]
    assert all("was not checked: give --wal" in note for note in plain["tables"][0]["notes"])
    assert len(plain["tables"][0]["notes"]) == 2
    assert "was not checked" in cli("verify", world.table).out
    assert "Everything is there" in cli("verify", world.table, "--wal", world.wal).out


def test_verify__the_wal_store_was_emptied__rows_are_missing(cli, world):
    shutil.rmtree(world.wal)
    world.wal.mkdir()
    found = cli("verify", world.table, "--wal", world.wal, "--json")
    assert found.code == 1
    assert [one["fault"] for one in found.json["tables"][0]["problems"]] == ["missing", "missing"]


def test_verify__an_entry_is_gone_from_the_wal_store__is_named(cli, world):
    victim = min(world.wal.glob("shards/*/wal/entries/*"))
    victim.unlink()
    found = cli("verify", world.table, "--wal", world.wal, "--json")
    assert found.code == 1
    assert "entries into its WAL that are gone" in found.json["tables"][0]["problems"][0]["detail"]
    assert cli("merge", world.table, "--wal", world.wal, "--json").error == (1, "missing-object")


def test_verify__emptied_and_nothing_was_needed__is_fine(cli, world):
    cli("merge", world.table, "--wal", world.wal)
    shutil.rmtree(world.wal)
    world.wal.mkdir()
    found = cli("verify", world.table, "--wal", world.wal, "--json")
    assert (found.code, found.json["ok"]) == (0, True)
    assert all("nothing of it is needed" in note for note in found.json["tables"][0]["notes"])


def test_verify__wals_that_were_moved__are_whole(cli, tmp_path):
    table, wal = tmp_path / "events", tmp_path / "fast"
    cli("create", table, "--schema", COLUMNS, "--key", "id", "--shards", 1)
    cli("put", table, "-", "--format", "jsonl", stdin=jsonl(1))
    for wal_ in (wal, wal):
        cli("put", table, "-", "--format", "jsonl", "--wal", wal_, stdin=jsonl(2))
    found = cli("verify", table, "--wal", wal, "--deep", "--json")
    assert (found.code, found.json["ok"]) == (0, True)


# -- clone and drop ----------------------------------------------------------------------------------


def test_clone__with_a_wal_store_of_its_own__is_recorded(cli, world, tmp_path):
    trial = tmp_path / "trial"
    done = cli("clone", world.table, trial, "--wal", world.wal, "--clone-wal", tmp_path / "trial-wal", "--json")
    assert done.json["rows"] == 10
    assert cli("wal", trial, "--json").json["store"]["uri"] == f"file://{tmp_path / 'trial-wal'}"
    refused = cli("clone", world.table, tmp_path / "b", "--wal", world.wal, "--clone-wal", world.wal, "--json")
    assert refused.error == (1, "wrong-wal-store")


def test_drop__with_and_without_the_wal_store__says_what_stays(cli, world):
    with open_table(world.table, wal=world.wal) as table:
        writer = table.shard(0).writer()
        assert cli("drop", world.table, "--yes", "--json").error == (1, "wrong-wal-store")
        writer.close()
    cli("merge", world.table, "--wal", world.wal)
    said = cli("drop", world.table, "--yes")
    assert said.code == 0
    assert f"still at file://{world.wal}" in said.err
