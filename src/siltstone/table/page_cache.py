"""Decoded pages, and single values, that were read a few at a time: who looks up a row often comes back.

What must hold:
- What is kept is bounded in bytes; what was used last stays. What was put into spare place goes before all else.
- A page or a value is kept only where its memory is its own, never as a view of something larger.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from siltstone.locks import ForkLock

if TYPE_CHECKING:
    import pyarrow as pa

    from siltstone.table.columns import Plan

WHOLE = -1
PLAIN = -2
# Some columns of one fragment, the row group, and the page: a table. Or one column, these, and a row of the page: an
# array of its value. WHOLE stands for an array of the page, PLAIN for the bytes that it unpacks to.
PageKey = tuple["Plan", int, int] | tuple["Plan", int, int, int]
_ENTRY_BYTES = 512  # what an entry takes beside its values


class PageCache:
    """Rows of single pages, and single values. Safe to share between threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = ForkLock()
        self._pages: OrderedDict[PageKey, tuple[Any, int]] = OrderedDict()
        self._spare: OrderedDict[PageKey, tuple[Any, int]] = OrderedDict()
        self.nbytes = 0

    def get(self, key: PageKey) -> Any:
        """What was put there, a table, an array or bytes; None where it is not kept."""
        with self._lock:
            kept = self._pages if key in self._pages else self._spare
            found = kept.get(key)
            if found is None:
                return None
            kept.move_to_end(key)
        return found[0]

    def put(self, key: PageKey, found: pa.Table | pa.Array | bytes, size: int, *, spare: bool = False) -> None:
        """Keep the rows of a page, or a value, of so many bytes; ``spare``: until others need the place."""
        size += _ENTRY_BYTES
        kept = self._spare if spare else self._pages
        with self._lock:
            before = kept.pop(key, None)
            kept[key] = found, size
            self.nbytes += size - (before[1] if before else 0)
            while self.nbytes > self._limit and (kept := self._spare or self._pages):
                self.nbytes -= kept.popitem(last=False)[1][1]
