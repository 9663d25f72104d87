"""Terms in order, searched where they lie: no Python object is made for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Lexicon:
    """Distinct terms in the order of their bytes."""

    def __init__(self, offsets: NDArray[np.int64], data: bytes | memoryview | pa.Buffer) -> None:
        self.offsets = offsets
        self._data = data if isinstance(data, bytes) else memoryview(data)
        self._at = memoryview(offsets)  # type: ignore[arg-type]  # gives Python's numbers, which arrays don't
        self._count = len(offsets) - 1

    @classmethod
    def of(cls, terms: pa.Array) -> Lexicon:
        """Those of an array of large_binary."""
        _, offsets, data = terms.buffers()
        if not len(terms) or offsets is None:
            return cls(np.zeros(1, np.int64), b"")
        return cls(np.frombuffer(offsets, np.int64)[terms.offset : terms.offset + len(terms) + 1], data or b"")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> bytes:
        return bytes(self._data[self._at[number] : self._at[number + 1]])

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return self.offsets.nbytes + len(self._data)

    def place(self, term: bytes) -> int:
        """How many terms are before this one."""
        low, high = 0, self._count
        data, at = self._data, self._at
        while low < high:
            middle = (low + high) // 2
            if bytes(data[at[middle] : at[middle + 1]]) < term:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, term: bytes) -> int:
        """The number of a term; -1 where it is not there."""
        place = self.place(term)
        return place if place < self._count and self[place] == term else -1

    def with_prefix(self, prefix: bytes) -> list[bytes]:
        """The terms that begin so."""
        after = after_prefix(prefix)
        end = self._count if after is None else self.place(after)
        return [self[number] for number in range(self.place(prefix), end)]

    def bytes_of(self, numbers: slice) -> bytes:
        """Those of some terms that follow each other."""
        return bytes(self._data[self._at[numbers.start] : self._at[numbers.stop]])

    def array(self) -> pa.Array:
        """All of them, as large_binary."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.large_binary(), self._count, buffers)


def after_prefix(prefix: bytes) -> bytes | None:
    """The first bytes behind all that begin so; None where nothing is."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
