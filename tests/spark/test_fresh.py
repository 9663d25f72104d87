"""Fresh reads on Spark: whoever reads, the rows are those of ``table.scan(fresh=True)``."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import InvalidInputError
from siltstone.spark import native, parts
from siltstone.testing.s3server import Faults, FaultServer
from spark_reads import expected, plain_rows, shown
from spark_shards import TABLES, busy_table, changed, wal_table

WHERE = ["id between 3 and 60", "s = 'in the WAL'", "x > 0 and s is not null", "abs(i) = 1", "id = 99999"]


def loaded(spark, table, **options):
    return spark.read.format("siltstone").options(fresh="true", **options).load(table.uri)


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_read__fresh_in_every_plan__rows_of_the_scan(spark, tmp_path, make):
    table = make(str(tmp_path / "t"))
    wanted = expected(table, fresh=True)
    assert wanted != expected(table)

    for plan in ("native", "python", "auto"):
        frame = ss.spark.read(spark, table, fresh=True, plan=plan)
        assert shown(frame.toArrow()) == wanted, plan
        assert frame.count() == frame.select("id").count() == len(wanted)
    assert shown(loaded(spark, table).toArrow()) == wanted


@pytest.mark.parametrize("where", WHERE)
def test_read__fresh_with_a_filter__rows_of_the_scan(spark, tmp_path, where):
    table = busy_table(str(tmp_path / "t"))
    wanted = expected(table, where=where, fresh=True)

    for plan in ("python", "auto"):
        assert shown(ss.spark.read(spark, table, where=where, fresh=True, plan=plan).toArrow()) == wanted, plan
    assert shown(loaded(spark, table, where=where).toArrow()) == wanted
    some = ss.spark.read(spark, table, ["s", "id"], where=where, fresh=True)
    assert shown(some.toArrow()) == expected(table, ["s", "id"], where=where, fresh=True)


def test_read__fresh_and_more_is_put_and_merged__the_frame_stays_as_it_was(spark, tmp_path):
    table = busy_table(str(tmp_path / "t"))
    before = expected(table, fresh=True)
    frames = [ss.spark.read(spark, table, fresh=True, plan=plan) for plan in ("native", "python")]
    asked_each_time = loaded(spark, table)
    with table.writer() as writer:
        writer.put(changed(0, 90, "later"))
    table.merge_shards()

    assert [shown(frame.toArrow()) for frame in frames] == [before, before]
    assert shown(asked_each_time.toArrow()) == expected(table) != before


def test_read__fresh_without_shards_or_rows__what_is_there(spark, tmp_path):
    schema = pa.schema([("id", pa.int64())])
    plain = ss.create(tmp_path / "plain", schema=schema)
    plain.append([{"id": 1}])
    empty = ss.create(tmp_path / "empty", schema=schema, key="id", shards=2)

    assert ss.spark.read(spark, plain, fresh=True).toArrow().to_pylist() == [{"id": 1}]
    assert ss.spark.read(spark, empty, fresh=True).toArrow().num_rows == loaded(spark, empty).count() == 0
    with pytest.raises(InvalidInputError, match="fresh=True asks for the newest"):
        ss.spark.read(spark, plain, fresh=True, version=1)


def test_read__fresh_with_parts_cut_small__each_row_once(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES_LEAST", 2_000)
    monkeypatch.setattr(native, "MASKED_ROWS_MAX", 2)
    table = wal_table(str(tmp_path / "t"))
    table.upsert(plain_rows(0, 50))
    with table.writer() as writer:
        writer.put(changed(0, 40, "x" * 200))

    assert len(parts.make_held(table.scan(where="id < 40", fresh=True).to_arrow(), loaded(spark, table).schema)) > 3
    for frame in (loaded(spark, table), ss.spark.read(spark, table, fresh=True)):
        assert shown(frame.toArrow()) == expected(table, fresh=True)


def test_read__fresh_from_s3__rows_of_the_scan(spark):
    with FaultServer(Faults(), in_thread=True) as server:
        table = ss.create(
            "s3://bkt/fresh", schema=plain_rows(0).schema, key="id", shards=2, storage_options=server.storage_options
        )
        table.append(plain_rows(0))
        with table.writer() as writer:
            writer.put(changed(10, 40, "flushed"))
            for one in writer.writers:
                one.freeze()
                one.flush_memtables()
            writer.put(changed(20, 5, "in the WAL"))
            writer.delete([1, 45])

        found = ss.spark.read(spark, table, fresh=True).toArrow()

        assert shown(found) == expected(table, fresh=True)
