"""Things that are kept while there is room for them.

What must hold: what is kept is bounded in bytes, but for the last thing alone; what was used last stays.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from siltstone.locks import ForkLock

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")


class Kept(Generic[T]):
    """A bounded cache. Safe to share between threads."""

    def __init__(self, bytes_max: int) -> None:
        self._most = bytes_max
        self._lock = ForkLock()
        self._things: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self.nbytes = 0

    def get(self, key: Hashable) -> T | None:
        """The thing under a key; None where it is not kept."""
        with self._lock:
            found = self._things.get(key)
            if found is None:
                return None
            self._things.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, thing: T, nbytes: int) -> None:
        """Keep a thing that takes so many bytes, and let go of others where that is too much."""
        with self._lock:
            before = self._things.pop(key, None)
            self._things[key] = thing, nbytes
            self.nbytes += nbytes - (before[1] if before else 0)
            while self.nbytes > self._most and len(self._things) > 1:
                self.nbytes -= self._things.popitem(last=False)[1][1]

    def __len__(self) -> int:
        return len(self._things)
