"""The page about reliability is what the kept figures give, and figures are summed as they should. Nothing is run."""

from __future__ import annotations

import json
import sys

import pytest

import figures
from sources import ROOT

sys.path.append(str(ROOT / "tools"))  # its modules import each other
import reliability
import reliability_page
from reliability_figures import Amount, note, summed

KILLED = "tests/x/test_kill.py::test_a__b__c[1]"


def test_page__its_tables__are_what_the_kept_figures_give(capsys):
    assert reliability.main(["--check"]) == 0, capsys.readouterr().out


def test_check__a_figure_of_the_page_was_changed__is_told(tmp_path, capsys):
    page = tmp_path / "reliability.md"
    text = reliability.PAGE.read_text(encoding="utf-8")
    page.write_text(text.replace("goal is |", "goal was |"), encoding="utf-8")
    assert page.read_text(encoding="utf-8") != text
    assert reliability.main(["--check"], page=page) == 1
    assert "is not what" in capsys.readouterr().out


def test_write__figures_of_a_run__are_kept_and_shown(tmp_path):
    page, kept, run = tmp_path / "page.md", tmp_path / "kept.json", tmp_path / "run"
    run.mkdir()
    page.write_text(reliability.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    note(run, "kills", 1234, of=KILLED)
    note(run, "test/passed", 1, of=KILLED)
    assert reliability.main(["--from", str(run)], page=page, kept=kept) == 0
    assert json.loads(kept.read_text())["figures"]["kills"] == {"tests/x/test_kill.py": [1234, 1]}
    assert "| 1,234 | 1,000 | reached |" in page.read_text(encoding="utf-8")
    assert reliability.main(["--check"], page=page, kept=kept) == 0


def test_summary__nothing_was_run__claims_nothing():
    made = reliability_page.blocks({}, when="never", failed=())
    assert "reached" not in made["summary"]
    assert made["kills"] == made["models"] == reliability_page.NOT_MEASURED


def test_summed__a_test_that_was_cut_off__counts_for_nothing(tmp_path):
    note(tmp_path, "kills", 5, of=KILLED)
    note(tmp_path, "states", 7, of="models/wal.py::a variant")
    assert summed([tmp_path]) == ({"states": {"models/wal.py": Amount(7, 1)}}, [])


def test_summed__a_test_that_failed__counts_for_nothing_and_is_named(tmp_path):
    note(tmp_path, "kills", 5, of=KILLED)
    note(tmp_path, "test/failed", 1, of=KILLED)
    assert summed([tmp_path]) == ({}, [KILLED])


def test_summed__a_test_in_two_runs__counts_as_in_the_last(tmp_path):
    for name, amount in (("first", 5), ("second", 7)):
        (tmp_path / name).mkdir()
        note(tmp_path / name, "kills", amount, of=KILLED)
        note(tmp_path / name, "test/passed", 1, of=KILLED)
    found, _ = summed([tmp_path / "first", tmp_path / "second"])
    assert found["kills"] == {"tests/x/test_kill.py": Amount(7, 1)}


def test_record__with_a_directory_and_without__writes_a_line_or_nothing(tmp_path, monkeypatch, request):
    monkeypatch.delenv(figures.DIRECTORY, raising=False)
    figures.record("kills", 3)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(figures.DIRECTORY, str(tmp_path))
    figures.record("kills", 3)
    figures.record("kills", 0)
    [line] = [json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert line == {"name": "kills", "amount": 3, "test": request.node.nodeid}


def test_mistakes__scenarios_whose_names_begin_alike__are_counted_apart(tmp_path):
    for scenario, names in (("retain", "ab"), ("retain-clones", "cde")):
        for name in names:
            note(tmp_path, "mistakes planted", 1, of=f"{scenario}::{name}")
            note(tmp_path, "mistakes found", 1, of=f"{scenario}::{name}")
    lines = reliability_page.mistakes(summed([tmp_path])[0]).splitlines()
    assert lines[2:] == ["| `retain` | 2 | 2 |", "| `retain-clones` | 3 | 3 |"]


@pytest.mark.parametrize("name", [*reliability_page.BLOCKS, "run"])
def test_page__each_block__has_its_place_once(name):
    text = reliability.PAGE.read_text(encoding="utf-8")
    assert text.count(f"<!-- {name}: begin -->") == text.count(f"<!-- {name}: end -->") == 1
