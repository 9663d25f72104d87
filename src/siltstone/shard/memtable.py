"""MemTable: the rows of a shard that are in its WAL, or on their way there, and in no fragment yet.

What must hold:
- Chunks keep the order in which they were added, and become durable in that order.
- Of several rows with one key the last one is found; a tombstone is found too, as one.
- Each chunk is indexed once, when somebody asks for a key. Nothing is copied before.
- Not safe for several threads by itself: the caller holds a lock. What was handed out does not change.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import InternalError, InvalidInputError
from siltstone.shard.chunks import PENDING, Chunk, chunk_schema, fitted, newest, to_columns
from siltstone.table.keys import key_array
from siltstone.table.lookup import key_rows
from siltstone.table.schema import arrow_type, key_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.format.table import Schema

_FEW_ROWS = 64  # up to here rows are picked one by one


class Gone(Enum):
    """Says that the newest row of a key is a tombstone."""

    GONE = "gone"


GONE: Final = Gone.GONE


class Found(NamedTuple):
    """What was found for some keys, by their places among them, ascending. Keys that are in neither were not found."""

    rows: pa.Table
    which: NDArray[np.int64]  # of each of the rows
    gone: NDArray[np.int64]  # whose newest row is a tombstone


class MemTable:
    """Rows in memory. ``generation`` counts the memtables of a shard."""

    def __init__(self, schema: Schema, *, generation: int) -> None:
        self.schema = schema
        self.generation = generation
        self.rows = 0
        self.nbytes = 0
        key = key_fields(schema)
        self._key = [one.name for one in key]
        self._key_types = [arrow_type(one) for one in key]
        self._plain = _plain_class(self._key_types[0]) if len(key) == 1 else None
        self._columns = chunk_schema(schema)
        self._chunks: list[Chunk] = []
        self._starts: list[int] = []  # the number of each chunk's first row
        self._durable = 0  # how many chunks are
        self._index: dict[Any, int] = {}  # the number of the newest row of each key
        self._indexed = 0  # how many chunks are

    # -- filling -----------------------------------------------------------------------------------

    def add(self, chunk: Chunk, *, nbytes: int | None = None) -> int:
        """Take rows, whose position counts only when they are settled; the number of the chunk.

        ``nbytes`` is the chunk's, for those who know it already.
        """
        rows = chunk.rows
        if not rows.schema.equals(self._columns):
            rows = fitted(rows, self.schema)
        self.nbytes += chunk.nbytes if nbytes is None else nbytes
        self._chunks.append(Chunk(PENDING, rows, chunk.deleted, chunk.size))
        self._starts.append(self.rows)
        self.rows += rows.num_rows
        return len(self._chunks) - 1

    def settle(self, number: int, position: int) -> None:
        """Note that a chunk is in the WAL, in the entry at ``position``."""
        if number != self._durable or number >= len(self._chunks):
            raise InternalError(f"chunk {number} of a memtable is durable before chunk {self._durable}")
        if number and position < self._chunks[number - 1].position:
            raise InternalError(
                f"chunk {number} of a memtable is at position {position}, before chunk {number - 1} "
                f"at {self._chunks[number - 1].position}"
            )
        self._chunks[number] = self._chunks[number]._replace(position=position)
        self._durable += 1

    # -- looking -----------------------------------------------------------------------------------

    @property
    def batches(self) -> int:
        """How many chunks were added."""
        return len(self._chunks)

    @property
    def durable(self) -> int:
        """How many chunks are in the WAL."""
        return self._durable

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._chunks

    @property
    def first_position(self) -> int:
        """The position of the first rows; ``PENDING`` where none are durable."""
        return self._chunks[0].position if self._durable else PENDING

    @property
    def last_position(self) -> int:
        """The position of the last rows that are durable; ``PENDING`` where none are."""
        return self._chunks[self._durable - 1].position if self._durable else PENDING

    def chunks(self, *, durable_only: bool = False) -> list[Chunk]:
        """The chunks as they are now; those that are not durable have the position ``PENDING``."""
        return self._chunks[: self._durable] if durable_only else self._chunks.copy()

    def newest(self, *, durable_only: bool = False) -> pa.Table:
        """The last row of each key, tombstones too, with ``_position`` and ``_deleted``; without a key all rows."""
        chunks = self.chunks(durable_only=durable_only)
        if not chunks:
            return to_columns(Chunk(PENDING, self._columns.empty_table()))
        return newest(chunks, self._key)

    def get(self, keys: pa.Table) -> Found:
        """The newest rows of some keys; ``keys`` has the columns of the key.

        Raises:
            InvalidInputError: the table has no key, or these are none of its types.
        """
        values = self._values(self._checked(keys))
        self._catch_up()
        places = np.fromiter(map(self._index.get, values, repeat(-1)), np.int64, len(values))
        which = np.flatnonzero(places >= 0)
        numbers = places[which]
        holders = np.searchsorted(np.array(self._starts, np.int64), numbers, "right") - 1
        gone = self._are_gone(numbers, holders)
        there = ~gone
        return Found(self._pick(numbers[there], holders[there]), which[there], which[gone])

    def get_one(self, value: object) -> pa.Table | Literal[Gone.GONE] | None:
        """The newest row of one key, ``GONE`` where it is a tombstone, None where there is none.

        Raises:
            InvalidInputError: the table has no key, or this is none of its type.
        """
        found = self.find_one(value)
        if found is None:
            return None
        chunk, row = found
        if chunk.deleted is not None and chunk.deleted[row]:
            return GONE
        return chunk.rows.slice(row, 1)

    def find_one(self, value: object) -> tuple[Chunk, int] | None:
        """Where the newest row of one key is, a tombstone or not: its chunk, and its place there.

        Raises:
            InvalidInputError: the table has no key, or this is none of its type.
        """
        if type(value) is not self._plain:
            value = self._values(key_rows(self.schema, [value]))[0]
        if self._indexed < len(self._chunks):
            self._catch_up()
        number = self._index.get(value)
        if number is None:
            return None
        holder = bisect_right(self._starts, number) - 1
        return self._chunks[holder], number - self._starts[holder]

    def __repr__(self) -> str:
        return f"MemTable(generation {self.generation}, {self.rows} rows, {self.nbytes} bytes)"

    # -- the index ---------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Index the chunks that came since somebody asked."""
        while self._indexed < len(self._chunks):
            rows, start = self._chunks[self._indexed].rows, self._starts[self._indexed]
            self._index.update(zip(self._values(rows), range(start, start + rows.num_rows), strict=True))
            self._indexed += 1

    def _values(self, rows: pa.Table) -> list[Any]:
        """Keys as the index has them: two are equal exactly where their bytes are."""
        if not rows.num_rows:
            return []
        keys = key_array(rows, self._key)
        kind = keys.type
        if kinds.is_temporal(kind):  # Python has no nanoseconds
            keys = keys.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        elif kinds.is_decimal(kind):
            keys = keys.view(pa.binary(kind.byte_width))
        values: list[Any] = keys.to_pylist()
        return values

    def _checked(self, keys: pa.Table) -> pa.Table:
        if not self._key:
            raise InvalidInputError("the table has no key to look rows up by", hint="look through all rows")
        found = [keys.schema.get_field_index(name) for name in self._key]
        if min(found) < 0 or [keys.schema.types[place] for place in found] != self._key_types:
            raise InvalidInputError(
                f"the keys are not the columns {', '.join(self._key)!a} in their types",
                hint="bring them to the types of the key first",
            )
        return keys

    def _are_gone(self, numbers: NDArray[np.int64], holders: NDArray[np.int64]) -> NDArray[np.bool_]:
        gone = np.zeros(len(numbers), np.bool_)
        if not len(numbers):
            return gone
        order = np.argsort(holders, kind="stable")
        used, first = np.unique(holders[order], return_index=True)
        for holder, here in zip(used.tolist(), np.split(order, first[1:]), strict=True):
            deleted = self._chunks[holder].deleted
            if deleted is not None:
                gone[here] = deleted[numbers[here] - self._starts[holder]]
        return gone

    def _pick(self, numbers: NDArray[np.int64], holders: NDArray[np.int64]) -> pa.Table:
        if not len(numbers):
            return self._columns.empty_table()
        if len(numbers) <= _FEW_ROWS:
            pairs = zip(numbers.tolist(), holders.tolist(), strict=True)
            return _joined([self._chunks[one].rows.slice(number - self._starts[one], 1) for number, one in pairs])
        used, place = np.unique(holders, return_inverse=True)
        tables = [self._chunks[one].rows for one in used.tolist()]
        ends = np.cumsum([table.num_rows for table in tables])
        starts = np.array([self._starts[one] for one in used.tolist()], np.int64)
        moved = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) - starts
        return _joined(tables).take(pa.array(numbers + moved[place]))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]


def _plain_class(kind: pa.DataType) -> type | None:
    """The class of values that the index has as they are."""
    if kinds.is_integer(kind):
        return int
    if kinds.is_string(kind):
        return str
    return bytes if kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind) else None
