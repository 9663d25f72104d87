"""The explicit-state models in ``models/``: what must hold holds, and without its rule it breaks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / "models"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"models_{name}", MODELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check = load("checker").check
FINALIZE = load("finalize").VARIANTS
FLOOR = load("floor").VARIANTS
RETAIN = load("retention").VARIANTS
WAL = load("wal").VARIANTS


@pytest.mark.parametrize("variant", FLOOR)
def test_floor__each_variant__holds_exactly_when_it_must(variant):
    model, must_hold = FLOOR[variant]
    verdict = check(model)
    assert verdict.holds is must_hold, verdict.trace
    assert verdict.states > 200


@pytest.mark.parametrize("variant", FINALIZE)
def test_finalize__each_variant__holds_exactly_when_it_must(variant):
    model, must_hold = FINALIZE[variant]
    verdict = check(model)
    assert verdict.holds is must_hold, verdict.trace
    assert verdict.states > 50


@pytest.mark.parametrize("variant", RETAIN)
def test_retain__each_variant__holds_exactly_when_it_must(variant):
    model, must_hold = RETAIN[variant]
    verdict = check(model)
    assert verdict.holds is must_hold, verdict.trace
    assert verdict.states > 100


@pytest.mark.parametrize("variant", WAL)
def test_wal__each_variant__holds_exactly_when_it_must(variant):
    model, must_hold = WAL[variant]
    verdict = check(model)
    assert verdict.holds is must_hold, (verdict.wrong, verdict.trace)
    if must_hold:
        assert verdict.states > 1000
