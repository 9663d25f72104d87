"""Mistakes that the simulator must find, each within the seeds allowed; without them the same seeds pass."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import shares
from siltstone.errors import InternalError
from siltstone.testing.sim import MISTAKES, run_seed
from siltstone.testing.sim.__main__ import main
from siltstone.testing.sim.planted import SEEDS_MAX, Change

FOUND_LAST = json.loads((Path(__file__).parent / "found_last.json").read_text(encoding="utf-8"))


def by_name(name: str):
    return next(mistake for mistake in MISTAKES if name in mistake.name)


@cache
def violations(seed: int, scenario: str) -> tuple[str, ...]:
    """Without any mistake."""
    return run_seed(seed, scenario).violations


def seeds(name: str) -> list[int]:
    """All that are allowed: the one that found the mistake last comes first, which saves most of the others."""
    last = FOUND_LAST.get(name, 0)
    return [last, *(seed for seed in range(SEEDS_MAX) if seed != last)]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_run_seed__with_a_planted_mistake__is_found_and_is_the_cause(mistake):
    with mistake.planted():
        outcomes = (run_seed(seed, mistake.scenario) for seed in seeds(mistake.name))
        found = next((outcome for outcome in outcomes if not outcome.ok), None)
    assert found is not None, f"{SEEDS_MAX} seeds of {mistake.scenario} did not notice it"
    # A mistake that can't be run proves nothing.
    assert not [text for text in found.violations if "unexpected" in text and "SiltstoneError" not in text]
    for seed in range(found.seed + 1) if shares.WHOLE else [found.seed]:
        assert violations(seed, mistake.scenario) == ()


def test_found_last__names_and_seeds__are_of_mistakes_that_there_are():
    assert set(FOUND_LAST) <= {mistake.name for mistake in MISTAKES}
    assert all(0 <= seed < SEEDS_MAX for seed in FOUND_LAST.values())


def test_mistakes__by_number__are_at_least_two_dozen():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 24


def test_planted__line_that_is_gone__is_an_error():
    gone = Change("siltstone.log.log:Log.add", (("no such line", "nothing"),))
    with pytest.raises(InternalError, match="no such line"), gone.made():
        pass


def test_main__failing_seed__prints_its_trace_and_fails(capsys):
    with by_name("unread").planted():
        assert main(["--seeds", "0:300", "--scenario", "writers"]) == 1
    assert "VIOLATION operation" in capsys.readouterr().out
