"""Play many seeds: ``python -m siltstone.testing.sim --seeds 0:10000 --jobs 2``; exit code 1 where one fails."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from siltstone.testing.sim.run import Outcome, run_seed, run_seeds
from siltstone.testing.sim.scenarios import SCENARIOS

PROGRESS_EVERY = 1000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m siltstone.testing.sim",
        description="Play seeds of the simulator. A seed that fails is printed with its trace.",
    )
    parser.add_argument("--seeds", default="0:1000", metavar="FROM:TO", help="which seeds (default: 0:1000)")
    parser.add_argument("--jobs", type=int, default=1, help="processes to play in (default: 1)")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="this one only; otherwise the seed picks one")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play one seed and print its whole trace")
    return parser


def _range(text: str) -> range:
    start, _, stop = text.partition(":")
    try:
        return range(int(start), int(stop)) if stop else range(int(start))
    except ValueError:
        raise SystemExit(f"--seeds takes FROM:TO, such as 0:1000, not {text!r}") from None


def _show(outcome: Outcome) -> None:
    _say(*outcome.trace)
    _say(f"seed {outcome.seed}, scenario {outcome.scenario}, trace {outcome.trace_hash}")
    _say(*(f"VIOLATION {violation}" for violation in outcome.violations))


def _say(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Play what the arguments say; the exit code."""
    options = _parser().parse_args(arguments)
    if options.replay is not None:
        outcome = run_seed(options.replay, options.scenario)
        _show(outcome)
        return 0 if outcome.ok else 1
    seeds = _range(options.seeds)
    began = time.monotonic()
    totals: Counter[str] = Counter()
    for number, outcome in enumerate(run_seeds(seeds, options.scenario, jobs=options.jobs), 1):
        if not outcome.ok:
            _show(run_seed(outcome.seed, outcome.scenario))
            return 1
        totals.update(outcome.counters)
        if number % PROGRESS_EVERY == 0 or number == len(seeds):
            _say(f"{number} seeds in {time.monotonic() - began:.1f} s, none failed")
    count = max(len(seeds), 1)
    _say("on average: " + ", ".join(f"{name} {total / count:.2f}" for name, total in sorted(totals.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
