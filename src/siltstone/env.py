"""What protocol code takes from its surroundings: time, ids, patience. The simulator gives its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone.clock import Clock, SystemClock
from siltstone.ids import Ids, SystemIds

if TYPE_CHECKING:
    from collections.abc import Iterator

BACKOFF_FIRST_S = 0.01
BACKOFF_MOST_S = 2.0


@dataclass(frozen=True)
class Env:
    """A clock, a source of ids, and how long to go on trying (``patience_s``)."""

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    patience_s: float = 30.0

    def tries(self, *, most_s: float = BACKOFF_MOST_S) -> Iterator[int]:
        """0, 1, 2, ... with a jittered wait between, until ``patience_s`` is used up (at least two tries).

        No wait is longer than ``most_s``.
        """
        end = self.clock.monotonic() + self.patience_s
        number = 0
        while True:
            yield number
            left = end - self.clock.monotonic()
            if left <= 0 and number:
                return
            most = min(most_s, BACKOFF_FIRST_S * 2 ** min(number, 16))
            self.clock.sleep(min(self.ids.uniform(0, most), max(left, 0)))
            number += 1


REAL = Env()
