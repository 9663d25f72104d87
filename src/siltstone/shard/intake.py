"""Rows and keys on their way into a shard: checked, routed, and cut into pieces that fit into an entry.

What must hold:
- Bad input is told before anything is queued. A row that belongs to another shard is bad input, and one that fits into
  no entry.
- Rows that were taken in never change, whatever their owner does with the memory that they came in; and they hold no
  more of that memory than they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.shard.chunks import PENDING, Chunk, chunk_schema, size_of, tombstones
from siltstone.shard.config import ENTRY_BYTES_MAX
from siltstone.shard.route import shard_numbers
from siltstone.table.keys import check_batch_keys, key_array, show_keys
from siltstone.table.lookup import key_rows
from siltstone.table.rows import batches
from siltstone.table.schema import key_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.format.table import Schema
    from siltstone.shard.place import Route


SHARED_MOST = 2  # a slice that keeps more than so many times its own bytes in memory is copied
SHARED_BYTES = 4 * 1024
_ARROW = (pa.Table, pa.RecordBatch, pa.RecordBatchReader)


class Checked(NamedTuple):
    """Rows that may be queued, and the columns that they were checked against."""

    chunks: list[Chunk]
    schema: Schema


class Intake:
    """What one writer takes in."""

    def __init__(self, schema: Schema, route: Route | None, *, entry_bytes_max: int) -> None:
        self.schema = schema
        self._route = route
        self._most = entry_bytes_max
        self.key = [one.name for one in key_fields(schema)]
        self._arrow = chunk_schema(schema)

    def rows(self, data: object) -> Checked:
        """Rows that a user handed in."""
        found: list[Chunk] = []
        for table in self.tables(data):
            if self.key:
                self._check_route(table.select(self.key))
            found += (Chunk(PENDING, piece, None) for piece in self._pieces(table))
        return Checked(found, self.schema)

    def tables(self, data: object) -> Iterator[pa.Table]:
        """Rows that a user handed in, as a chunk's columns, wherever they belong."""
        lasting = _is_lasting(data)
        for table in batches(data, self.schema):
            if table.num_rows:
                if self.key:
                    check_batch_keys(key_array(table, self.key), columns=self.key)
                same = table.schema.equals(self._arrow)
                rows = table if same else pa.Table.from_arrays(table.columns, schema=self._arrow)
                yield rows if lasting else _copied(rows)

    def chunks(self, table: pa.Table, *, deleted: bool = False) -> Checked:
        """Rows that are checked and belong here."""
        found = [
            Chunk(PENDING, piece, np.ones(piece.num_rows, np.bool_) if deleted else None)
            for piece in self._pieces(table)
        ]
        return Checked(found, self.schema)

    def tombstones(self, keys: object) -> Checked:
        """Keys that a user handed in, as rows that say that they are gone."""
        if not self.key:
            raise InvalidInputError(
                "the table has no key to delete rows by", hint="delete(where) of the table takes a condition"
            )
        given = key_rows(self.schema, keys)
        if not given.num_rows:
            return Checked([], self.schema)
        self._check_route(given)
        rows = tombstones(given, self.schema).rows
        return self.chunks(rows if _is_lasting(keys) else _copied(rows), deleted=True)

    def _check_route(self, keys: pa.Table) -> None:
        if self._route is None or self._route.count == 1:
            return
        number = self._route.number
        numbers = shard_numbers(keys, self._route.count)
        wrong = np.flatnonzero(numbers != number)
        if len(wrong):
            first = int(wrong[0])
            raise InvalidInputError(
                f"{len(wrong)} of {keys.num_rows} rows belong to other shards than {number}, such as the one with the "
                f"key {show_keys(keys, [first])}, which belongs to shard {numbers[first]}",
                hint="table.shard_of(keys) tells the shards of keys; table.writer() brings each row to its shard",
            )

    def _pieces(self, table: pa.Table) -> Iterator[pa.Table]:
        """Parts that fit into an entry each; a row that is too large by itself has one of its own."""
        size = size_of(table)
        if size <= self._most or table.num_rows == 1:
            if size > ENTRY_BYTES_MAX:
                raise LimitExceededError(
                    f"a row takes {size} bytes, and an entry of the WAL at most {ENTRY_BYTES_MAX}",
                    hint="append it to the table instead, or keep such values elsewhere",
                )
            shared = table.get_total_buffer_size() > SHARED_MOST * size + SHARED_BYTES
            yield _copied(table) if shared else table
            return
        half = table.num_rows // 2 if size < 2 * self._most else max(1, table.num_rows * self._most // size)
        for start in range(0, table.num_rows, half):
            yield from self._pieces(table.slice(start, half))


def _is_lasting(data: object) -> bool:
    """Whether nobody can change these rows: Arrow's never change, and plain values are copied on their way."""
    if isinstance(data, _ARROW):
        return True
    if isinstance(data, Mapping):
        return all(isinstance(column, list | tuple) for column in data.values())
    return isinstance(data, list | tuple) and all(isinstance(one, dict | int | str | bytes) for one in data[:1])


def _copied(rows: pa.Table) -> pa.Table:
    """The same rows in memory of their own."""
    batches = [pa.ipc.read_record_batch(one.serialize(), rows.schema) for one in rows.to_batches()]
    return pa.Table.from_batches(batches, rows.schema)
