"""Shards whose objects are gone or closed by repair: told, never taken for empty ones."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import siltstone
from siltstone import paths
from siltstone.errors import MissingObjectError
from siltstone.format.records import Header, encode_entry
from siltstone.log import open_beside
from siltstone.shard.manifest import Manifest

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())])
SHARD = paths.shard(paths.shard_name(0, 0))


@pytest.fixture
def table(tmp_path):
    with siltstone.create(tmp_path / "t", schema=SCHEMA, key="id", shards=1) as made:
        with made.shard(0).writer() as writer:
            writer.put([{"id": 1, "x": 1}])
        yield made


def lose(tmp_path, part):
    shutil.rmtree(tmp_path / "t" / SHARD / part)


def test_read__the_wal_is_gone__says_so(table, tmp_path):
    lose(tmp_path, "wal")
    with siltstone.open(tmp_path / "t") as again:
        for call in (lambda: again.count(fresh=True), again.merge_shards, again.shard(0).writer):
            with pytest.raises(MissingObjectError, match="wal/identity is gone"):
                call()


def test_read__the_manifest_is_gone_and_rows_were_merged__says_so(table, tmp_path):
    table.merge_shards()
    lose(tmp_path, "manifest")
    with siltstone.open(tmp_path / "t") as again:
        assert again.count() == 1
        for call in (lambda: again.count(fresh=True), again.merge_shards):
            with pytest.raises(MissingObjectError, match="manifest/identity is gone"):
                call()


def test_writer__all_of_the_shard_is_gone_and_rows_were_merged__is_refused(table, tmp_path):
    table.merge_shards()
    shutil.rmtree(tmp_path / "t" / SHARD)
    with siltstone.open(tmp_path / "t") as again, pytest.raises(MissingObjectError, match="entry 0"):
        again.shard(0).writer()


def test_manifest__an_abort_is_its_newest_entry__the_state_before_it_counts(table):
    log = open_beside(table._log, SHARD + paths.MANIFEST)
    before = Manifest(log, shard="s").read()
    mark = log.tip()
    header = Header(
        log=log.identity.log,
        position=mark.position,
        epoch=0,
        op="a" * 32,
        nonce="b" * 32,
        prev=mark.digest,
        kind="abort",
    )
    log.store.create(paths.entry(log.root, mark.position), encode_entry(header, b""))
    assert Manifest(open_beside(table._log, SHARD + paths.MANIFEST), shard="s").read() == before
    with table.shard(0).writer() as writer:
        writer.put([{"id": 2, "x": 2}])
    assert table.count(fresh=True) == 2
