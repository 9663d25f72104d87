"""Ten thousand seeds, in two processes."""

from __future__ import annotations

import pytest

from siltstone.testing.sim import run_seeds

SEEDS = range(10_000)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_run_seeds__ten_thousand__none_fails():
    failed = [
        f"seed {outcome.seed} ({outcome.scenario}): {outcome.violations[0]}"
        for outcome in run_seeds(SEEDS, jobs=2)
        if not outcome.ok
    ]
    assert failed == []
