"""The long form of the tests: fresh simulator seeds, kill loops, crowds of writers, and every place of each fault.

``python tools/soak.py --hours 8``. Each round takes seeds that no round took before (``--from`` goes on where an
earlier soak ended). Stops at the first failure with what is needed to see it again; exit code 1 then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from siltstone.testing.sim import run_seed, run_seeds

REPO = Path(__file__).parents[1]
FIRST_SEED = 1_000_000  # those below are the test suite's
SEEDS_A_ROUND = 5_000
REAL = (
    "tests/faults/test_kill.py",
    "tests/index",
    "tests/log/test_many_processes.py",
    "tests/pipeline/test_kill.py",
    "tests/retain",
    "tests/shard",
    "tests/sim/test_simulator.py",
    "tests/spark/test_failures.py",
    "tests/spark/test_ingest.py",
    "tests/spark/test_streams.py",
    "tests/spark/test_text_failures.py",
    "tests/table/test_kill.py",
    "tests/table/test_many_operations.py",
    "tests/table/test_many_processes.py",
    "tests/test_lance.py",
)
OPERATIONS_S = "60"  # how long the operations of a table run beside each other


def main() -> int:
    """Go on until the time is up or something fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0, help="how long to go on (default 1)")
    parser.add_argument("--from", dest="start", type=int, default=FIRST_SEED, help="the first simulator seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes for the simulator (default 2)")
    parser.add_argument("--seeds", type=int, default=SEEDS_A_ROUND, help="simulator seeds in a round")
    asked = parser.parse_args()
    end = time.monotonic() + asked.hours * 3600
    seed, rounds, faults = asked.start, 0, 0
    while True:
        for outcome in run_seeds(range(seed, seed + asked.seeds), jobs=asked.jobs):
            faults += outcome.counters.get("faults", 0)
            if not outcome.ok:
                return _explain(outcome.seed)
        seed += asked.seeds
        command = [sys.executable, "-m", "pytest", "-q", "-x", *REAL]
        env = {**os.environ, "SILTSTONE_TEST_SECONDS": OPERATIONS_S}
        real = subprocess.run(command, cwd=REPO, check=False, env=env)  # noqa: S603 - our own interpreter and tests
        if real.returncode:
            return 1
        rounds += 1
        print(f"round {rounds}: seeds up to {seed}, {faults} simulated faults, nothing lost", flush=True)
        if time.monotonic() >= end:
            return 0


def _explain(seed: int) -> int:
    outcome = run_seed(seed)
    print("\n".join(outcome.trace))
    print(f"seed {seed} ({outcome.scenario}) violates: {'; '.join(outcome.violations)}")
    print(f"again: python -m siltstone.testing.sim --replay {seed}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
