"""A runner that is killed while it builds an index, and started again: the index is there once, with all rows."""

from __future__ import annotations

import pytest

from siltstone.pipeline import load_pipeline, run_pipeline

STEPS = """\
  - create: {table: "${t}", key: id, schema: {id: int64 not null, stars: int32, body: string}}
  - append: {from: "${here}/in", format: json, into: "${t}"}
  - index: {table: "${t}", column: body}
  - search: {table: "${t}", column: body, query: late, rows: 50}
  - tag: {table: "${t}", name: searched}
  - append: {from: "${here}/more", format: json, into: "${t}"}
  - index: {table: "${t}", column: body}
  - search: {table: "${t}", column: body, query: late, rows: 60}
  - tag: {table: "${t}", name: done}
"""


@pytest.mark.slow
@pytest.mark.timeout(960)
def test_run__killed_while_an_index_is_built__it_is_there_once(yard, spark):
    yard.rows("in", "a.json", *range(50), body="late delivery")
    yard.rows("more", "a.json", *range(100, 110), body="came late")
    path = yard.write(STEPS)
    for number in (1, 2):
        killed = yard.run_until(path, lambda number=number: builds(yard) >= number, poll=0.03)
        assert killed.code == -9
    killed.wait()
    run_pipeline(load_pipeline(path), spark=spark)
    table = yard.open()
    [index] = table.indexes()
    assert (index.indexed_rows, index.unindexed_rows, index.segments) == (60, 0, 1)
    marks = [mark for version in table.history() for mark in version.once if mark.startswith("pipeline/")]
    steps = sorted(mark.partition("#")[0].rpartition("/")[2] for mark in marks)
    assert steps == ["2-append", "5-tag", "6-append", "9-tag"]
    assert [one.operation for one in table.history()].count("index") == 2
    assert builds(yard) == 2  # what was left was gone on with


def builds(yard):
    """How many builds have a plan, which is the first entry of their logs."""
    return len(list((yard.root / "table" / "indexes").glob(f"*/log/entries/{0:020}")))
