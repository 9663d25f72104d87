"""The simulator: real code of several processes, virtual time, and everything that can go wrong, from one seed.

``run_seed(seed)`` plays a seed and says what was violated; the same seed always does exactly the same.
``python -m siltstone.testing.sim --seeds 0:10000`` plays many.
"""

from siltstone.testing.sim.planted import MISTAKES, Mistake
from siltstone.testing.sim.run import Outcome, run_seed, run_seeds
from siltstone.testing.sim.scenarios import SCENARIOS

__all__ = ["MISTAKES", "SCENARIOS", "Mistake", "Outcome", "run_seed", "run_seeds"]
