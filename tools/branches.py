"""Which branches of the protocol no test takes: those must be the ones in tools/uncovered.json, with a reason each.

``python tools/branches.py`` runs the tests below under coverage and compares. ``--from FILE`` (and again) takes what a
finished run measured and runs nothing, ``--data FILE`` keeps it. ``--tests PATH`` (and again) runs other tests instead.
``--add`` writes what is not in the list into it, as not covered yet, and takes out what is covered now.
``--figures DIR`` records the sums for tools/reliability.py.

What must hold:
- A place is named by its function and the text of its line, never by a number: edits elsewhere do not move it.
- What no test takes and the list does not name fails, and so does a name in the list that is taken now.
- A module that no test imported is not covered at all, rather than left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coverage import Coverage

from reliability_figures import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "pyproject.toml"
LISTED = ROOT / "tools" / "uncovered.json"
LATER = "not covered yet"
END = "the end"  # of a function, where a branch leads out of it
TESTS = (
    "tests/cli/test_wal.py",
    "tests/commit",
    "tests/faults",
    "tests/index/test_build.py",
    "tests/index/test_build_conflicts.py",
    "tests/index/test_build_damaged.py",
    "tests/index/test_build_faults.py",
    "tests/index/test_build_lying_store.py",
    "tests/index/test_build_places.py",
    "tests/index/test_finalize.py",
    "tests/index/test_growing.py",
    "tests/index/test_making.py",
    "tests/index/test_planning.py",
    "tests/log",
    "tests/retain",
    "tests/security",
    "tests/shard",
    "tests/sim/test_found.py",
    "tests/sim/test_places.py",
    "tests/table/test_shard_commits.py",
    "tests/table/test_shard_create.py",
    "tests/table/test_shard_state.py",
    "tests/telemetry",
    "tests/test_bad_input.py",
    "tests/test_bad_surroundings.py",
    "tests/verify",
)
# Most of what these run is in other processes, which are not measured, and they take minutes.
LEFT_OUT = (
    "*/test_*kill*.py",
    "*/test_*processes*.py",
    "*/test_load.py",
    "*/test_restarts.py",
    "*/test_lying_matrix.py",
)


class Place(NamedTuple):
    """A line that no test runs, or a branch that none takes: by file, and by function and text."""

    file: str
    name: str


class Module(NamedTuple):
    """What was measured of one module."""

    file: str
    branches: int
    left: tuple[str, ...]  # names of places
    untaken: tuple[str, ...]  # for each branch that no test takes, the name that tells it


def measure(data: Path, tests: Iterable[str]) -> int:
    """Run tests with two processes, each of which writes what it saw beside ``data``; pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-m", "not slow"]
    command += ["-p", "branches_plugin", *(f"--ignore-glob={one}" for one in LEFT_OUT), *tests]
    env = {name: value for name, value in os.environ.items() if name != "SILTSTONE_FIGURES"}  # the plain run's to give
    env |= {"COVERAGE_FILE": str(data), "PYTHONPATH": str(ROOT / "tools")}
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode  # noqa: S603 - our own tests


def modules(files: Iterable[Path], *, root: Path = ROOT) -> list[Module]:
    """What finished runs measured, together, of each module of the protocol."""
    with tempfile.TemporaryDirectory() as scratch:
        found = Coverage(data_file=f"{scratch}/data", config_file=str(root / "pyproject.toml"))
        found.combine([str(file) for file in files], keep=True)
        report = Path(scratch) / "report.json"
        found.json_report(morfs=[str(file) for file in protocol(root)], outfile=str(report))
        told = json.loads(report.read_text(encoding="utf-8"))
    return [_module(root, file, one) for file, one in sorted(told["files"].items())]


def protocol(root: Path) -> list[Path]:
    """The modules that are measured, imported by a test or not."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return sorted(file for pattern in settings["tool"]["coverage"]["run"]["include"] for file in root.glob(pattern))


def _module(root: Path, file: str, told: Mapping[str, Any]) -> Module:
    text = (root / file).read_text(encoding="utf-8")
    lines, functions = text.splitlines(), _functions(text)
    missing = set(told["missing_lines"])

    def at(line: int) -> str:
        return lines[line - 1].strip()

    def where(line: int) -> str:
        inside = [(end - start, name) for name, start, end in functions if start <= line <= end]
        return min(inside)[1] if inside else "module"

    def told_by(line: int, to: int) -> str:
        """A line that does not run tells of the branches to it and from it."""
        lost = line if line in missing else to
        if lost in missing:
            return f"{where(lost)}: {at(lost)}"
        return f"{where(line)}: {at(line)} -> {END if to < 0 else at(to)}"

    untaken = [told_by(*branch) for branch in told["missing_branches"]]
    alone = [told_by(line, to) for line, to in told["missing_branches"] if not {line, to} & missing]
    names = [f"{where(line)}: {at(line)}" for line in missing]
    return Module(file, told["summary"]["num_branches"], tuple(sorted(names + alone)), tuple(untaken))


def _functions(text: str) -> list[tuple[str, int, int]]:
    """Names, first and last lines of all functions."""

    def walk(node: ast.AST, before: str) -> Iterator[tuple[str, int, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{before}{child.name}"
                if isinstance(child, ast.FunctionDef):
                    yield name, child.lineno, child.end_lineno or child.lineno
                yield from walk(child, f"{name}.")
            else:
                yield from walk(child, before)

    return list(walk(ast.parse(text), ""))


def listed(file: Path) -> list[tuple[str, Place]]:
    """What no test takes, as the repository knows: reasons and places."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    return [(why, Place(where, name)) for why, files in kept.items() for where in files for name in files[where]]


def compare(found: Iterable[Module], known: Iterable[tuple[str, Place]]) -> tuple[list[Place], list[Place]]:
    """Places that the list does not name, and those of the list that are covered now."""
    left = Counter(Place(module.file, name) for module in found for name in module.left)
    named = Counter(place for _, place in known)
    return sorted((left - named).elements()), sorted((named - left).elements())


def renew(file: Path, known: list[tuple[str, Place]], new: list[Place], gone: list[Place]) -> None:
    """The list with new places, not covered yet, and without those that are covered."""
    over = Counter(gone)
    kept: dict[str, dict[str, list[str]]] = {}
    for why, place in [*known, *((LATER, place) for place in new)]:
        if over[place]:
            over[place] -= 1
            continue
        kept.setdefault(why, {}).setdefault(place.file, []).append(place.name)
    ordered = {
        why: {where: sorted(names) for where, names in sorted(files.items())} for why, files in sorted(kept.items())
    }
    file.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def record(directory: Path, found: Iterable[Module], known: list[tuple[str, Place]]) -> None:
    """The sums, by package."""
    directory.mkdir(parents=True, exist_ok=True)
    reasons = {place for why, place in known if why != LATER}
    for module in found:
        package, _, name = module.file.rpartition("/")
        of = f"{package}::{name}"
        note(directory, "branches", module.branches, of=of)
        note(directory, "branches taken", module.branches - len(module.untaken), of=of)
        note(
            directory,
            "branches with a reason",
            sum(Place(module.file, name) in reasons for name in module.untaken),
            of=of,
        )


def tell(found: list[Module], new: list[Place], gone: list[Place]) -> None:
    """What there is to mend, and the sum."""
    for place in new:
        print(f"no test takes it, and {LISTED.name} does not name it: {place.file}: {place.name}")
    for place in gone:
        print(f"{LISTED.name} names it, and it is covered or gone: {place.file}: {place.name}")
    branches = sum(one.branches for one in found)
    taken = branches - sum(len(one.untaken) for one in found)
    print(f"{taken:,} of {branches:,} branches of {len(found)} modules are taken: {taken * 100 / branches:.2f} %")


def main(arguments: list[str] | None = None) -> int:
    """Run, or take what was run, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", type=Path, action="append", metavar="FILE", dest="taken", help="of a finished run")
    parser.add_argument("--data", type=Path, metavar="FILE", help="keep what is measured beside this file")
    parser.add_argument("--tests", action="append", metavar="PATH", help="run these tests instead")
    parser.add_argument("--add", action="store_true", help="write what is not covered yet into the list")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="record the sums for the page of reliability")
    asked = parser.parse_args(arguments)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        files = asked.taken
        if not files:
            data: Path = (asked.data or Path(scratch) / "coverage").resolve()
            failed = measure(data, asked.tests or TESTS)
            files = sorted(data.parent.glob(f"{data.name}.*"))
        found = modules(files)
    known = listed(LISTED)
    new, gone = compare(found, known)
    tell(found, new, gone)
    if asked.add:
        renew(LISTED, known, new, gone)
        known, new, gone = listed(LISTED), [], []
    if asked.figures:
        record(asked.figures, found, known)
    return int(bool(failed or new or gone))


if __name__ == "__main__":
    sys.exit(main())
