"""What no test takes is told by name, and compared with the list both ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sources import ROOT

sys.path.append(str(ROOT / "tools"))  # its modules import each other
import branches
from branches import LATER, Module, Place
from reliability_figures import Amount, summed

SETTINGS = """
[tool.coverage.run]
branch = true
parallel = true
relative_files = true
include = ["part/*.py"]
"""
TAKEN_HALF = """
class Door:
    def enter(self, key):
        if key:
            self.key = key
        if key > 5:
            return "high"
        return "low"

    def leave(self):
        return "left"


print(Door().enter(7))
"""
HALF = "part/half.py"
LEFT = ("Door.enter: if key: -> if key > 5:", 'Door.enter: return "low"', 'Door.leave: return "left"')


@pytest.fixture
def measured(tmp_path):
    """A project of two modules, one of which was run, and the file that it was measured into."""
    (tmp_path / "part").mkdir()
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / HALF).write_text(TAKEN_HALF)
    (tmp_path / "part" / "never.py").write_text("print('never')\n")
    env = {**os.environ, "COVERAGE_FILE": str(tmp_path / "data")}
    command = [sys.executable, "-m", "coverage", "run", HALF]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "high\n"
    return list(tmp_path.glob("data.*"))


def test_modules__of_a_run__name_what_it_did_not_take(tmp_path, measured, monkeypatch):
    monkeypatch.chdir(tmp_path)
    half, never = branches.modules(measured, root=tmp_path)
    assert half == Module(HALF, 4, LEFT, LEFT[:2])
    assert never == Module("part/never.py", 0, ("module: print('never')",), ())


def test_modules__lines_before_a_place_are_added__its_name_stays(tmp_path, measured, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / HALF).write_text(f"import os\n\nprint(os.name)\n{TAKEN_HALF}")
    again = [sys.executable, "-m", "coverage", "run", HALF]
    env = {**os.environ, "COVERAGE_FILE": str(tmp_path / "later")}
    subprocess.run(again, cwd=tmp_path, env=env, capture_output=True, check=True)
    half, _ = branches.modules(tmp_path.glob("later.*"), root=tmp_path)
    assert half.left == LEFT


def test_compare__one_place_is_new_and_one_is_covered__both_are_told():
    found = [Module(HALF, 4, ("f: a", "f: a", "f: b"), ())]
    known = [("why", Place(HALF, "f: a")), ("why", Place(HALF, "f: c"))]
    assert branches.compare(found, known) == ([Place(HALF, "f: a"), Place(HALF, "f: b")], [Place(HALF, "f: c")])


def test_renew__new_and_covered_places__are_written_and_taken_out(tmp_path):
    file = tmp_path / "uncovered.json"
    file.write_text(json.dumps({"why": {HALF: ["f: a", "f: c"]}}))
    branches.renew(file, branches.listed(file), [Place(HALF, "f: b")], [Place(HALF, "f: c")])
    assert json.loads(file.read_text()) == {"why": {HALF: ["f: a"]}, LATER: {HALF: ["f: b"]}}


def test_record__places_with_a_reason_and_without__are_counted_apart(tmp_path):
    found = [Module("part/half.py", 10, ("f: a", "f: b"), ("f: a", "f: a", "f: b"))]
    branches.record(tmp_path, found, [("why", Place(HALF, "f: a")), (LATER, Place(HALF, "f: b"))])
    figures, _ = summed([tmp_path])
    assert figures == {
        "branches": {"part": Amount(10, 1)},
        "branches taken": {"part": Amount(7, 1)},
        "branches with a reason": {"part": Amount(2, 1)},
    }


def test_list__each_place__is_of_a_module_that_is_measured_and_has_that_line():
    measured = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in branches.protocol(ROOT)}
    places = [place for _, place in branches.listed(branches.LISTED)]
    for place in places:
        line = place.name.partition(": ")[2].partition(" -> ")[0]
        assert any(one.strip().startswith(line) for one in measured[place.file].splitlines()), place


def test_measured__the_packages_of_the_protocol__all_have_modules():
    packages = {file.parent.relative_to(ROOT / "src" / "siltstone").as_posix() for file in branches.protocol(ROOT)}
    assert packages == {"log", "commit", "shard", "retain", "index", "api"}
