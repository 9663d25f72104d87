"""Rows on their way through a shard, in memory, and as its fragments have them.

What must hold:
- A column has the type of the table's; only the key is never null. What a tombstone does not have is null, or means
  nothing where Parquet could not write a null.
- Rows stay in the order they were put; of two with one key the later one counts.
- Rows of an older schema become rows of the present one by field id, and mean the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from siltstone.errors import InvalidInputError
from siltstone.format.table import Field, Schema
from siltstone.table.columns import filler
from siltstone.table.keys import check_batch_keys, key_array, last_of_each
from siltstone.table.rows import batches
from siltstone.table.schema import arrow_schema, arrow_type, key_fields
from siltstone.table.types import LIST, MAP, STRUCT, list_size, shown, shown_type, widens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

POSITION, DELETED = "_position", "_deleted"
PLACE = "_place"  # of a row among all that came, those that count no more too
POSITION_ID, DELETED_ID = 2**31 - 2, 2**31 - 3
PENDING = 2**63 - 1  # the position of rows that are in no entry yet: behind all that are

_SMALL_CHUNK_ROWS = 4096
_SMALL_BYTES = 4096
_HIDDEN = (
    Field(id=POSITION_ID, name=POSITION, type="int64", nullable=False),
    Field(id=DELETED_ID, name=DELETED, type="bool", nullable=False),
)


def size_of(rows: pa.Table) -> int:
    """How much memory rows take; what else their buffers hold is left out where it may be much."""
    size: int = rows.get_total_buffer_size()  # a hundred times as fast as the other
    return size if size <= _SMALL_BYTES else rows.nbytes


class Chunk(NamedTuple):
    """Rows that one put brought, or that one entry of the WAL holds."""

    position: int
    rows: pa.Table
    deleted: NDArray[np.bool_] | None = None  # which of them are tombstones; None: none
    size: int | None = None  # of the rows' memory, for those who know it; None: it is found out when it is asked for

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        size = size_of(self.rows) if self.size is None else self.size
        return size if self.deleted is None else size + self.deleted.nbytes

    def with_rows(self, rows: pa.Table) -> Chunk:
        """The same chunk with its rows in other columns."""
        return Chunk(self.position, rows, self.deleted)

    @property
    def count(self) -> int:  # type: ignore[override]  # rows, not equal members as of any tuple
        """How many rows."""
        rows: int = self.rows.num_rows
        return rows


# -- schemas ---------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def shard_schema(schema: Schema) -> Schema:
    """The columns of a shard's fragments: those of the table, nullable but for the key, and the two hidden ones."""
    fields = tuple(
        one if one.id in schema.key or _stays(one) else msgspec.structs.replace(one, nullable=True)
        for one in schema.fields
    )
    return Schema(fields=(*fields, *_HIDDEN), key=schema.key, next_id=POSITION_ID + 1)


@lru_cache(maxsize=16)
def chunk_schema(schema: Schema) -> pa.Schema:
    """The columns of a chunk: those of the table, nullable but for the key."""
    return pa.schema(list(arrow_schema(shard_schema(schema)))[: -len(_HIDDEN)])


def _stays(field: Field) -> bool:
    """Whether a column stays as it is: Parquet has no null structs with lists of a fixed size that are never null."""
    if field.nullable or field.type != STRUCT:
        return False
    return any(_stays(one) or (list_size(one.type) is not None and not one.nullable) for one in field.children)


def fitted(rows: pa.Table, schema: Schema) -> pa.Table:
    """Rows of a table's columns, with what a chunk's columns say of nulls.

    Raises:
        InvalidInputError: they have other columns.
    """
    wanted = chunk_schema(schema)
    if rows.schema.equals(wanted):
        return rows
    if rows.schema.names != wanted.names or rows.schema.types != wanted.types:
        raise InvalidInputError(
            f"the rows have the columns {_listed(rows.schema)}; the table has {_listed(wanted)}",
            hint="bring them to the table's columns first",
        )
    return pa.Table.from_arrays(rows.columns, schema=wanted)


def _listed(schema: pa.Schema) -> str:
    return shown(", ".join(f"{one.name} {one.type}" for one in schema))


# -- chunks ----------------------------------------------------------------------------------------


def tombstones(keys: pa.Table, schema: Schema, *, position: int = PENDING) -> Chunk:
    """Rows that say that those with these keys are gone. ``keys`` has the columns of the key, in their types.

    Raises:
        InvalidInputError: a key is null, or of another type.
    """
    names = [one.name for one in key_fields(schema)]
    check_batch_keys(key_array(keys, names), columns=names)
    columns = [
        keys.column(one.name) if one.id in schema.key else _nothing(one, keys.num_rows)
        for one in shard_schema(schema).fields[: -len(_HIDDEN)]
    ]
    rows = pa.table(columns, names=[one.name for one in schema.fields])
    return Chunk(position, fitted(rows, schema), np.ones(keys.num_rows, np.bool_))


def adapt(rows: pa.Table, written: Schema, now: Schema) -> pa.Table:
    """Rows of one schema's columns as those of another.

    Columns are found by id. Those that are missing have their default or null, those that were dropped are left out,
    and those of a narrower type are widened.

    Raises:
        InvalidInputError: the rows can't have a column as it is now.
    """
    if written == now:
        return fitted(rows, now)
    had = {one.id: one for one in written.fields}
    columns = []
    for field in now.fields:
        was = had.get(field.id)
        if was is None:
            columns.append(missing(field, rows.num_rows))
            continue
        if not _follows(was, field):
            raise InvalidInputError(
                f"column {shown(field.name)} was {shown_type(arrow_type(was))} and is {shown_type(arrow_type(field))}",
                hint="copy such rows to another table as they were",
                column=field.name,
            )
        columns.append(rows.column(was.name).cast(arrow_type(field)))
    return pa.Table.from_arrays(columns, schema=chunk_schema(now))


def missing(field: Field, rows: int) -> pa.ChunkedArray:
    """The values of a column that rows lack.

    Raises:
        InvalidInputError: it has neither a default nor null.
    """
    if field.default is not None:
        return filler(field, rows)
    if not field.nullable:
        raise InvalidInputError(
            f"the rows have no column {shown(field.name)}, and it has no default",
            hint="copy such rows to another table as they were",
            column=field.name,
        )
    return _nothing(field, rows)


def to_columns(chunk: Chunk) -> pa.Table:
    """A chunk's rows with ``_position`` and ``_deleted``."""
    return _with_hidden(chunk.rows, [chunk])


def newest(chunks: Sequence[Chunk], key: Sequence[str], *, places: bool = False) -> pa.Table:
    """The rows of chunks, oldest first, with ``_position`` and ``_deleted``: the last one of each key, tombstones too.

    Without a key all rows are there. They stay in their order. ``places`` adds ``_place``.

    Raises:
        InvalidInputError: there is no chunk, so that nobody knows which columns there are.
    """
    if not chunks:
        raise InvalidInputError("there are no chunks to take rows from", hint="give at least one")
    table = _with_hidden(_concatenated([chunk.rows for chunk in chunks]), chunks)
    if places:
        table = table.append_column(PLACE, pa.array(np.arange(table.num_rows)))
    if not key or table.num_rows < 2:
        return table
    if table.column(0).num_chunks * _SMALL_CHUNK_ROWS > table.num_rows:
        table = table.combine_chunks()
    last = last_of_each(key_array(table, key))
    return table if len(last) == table.num_rows else table.take(pa.array(last))


def all_deleted(chunks: Sequence[Chunk]) -> NDArray[np.bool_] | None:
    """Which rows of several chunks are tombstones; None: none."""
    if all(chunk.deleted is None for chunk in chunks):
        return None
    return np.concatenate(
        [np.zeros(chunk.count, np.bool_) if chunk.deleted is None else chunk.deleted for chunk in chunks]
    )


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    schema = tables[0].schema
    if not all(one.schema.equals(schema) for one in tables):
        # They differ in what they say of nulls.
        schema = pa.schema([one.with_nullable(True) for one in schema])
        tables = [pa.Table.from_arrays(one.columns, schema=schema) for one in tables]
    return pa.concat_tables(tables) if len(tables) > 1 else tables[0]


def _with_hidden(rows: pa.Table, chunks: Sequence[Chunk]) -> pa.Table:
    counts = [chunk.count for chunk in chunks]
    positions = np.repeat(np.array([chunk.position for chunk in chunks], np.int64), counts)
    deleted = all_deleted(chunks)
    if deleted is None:
        deleted = np.zeros(len(positions), np.bool_)
    schema = rows.schema
    for field in _HIDDEN:
        schema = schema.append(pa.field(field.name, arrow_type(field), nullable=False))
    return pa.Table.from_arrays([*rows.columns, pa.array(positions), pa.array(deleted)], schema=schema)


def _follows(was: Field, now: Field) -> bool:
    """Whether values of a column as it was are values of it as it is."""
    return (was.type, was.children) == (now.type, now.children) or (
        not was.children and not now.children and widens(arrow_type(was), arrow_type(now))
    )


def _nothing(field: Field, rows: int) -> pa.ChunkedArray:
    """Nulls, or what stands for them where a column can't be null."""
    kind = arrow_type(field)
    if not rows or not _has_firm_parts(field):
        return pa.chunked_array([pa.nulls(rows, kind)])
    # Parts that are never null have values, even where the whole is null.
    alone = Schema(fields=(msgspec.structs.replace(field, nullable=True),), next_id=2**31 - 1)
    made = pa.concat_tables(batches({field.name: [None] * rows}, alone)).column(0)
    if field.nullable:
        return made
    parts = [kind.field(place) for place in range(kind.num_fields)]
    return pa.chunked_array(
        [
            pa.StructArray.from_arrays([chunk.field(place) for place in range(len(parts))], fields=parts)
            for chunk in made.chunks
        ]
    )


def _has_firm_parts(field: Field) -> bool:
    """Whether each value, null or not, has parts that are never null."""
    if field.type in {LIST, MAP}:
        return False
    return any(not child.nullable or _has_firm_parts(child) for child in field.children)
