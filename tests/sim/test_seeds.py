"""The seeds that every change is tried with, a thousand a test. ``./run soak`` goes through others, without end.

Of 20,000 seeds each of the twelve scenarios of logs is played 1,522 times at least, and each of the sixteen of tables
(shards, retain, index, commits and wal-store) 101 times. Ten faults happen in a seed on average, at least; every
hundredth is played twice, with the same trace; and clocks of processes are up to a year off.
"""

from __future__ import annotations

from collections import Counter

import pytest

import figures
from siltstone.testing.sim import run_seed, run_seeds, scenarios
from siltstone.testing.sim.world import YEAR_MS

SEEDS = 20_000
SHARE = 1_000
TWICE_EVERY = 100
FAULTS_MEAN = 10
FAR_OFF_MS = 300 * 86_400_000


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_run_seeds__a_thousand_of_twenty__none_fails(first):
    found, skews_ms, failed, differ = Counter(), [], [], []
    for outcome in run_seeds(range(first, first + SHARE)):
        found[outcome.scenario, "seeds"] += 1
        found[outcome.scenario, "simulated faults"] += outcome.counters.get("faults", 0)
        found[outcome.scenario, "simulated operations"] += outcome.counters["operations"]
        found[outcome.scenario, "seeds twice"] += outcome.seed % TWICE_EVERY == 0
        skews_ms.append(outcome.skew_ms)
        if not outcome.ok:
            failed.append(f"seed {outcome.seed} ({outcome.scenario}): {outcome.violations[0]}")
        if outcome.seed % TWICE_EVERY == 0 and run_seed(outcome.seed).trace_hash != outcome.trace_hash:
            differ.append(outcome.seed)
    assert failed == []
    assert differ == []
    assert sum(amount for (_, name), amount in found.items() if name == "simulated faults") >= FAULTS_MEAN * SHARE
    assert FAR_OFF_MS < max(skews_ms) <= YEAR_MS
    for (scenario, name), amount in found.items():
        figures.record(name, amount, of=f"{scenario}::{first}")


def test_picks__of_all_seeds__play_every_scenario_a_hundred_times():
    played = Counter(scenarios.PICKS[seed % len(scenarios.PICKS)] for seed in range(SEEDS))
    assert min(played[one.name] for one in scenarios.LOGS) == 1_522
    assert min(played[one.name] for one in scenarios.TABLES) == 101
    assert played.keys() == scenarios.SCENARIOS.keys()


def test_picks__of_seeds_played_twice__are_of_every_scenario():
    twice = {scenarios.PICKS[seed % len(scenarios.PICKS)] for seed in range(0, SEEDS, TWICE_EVERY)}
    assert twice == scenarios.SCENARIOS.keys()
