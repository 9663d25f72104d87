"""The simulator itself: a seed is the whole truth, and what should happen in it does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter

import pytest

import shares
from siltstone.errors import InvalidInputError
from siltstone.testing.sim import SCENARIOS, run_seed, run_seeds, scenarios
from siltstone.testing.sim.__main__ import main
from siltstone.testing.sim.faults import KINDS

TABLES = [one.name for one in scenarios.TABLES]
SEEDS = 60 if shares.WHOLE else 6
EVERY_FAULT = {name for names in KINDS.values() for name in names}


def replayed(seed: int, *, hash_seed: str) -> str:
    code = f"from siltstone.testing.sim import run_seed; print(run_seed({seed}).trace_hash)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("seed", range(0, 2400, 101))
def test_run_seed__twice__does_exactly_the_same(seed):
    one, two = run_seed(seed), run_seed(seed)
    assert one == two
    assert one.trace == two.trace


@pytest.mark.parametrize("scenario", TABLES)
def test_run_seed__of_tables_twice__does_exactly_the_same(scenario):
    one, two = run_seed(11, scenario), run_seed(11, scenario)
    assert one == two
    assert one.trace == two.trace


def test_run_seed__of_tables__starts_no_thread(monkeypatch):
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread.name))
    for scenario in TABLES:
        assert run_seed(5, scenario).violations == ()
    assert started == []


def test_run_seed__in_other_processes__does_exactly_the_same():
    here = run_seed(7).trace_hash
    assert {replayed(7, hash_seed="0"), replayed(7, hash_seed="12345")} == {here}


def test_run_seed__other_seeds__do_something_else():
    assert len({run_seed(seed, "writers").trace_hash for seed in range(50)}) == 50


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_run_seed__every_scenario__has_faults_and_operations(scenario):
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run_seed(seed, scenario)
        assert outcome.violations == ()
        assert outcome.scenario == scenario
        totals.update(outcome.counters)
    assert totals["faults"] >= 5 * SEEDS
    assert totals["acknowledged"] >= 2 * SEEDS


def test_run_seeds__some_hundreds__meet_every_fault_and_ten_on_average():
    outcomes = list(run_seeds(range(240)))
    totals = sum((Counter(outcome.counters) for outcome in outcomes), Counter())
    assert [name for name in sorted(EVERY_FAULT) if not totals[name]] == []
    assert totals["faults"] >= 10 * len(outcomes)
    assert totals["rows lost"]
    assert totals["alarms"]
    assert {outcome.scenario for outcome in outcomes} == set(SCENARIOS)


def test_run_seed__without_a_scenario__the_seed_picks_one_by_weight():
    picked = Counter(scenarios.PICKS)
    assert picked == scenarios.WEIGHTS
    assert picked.keys() == SCENARIOS.keys()
    assert all(200 * count >= picked.total() for count in picked.values())  # one in two hundred, at least
    assert [run_seed(seed).scenario for seed in (3, 3 + picked.total())] == [scenarios.PICKS[3]] * 2


def test_run_seeds__in_two_processes__come_in_order_and_are_the_same():
    alone = [outcome.trace_hash for outcome in run_seeds(range(100, 160))]
    assert [outcome.trace_hash for outcome in run_seeds(range(100, 160), jobs=2)] == alone


def test_run_seed__time__is_virtual():
    outcome = run_seed(3, "latecomers")
    assert outcome.virtual_s > 10
    assert outcome.counters["events"] > 100


def test_run_seed__unknown_scenario__says_which_there_are():
    with pytest.raises(InvalidInputError, match="writers"):
        run_seed(0, "nothing")


def test_main__good_seeds__says_so(capsys):
    assert main(["--seeds", "0:12"]) == 0
    assert "12 seeds in" in capsys.readouterr().out


def test_main__replay__prints_the_trace(capsys):
    assert main(["--replay", "5", "--scenario", "lying"]) == 0
    assert f"scenario lying, trace {run_seed(5, 'lying').trace_hash}" in capsys.readouterr().out


def test_main__malformed_seeds__is_refused():
    with pytest.raises(SystemExit, match="FROM:TO"):
        main(["--seeds", "a:b"])
