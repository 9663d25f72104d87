"""Decoded pages that were read one at a time: who looks up a row often comes back for its neighbours.

What must hold:
- What is kept is bounded in bytes; the pages used last stay.
- A page is kept only where its memory is its own, never as a view of something larger.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from siltstone.locks import ForkLock

if TYPE_CHECKING:
    import pyarrow as pa

    from siltstone.table.columns import Plan

PageKey = tuple["Plan", int, int]  # some columns of one fragment, the row group, and the page


class PageCache:
    """Rows of single pages. Safe to share between threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = ForkLock()
        self._pages: OrderedDict[PageKey, tuple[pa.Table, int]] = OrderedDict()
        self.nbytes = 0

    def get(self, key: PageKey) -> pa.Table | None:
        """The rows of a page; None where it is not kept."""
        with self._lock:
            found = self._pages.get(key)
            if found is None:
                return None
            self._pages.move_to_end(key)
        return found[0]

    def put(self, key: PageKey, table: pa.Table) -> None:
        """Keep the rows of a page."""
        size = table.get_total_buffer_size()
        with self._lock:
            before = self._pages.pop(key, None)
            self._pages[key] = table, size
            self.nbytes += size - (before[1] if before else 0)
            while self.nbytes > self._limit and self._pages:
                self.nbytes -= self._pages.popitem(last=False)[1][1]
