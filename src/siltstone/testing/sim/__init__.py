"""The simulator: real code of several processes, virtual time, and everything that can go wrong, from one seed.

``run_seed(seed)`` plays a seed and says what was violated; the same seed always does exactly the same.
``python -m siltstone.testing.sim --seeds 0:10000`` plays many.
"""

from siltstone.testing.sim.planted import LOG_MISTAKES, Mistake
from siltstone.testing.sim.planted_index import INDEX_MISTAKES
from siltstone.testing.sim.planted_places import PLACE_MISTAKES
from siltstone.testing.sim.planted_retain import RETAIN_MISTAKES
from siltstone.testing.sim.planted_shards import SHARD_MISTAKES
from siltstone.testing.sim.run import Outcome, run_seed, run_seeds
from siltstone.testing.sim.scenarios import SCENARIOS

MISTAKES = (*LOG_MISTAKES, *SHARD_MISTAKES, *RETAIN_MISTAKES, *INDEX_MISTAKES, *PLACE_MISTAKES)

__all__ = ["MISTAKES", "SCENARIOS", "Mistake", "Outcome", "run_seed", "run_seeds"]
