"""verify of tables with shards, and what raw verbs refuse to do to the logs of shards."""

from __future__ import annotations

import shutil

import pytest

from siltstone import paths
from siltstone.api import create_table, open_table
from siltstone.log import open_log
from siltstone.store.connect import open_store
from unchanged import unchanged

SHARD_KEYS = {"name", "epoch", "wal_from", "wal_end", "fragments", "rows", "bytes", "sealed"}


@pytest.fixture
def busy(events):
    """Rows in fragments and in the WAL of each shard, which had two writers."""
    with open_table(events) as table:
        with table.writer() as writer:
            writer.put([{"id": number, "name": "a"} for number in range(10)])
            for one in writer.writers:
                one.freeze()
                one.flush_memtables()
            writer.put([{"id": number, "name": "b"} for number in range(10)])
        with table.writer() as writer:
            writer.put([{"id": number, "name": "c"} for number in range(10)])
    return events


def entry(root, position):
    return root / f"entries/{position:020d}"


def problems(cli, uri, *words):
    """What verify says of tables and logs: fault, object and position."""
    result = cli("verify", uri, "--json", *words)
    found = result.json
    assert (result.code == 0) == found["ok"]
    assert cli("verify", uri, *words).code == result.code
    return [(one["fault"], one["object"]) for part in (*found["logs"], *found["tables"]) for one in part["problems"]]


def test_verify__whole_shards__a_line_for_each_and_nothing_written(cli, busy):
    with unchanged(open_store(busy)):
        result = cli("verify", busy, "--deep", "--json")
        text = cli("verify", busy).out
    assert result.code == 0
    assert len(result.json["logs"]) == 5
    shards = result.json["tables"][0]["shards"]
    assert {frozenset(one) for one in shards} == {frozenset(SHARD_KEYS)}
    assert [(one["epoch"], one["wal_from"], one["wal_end"], one["fragments"]) for one in shards] == [(2, 1, 4, 1)] * 2
    assert sum(one["rows"] for one in shards) == 10
    assert "shard 0000-0001: epoch 2, 3 entries in the WAL alone" in text
    assert text.count("\nlog ") + text.startswith("log ") == 1  # that of the table; the others are told by their shards
    assert "1 table with 0 fragments and 2 shards" in text


def test_verify__shards_at_each_stage_of_their_life__no_false_alarm(cli, events):
    with open_table(events) as table:
        assert problems(cli, events, "--deep") == []
        for number in range(3):
            with table.writer() as writer:
                writer.put([{"id": one, "name": None} for one in range(number, 20)])
                assert problems(cli, events, "--deep") == []
                writer.delete([number])
                writer.writers[0].freeze()
                writer.writers[0].flush_memtables()
                assert problems(cli, events, "--deep") == []
                table.merge_shards()
                assert problems(cli, events, "--deep") == []
                table.upsert([{"id": 99, "name": None}])
                writer.put([{"id": 98, "name": None}])
        table.split_shards(3)
        assert problems(cli, events, "--deep") == []
        assert "is sealed" not in cli("verify", events).out


def test_verify__fragment_of_a_shard_is_gone_or_cut__named(cli, busy):
    (file,) = (busy / "shards/0000-0001/data").iterdir()
    name = f"shards/0000-0001/data/{file.name}"
    data = file.read_bytes()
    file.write_bytes(data[:-9])
    assert problems(cli, busy) == [("corrupt", name)]
    file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert problems(cli, busy) == []
    assert problems(cli, busy, "--deep") == [("corrupt", name)]
    file.unlink()
    assert problems(cli, busy) == [("missing", name)]


def test_verify__entry_in_the_middle_of_a_wal_is_gone__named_once(cli, busy):
    entry(busy / "shards/0000-0001/wal", 2).unlink()
    assert problems(cli, busy) == [("missing", f"shards/0000-0001/wal/entries/{2:020d}")]


def test_verify__end_of_a_wal_is_gone__the_table_and_the_manifest_know(cli, busy):
    cli("merge", busy)
    shard = busy / "shards/0000-0001"
    shutil.rmtree(shard / "wal/entries")
    shutil.rmtree(shard / "wal/floor")
    (shard / "wal/hint").unlink(missing_ok=True)
    assert problems(cli, busy) == [("missing", "shards/0000-0001/wal/")] * 2


@pytest.mark.parametrize("log", ["wal", "manifest"])
def test_verify__one_of_the_logs_is_gone__named(log, cli, busy):
    shutil.rmtree(busy / "shards/0000-0001" / log)
    assert problems(cli, busy) == [("missing", f"shards/0000-0001/{log}/")]


def test_verify__whole_shard_is_gone_that_was_merged__named(cli, busy):
    cli("merge", busy)
    shutil.rmtree(busy / "shards/0000-0001")
    assert problems(cli, busy) == [("missing", "shards/0000-0001/")]


def test_verify__end_of_a_manifest_is_gone__its_wal_knows(cli, busy):
    manifest = busy / "shards/0000-0001/manifest"
    last = max((manifest / "entries").iterdir())
    last.unlink()
    assert problems(cli, busy) == [("missing", "shards/0000-0001/manifest/")]


def test_verify__wal_begins_behind_what_was_flushed__named(cli, busy):
    with open_log(open_store(busy), root="shards/0000-0001/wal/") as log:
        log.truncate(log.tip())
    assert problems(cli, busy) == [("missing", "shards/0000-0001/wal/")]


def test_verify__wal_of_another_shard__named(cli, busy):
    shards = busy / "shards"
    shutil.rmtree(shards / "0000-0001/wal")
    shutil.copytree(shards / "0000-0000/wal", shards / "0000-0001/wal")
    assert ("overwritten", "shards/0000-0001/wal/") in problems(cli, busy)


def test_verify__entry_that_holds_no_rows__found_by_deep_only(cli, busy):
    with open_log(open_store(busy), root="shards/0000-0001/wal/") as log:
        log.append(b"\x0c\x00\x00\x00nonsense", after=log.tip())
    assert problems(cli, busy) == []
    assert problems(cli, busy, "--deep") == [("corrupt", "shards/0000-0001/wal/")]


def test_verify__damaged_manifest__told_of_its_log_and_the_rest_is_checked(cli, busy):
    file = max((busy / "shards/0000-0000/manifest/entries").iterdir())
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    (fragment,) = (busy / "shards/0000-0001/data").iterdir()
    fragment.unlink()
    found = cli("verify", busy, "--json").json["tables"][0]
    assert [one["object"] for one in found["problems"]] == [f"shards/0000-0001/data/{fragment.name}"]
    assert "shard 0000-0000 was not checked" in found["notes"][0]


def test_verify__shards_decided_by_a_commit_store__checked(cli, lying, tmp_path, events):
    commits = f"sqlite://{tmp_path / 'claims.db'}"
    schema = open_table(events).schema
    words = ("--commits", commits, *lying.words)
    with create_table(
        "s3://bkt/t", schema=schema, key="id", shards=2, commits=commits, storage_options=lying.options
    ) as table:
        with table.writer() as writer:
            writer.put([{"id": number, "name": "a"} for number in range(10)])
        result = cli("verify", "s3://bkt/t", "--deep", *words, "--json")
        assert (result.code, len(result.json["tables"][0]["shards"])) == (0, 2)
    assert cli("verify", "s3://bkt/t", *lying.words).code == 0
    assert cli("put", "s3://bkt/t", *words, stdin=b'{"id": 1}').code == 0
    assert cli("merge", "s3://bkt/t", *words).code == 0
    assert cli("scan", "s3://bkt/t", "--count", *lying.words).out == "10\n"


@pytest.mark.parametrize("log", ["wal", "manifest"])
@pytest.mark.parametrize("verb", [("add", "-"), ("truncate", "--until", "1")])
def test_entries__log_of_a_shard__listed_and_otherwise_left_alone(verb, log, cli, busy, monkeypatch):
    place = f"shards/0000-0000/{log}"
    assert cli("entries", "list", busy / place, "--json").code == 0
    monkeypatch.chdir(busy)
    with unchanged(open_store(busy)):
        for uri in (place, busy / place, f"{busy / place}/", f"file://{busy / place}"):
            result = cli("entries", verb[0], uri, *verb[1:], stdin=b"x")
            assert (result.code, "is that of a table's shard" in result.err) == (1, True)


def test_entries__own_log_below_a_directory_of_that_name__is_nobody_else_s(cli, tmp_path):
    uri = tmp_path / paths.SHARDS / "x/wal"
    assert cli("entries", "add", uri, "-", "--create", stdin=b"x").code == 0
