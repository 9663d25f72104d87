"""Time, behind an interface, so that the simulator can run the real code.

What must hold: no decision about what is kept or who wins rests on a wall clock. Wall time only
labels entries for people. Monotonic time bounds waiting and the trust in an earlier validation.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What protocol code may ask of time."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for people to read."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


# Of the clocks that never go back, the one that also counts the time a machine was asleep: a writer that
# slept must not take an old validation for a fresh one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clock."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
