"""Rows of shards' fragments that scans read again: what is kept changes nothing but the time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fresh_world import World, shop
from siltstone.shard.fresh import Freshness
from siltstone.shard.fresh_file import KeptFile
from siltstone.shard.kept import Kept
from siltstone.table import evolve, layout, tasks
from siltstone.table.files import FragmentFile


@pytest.fixture
def flushed(monkeypatch):
    """A table and a shard that has all its rows in two fragments of several row groups."""
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(layout, "GROUP_ROWS", 8)
    world, shard = shop()
    for start in (0, 10):
        shard.put([world.row(one) for one in range(start, start + 20)])
        shard.flush()
    return world, shard


@pytest.fixture
def decoded(monkeypatch):
    """The names of the columns that were decoded, of each row group that was."""
    seen = []
    plain = FragmentFile.read

    def read(self, group, fields, **options):
        seen.append([one.name for one in fields])
        return plain(self, group, fields, **options)

    monkeypatch.setattr(FragmentFile, "read", read)
    return seen


def files_of(world, shard):
    """The files of a shard's fragments, and the same as a fresh read has them."""
    tools, _ = world.fresh()
    fragments = [one.fragment for one in shard.state.fragments]
    return [(world.tools.files.open(one, store=shard.store), tools.files.open(one)) for one in fragments]


def by_id(table):
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def test_read__again_and_with_other_columns__is_what_the_file_has(flushed):
    world, shard = flushed
    fields = world.state.schema.fields
    for plain, kept in files_of(world, shard):
        assert isinstance(kept, KeptFile)
        assert kept.groups == plain.groups
        assert len(plain.groups) == 3
        for chosen in (fields[1:2], fields[:2], fields[::-1], (), fields):
            for group in range(len(plain.groups)):
                assert kept.read(group, chosen).equals(plain.read(group, chosen), check_metadata=True)


def test_scan__a_second_time__decodes_nothing_of_the_shards(decoded):
    world = World(shards=1)
    shard = world.shards[0]
    shard.put([world.row(one) for one in range(30)])
    shard.flush()
    columns = ["name", "id"]
    wanted = [{name: row[name] for name in columns} for row in sorted(world.rows(), key=lambda row: row["id"])]
    assert by_id(world.scan(columns=columns).to_arrow()) == wanted
    decoded.clear()
    assert by_id(world.scan(columns=columns).to_arrow()) == wanted
    assert decoded == []
    assert by_id(world.scan().to_arrow()) == sorted(world.rows(), key=lambda row: row["id"])
    assert decoded == [["score", "grp"]]


def test_scan__no_room_for_rows__decodes_them_each_time(flushed, decoded):
    world, shard = flushed
    world.freshness = Freshness(world.tools, cache_bytes=1)
    for _ in range(2):
        decoded.clear()
        assert by_id(world.scan(columns=["id", "name"]).to_arrow()) == [
            {"id": row["id"], "name": row["name"]} for row in sorted(world.rows(), key=lambda row: row["id"])
        ]
        assert len([names for names in decoded if names == ["id", "name"]]) >= 6
    assert not any(isinstance(kept, KeptFile) for _, kept in files_of(world, shard))


def test_read__little_room__keeps_what_was_used_last(flushed, decoded):
    world, shard = flushed
    kept: Kept[pa.Table] = Kept(600)
    file = KeptFile(world.tools.files.open(shard.state.fragments[0].fragment, store=shard.store), kept)
    whole = [file.read(group, world.state.schema.fields) for group in range(len(file.groups))]
    assert pa.concat_tables(whole).num_rows == 20
    assert 0 < kept.nbytes <= 600
    decoded.clear()
    file.read(2, world.state.schema.fields[-1:])
    assert decoded == []
    file.read(0, world.state.schema.fields[:1])
    assert decoded == [["id"]]


def test_scan__column_is_renamed_and_another_takes_its_name__each_has_its_own_values(flushed):
    world, _ = flushed
    before = {row["id"]: row for row in world.scan().to_arrow().to_pylist()}
    schema = evolve.rename_column(world.state.schema, "name", to="title")
    added = pa.field("name", pa.string(), nullable=False)
    world.apply(operation="schema", schema=evolve.add_column(schema, added, default="none yet"))
    found = world.scan().to_arrow().to_pylist()
    assert len(found) == len(before) > 0
    assert {(row["title"], row["name"]) for row in found} == {(row["name"], "none yet") for row in before.values()}
