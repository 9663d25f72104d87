"""The rows of a shard that are in no fragment, made ready for reading: as rows of a fragment, and by their keys.

What must hold:
- Rows that are in the table or in fragments are left out: only what lies behind both cursors is here.
- What is made of a tail is made when it is first asked for, and once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.locks import ForkLock
from siltstone.shard.chunks import DELETED, PENDING, PLACE, newest
from siltstone.shard.fresh_keys import Keys
from siltstone.shard.memtable import MemTable
from siltstone.table.keys import sort_order
from siltstone.table.memory_file import Came, MemoryFile, memory_fragment
from siltstone.table.schema import arrow_schema, key_fields

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Literal

    from siltstone.env import Env
    from siltstone.format.table import Schema
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.memtable import Found, Gone
    from siltstone.shard.snapshot import Snapshot

_COPIES = 2  # of its bytes: the rows as they came, and those that count


class TailRows(NamedTuple):
    """The rows that count. ``keys`` has those of tombstones too; None: there are no rows, or the table has no key."""

    keys: Keys | None
    file: MemoryFile | None  # None: there are no rows but tombstones


class Tail:
    """The rows behind the fragments of one snapshot that are not in the table. Safe to share between threads."""

    def __init__(
        self, snapshot: Snapshot, chunks: tuple[Chunk, ...], *, schema: Schema, env: Env, before: Tail | None = None
    ) -> None:
        """``before`` is an earlier tail of the shard; where this one only goes on, its index is used on."""
        self.snapshot = snapshot
        self.chunks = chunks
        self.name = env.ids.new()  # what is found out about this tail is kept under it
        self.schema = schema
        self._env = env
        self._key = [one.name for one in key_fields(schema)]
        self._lock = ForkLock()
        self._rows: TailRows | None = None
        self._table: MemTable | None = None
        self.kept: dict[Hashable, object] = {}  # what others made of the chunks
        self.nbytes = known = 0
        if before is not None and before.is_start_of(chunks, schema):
            self.kept = before.kept
            self._table, self.nbytes, known = before.hand_over(), before.nbytes, len(before.chunks)
        self.nbytes += _COPIES * sum(one.nbytes for one in chunks[known:])

    def fits(self, snapshot: Snapshot, schema: Schema) -> bool:
        """Whether another snapshot has the same rows."""
        return schema == self.schema and same_tail(self.snapshot, snapshot)

    def is_start_of(self, chunks: Sequence[Chunk], schema: Schema) -> bool:
        """Whether some chunks are those of this tail, and maybe more."""
        mine, last = self.chunks, len(self.chunks) - 1
        if schema != self.schema or last >= len(chunks):
            return False
        return all(mine[place].rows is chunks[place].rows for place in (0, last))

    def hand_over(self) -> MemTable | None:
        """The index, if there is one: it is the caller's now, and made anew where this tail is asked again."""
        with self._lock:
            table, self._table = self._table, None
            return table

    def rows(self) -> TailRows:
        """The rows for a scan."""
        with self._lock:
            if self._rows is None:
                self._rows = self._make()
            return self._rows

    def get(self, keys: pa.Table) -> Found:
        """What a memtable of these rows finds."""
        with self._lock:
            return self._memtable().get(keys)

    def get_one(self, value: object) -> pa.Table | Literal[Gone.GONE] | None:
        """What a memtable of these rows finds for a key of a single column."""
        with self._lock:
            return self._memtable().get_one(value)

    def _make(self) -> TailRows:
        rows = newest(self.chunks, self._key, places=True)
        keys = None
        if self._key and rows.num_rows:
            # In order, so that looking for them elsewhere is cheap.
            order = sort_order(rows, self._key)
            rows = (rows if order is None else rows.take(pa.array(order))).combine_chunks()
            keys = Keys(rows, self._key)
            if keys.deleted is not None:
                rows = rows.filter(pc.invert(rows.column(DELETED)))
        came = Came(tuple(one.rows for one in self.chunks), rows.column(PLACE).to_numpy(), self.kept)
        columns = arrow_schema(self.schema)
        rows = pa.Table.from_arrays([rows.column(name) for name in columns.names], schema=columns)
        file = MemoryFile(memory_fragment(rows, self.schema, self._env), rows, came) if rows.num_rows else None
        return TailRows(keys, file)

    def _memtable(self) -> MemTable:
        if self._table is None:
            self._table = MemTable(self.schema, generation=0)
        for chunk in self.chunks[self._table.batches :]:
            self._table.add(chunk, nbytes=0)
        return self._table


def counted(snapshot: Snapshot, merged: int) -> tuple[Chunk, ...]:
    """The chunks of a tail that are neither in the table nor in fragments."""
    start = max(merged, snapshot.state.replay_from.position)
    tail = snapshot.tail
    if all(one.position >= start for one in tail[:1]):
        return tail
    return tuple(one for one in tail if one.position >= start)


def same_tail(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots of a shard have the same tail."""
    mine, theirs = one.tail, other.tail
    if mine is theirs:
        return True
    if len(mine) != len(theirs) or [part.position for part in mine[:1]] != [part.position for part in theirs[:1]]:
        return False
    if one.until is not None and one.until == other.until and all(part.position < PENDING for part in mine[-1:]):
        return True  # an entry's mark tells all that is before it
    pairs = zip(mine, theirs, strict=True)
    return all(left.rows is right.rows and left.position == right.position for left, right in pairs)
