"""Time and ids that a test holds in its hand."""

from __future__ import annotations

import random

from siltstone.env import Env

START_MS = 1_700_000_000_000


class ManualClock:
    """A clock that moves only when someone sleeps or a test says so; sleeping takes no time."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def wall_ms(self) -> int:
        """Milliseconds since 1970, from a fixed start."""
        return START_MS + int(self._now_s * 1000)

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Move on by so much."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on by so much."""
        self._now_s += max(seconds, 0.0)


class SeededIds:
    """Ids that come in the same order for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def new(self) -> str:
        return self._random.randbytes(16).hex()

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


def manual_env(seed: int = 0, *, clock: ManualClock | None = None, patience_s: float = 30.0) -> Env:
    """Surroundings in which waiting takes no time and nothing is random."""
    return Env(clock=clock or ManualClock(), ids=SeededIds(seed), patience_s=patience_s)
