"""Tables that format 1's first siltstone wrote are read, checked and written to by this one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import siltstone as ss
from compat import make_v1_tables as v1

KEPT = Path(__file__).parent / "v1" / "tables"
EXPECTED = json.loads((KEPT / "expected.json").read_text())
NEW = 9000
BYTES_MAX = 70_000


@pytest.fixture
def directory(tmp_path):
    """A copy of all of them, which may be written to."""
    shutil.copytree(KEPT, tmp_path / "tables")
    return tmp_path / "tables"


@pytest.mark.parametrize("name", v1.TABLES)
def test_read__table_of_format_1__holds_what_it_held(directory, name):
    assert v1.held(directory, name) == EXPECTED[name]


@pytest.mark.parametrize("name", v1.TABLES)
def test_verify__table_of_format_1__finds_all_of_it(directory, name):
    beside = ["--wal", str(directory / v1.WAL_STORE)] if name == "elsewhere" else []
    command = [sys.executable, "-m", "siltstone", "verify", str(directory / name), *beside]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=directory)
    if name == "clone":  # the place of its parent is one that no machine has
        assert "memory://siltstone-v1/parent" in done.stdout + done.stderr
    else:
        assert (done.returncode, "Everything is there" in done.stdout) == (0, True), done.stdout + done.stderr


def row(name):
    return v1.later(NEW, title="new", added=3) if name == "keyed" else {"id": NEW, "note": "a late delivery"}


def ids(table, **options):
    return table.scan(["id"], **options).to_arrow().column("id").to_pylist()


@pytest.mark.parametrize("name", v1.TABLES)
def test_write__to_a_copy_of_a_table_of_format_1__continues_it(directory, name):
    table, before = v1.opened(directory, name), EXPECTED[name]
    old = {one["id"] for one in before["rows"]}
    table.append([row(name)])
    assert table.version == before["version"] + 1
    # Rows of the shard that a new row belongs to may have come into the table with it.
    assert {one["id"] for one in before["fresh"]} | {NEW} >= set(ids(table)) - (old - set(ids(table, fresh=True)))
    assert set(ids(table, fresh=True)) == {one["id"] for one in before["fresh"]} | {NEW}
    table.upsert([row(name)])
    table.delete(f"id = {NEW}")
    assert NEW not in ids(table)
    if name in {"sharded", "parent", "elsewhere"}:
        with table.writer() as writer:
            writer.put([row(name)])
        table.merge_shards()
        assert set(ids(table)) == {one["id"] for one in before["fresh"]} | {NEW}
        assert sorted(ids(table)) == sorted(ids(table, fresh=True))
    table.compact()
    now = sorted(ids(table))
    kept = {one.name: one for one in table.checkpoints() if one.holder is None}
    assert set(kept) == set(before["checkpoints"])
    for one, rows in before["checkpoints"].items():
        assert v1.plain(table.at(checkpoint=one).scan().to_arrow()) == rows
    table.gc(keep_days=0)
    again = v1.opened(directory, name)
    assert sorted(ids(again)) == now
    for one, rows in before["checkpoints"].items():
        assert v1.plain(again.at(checkpoint=one).scan().to_arrow()) == rows


def test_search__index_of_format_1_is_optimized_and_its_other_build_ended__finds_the_same(directory):
    table, before = v1.opened(directory, "text"), EXPECTED["text"]

    def hits(index):
        found = table.search("note", v1.QUERY, index=index, limit=None).to_arrow().to_pylist()
        return sorted([hit["id"], round(hit["_score"], 5)] for hit in found)

    build = table.index_build(v1.unfinished(directory))
    assert build.missing() == before["missing"] == [1, 2]
    for item in build.missing():
        build.run(item)
    build.commit()
    assert {one.name for one in table.indexes()} == {"note", "second"}
    assert hits("note") == before["hits"]
    assert {id_ for id_, _ in hits("second")} == {id_ for id_, _ in before["hits"]}
    table.optimize_index("note", whole=True)
    assert hits("note") == before["hits"]
    table.drop_index("second")
    table.gc(keep_days=0)
    assert hits("note") == before["hits"]


def test_detach__clone_of_format_1__needs_its_parent_no_more(directory):
    clone = v1.opened(directory, "clone")
    clone.detach()
    shutil.rmtree(directory / "parent")
    assert v1.plain(ss.open(directory / "clone", sync=False).scan().to_arrow()) == EXPECTED["clone"]["rows"]


def test_make__today__gives_the_same_contents(tmp_path):
    v1.main(tmp_path / "made")
    today = json.loads((tmp_path / "made" / "expected.json").read_text())
    assert today == EXPECTED


def test_kept__each_table__is_small_and_of_no_machine():
    for name in (*v1.TABLES, v1.WAL_STORE):
        files = [one for one in (KEPT / name).rglob("*") if one.is_file()]
        assert sum(one.stat().st_size for one in files) < BYTES_MAX
        assert [one for one in files if b"file://" in one.read_bytes()] == []
