"""put, shards, merge, split, tail, and reads of what is not merged yet."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.api import open_table
from siltstone.cli import main
from siltstone.errors import FencedError
from siltstone.shard.route import shard_numbers
from siltstone.shard.split import seal
from siltstone.store.connect import open_store
from unchanged import unchanged

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def jsonl(*ids, name="a"):
    return b"".join(json.dumps({"id": one, "name": name}).encode() + b"\n" for one in ids)


def fresh(uri):
    """Rows by id, those in shards too."""
    with open_table(uri) as table:
        return {row["id"]: row["name"] for row in table.scan(fresh=True).to_arrow().to_pylist()}


def merged(uri):
    with open_table(uri) as table:
        return {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}


def keys_of(shard, *, count=20, shards=2):
    """Keys below ``count`` that belong to a shard."""
    numbers = shard_numbers(pa.table({"id": pa.array(range(count), pa.int64())}), shards)
    return [number for number in range(count) if numbers[number] == shard]


def epochs(uri):
    with open_table(uri) as table:
        return [one.epoch for one in table.shards()]


class Steps:
    """Standard input that gives one part at each read; a part may be something to do instead."""

    def __init__(self, *parts):
        self._parts = list(parts)

    def read1(self, _size=-1):
        while self._parts:
            part = self._parts.pop(0)
            if isinstance(part, bytes):
                return part
            part()
        return b""


@pytest.fixture
def fed(capsys, monkeypatch):
    """``fed(parts, "put", uri)``: code and what was printed, with these parts as standard input."""

    def call(parts, *argv):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Steps(*parts)))
        capsys.readouterr()
        code = main([str(word) for word in argv])
        return code, *capsys.readouterr()

    return call


# -- create --------------------------------------------------------------------------------------


def test_create__shards_and_config__are_the_table_s(cli, tmp_path):
    words = ("create", tmp_path / "t", "--schema", "id int64 not null", "--key", "id")
    made = cli(*words, "--shards", "3", "--shard-config", "max_memtable_rows=7", "--json")
    assert (made.code, made.json["shards"]) == (0, 3)
    with open_table(tmp_path / "t") as table:
        assert [one.name for one in table.shards()] == ["0000-0000", "0000-0001", "0000-0002"]
        assert table.settings == {"shard.max_memtable_rows": "7"}
    assert "3 shards" in cli(*words, "--shards", "3", "--exist-ok").out
    assert cli(*words, "--shards", "4", "--exist-ok", "--json").error == (1, "already-exists")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--key", "id", "--shards", "0"), 2),
        (("--key", "id", "--shards", "x"), 2),
        (("--shards", "2"), 1),
        (("--key", "id", "--shards", "2", "--shard-config", "nope=1"), 1),
        (("--key", "id", "--shards", "2", "--shard-config", "max_memtable_rows=-1"), 1),
        (("--key", "id", "--shards", "2", "--shard-config", "max_memtable_rows"), 2),
        (("--key", "id", "--shard-config", "durable_write=true", "--shard-config", "durable_write=true"), 2),
    ],
)
def test_create__shards_that_can_not_be__refused(words, code, cli, tmp_path):
    result = cli("create", tmp_path / "t", "--schema", "id int64 not null", *words)
    assert (result.code, result.err.startswith("error: ")) == (code, True)
    assert not (tmp_path / "t").exists()


# -- put -----------------------------------------------------------------------------------------


def test_put__files__durable_in_their_shards_without_a_version(cli, events, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(jsonl(*range(6)))
    pq.write_table(pa.table({"id": [5, 6], "name": ["b", "b"]}, schema=SCHEMA), tmp_path / "b.parquet")
    result = cli("put", events, tmp_path / "a.jsonl", tmp_path / "b.parquet", "--json")
    assert result.code == 0
    found = result.json
    assert (found["rows"], found["deleted"]) == (8, 0)
    assert found["entries"] == sum(one["entries"] for one in found["shards"]) == 4
    assert [(one["epoch"], one["first"], one["until"]) for one in found["shards"]] == [(1, 0, 2), (1, 0, 2)]
    assert sum(one["rows"] for one in found["shards"]) == 8
    assert fresh(events) == dict.fromkeys(range(5), "a") | {5: "b", 6: "b"}
    assert merged(events) == {}
    with open_table(events) as table:
        assert table.version == 0


def test_put__no_file__reads_json_lines_from_standard_input(cli, events):
    result = cli("put", events, stdin=jsonl(1, 2, 3))
    assert (result.code, result.err) == (0, "")
    assert "3 rows are durable" in result.out
    assert len(fresh(events)) == 3


def test_put__lines_that_come_one_by_one__each_is_durable_when_the_next_is_read(fed, events):
    seen = []
    parts = [jsonl(1), lambda: seen.append(fresh(events)), jsonl(2) + b'{"id":', b"3}\n"]
    parts += [lambda: seen.append(fresh(events)), jsonl(4)]
    assert fed(parts, "put", events)[0] == 0
    assert seen == [{1: "a"}, {1: "a", 2: "a", 3: None}]
    assert set(fresh(events)) == {1, 2, 3, 4}


def test_put__no_wait__durable_when_it_ends(cli, events):
    result = cli("put", events, "--no-wait", "--batch-rows", "10", "--json", stdin=jsonl(*range(1000)))
    assert (result.code, result.json["rows"]) == (0, 1000)
    assert result.json["entries"] < 200  # batches that nobody waits for share entries
    assert len(fresh(events)) == 1000


def test_put__small_batches__an_entry_for_each_of_a_shard(cli, events):
    result = cli("put", events, "--batch-rows", "2", "--json", stdin=jsonl(*keys_of(0)[:6]))
    assert [one["entries"] for one in result.json["shards"]] == [3, 0]


def test_put__delete__rows_with_these_keys_are_gone(cli, events, tmp_path):
    cli("put", events, stdin=jsonl(1, 2, 3, 4))
    cli("merge", events)
    pq.write_table(pa.table({"name": ["x"], "id": [3]}), tmp_path / "gone.parquet")
    assert cli("put", events, "--delete", stdin=b'{"id": 1}\n{"id": 9}\n').code == 0
    assert cli("put", events, "--delete", stdin=jsonl(2)).code == 0  # what else is in a row does not matter
    result = cli("put", events, "--delete", tmp_path / "gone.parquet", "--json")
    assert (result.code, result.json["rows"], result.json["deleted"]) == (0, 0, 1)
    assert set(fresh(events)) == {4}
    assert cli("merge", events, "--json").json["deleted"] == 3
    assert set(merged(events)) == {4}


@pytest.mark.parametrize("given", [b'{"name": "a"}\n', b'{"id": null}\n'])
def test_put__delete_without_a_key__refused(given, cli, events):
    result = cli("put", events, "--delete", stdin=given)
    assert result.code == 1
    assert "standard input: column 'id', row 1: null in a key" in result.err


def test_put__one_shard__takes_its_rows_and_refuses_others(cli, events):
    mine = keys_of(1)
    assert cli("put", events, "--shard", "1", stdin=jsonl(*mine)).code == 0
    assert epochs(events) == [0, 1]
    assert cli("put", events, "--shard", "0000-0001", stdin=jsonl(*mine)).code == 0
    result = cli("put", events, "--shard", "0", stdin=jsonl(*mine))
    assert result.code == 1
    assert "belong to other shards than 0" in result.err
    for wrong in ("2", "-1", "x", "1" * 30):
        assert cli("put", events, f"--shard={wrong}", "--json", stdin=jsonl(1)).error == (1, "not-found")


def test_put__table_without_a_key__goes_to_the_shard_that_is_named(cli, lines):
    result = cli("put", lines, stdin=jsonl(1))
    assert (result.code, "--shard worker-1" in result.err) == (2, True)
    assert cli("put", lines, "--shard", "Not A Name", stdin=jsonl(1)).code == 1
    for _ in range(2):
        assert cli("put", lines, "--shard", "worker-1", stdin=jsonl(1)).code == 0
    with open_table(lines) as table:
        assert (table.count(), table.count(fresh=True)) == (0, 2)
    assert cli("put", lines, "--shard", "worker-1", "--delete", stdin=jsonl(1)).code == 1


def test_put__keyed_table_without_shards__says_how_to_get_some(cli, reviews):
    result = cli("put", reviews, stdin=b'{"id": 1}')
    assert result.code == 1
    assert f"`siltstone split {reviews} 4`" in result.err
    assert cli("split", reviews, "2").code == 0
    assert cli("put", reviews, stdin=b'{"id": 1}').code == 0
    assert cli("get", reviews, "1", "--fresh", "--json").rows[0]["lang"] is None


def test_put__bad_row_in_the_middle__named_and_what_was_put_before_stays(cli, events, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(jsonl(1, 2))
    table = pa.table({"id": [3, 4, None, 6], "name": list("cdef")})
    pq.write_table(table, tmp_path / "b.parquet")
    words = ("put", events, tmp_path / "a.jsonl", tmp_path / "b.parquet", "--batch-rows", "2")
    result = cli(*words)
    assert result.code == 1
    assert f"{tmp_path / 'b.parquet'}: column 'id', row 3: null in a key" in result.err
    assert "4 rows were put and stay" in result.err
    assert set(fresh(events)) == {1, 2, 3, 4}
    again = cli(*words, "--json")
    assert (*again.error, again.json["error"]["appended"]) == (1, "schema-mismatch", 4)


def test_put__column_that_is_missing__names_the_file(cli, events, tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "b.parquet")
    result = cli("put", events, tmp_path / "b.parquet")
    assert result.code == 1
    assert f"{tmp_path / 'b.parquet'}: the rows lack 'name'" in result.err


@pytest.mark.parametrize("given", [b"", b"\n\n", b"nonsense\n", b'{"id": "x"}\n'])
def test_put__nothing_that_could_be_put__fences_nobody(given, cli, events):
    with open_table(events) as table, table.writer() as writer:
        result = cli("put", events, stdin=given)
        assert result.code == (1 if given.strip() else 0)
        writer.put([{"id": 1, "name": "mine"}])
    assert epochs(events) == [1, 1]


def test_put__another_writer_takes_over__code_3(fed, events):
    with open_table(events) as table:
        parts = [jsonl(*range(10)), lambda: table.writer(name="other"), jsonl(*range(10, 20))]
        code, out, err = fed(parts, "put", events)
        assert (code, out) == (3, "")
        assert "epoch 2" in err
        assert "10 rows were put and stay" in err


def test_put__interrupted__says_what_is_durable(fed, events):
    def interrupt():
        raise KeyboardInterrupt

    code, out, err = fed([jsonl(1, 2), interrupt, jsonl(3)], "put", events)
    assert (code, out, err) == (130, "", "2 rows were put and stay\nerror: interrupted\n")
    assert set(fresh(events)) == {1, 2}


def test_put__column_with_a_default__may_be_left_out(cli, events):
    cli("column", "add", events, "n", "int64", "--default", "7")
    assert cli("put", events, stdin=jsonl(1)).code == 0
    with open_table(events) as table:
        assert table.get([1], fresh=True).to_pylist() == [{"id": 1, "name": "a", "n": 7}]


# -- fresh reads ---------------------------------------------------------------------------------


def test_reads__fresh__see_what_is_in_shards(cli, events):
    cli("put", events, stdin=jsonl(1, 2))
    cli("merge", events)
    cli("put", events, stdin=jsonl(2, 3, name="b"))
    with unchanged(open_store(events)):
        assert cli("scan", events, "--count", "--fresh").out == "3\n"
        assert cli("scan", events, "--count").out == "2\n"
        assert [row["id"] for row in cli("scan", events, "--where", "name = 'b'", "--fresh", "--json").rows] == [2, 3]
        assert cli("get", events, "3", "2", "--fresh", "--json").rows == [
            {"id": 3, "name": "b"},
            {"id": 2, "name": "b"},
        ]
        query = "select name, count(*) as n from events group by name order by name"
        assert cli("sql", events, query, "--fresh", "--json").rows == [{"name": "a", "n": 1}, {"name": "b", "n": 2}]
        assert cli("sql", events, query, "--json").rows == [{"name": "a", "n": 2}]
        assert cli("scan", events, "--fresh", "--explain").code == 0


def test_reads__fresh_at_an_earlier_version__refused(cli, events):
    for words in (("scan", f"{events}@0"), ("get", f"{events}@0", "1"), ("sql", f"{events}@0", "select 1")):
        assert cli(*words, "--fresh", "--json").error == (1, "invalid-input")


@pytest.mark.parametrize("name", ["fresh", "query", "self"])
def test_sql__other_table_by_the_name_of_an_argument__refused(name, cli, events):
    assert cli("sql", events, "select 1", "--table", f"{name}={events}", "--json").error == (2, "usage")


# -- shards, merge, split ------------------------------------------------------------------------


def test_shards__at_each_stage__epochs_lag_and_fragments(cli, events):
    assert [one["epoch"] for one in cli("shards", events, "--json").json["shards"]] == [0, 0]
    mine = keys_of(0)
    with open_table(events) as table, table.shard(0).writer(name="me") as writer:
        writer.put([{"id": number, "name": None} for number in mine])
        writer.freeze()
        writer.flush_memtables()
        writer.put([{"id": mine[0], "name": "b"}])
        with unchanged(open_store(events)):
            found, other = cli("shards", events, "--json").json["shards"]
            text = cli("shards", events).out
    assert (found["epoch"], found["writer"], found["wal_lag"], found["wal_end"]) == (1, "me", 1, 2)
    assert (found["fragments"], found["fragment_rows"], found["merged_until"]) == (1, len(mine), 0)
    assert (found["sealed"], found["last_error"], other["epoch"]) == (False, "", 0)
    assert "0000-0000      1  me" in text
    assert f"to be merged: {len(mine)} rows in fragments, 1 entry of WALs" in text


def test_shards__sealed_by_a_split_that_was_cut_off__says_so(cli, events):
    with open_table(events) as table:
        seal(table._shards.readers(table._now()))
    assert "sealed" in cli("shards", events).out
    result = cli("put", events, "--json", stdin=jsonl(1))
    assert result.error == (3, "conflict")
    assert cli("split", events, "2").code == 0
    assert cli("put", events, stdin=jsonl(1)).code == 0


def test_shards__table_without_any__says_so(cli, reviews):
    result = cli("shards", reviews)
    assert (result.code, "has no shards" in result.out) == (0, True)
    assert cli("shards", reviews, "--json").json["shards"] == []
    assert cli("shards", f"{reviews}@1").code == 2


def test_merge__rows_in_shards__become_a_version_that_log_shows(cli, events):
    cli("put", events, stdin=jsonl(1, 2, 3))
    result = cli("merge", events, "--json")
    assert (result.code, result.json["operation"], result.json["inserted"]) == (0, "merge", 3)
    assert result.json["shards"] == ["0000-0000", "0000-0001"]
    assert merged(events) == fresh(events) == dict.fromkeys((1, 2, 3), "a")
    assert cli("merge", events).out == "nothing to do: the table is at version 1\n"
    shown = cli("log", events).out.splitlines()
    assert shown[0].split() == ["version", "time", "operation", "rows", "shards", "tags", "message"]
    assert "merge" in shown[1]
    assert "0000-0000, 0000-0001" in shown[1]


def test_split__more_shards__rows_stay_and_writers_are_fenced(cli, events):
    cli("put", events, stdin=jsonl(*range(10)))
    with open_table(events) as table:
        writer = table.shard(0).writer()
        result = cli("split", events, "3")
        assert (result.code, "spread over 3 shards" in result.out) == (0, True)
        with pytest.raises(FencedError):
            writer.put([{"id": keys_of(0)[0], "name": "late"}])
    assert merged(events) == dict.fromkeys(range(10), "a")
    assert cli("shards", events, "--json").json["shards"][0]["name"] == "0001-0000"
    assert "0000-0000, 0000-0001, 0001-0000 and 2 more" in cli("log", events).out


def test_split__table_without_a_key_or_bad_count__refused(cli, lines, events):
    assert cli("split", lines, "2", "--json").error == (1, "invalid-input")
    assert cli("split", events, "0").code == 2
    assert cli("split", events, "1000000", "--json").error == (1, "invalid-input")
    assert cli("split", f"{events}@0", "2").code == 2
