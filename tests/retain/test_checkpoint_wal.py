"""Checkpoints of tables whose WALs are in another store."""

from __future__ import annotations

import pickle
import shutil

import pytest

import siltstone as ss
from shard_models import SCHEMA, content, plain, rows_of
from siltstone.errors import CorruptionError, WrongWalStoreError

NAME = "before"
BEFORE = dict.fromkeys(range(20), 1)


@pytest.fixture
def uris(tmp_path):
    return str(tmp_path / "t"), str(tmp_path / "wal")


def made(uris, scope, *, flush=False):
    """A checkpoint of rows that came through shards, with others behind it that are merged."""
    table = ss.create(uris[0], schema=SCHEMA, key="id", shards=2, wal=uris[1])
    with table.writer() as writer:
        writer.put(rows_of(BEFORE))
        if flush:
            for one in writer.writers:
                one.freeze()
                one.flush_memtables()
        writer.checkpoint(NAME, scope=scope)
        writer.put(rows_of(dict.fromkeys(range(40), 2)))
        table.merge_shards()
    return table


@pytest.mark.parametrize("scope", ["all", "durable"])
@pytest.mark.parametrize("flush", [False, True], ids=["in the WAL", "in fragments"])
def test_at__a_checkpoint_of_a_table_with_a_wal_store__has_its_rows(scope, flush, uris):
    table = made(uris, scope, flush=flush)
    kept = table.at(checkpoint=NAME)
    assert content(kept.scan()) == plain(BEFORE)
    assert content(pickle.loads(pickle.dumps(kept)).scan()) == plain(BEFORE)
    assert content(ss.open(uris[0], wal=uris[1]).at(checkpoint=NAME).scan()) == plain(BEFORE)


def test_at__scope_all_and_the_wal_store_is_wiped__has_every_row(uris):
    made(uris, "all")
    shutil.rmtree(uris[1])
    assert content(ss.open(uris[0]).at(checkpoint=NAME).scan()) == plain(BEFORE)


@pytest.mark.parametrize("wal", [True, False], ids=["given", "not given"])
def test_at__scope_durable_and_the_wal_store_is_wiped__is_an_error(wal, uris):
    made(uris, "durable")
    shutil.rmtree(uris[1])
    table = ss.open(uris[0], **({"wal": uris[1]} if wal else {}))
    with pytest.raises((WrongWalStoreError, CorruptionError)):
        table.at(checkpoint=NAME)


def test_at__scope_durable_and_no_wal_store_is_given__is_told_where_it_was(uris):
    made(uris, "durable")
    with pytest.raises(WrongWalStoreError, match="wal"):
        ss.open(uris[0]).at(checkpoint=NAME)


def test_delete_checkpoint__without_the_wal_store__pins_go(uris):
    made(uris, "durable")
    table = ss.open(uris[0])
    table.delete_checkpoint(NAME)
    state = table._now()
    manifests = [table._shards.reader(name, state).place.manifest() for name in state.shards]
    assert [one.read().pins for one in manifests] == [{}, {}]


def test_checkpoint__a_pin_needs_the_wal__another_writer_does_not_move_it(uris, tmp_path):
    made(uris, "durable")
    other = str(tmp_path / "other")
    table = ss.open(uris[0], wal=uris[1])
    with pytest.raises(WrongWalStoreError):
        ss.open(uris[0], wal=other).writer()
    assert content(table.at(checkpoint=NAME).scan()) == plain(BEFORE)
    table.delete_checkpoint(NAME)
    with ss.open(uris[0], wal=other).writer() as writer:
        writer.put(rows_of({100: 1}))
    assert ss.open(uris[0], wal=other).count("id = 100", fresh=True) == 1
