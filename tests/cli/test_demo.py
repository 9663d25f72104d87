"""The demo: it runs, it counts, it can be run again, and a wrong count is seen."""

from __future__ import annotations

import re
import tempfile

import pyarrow.compute as pc
import pytest

import figures
import siltstone
from siltstone.cli import demo, demo_rows
from siltstone.cli.demo_pipeline import CHECKS
from siltstone.cli.demo_stores import STORE_STEPS
from siltstone.cli.demo_writers import Acknowledged, Target, Writer, missing, write_together
from siltstone.errors import UnavailableError
from siltstone.log import open_log
from siltstone.pipeline import load_pipeline


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_demo__run_twice_in_one_directory__everything_holds_and_nothing_is_applied_twice(process, tmp_path):
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    scratch.mkdir()
    first = process("demo", "--keep", kept, TMPDIR=str(scratch))
    assert first.code == 0, first.out + first.err
    assert "Everything held, in " in first.out
    assert "NO" not in first.err
    assert "Traceback" not in first.err
    assert "a stream was stopped with 10,000 of 40,000 rows in" in first.err
    assert first.err.count("  ok  ") >= 12 + 3 * len(STORE_STEPS)
    assert re.search(
        r"search: [\d,]+ rows match, the best of them.*\n  \d\.\d+  id: \d+, body: .*arrived late", first.out
    )
    assert list(scratch.iterdir()) == []
    with siltstone.open(kept / "reviews") as table:
        version = table.version
        assert table.count() == len(demo_rows.finished())
        assert set(table.tags) == {"as-written", "finished"}

    again = process("demo", "--keep", kept, "--json")
    assert again.code == 0, again.out + again.err
    assert set(again.json) == {"ok", "seconds", "steps"}
    assert all(step["ok"] for step in again.json["steps"])
    assert {"ok", "name", "checks", "seconds", "says", "rows", "versions", "lines"} == set(again.json["steps"][0])
    with siltstone.open(kept / "reviews") as table:
        assert table.version == version
    pipeline = process("pipeline", "run", kept / "pipeline.yaml", "--json")
    assert (pipeline.code, pipeline.json["did"]) == (0, 0)
    assert set(CHECKS) <= {step.id for step in load_pipeline(kept / "pipeline.yaml").steps}


def test_demo__without_its_pipeline__the_stores_hold(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "PARTS", (demo._stores,))
    result = cli("demo", "--json")
    assert result.code == 0, result.err
    assert [(step["name"], step["ok"]) for step in result.json["steps"]] == [(name, True) for name, _ in STORE_STEPS]


def test_demo__keep_names_a_directory_that_is_no_demo__is_refused(cli, tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        assert cli("demo", "--keep", place, "--json").error == (1, "invalid-input")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("wrong", ["count", "error"])
def test_demo__a_step_does_not_hold__code_1_and_says_which(wrong, cli, monkeypatch):
    def step(_):
        yield demo.Check("one and one is two", ok=True)
        if wrong == "error":
            raise UnavailableError("the dog ate it")
        yield demo.Check("one and one is three", ok=False)

    monkeypatch.setattr(demo, "STORE_STEPS", (("sums", step),))
    monkeypatch.setattr(demo, "PARTS", (demo._stores,))
    result = cli("demo")
    assert result.code == 1
    assert "Did not hold: sums: " in result.out
    assert "NO" in result.err


def test_reviews__made_twice_or_in_parts__are_the_same():
    whole = demo_rows.written()
    assert whole.equals(demo_rows.written())
    assert demo_rows.reviews(7_000, 10).equals(whole.slice(7_000, 10).combine_chunks())
    assert whole.num_rows == pc.count_distinct(whole["id"]).as_py() == demo_rows.ROWS
    assert set(whole["stars"].to_pylist()) == {1, 2, 3, 4, 5}
    assert len(demo_rows.deleted()) < len(demo_rows.corrected()) == demo_rows.ROWS + demo_rows.ADDED
    assert demo_rows.unnamed() > 0
    assert 0 < len(demo_rows.matching()) < len(demo_rows.finished())


def test_write_arrivals__a_second_time__leaves_the_files_as_they_are(tmp_path):
    demo_rows.write_arrivals(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    demo_rows.write_arrivals(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert len(before) == demo_rows.FILES


def test_missing__log_without_an_acknowledged_entry__names_it(tmp_path):
    with open_log(tmp_path, create=True) as log:
        end = log.add(b"a")
        there, gone = Acknowledged(0, end.digest), Acknowledged(0, "0" * 64)
        assert missing(log, [there, gone]) == [gone]


def test_write_together__writers_that_fail__error_that_says_why_and_no_process_left(tmp_path):
    with pytest.raises(UnavailableError, match=r"writer-\d failed: there is no log at"):
        write_together(Target(str(tmp_path / "no-log")), writers=2, entries=1)


def test_writer__killed_in_the_middle__tells_what_was_acknowledged(tmp_path):
    open_log(tmp_path, create=True).close()
    with Writer(Target(str(tmp_path)), name="doomed", entries=100_000) as writer:
        writer.wait_ready()
        writer.begin()
        writer.read(3)
        writer.kill()
        figures.record("kills")
    assert len(writer.acknowledged) >= 3
    with open_log(tmp_path) as log:
        assert missing(log, writer.acknowledged) == []
        assert log.tip().position - len(writer.acknowledged) in {0, 1}


def test_demo__temporary_directory__is_removed_after_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail():
        with demo._directory(None) as directory:
            assert directory.parent == tmp_path
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []
