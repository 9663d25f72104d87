"""The row of a single key that is in a memtable of the writer that is asked: no other source need be.

What must hold:
- A memtable is newer than fragments and the table, and all rows of a key are in one shard: what it has settles the key.
- The table is looked at after the memtable. What was merged by then does not count here: the table has it, and may
  have deleted it.
- A writer that was fenced, unnoticed so far, does not hide what came after it: its WAL is looked at too.
- Whatever is not as plain as that (other columns by now, other shards, several keys) is left to ``fresh_get``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from siltstone.table.lookup import one_key
from siltstone.table.reading import chosen_schema
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import key_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.table import Field, Schema
    from siltstone.log import Log, Mark
    from siltstone.shard.chunks import Chunk
    from siltstone.table.state import State


class OwnRow(NamedTuple):
    """The newest row of a key: its place in a chunk, and the columns of that."""

    schema: Schema
    chunk: Chunk
    row: int

    def shown(self, state: State, shard: str, columns: Sequence[str] | None) -> pa.Table | None:
        """The row as the table shows it, no row for a tombstone; None where it does not count, or not as it is.

        Raises:
            InvalidInputError: there are no such columns.
        """
        merged = state.shards.get(shard)
        if merged is None or self.chunk.position < merged.position:
            return None
        if state.schema is not self.schema and state.schema != self.schema:
            return None
        fields, deleted = chosen_fields(state.schema, columns), self.chunk.deleted
        if deleted is not None and deleted[self.row]:
            return _schema(fields).empty_table()
        row = self.chunk.rows.slice(self.row, 1)
        found = row.columns if columns is None else [row.column(one.name) for one in fields]
        return pa.Table.from_arrays(found, schema=_schema(fields))


def plain_key(keys: object, schema: Schema) -> int | str | None:
    """The value of a single key that needs no further checks; None for all others."""
    column = _only_key(schema)
    one = None if column is None else one_key(keys, column)
    return None if one is None else one.value


def is_behind(wal: Log, end: Mark) -> bool:
    """Whether entries are behind what a writer knows: another may have fenced it."""
    # What came behind may have been flushed and truncated; it stays for longer than a look at the floor counts.
    return wal.is_taken(end.position) or wal.floor_now(trust_ms=wal.identity.trust_ms) > end.position


@lru_cache(maxsize=16)
def _only_key(schema: Schema) -> Field | None:
    key = key_fields(schema)
    return key[0] if len(key) == 1 else None


@lru_cache(maxsize=64)
def _schema(fields: tuple[Field, ...]) -> pa.Schema:
    return chosen_schema(fields)
