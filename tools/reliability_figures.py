"""What runs of the tests recorded, summed up.

What must hold:
- What a test recorded counts only where the test passed: one that failed, or was cut off, counts for nothing.
- A test that is in several directories counts once, as the last of them has it.
- An amount has the place that it is from: a test file, a class of tests in it, a model, a scenario.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PASSED, FAILED = "test/passed", "test/failed"
TESTS = "tests/"


class Amount(NamedTuple):
    """How much, and of how many tests (or variants, or scenarios)."""

    amount: int
    tests: int


Figures = dict[str, dict[str, Amount]]  # by name, then by place


def note(directory: Path, name: str, amount: int, *, of: str) -> None:
    """Add what was found outside of tests, as ``tests/figures.py`` does inside."""
    line = json.dumps({"name": name, "amount": amount, "test": of})
    with (directory / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def place_of(test: str) -> str:
    """The file of a test, with its class where it has one."""
    file, _, rest = test.partition("::")
    first, more, _ = rest.partition("::")
    return f"{file}::{first}" if more and first.startswith("Test") else file


def summed(directories: Iterable[Path]) -> tuple[Figures, list[str]]:
    """The figures of finished runs, and the tests that failed in them."""
    by_test: dict[str, dict[str, int]] = {}
    for directory in directories:
        run: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for file in sorted(directory.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                run[found["test"]][found["name"]] += found["amount"]
        by_test.update(run)
    failed = sorted(test for test, names in by_test.items() if FAILED in names)
    out: Figures = {}
    for test, names in by_test.items():
        if FAILED in names or (test.startswith(TESTS) and PASSED not in names):
            continue
        for name, amount in names.items():
            places = out.setdefault(name, {})
            before = places.get(place_of(test), Amount(0, 0))
            places[place_of(test)] = Amount(before.amount + amount, before.tests + 1)
    return {name: dict(sorted(places.items())) for name, places in sorted(out.items())}, failed


def total(figures: Figures, name: str, *, of: str = "") -> int:
    """All of an amount, or that of places that begin in a certain way."""
    return sum(one.amount for place, one in figures.get(name, {}).items() if place.startswith(of))


def at(figures: Figures, name: str, place: str) -> Amount:
    """An amount of one place, and of no other whose name begins alike."""
    return figures.get(name, {}).get(place, Amount(0, 0))


def below(figures: Figures, start: str) -> dict[str, dict[str, Amount]]:
    """Figures whose names begin so, by the rest of their names."""
    return {name.removeprefix(start): places for name, places in figures.items() if name.startswith(start)}


def to_json(figures: Figures) -> Mapping[str, object]:
    """As it is kept beside the page."""
    return {name: {place: list(one) for place, one in places.items()} for name, places in figures.items()}


def from_json(kept: Mapping[str, Mapping[str, tuple[int, int]]]) -> Figures:
    """The other way."""
    return {name: {place: Amount(*one) for place, one in places.items()} for name, places in kept.items()}
