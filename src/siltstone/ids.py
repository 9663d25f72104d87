"""Random ids and jitter, behind an interface, so that a simulator seed replays exactly.

An *op id* names one user operation and stays the same on every retry; a *nonce* names one attempt.
Both are 128 random bits in 32 lower-case hex digits.
"""

from __future__ import annotations

import os
import random
import re
from typing import Protocol

ID_PATTERN = re.compile(r"[0-9a-f]{32}")


class Ids(Protocol):
    """Where ids and jitter come from."""

    def new(self) -> str:
        """A fresh 128-bit id in hex."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """A random number between the two, for backoff."""
        ...


class SystemIds:
    """Ids from the operating system's random source (safe after a fork)."""

    def new(self) -> str:
        return os.urandom(16).hex()

    def uniform(self, low: float, high: float) -> float:
        return random.SystemRandom().uniform(low, high)


def is_id(text: object) -> bool:
    """Whether ``text`` has the shape of an id."""
    return isinstance(text, str) and ID_PATTERN.fullmatch(text) is not None
