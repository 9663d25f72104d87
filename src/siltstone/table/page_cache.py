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

PageKey = tuple[str, int, int, int, str]  # fragment, row group, page, and the column's id and type


class PageCache:
    """Columns of single pages. Safe to share between threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = ForkLock()
        self._pages: OrderedDict[PageKey, tuple[pa.ChunkedArray, int]] = OrderedDict()
        self.nbytes = 0

    def get(self, keys: list[PageKey]) -> list[pa.ChunkedArray] | None:
        """The columns of a page; None where one is not kept."""
        with self._lock:
            found = [self._pages.get(key) for key in keys]
            if None in found:
                return None
            for key in keys:
                self._pages.move_to_end(key)
        return [one[0] for one in found if one is not None]

    def put(self, keys: list[PageKey], columns: list[pa.ChunkedArray]) -> None:
        """Keep the columns of a page."""
        sizes = [column.nbytes for column in columns]
        with self._lock:
            for key, column, size in zip(keys, columns, sizes, strict=True):
                before = self._pages.pop(key, None)
                self._pages[key] = column, size
                self.nbytes += size - (before[1] if before else 0)
            while self.nbytes > self._limit and self._pages:
                self.nbytes -= self._pages.popitem(last=False)[1][1]
