"""Clones on Spark: fragments of other tables are read where they are."""

from __future__ import annotations

import siltstone as ss
from clone_worlds import SCHEMA, numbered, rows_of


def test_read__a_clone_of_a_clone__has_its_rows_whoever_reads(spark, tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id")
    table.append(rows_of(numbered(0, 50)))
    table.delete("id = 7")
    first = table.clone(tmp_path / "first")
    first.append(rows_of(numbered(50, 60)))
    first.delete("id = 8")
    last = first.clone(tmp_path / "last", where="id < 55")
    last.upsert(rows_of({1: "own"}))
    expected = numbered(0, 55) | {1: "own"}
    del expected[7], expected[8]
    for plan in ("auto", "native", "python"):
        found = ss.spark.read(spark, last, plan=plan).toArrow().to_pydict()
        assert dict(zip(found["id"], found["v"], strict=True)) == expected, plan
    frame = spark.read.format("siltstone").load(last.uri)
    assert frame.where("id = 1").collect()[0]["v"] == "own"
    assert frame.count() == len(expected)
    ss.spark.upsert(rows_frame(spark), last.uri)
    assert last.get([2]).to_pydict()["v"] == ["spark"]
    assert table.get([2]).to_pydict()["v"] == ["x2"]


def rows_frame(spark):
    return spark.createDataFrame([(2, "spark")], "id bigint, v string")
