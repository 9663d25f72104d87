"""What was read of parts and decoded: who searches often comes back for the same terms.

What must hold: what is kept is bounded in bytes, and what was used last stays.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from siltstone.locks import ForkLock

if TYPE_CHECKING:
    from collections.abc import Hashable

CACHE_BYTES = 256 * 1024 * 1024
ENTRY_BYTES = 500  # what an entry takes besides its arrays

T = TypeVar("T")


class Cache(Generic[T]):
    """Values by key. Safe to share between threads."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit = limit_bytes
        self._lock = ForkLock()
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self.nbytes = 0

    def get(self, key: Hashable) -> T | None:
        """What is kept under a key; None where nothing is."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: T, nbytes: int) -> None:
        """Keep a value that takes so many bytes."""
        size = nbytes + ENTRY_BYTES
        with self._lock:
            before = self._kept.pop(key, None)
            self._kept[key] = value, size
            self.nbytes += size - (before[1] if before else 0)
            while self.nbytes > self._limit and self._kept:
                self.nbytes -= self._kept.popitem(last=False)[1][1]
