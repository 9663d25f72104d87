"""The seeds that every change is tried with, in two processes. ``./run soak`` goes through others, without end."""

from __future__ import annotations

import pytest

from siltstone.testing.sim import run_seeds

SEEDS = range(2_000)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_run_seeds__two_thousand__none_fails():
    failed = [
        f"seed {outcome.seed} ({outcome.scenario}): {outcome.violations[0]}"
        for outcome in run_seeds(SEEDS, jobs=2)
        if not outcome.ok
    ]
    assert failed == []
