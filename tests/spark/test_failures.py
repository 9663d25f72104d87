"""Workers, executors and drivers die while a job writes, tasks are run twice: the rows of each job are there once.

On a cluster of two workers. Orphans are allowed, a row too many or too few is not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import figures
import siltstone as ss
from siltstone.testing.s3server import Faults
from spark_cluster import SPECULATION
from spark_cuts import APPENDS, INGEST, TEXT
from spark_drivers import ROWS, frame, write
from spark_faults import FaultySource

FAULTS = {
    "worker@task begins": "retried",
    "worker@task wrote": "retried",
    "executor@task wrote": "retried",
    "stall@task wrote": "overtaken by a speculative attempt",
    "worker@before commit": "failed",
    "worker@after commit": "failed",
    "error@after commit": "failed",
}


def ids(uri: str) -> list[int]:
    return sorted(ss.open(uri).scan(["id"]).to_arrow().column("id").to_pylist())


def files(uri: str, directory: str = "data") -> int:
    return len(list(Path(uri.removeprefix("file://")).joinpath(directory).iterdir()))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_write__workers_executors_and_commits_die__rows_are_there_once(standalone, tmp_path):
    job = {"root": str(tmp_path), "faults": list(FAULTS)}
    found = standalone.driver(**SPECULATION).do("spark_drivers", "faults", job)
    assert [one["fault"] for one in found] == list(FAULTS)
    for one in found:
        first, again = one["failures"]
        assert one["met"], one
        figures.record("kills", one["fault"].startswith(("worker@", "executor@")))
        assert bool(first) == (FAULTS[one["fault"]] == "failed"), one
        assert again == "", one
        assert ids(one["uri"]) == list(range(ROWS)), one["fault"]
    wrote = {one["fault"]: files(one["uri"]) - len(ss.open(one["uri"])._state.fragments) for one in found}
    assert wrote["worker@task wrote"] >= 1  # what the attempt that died wrote is there, and in no version
    assert wrote["stall@task wrote"] >= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_driver__killed_before_and_after_its_commit__run_again_it_adds_its_rows_once(cut_off, spark):
    spark.dataSource.register(FaultySource)
    points = [point for point in cut_off.points if point not in {TEXT, INGEST}]
    assert {"task wrote", "append, after"} <= set(points)
    for point in points:
        uri = cut_off.uri(point)
        assert ids(uri) == (list(range(ROWS)) if "after" in point else []), point
        if point in APPENDS:
            ss.spark.append(frame(spark), uri, once="job")
        else:
            assert write(spark, uri) == ""
        assert ids(uri) == list(range(ROWS)), point


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sixteen_tasks__append_to_one_table_at_once__lose_nothing(standalone, places, tmp_path):
    liar, honest = places.fault_server(Faults(lie="check-then-put")), places.store("ministack")
    targets = [
        {"uri": f"{tmp_path}/local", "reach": {}},
        {"uri": honest.uri, "reach": {"storage_options": honest.options}},
        {
            "uri": "s3://bkt/lying",
            "reach": {"storage_options": liar.storage_options, "commits": places.commits_uri("postgresql")},
        },
    ]
    found = standalone.driver().do("spark_drivers", "workers", {"places": targets, "each": 3})
    assert found == [{"tasks": 16, "rows": 480, "distinct": 480, "versions": 48}] * len(targets)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_jobs__of_several_kinds_at_once__all_of_them_count(standalone, tmp_path):
    uri = f"{tmp_path}/table"
    (told,) = standalone.driver().do("spark_drivers", "jobs", {"uri": uri})
    table = ss.open(uri)
    rows = table.scan().to_arrow().sort_by("id")
    versions = {one.version: one for one in table.history()}
    appended, deleted = told["versions"][0], told["versions"][4]
    expected = [number for number in range(3 * ROWS) if not ROWS <= number < ROWS + 100 or deleted < appended]
    assert rows.column("id").to_pylist() == expected
    assert rows.column("x").to_pylist()[:ROWS] == [number % 2 for number in range(ROWS)]
    assert set(rows.column("note").to_pylist()[:ROWS]) == {"up"}
    assert versions[told["versions"][2]].updated == ROWS // 2
