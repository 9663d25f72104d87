"""tail: the WAL of a shard, entry by entry."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table
from siltstone.cli.output import Output
from siltstone.cli.shards import place_of
from siltstone.cli.tail import LAST_ENTRIES, _Follower
from siltstone.clock import SystemClock
from siltstone.env import Env
from siltstone.store.connect import open_store
from sources import ROOT
from unchanged import unchanged

KEYS = {"position", "time", "epoch", "kind", "rows", "deleted", "bytes", "writer", "op", "once", "batches"}


@pytest.fixture
def one(tmp_path):
    """A keyed table of one shard, whose two writers put three entries and a fence."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    with create_table(tmp_path / "one", schema=schema, key="id", shards=1) as table:
        with table.shard(0).writer(name="first") as writer:
            writer.put([{"id": 1, "name": "a"}, {"id": 2, "name": None}])
            writer.delete([1])
        with table.shard(0).writer(name="second") as writer:
            writer.put([{"id": 3, "name": "\x1b[31m"}])
    return tmp_path / "one"


def put(uri, *ids):
    with open_table(uri) as table, table.writer() as writer:
        for number in ids:
            writer.put([{"id": number, "name": None}])


def test_tail__no_follow__each_entry_on_a_line(cli, one):
    with unchanged(open_store(one)):
        result = cli("tail", one, "0", "--no-follow")
    assert (result.code, result.err) == (0, "")
    heads, *shown = [line.split() for line in result.out.splitlines()]
    assert heads == ["position", "time", "epoch", "kind", "rows", "deleted", "bytes", "writer"]
    assert [line[0] for line in shown] == ["0", "1", "2", "3"]
    assert [line[3:5] for line in shown] == [["1", "data"], ["1", "data"], ["2", "fence"], ["2", "data"]]
    assert (shown[0][5:7], shown[1][5:7]) == (["2", "0"], ["0", "1"])
    assert [line[-1] for line in shown] == ["first", "first", "second", "second"]


def test_tail__json__a_line_for_each_entry(cli, one):
    rows = cli("tail", one, "0000-0000", "--no-follow", "--json").rows
    assert {frozenset(row) for row in rows} == {frozenset(KEYS)}
    assert [(row["position"], row["epoch"], row["kind"], row["rows"], row["deleted"]) for row in rows] == [
        (0, 1, "data", 2, 0),
        (1, 1, "data", 0, 1),
        (2, 2, "fence", 0, 0),
        (3, 2, "data", 1, 0),
    ]


def test_tail__rows__as_json_lines_with_their_positions(cli, one):
    assert cli("tail", one, "0", "--no-follow", "--rows").rows == [
        {"id": 1, "name": "a", "_position": 0, "_deleted": False},
        {"id": 2, "name": None, "_position": 0, "_deleted": False},
        {"id": 1, "name": None, "_position": 1, "_deleted": True},
        {"id": 3, "name": "\x1b[31m", "_position": 3, "_deleted": False},
    ]


def test_tail__from_a_position__begins_there(cli, one):
    assert [row["position"] for row in cli("tail", one, "0", "--no-follow", "--from", "2", "--json").rows] == [2, 3]
    assert cli("tail", one, "0", "--no-follow", "--from", "4", "--json").out == ""
    beyond = cli("tail", one, "0", "--no-follow", "--from", "5", "--json")
    assert beyond.error == (1, "invalid-input")


def test_tail__long_wal__begins_with_the_last_entries(cli, one):
    put(one, *range(20))
    rows = cli("tail", one, "0", "--no-follow", "--json").rows
    assert [row["position"] for row in rows] == list(range(25 - LAST_ENTRIES, 25))


def test_tail__wal_that_begins_later__says_so(cli, one):
    cli("merge", one)
    put(one, 7)
    result = cli("tail", one, "0", "--no-follow", "--from", "0", "--json")
    assert [row["kind"] for row in result.rows] == ["fence", "data"]
    assert "the WAL begins at entry 4" in result.err


def test_tail__columns_changed_since__rows_of_the_present_ones(cli, one):
    cli("column", "add", one, "n", "int64", "--default", "7")
    cli("column", "rename", one, "name", "label")
    assert cli("tail", one, "0", "--no-follow", "--rows").rows[0] == {
        "id": 1, "label": "a", "n": 7, "_position": 0, "_deleted": False,
    }  # fmt: skip


def test_tail__shard_that_nobody_wrote_to__nothing(cli, events):
    with unchanged(open_store(events)):
        result = cli("tail", events, "1", "--no-follow")
    assert (result.code, len(result.out.splitlines())) == (0, 1)
    assert "nothing was ever put into shard 0000-0001" in result.err


@pytest.mark.parametrize("shard", ["2", "0001-0000", "x", "9" * 30])
def test_tail__no_such_shard__not_found(shard, cli, events, lines):
    assert cli("tail", events, shard, "--json").error == (1, "not-found")
    assert cli("tail", lines, shard, "--json").error == (1, "not-found")


def test_tail__table_without_a_key__shard_by_its_name(cli, lines):
    cli("put", lines, "--shard", "worker-1", stdin=b'{"id": 1}')
    assert [row["id"] for row in cli("tail", lines, "worker-1", "--no-follow", "--rows").rows] == [1]
    assert "it has worker-1" in cli("tail", lines, "worker-2").err


class Jumps(SystemClock):
    """A clock that can be put forward, and that nobody waits for."""

    def __init__(self):
        self.ahead_s = 0.0

    def monotonic(self):
        return super().monotonic() + self.ahead_s

    def sleep(self, seconds):
        self.ahead_s += seconds


def test_tail__shard_is_sealed_while_it_is_followed__ends_by_itself(cli, one, capsys):
    with open_table(one, env=Env(clock=Jumps())) as table:
        entries = _Follower(table, place_of(table, "0"), Output(as_json=True), start=3).entries(follow=True)
        assert next(entries)[0].kind == "data"
        cli("split", one, "3")
        assert [entry.kind for entry, _ in entries] == ["fence"]
    assert "shard 0000-0000 is sealed" in capsys.readouterr().err
    assert cli("tail", one, "0000-0000").code == 1  # it is no shard of the table any more


def test_tail__entries_removed_before_they_were_read__goes_on_behind_them(one, capsys):
    clock = Jumps()
    with open_table(one, env=Env(clock=clock)) as table, open_table(one) as other, other.shard(0).writer() as writer:
        entries = _Follower(table, place_of(table, "0"), Output(as_json=True), start=3).entries(follow=True)
        assert [next(entries)[0].position for _ in range(2)] == [3, 4]  # the last row and the writer's fence
        for number in range(3):
            writer.put([{"id": number, "name": None}])
        other.merge_shards()
        for gone in (5, 6, 7):  # as truncating does it, later
            (one / f"shards/0000-0000/wal/entries/{gone:020d}").unlink()
        clock.ahead_s += 3600
        writer.put([{"id": 9, "name": None}])
        entry, rows = next(entries)
    assert (entry.position, rows.chunk.rows.to_pylist()) == (8, [{"id": 9, "name": None}])
    assert "entries 5 to 7 were removed before they were read" in capsys.readouterr().err


def test_tail__follow__shows_entries_as_they_come_until_it_is_interrupted(one):
    child = subprocess.Popen(
        [sys.executable, "-m", "siltstone", "tail", str(one), "0", "--rows", "--from", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    try:
        assert json.loads(child.stdout.readline())["_position"] == 3
        put(one, 7, 8)
        assert [json.loads(child.stdout.readline())["id"] for _ in range(2)] == [7, 8]
    finally:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, b"", b"")
