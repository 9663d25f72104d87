"""Workers, executors and drivers die while an index is built, tasks are run twice: its files have the same bytes.

On a cluster of two workers. What is left in staging is allowed, another file or another byte is not.
"""

from __future__ import annotations

import shutil

import pytest

import figures
import siltstone as ss
from spark_cluster import SPECULATION
from spark_cuts import TEXT
from spark_texts import EACH, FRAGMENTS, ITEMS, finals, hits, make

FAULTS = ["worker@task begins", "worker@task staged", "executor@task staged", "stall@task begins", "stall@task staged"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_build__workers_and_executors_die_and_tasks_are_overtaken__files_are_byte_equal(standalone, tmp_path):
    table = make(tmp_path / "local")
    before = hits(table)
    build = table.begin_text_index("body", items=ITEMS)
    uris = [str(tmp_path / f"table{number}") for number in range(len(FAULTS))]
    for uri in uris:
        shutil.copytree(tmp_path / "local", uri)
    build.run_all()
    wanted = finals(table.uri, build.name)
    found = standalone.driver(**SPECULATION).do("spark_texts", "faults", {"uris": uris, "faults": FAULTS})
    assert [one["fault"] for one in found] == FAULTS
    for uri, one in zip(uris, found, strict=True):
        assert one["met"], one
        figures.record("kills", one["fault"].startswith(("worker@", "executor@")))
        assert (one["build"], one["rows"], one["items"]) == (build.name, FRAGMENTS * EACH, build.items), one
        assert finals(uri, build.name) == wanted, one["fault"]
        assert hits(ss.open(uri)) == before
        assert ss.open(uri).version == table.version


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_driver__killed_between_tasks_and_commit__another_process_ends_the_build_by_its_name(cut_off, tmp_path):
    table = ss.open(cut_off.uri(TEXT))
    before = hits(table)
    (told,) = (one for one in cut_off.told if "build" in one)
    assert told["missing"] == []
    assert table.indexes() == []
    shutil.copytree(cut_off.uri(TEXT), tmp_path / "twin")
    twin = ss.open(tmp_path / "twin")
    for here in (table, twin):
        build = here.index_build(told["build"])
        version = build.commit()
        assert build.commit().version == version.version == here.version
        assert (here.indexes()[0].parts, here.indexes()[0].unindexed_rows) == (build.items, 0)
        assert hits(here) == before
    assert finals(table.uri, told["build"]) == finals(twin.uri, told["build"])
