"""The memtables of a writer: the one that takes rows, and those that wait for their flush.

What must hold:
- Memtables are frozen and flushed in the order of their generations; none is let go before its rows are in a fragment.
- What a frozen memtable needs of the WAL is known: the last put with rows in it, and the mark behind its last entry.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.shard.chunks import adapt
from siltstone.shard.memtable import MemTable
from siltstone.shard.own_get import OwnRow

if TYPE_CHECKING:
    from siltstone.format.table import Schema
    from siltstone.log import Mark
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.config import Knobs


@dataclass(eq=False)
class Held:
    """A memtable, the turn of the last put with rows in it, and the mark behind the last entry with some of them."""

    table: MemTable
    last_turn: int = 0
    end: Mark | None = None


class MemTables:
    """Not safe by itself: the writer's lock guards it."""

    def __init__(self, schema: Schema, knobs: Knobs, *, generation: int) -> None:
        self._knobs = knobs
        self._active = Held(MemTable(schema, generation=generation))
        self._frozen: deque[Held] = deque()

    @property
    def active(self) -> MemTable:
        """The one that takes rows."""
        return self._active.table

    @property
    def frozen(self) -> list[MemTable]:
        """Those that wait, oldest first."""
        return [one.table for one in self._frozen]

    @property
    def oldest(self) -> Held | None:
        """The next one to flush."""
        return self._frozen[0] if self._frozen else None

    @property
    def nbytes(self) -> int:
        """What all of them hold."""
        return self.active.nbytes + sum(one.table.nbytes for one in self._frozen)

    @property
    def is_full(self) -> bool:
        """Whether the active one is to be frozen."""
        table, knobs = self.active, self._knobs
        return (
            table.nbytes >= knobs.max_memtable_size
            or table.rows >= knobs.max_memtable_rows
            or table.batches >= knobs.max_memtable_batches
        )

    def add(self, chunk: Chunk, turn: int) -> int:
        """Take rows of a put; the number of the chunk in the active memtable."""
        self._active.last_turn = turn
        return self.active.add(chunk)

    def settle(self, generation: int, number: int, end: Mark) -> None:
        """Rows are in the WAL, in the entry before ``end``."""
        held = self._active
        if generation != self.active.generation:
            held = self._frozen[generation - self._frozen[0].table.generation]
        if number < held.table.durable:
            return  # whoever noted that before was interrupted behind it
        held.end = end
        held.table.settle(number, end.position - 1)

    def replayed(self, chunk: Chunk, end: Mark) -> None:
        """Take rows that are in the WAL already."""
        self.settle(self.active.generation, self.active.add(chunk), end)
        if self.is_full:
            self.freeze()

    def find_one(self, value: object, *, since: int) -> OwnRow | None:
        """The newest row of one key in the generations from ``since`` on, a tombstone or not."""
        for held in (self._active, *reversed(self._frozen)):
            table = held.table
            found = table.find_one(value) if table.generation >= since else None
            if found is not None:
                return OwnRow(table.schema, *found)
        return None

    def freeze(self, schema: Schema | None = None) -> None:
        """End the active memtable; the next one may have other columns."""
        before = self.active
        if not before.is_empty:
            self._frozen.append(self._active)
        generation = before.generation + (0 if before.is_empty else 1)
        self._active = Held(MemTable(schema or before.schema, generation=generation))

    def drop_before(self, generation: int) -> None:
        """Let go of frozen ones that are flushed."""
        while self._frozen and self._frozen[0].table.generation < generation:
            self._frozen.popleft()

    def chunks(self, schema: Schema, *, since: int, durable_only: bool) -> list[Chunk]:
        """All rows of the generations from ``since`` on, in the order of their puts, as the columns of ``schema``."""
        found: list[Chunk] = []
        for table in (*self.frozen, self.active):
            if table.generation < since:
                continue
            chunks = table.chunks(durable_only=durable_only)
            if table.schema != schema:
                chunks = [one.with_rows(adapt(one.rows, table.schema, schema)) for one in chunks]
            found += chunks
        return found
