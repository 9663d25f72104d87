"""How "no lost row" is proved, in figures: the tables of docs/reliability.md.

``python tools/reliability.py`` runs the parts (models, mistakes, tests, branches, security) and writes the page.
``--only PART`` (and again) runs one; ``--into DIR`` keeps what was recorded, ``--from DIR`` (and again) takes what
finished runs recorded and runs nothing. ``--check`` runs nothing, and says whether the page is what the kept figures
(docs/reliability.json) give.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import reliability_page
from reliability_figures import from_json, note, summed, to_json
from scale_page import replaced
from siltstone.testing.sim import MISTAKES, run_seed
from siltstone.testing.sim.planted import SEEDS_MAX

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
KEPT = ROOT / "docs" / "reliability.json"
VARIANT = re.compile(r"^   (\w+): (.+?): (holds|breaks)\b.* \(([\d,]+) states\)$", re.MULTILINE)
THREAT = re.compile(r"^\| (?!threat|---)[^|]+\|.*\.\./tests/", re.MULTILINE)
TESTS = (
    "tests/faults",
    "tests/properties/test_decoders.py",
    "tests/format",
    "tests/security",
    "tests/shard",
    "tests/retain",
    "tests/index",
    "tests/table",
    "tests/sim/test_seeds.py",
    "tests/log",
    "tests/commit",
    "tests/test_bad_input.py",
    "tests/test_bad_surroundings.py",
    "tests/test_lance.py",
    "tests/pipeline",
    "tests/spark/test_failures.py",
    "tests/spark/test_ingest.py",
)


def models(into: Path) -> None:
    """Every variant of every model."""
    command = [sys.executable, str(ROOT / "models")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own script
    for model, variant, verdict, states in VARIANT.findall(done.stdout):
        place = f"models/{model}.py::{variant}"
        note(into, "states", int(states.replace(",", "")), of=place)
        note(into, f"variants that {verdict.removesuffix('s')}", 1, of=place)


def mistakes(into: Path) -> None:
    """Each planted mistake, with the seed that found it last tried first."""
    last = json.loads((ROOT / "tests" / "sim" / "found_last.json").read_text(encoding="utf-8"))
    for mistake in MISTAKES:
        place = f"{mistake.scenario}::{mistake.name}"
        note(into, "mistakes planted", 1, of=place)
        first = last.get(mistake.name, 0)
        with mistake.planted():
            tried = (run_seed(seed, mistake.scenario) for seed in (first, *range(SEEDS_MAX)))
            found = next((outcome.seed for outcome in tried if not outcome.ok), None)
        if found is not None and run_seed(found, mistake.scenario).ok:  # without the mistake the same seed passes
            note(into, "mistakes found", 1, of=place)


def tests(into: Path) -> None:
    """The tests that record something. Those that fail are told on the page."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", *TESTS]
    env = {**os.environ, "SILTSTONE_FIGURES": str(into)}
    subprocess.run(command, cwd=ROOT, env=env, check=False)  # noqa: S603 - our own tests


def branches(into: Path) -> None:
    """Branches of the protocol that those tests take which are quick, once more and under coverage."""
    command = [sys.executable, str(ROOT / "tools" / "branches.py"), "--figures", str(into)]
    subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - our own script


def security(into: Path) -> None:
    """The threats of docs/security.md that name tests."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    note(into, "threats", len(THREAT.findall(text)), of="docs/security.md")


PARTS = {
    "models": models,
    "mistakes": mistakes,
    "tests": tests,
    "branches": branches,
    "security": security,
}


def is_current(page: Path, kept: Path) -> bool:
    """Whether the page is what the kept figures give."""
    text, found = page.read_text(encoding="utf-8"), json.loads(kept.read_text(encoding="utf-8"))
    return replaced(text, _blocks(found)) == text


def _blocks(found: dict[str, Any]) -> dict[str, str]:
    return reliability_page.blocks(from_json(found["figures"]), when=found["when"], failed=found["failed"])


def write(directories: list[Path], page: Path, kept: Path) -> None:
    """Sum up, keep the sums, and make the tables of the page anew."""
    figures, failed = summed(directories)
    found = {"when": dt.datetime.now(dt.UTC).date().isoformat(), "failed": failed, "figures": to_json(figures)}
    text = json.dumps(found, indent=1, sort_keys=True)
    kept.write_text(f"{text}\n", encoding="utf-8")
    page.write_text(replaced(page.read_text(encoding="utf-8"), _blocks(json.loads(text))), encoding="utf-8")


def main(arguments: list[str] | None = None, *, page: Path = PAGE, kept: Path = KEPT) -> int:
    """Run, or take what was run, and write the page; or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--into", type=Path, metavar="DIR", help="run parts and keep what they record; write no page")
    parser.add_argument("--from", type=Path, action="append", metavar="DIR", dest="taken", help="of a finished run")
    parser.add_argument("--check", action="store_true", help="is the page what the kept figures give?")
    asked = parser.parse_args(arguments)
    if asked.check:
        if is_current(page, kept):
            return 0
        print(f"{page.name} is not what {kept.name} gives: run ./run reliability")
        return 1
    if asked.taken:
        write(asked.taken, page, kept)
        return 0
    if asked.only and not asked.into:
        parser.error("--only needs --into: a page is made of all parts")
    with tempfile.TemporaryDirectory() as scratch:
        into: Path = (asked.into or Path(scratch)).resolve()
        into.mkdir(parents=True, exist_ok=True)
        for name in asked.only or PARTS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            PARTS[name](into)
        if not asked.into:
            write([into], page, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
