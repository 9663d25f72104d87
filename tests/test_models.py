"""The explicit-state models in ``models/``: what must hold holds, and without its rule it breaks."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / "models"
sys.path.append(str(MODELS))  # one of them imports from another


@cache
def load(name: str):
    spec = importlib.util.spec_from_file_location(f"models_{name}", MODELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check = load("checker").check
COMMIT = load("commit")
EXTERNAL = load("external")
LOUD = load("loud")
# The states that each variant must have at least: where it holds, and where it breaks, which ends the search early.
LEAST = {
    "floor": (200, 200),
    "finalize": (50, 50),
    "retention": (100, 100),
    "wal": (1_000, 0),
    "commit": (40_000, 100),
    "external": (15_000, 40),
    "loud": (20_000, 900),
}
VARIANTS = [(name, variant) for name in LEAST for variant in load(name).VARIANTS]


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_model__each_variant__holds_exactly_when_it_must(name, variant):
    model, must_hold = load(name).VARIANTS[variant]
    verdict = check(model)
    assert verdict.holds is must_hold, (verdict.wrong, verdict.trace)
    assert verdict.states > LEAST[name][0 if must_hold else 1]


def test_models__every_file__is_checked():
    files = {path.stem for path in MODELS.glob("*.py")}
    assert files - {"__main__", "checker", "claims"} == set(LEAST)


class Whole:
    """A model of parties as one of whole states: slower, and with nothing worked out beforehand."""

    def __init__(self, model):
        self.model = model
        self.wrong = lambda state: model.wrong(state[0])
        self.init = model.init

    def steps(self, state):
        shared, parts = state
        for number, part in enumerate(parts):
            for label, now, after in self.model.moves(number, shared, part):
                yield label, (now, (*parts[:number], after, *parts[number + 1 :]))


@pytest.mark.parametrize(
    "model",
    [
        COMMIT.Commit(1, 2, takers="c", places=2, deaths=0),
        EXTERNAL.External(1, 2, others="r", deaths=0, publish="fork"),
        LOUD.Loud(1, 2, others="c", deaths=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_check__parties_or_whole_states__as_many_states(model):
    verdict = check(model)
    assert verdict == check(Whole(model))
    assert verdict.holds
    assert verdict.states > 10_000


@pytest.mark.parametrize(
    "model",
    [
        COMMIT.Commit(1, 2, takers="c", places=2, faults=0, deaths=0, look="none"),
        EXTERNAL.External(1, 2, others="f", deaths=0, publish="put"),
        LOUD.Loud(1, 2, alone=False),
    ],
    ids=lambda model: type(model).__name__,
)
def test_check__parties_or_whole_states__as_short_a_trace_that_can_be_gone(model):
    verdict, slow = check(model), check(Whole(model))
    assert len(verdict.trace) == len(slow.trace) > 1
    whole, states = Whole(model), {model.init()}
    for wanted in verdict.trace:
        states = {after for state in states for label, after in whole.steps(state) if label == wanted}
    assert verdict.wrong in {whole.wrong(state) for state in states}
