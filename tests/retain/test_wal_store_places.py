"""WAL stores of other kinds than the table's: a directory beside a bucket, and a bucket beside a directory."""

from __future__ import annotations

import pytest

import siltstone as ss
from siltstone.errors import WrongWalStoreError
from wal_worlds import SCHEMA, rows


@pytest.mark.parametrize(
    ("table_in", "wal_in"), [("file", "seaweedfs"), ("seaweedfs", "file"), ("seaweedfs", "seaweedfs")]
)
def test_writer__wal_in_another_kind_of_store__every_row_is_there(places, table_in, wal_in):
    table, wal = places.store(table_in), places.store(wal_in)
    given = {"storage_options": table.options or None}
    other = {"wal": wal.uri, "wal_options": wal.options or None}
    with ss.create(table.uri, schema=SCHEMA, key="id", shards=2, **given) as made, made.writer() as writer:
        writer.put(rows(*range(10)))
    with ss.open(table.uri, **given, **other) as opened:
        with opened.writer() as writer:  # moves them
            writer.put(rows(*range(10, 20)))
        assert opened.count(fresh=True) == 20
        opened.checkpoint("kept", scope="durable")
    with pytest.raises(WrongWalStoreError), ss.open(table.uri, **given) as opened:
        opened.count(fresh=True)
    with ss.open(table.uri, **given, **other) as opened:
        assert opened.merge_shards().version
        assert opened.count() == opened.at(checkpoint="kept").count() == 20
        opened.delete_checkpoint("kept")
        opened.gc(keep_days=0)
    with ss.open(table.uri, **given) as opened:  # closed and merged: nothing of it is needed
        with opened.writer() as writer:
            writer.put(rows(*range(20, 30)))
        assert opened.count(fresh=True) == 30


def test_open__wal_store_of_the_same_kind_without_options__takes_those_of_the_table(places):
    table, wal = places.store("seaweedfs"), places.store("seaweedfs")
    with (
        ss.create(table.uri, schema=SCHEMA, key="id", shards=1, storage_options=table.options, wal=wal.uri) as made,
        made.writer() as writer,
    ):
        writer.put(rows(1))
    keys = [info.key for info in wal.open().list()]
    assert "wal-store" in keys
    assert any("/wal/entries/" in key for key in keys)
