"""Clones across stores: buckets, services, directories, commit stores, and WAL stores of their own."""

from __future__ import annotations

import pickle
import shutil

import pytest

import siltstone as ss
from clone_worlds import SCHEMA, content, numbered, rows_of
from siltstone.errors import MissingObjectError, WrongCommitStoreError, WrongWalStoreError

ROWS = numbered(0, 20) | {30: "put"}
del ROWS[3]


def filled(place, **options):
    """A table with a deleted row, and one that is in a shard."""
    table = ss.create(place.uri, schema=SCHEMA, key="id", shards=1, storage_options=place.options or None, **options)
    table.append(rows_of(numbered(0, 10)))
    table.append(rows_of(numbered(10, 20)))
    table.delete("id = 3")
    with table.writer() as writer:
        writer.put(rows_of({30: "put"}))
    return table


@pytest.mark.parametrize(
    ("source", "target"),
    [("seaweedfs", "file"), ("file", "seaweedfs"), ("seaweedfs", "seaweedfs"), ("seaweedfs", "ministack")],
)
def test_clone__from_store_to_store__works_as_in_one(places, source, target):
    here, there = places.store(source), places.store(target)
    table = filled(here)
    made = table.clone(there.uri, storage_options=there.options or None)
    assert content(made) == ROWS
    origins = {} if source == target else {table.uri: here.options or here.uri}
    again = ss.open(there.uri, storage_options=there.options or None, origins=origins)
    assert content(again) == content(pickle.loads(pickle.dumps(again))) == ROWS
    again.upsert(rows_of({1: "own"}))
    again.detach()
    assert table.checkpoints() == []
    ss.drop(here.uri, storage_options=here.options or None)
    assert content(ss.open(there.uri, storage_options=there.options or None)) == ROWS | {1: "own"}
    ss.drop(there.uri, storage_options=there.options or None)


def test_clone__in_the_same_bucket__needs_no_options_again(places):
    here = places.store("seaweedfs")
    table = filled(here)
    made = table.clone(f"{here.uri}-clone")
    assert content(made) == ROWS
    assert content(pickle.loads(pickle.dumps(made))) == ROWS
    ss.drop(f"{here.uri}-clone", storage_options=here.options)
    assert table.checkpoints() == []


def test_clone__in_another_bucket_of_one_service__is_opened_with_origins(places, services):
    services("seaweedfs").client("s3").create_bucket(Bucket="clones-elsewhere")
    here = places.store("seaweedfs")
    table = filled(here)
    uri = f"s3://clones-elsewhere/{here.uri.rpartition('/')[2]}"
    assert content(table.clone(uri, storage_options=here.options, where="id < 5")).keys() == {0, 1, 2, 4}
    again = ss.open(uri, storage_options=here.options, origins={table.uri: here.options})
    assert content(again).keys() == {0, 1, 2, 4}
    ss.drop(uri, storage_options=here.options, origins={1: here.options})
    assert table.checkpoints() == []


def test_clone__with_commit_stores__each_table_is_decided_by_its_own(places, tmp_path):
    first, second = (f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second"))
    table = filled(places.store("file"), commits=first)
    same = table.clone(tmp_path / "same", commits=first)
    other = table.clone(tmp_path / "other", commits=second)
    assert content(same) == content(other) == ROWS
    same.clone(tmp_path / "last", commits=first).detach()
    ss.drop(tmp_path / "last", commits=first)
    ss.drop(tmp_path / "same", commits=first)
    with pytest.raises(WrongCommitStoreError):
        ss.open(tmp_path / "other", commits=second).detach()
    assert len(table.checkpoints()) == 1
    again = ss.open(tmp_path / "other", commits=second, origins={table.uri: {"commits": first}})
    again.detach()
    assert table.checkpoints() == []
    assert content(ss.open(tmp_path / "other")) == ROWS


def test_clone__of_a_table_with_a_wal_store__needs_none_of_it_and_may_have_its_own(places, tmp_path):
    place = places.store("file")
    table = filled(place, wal=tmp_path / "wal")
    kept = table.checkpoint("kept", scope="durable")
    made = table.clone(tmp_path / "clone", at=kept, wal=tmp_path / "clone-wal")
    shutil.rmtree(tmp_path / "wal")
    assert content(made) == content(ss.open(tmp_path / "clone")) == ROWS
    with made.writer() as writer:
        writer.put(rows_of({40: "own"}))
    again = ss.open(tmp_path / "clone", wal=tmp_path / "clone-wal")
    assert content(again, fresh=True) == ROWS | {40: "own"}
    with pytest.raises(WrongWalStoreError):
        ss.drop(tmp_path / "clone")
    made.close()
    ss.drop(tmp_path / "clone", wal=tmp_path / "clone-wal")


def test_clone__the_wal_is_gone_that_a_checkpoint_needs__is_refused(places, tmp_path):
    table = filled(places.store("file"), wal=tmp_path / "wal")
    table.checkpoint("kept", scope="durable")
    shutil.rmtree(tmp_path / "wal")
    with pytest.raises((MissingObjectError, WrongWalStoreError)):
        ss.open(table.uri, wal=tmp_path / "wal").clone(tmp_path / "clone", at="kept")
