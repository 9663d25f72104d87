"""The demo: it runs, it counts, and a wrong count is seen."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest

from siltstone.cli import demo
from siltstone.cli.demo_writers import Acknowledged, Target, Writer, missing, write_together
from siltstone.errors import UnavailableError
from siltstone.log import open_log

if TYPE_CHECKING:
    from pathlib import Path


def test_demo__run_as_a_process__everything_holds_and_nothing_stays(process, tmp_path):
    result = process("demo", TMPDIR=str(tmp_path))
    assert result.code == 0, result.out + result.err
    assert result.out.endswith("Everything held.\n")
    assert "NO" not in result.err
    assert result.err.count("  ok  ") > len(demo.STEPS)
    assert list(tmp_path.iterdir()) == []


def test_demo__json_and_keep__document_on_stdout_and_logs_on_disk(cli, tmp_path, monkeypatch):
    short = ("check a directory", "an old writer is fenced")
    monkeypatch.setattr(demo, "STEPS", tuple(step for step in demo.STEPS if step[0] in short))
    kept = tmp_path / "kept"
    result = cli("demo", "--keep", kept, "--json")
    assert result.code == 0
    assert set(result.json) == {"ok", "seconds", "steps"}
    assert [(step["name"], step["ok"]) for step in result.json["steps"]] == [(name, True) for name in short]
    assert all(set(step) == {"ok", "name", "checks", "seconds"} for step in result.json["steps"])
    assert [entry.body for entry in open_log(kept / "fenced").entries() if entry.kind == "data"] == [
        b"before",
        b"after",
    ]
    again = cli("demo", "--keep", kept, "--json")
    assert (again.code, again.json["error"]["kind"]) == (1, "invalid-input")


@pytest.mark.parametrize("wrong", ["count", "error"])
def test_demo__a_step_does_not_hold__code_1_and_says_which(wrong, cli, monkeypatch):
    def step(_: Path):
        yield demo.Check("one and one is two", ok=True)
        if wrong == "error":
            raise UnavailableError("the dog ate it")
        yield demo.Check("one and one is three", ok=False)

    monkeypatch.setattr(demo, "STEPS", (("sums", step),))
    result = cli("demo")
    assert result.code == 1
    assert "Did not hold: sums: " in result.out
    assert "NO" in result.err


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
