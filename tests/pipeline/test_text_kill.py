"""A runner that is killed while it builds an index, and started again: the index is there once, with all rows."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from sources import ROOT

RUN_SECONDS_MAX = 240
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
@pytest.mark.timeout(4 * RUN_SECONDS_MAX)
def test_run__killed_while_an_index_is_built__it_is_there_once(yard):
    yard.rows("in", "a.json", *range(50), body="late delivery")
    yard.rows("more", "a.json", *range(100, 110), body="came late")
    path = yard.write(STEPS)
    for number in (1, 2):
        assert run(path, yard, until_builds=number) == -9
    assert run(path, yard) == 0
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


def run(path, yard, *, until_builds=None):
    """Run the pipeline to its end, or until so many builds were begun; the exit code, -9 where it was killed."""
    command = [sys.executable, "-m", "siltstone", "pipeline", "run", str(path), "--master", "local[2]"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    ends = time.monotonic() + RUN_SECONDS_MAX
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            assert time.monotonic() < ends, "the run does not end"
            if until_builds is not None and builds(yard) >= until_builds:
                process.kill()
            time.sleep(0.03)
        return process.returncode
