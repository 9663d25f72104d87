"""Tables whose shards have their WALs in another store: jobs read, merge and write them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import WrongWalStoreError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])


def rows(*ids):
    return pa.table({"id": list(ids), "note": ["x"] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path):
    """Rows in WALs alone, of which half were moved there."""
    with ss.create(tmp_path / "table", schema=SCHEMA, key="id", shards=2) as made, made.writer() as writer:
        writer.put(rows(*range(10)))
    with ss.open(tmp_path / "table", wal=tmp_path / "wal") as opened:
        with opened.writer() as writer:
            writer.put(rows(*range(10, 20)))
        yield opened


def test_merge_shards__wals_in_another_store__takes_every_row(spark, table, tmp_path):
    ss.spark.merge_shards(spark, table)
    assert table.count() == 20
    without = ss.open(tmp_path / "table")  # closed and merged: nothing of it is needed
    assert ss.spark.merge_shards(spark, without).operation == "none"
    assert without.count(fresh=True) == 20


def test_load__fresh_with_option_wal__sees_every_row(spark, table, tmp_path):
    frame = spark.read.format("siltstone").option("fresh", "true").option("wal", str(tmp_path / "wal"))
    assert frame.load(str(tmp_path / "table")).count() == 20
    assert ss.spark.read(spark, table, fresh=True).count() == 20


def test_read__fresh_without_the_wal_store__is_refused(spark, table, tmp_path):
    del table
    with pytest.raises(WrongWalStoreError):
        ss.spark.read(spark, ss.open(tmp_path / "table"), fresh=True).count()


def test_ingest__wals_in_another_store__rows_are_there(spark, table, tmp_path):
    frame = spark.createDataFrame([(n, "y") for n in range(15, 30)], "id long not null, note string")
    ss.spark.ingest(frame, table)
    assert table.count(fresh=True) == 30
    assert list((tmp_path / "wal").glob("shards/*/wal-*/entries/*"))
