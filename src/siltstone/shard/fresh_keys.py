"""The keys of rows that are in a shard and not in the table yet, in memory.

What must hold:
- Keys stand in the order of their source, each once. Of equal keys in two sources of a shard the newer one counts.
- A row that is in no entry of the WAL yet has a position behind all others: it is newer, and not in the table.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import CorruptionError
from siltstone.format.table import Field
from siltstone.shard.chunks import DELETED, DELETED_ID, POSITION, POSITION_ID
from siltstone.table.keys import as_integers, key_array, match
from siltstone.table.masking import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.format.table import Bounds
    from siltstone.table.files import FileLike

HIDDEN = (
    Field(id=POSITION_ID, name=POSITION, type="int64", nullable=False),
    Field(id=DELETED_ID, name=DELETED, type="bool", nullable=False),
)
FEW = 256  # keys up to which each one is looked up by itself
_ROW_BYTES = 17  # a position, a mark that it is deleted, and a place in an order


class _Texts(NamedTuple):
    """Keys of any length in order, as their bytes."""

    ends: NDArray[np.int64]  # one more than there are keys
    data: memoryview

    def place(self, value: bytes) -> int:
        """Where a key is; -1 where it is not."""
        ends, data = self.ends, self.data
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if bytes(data[ends[middle] : ends[middle + 1]]) < value:
                low = middle + 1
            else:
                high = middle
        there = low < len(ends) - 1 and bytes(data[ends[low] : ends[low + 1]]) == value
        return low if there else -1


class Keys:
    """The keys of one source, and of each row its position and whether it says that the key is gone."""

    def __init__(self, rows: pa.Table, names: Sequence[str]) -> None:
        """``rows`` has the columns of the key, and both hidden ones; there is at least one."""
        self.table: pa.Table = rows.select(list(names)).combine_chunks()
        self.array: pa.Array = key_array(self.table, names)
        self.positions: NDArray[np.int64] = rows.column(POSITION).to_numpy()
        marks: NDArray[np.bool_] = rows.column(DELETED).to_numpy()
        self.deleted: NDArray[np.bool_] | None = marks if marks.any() else None
        self._first: pa.Array = self.table.column(0).chunk(0)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def nbytes(self) -> int:
        """About what it takes, with what is made of it later."""
        return int(2 * self.table.nbytes) + _ROW_BYTES * len(self)

    def merged(self, until: int) -> NDArray[np.bool_] | None:
        """Which rows are in the table, where that has the positions before ``until``; None where none is."""
        found = self.positions < until
        return found if found.any() else None

    # -- looking for keys --------------------------------------------------------------------------

    def find(self, wanted: pa.Array) -> NDArray[np.int64]:
        """The row of each wanted key, or -1; they are as ``key_array`` gives them."""
        numbers = as_integers(wanted)
        if self._numbers is None or numbers is None:
            if len(wanted) <= FEW:
                return np.array([self.find_one(one) for one in _as_bytes(wanted).to_pylist()], np.int64)
            return match(self.array, wanted)
        places = np.searchsorted(self._numbers, numbers)
        places[places == len(self)] = 0
        return np.where(self._numbers[places] == numbers, self._rows(places), -1)

    def find_one(self, value: int | str | bytes) -> int:
        """The row of one key, a number or the bytes of ``key_array``; -1 where it is not here."""
        numbers = self._numbers
        if numbers is not None:
            place = int(numbers.searchsorted(numbers.dtype.type(value)))
            there = place < len(numbers) and numbers[place] == value
        else:
            place = self._texts.place(value.encode() if isinstance(value, str) else bytes(value))
            there = place >= 0
        if not there:
            return -1
        return place if self._order is None else int(self._order[place])

    def hidden_by(self, newer: Keys) -> NDArray[np.int64]:
        """The rows whose key a newer source has."""
        return np.flatnonzero(newer.find(self.array) >= 0)

    # -- order -------------------------------------------------------------------------------------

    def within(self, bounds: Bounds | None) -> slice:
        """The rows whose key may lie within bounds of its first column, as the log has them."""
        everything = slice(0, len(self))
        if bounds is None or bounds.low is None or bounds.high is None or not self._ascends:
            return everything
        plain = as_integers(self._first)
        if plain is not None and isinstance(bounds.low, int) and isinstance(bounds.high, int):
            limits = np.iinfo(plain.dtype)
            if bounds.high < limits.min or bounds.low > limits.max:
                return slice(0, 0)
            low, high = (plain.dtype.type(min(max(one, limits.min), limits.max)) for one in (bounds.low, bounds.high))
            return slice(int(plain.searchsorted(low, "left")), int(plain.searchsorted(high, "right")))
        if kinds.is_string(self._first.type) and isinstance(bounds.low, str) and isinstance(bounds.high, str):
            below = pc.sum(pc.less(self._first, bounds.low)).as_py() or 0
            return slice(below, pc.sum(pc.less_equal(self._first, bounds.high)).as_py() or 0)
        return everything

    @cached_property
    def _ascends(self) -> bool:
        """Whether rows are in the order of the key's first column."""
        first = self._first
        return len(self) < 2 or bool(pc.all(pc.less_equal(first[:-1], first[1:])).as_py())

    @cached_property
    def _order(self) -> NDArray[np.int64] | None:
        """The rows in the order of their keys here; None where they are in it."""
        plain = self._plain
        if plain is not None:
            return None if bool((plain[1:] > plain[:-1]).all()) else np.argsort(plain)
        values = _as_bytes(self.array)
        if len(self) < 2 or pc.all(pc.less(values[:-1], values[1:])).as_py():
            return None
        order: NDArray[Any] = pc.array_sort_indices(values).to_numpy()
        return order.astype(np.int64)

    @cached_property
    def _plain(self) -> NDArray[Any] | None:
        return as_integers(self.array)

    @cached_property
    def _numbers(self) -> NDArray[Any] | None:
        """Keys that are numbers, in order."""
        return self._plain if self._plain is None or self._order is None else self._plain[self._order]

    @cached_property
    def _texts(self) -> _Texts:
        """Keys that are none, in order."""
        values = _as_bytes(self.array)
        if self._order is not None:
            values = values.take(pa.array(self._order))
        _, ends, data = values.buffers()
        found = np.frombuffer(ends, np.int64)[values.offset : values.offset + len(values) + 1]
        return _Texts(found, memoryview(data if data is not None else b""))

    def _rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return places if self._order is None else self._order[places]


def load_keys(file: FileLike, key: Sequence[Field]) -> Keys:
    """The keys of a fragment of a shard.

    Raises:
        CorruptionError: it lacks a column that every such fragment has.
    """
    fields = (*key, *HIDDEN)
    rows = joined([file.read(group, fields, threads=True) for group in range(len(file.groups))])
    for one in fields:
        if rows.column(one.name).null_count:
            raise CorruptionError(
                f"the shard fragment {file.fragment.name} has rows without {one.name!a}",
                hint="restore it from a copy",
                object=file.fragment.name,
            )
    return Keys(rows, [one.name for one in key])


def _as_bytes(values: pa.Array) -> pa.Array:
    """The bytes of keys that are no numbers."""
    kind = values.type
    if kinds.is_decimal(kind):
        values = values.view(pa.binary(kind.byte_width))
    return values if kinds.is_large_binary(kind) else values.cast(pa.large_binary())
