"""Rows of a table left out by a mask, as cheaply as the mask allows.

What must hold: the rows that are kept are those of ``keep``, in their order; how they are kept changes no value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

RUN_ROWS = 1024  # rows that lie side by side: from here on, on average, they are not copied


def masked(table: pa.Table, keep: NDArray[np.bool_]) -> pa.Table:
    """The rows at which ``keep`` is true."""
    count = int(np.count_nonzero(keep))
    if count == len(keep):
        return table
    if not table.num_columns:
        return no_columns(count)
    if 4 * count < len(keep):
        return table.take(pa.array(np.flatnonzero(keep)))
    changes = keep[1:] != keep[:-1]
    if RUN_ROWS * np.count_nonzero(changes) <= 2 * count:
        return pa.concat_tables(_runs(table, keep, np.flatnonzero(changes) + 1))
    # Packed here: Arrow's own conversion of a numpy mask takes ten times as long.
    bits = pa.py_buffer(np.packbits(keep, bitorder="little"))
    mask = pa.Array.from_buffers(pa.bool_(), len(keep), [None, bits])
    # One by one: Arrow turns the mask of a table into row numbers first. What was filtered is let go of at once, so
    # that the next column finds memory that was used before.
    columns, schema = table.columns, table.schema
    del table
    for place, column in enumerate(columns):
        columns[place] = _valid(column).filter(mask)
    return pa.Table.from_arrays(columns, schema=schema)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of some tables of one schema, each column in one piece."""
    if len(tables) == 1:
        return tables[0]
    if not tables[0].num_columns:
        return no_columns(sum(table.num_rows for table in tables))
    return pa.concat_tables(tables).combine_chunks()


def no_columns(rows: int) -> pa.Table:
    """A table that has rows alone."""
    return pa.table([pa.nulls(rows)], names=["_"]).select([])


def _valid(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values; numbers among which no null is, without the bits that say so, which filter twice as fast."""
    if not kinds.is_primitive(column.type) or not column.num_chunks or column.null_count:
        return column
    return pa.chunked_array(
        [
            pa.Array.from_buffers(one.type, len(one), [None, *one.buffers()[1:]], null_count=0, offset=one.offset)
            for one in column.chunks
        ]
    )


def _runs(table: pa.Table, keep: NDArray[np.bool_], changes: NDArray[np.int64]) -> list[pa.Table]:
    """Long runs of rows, which are views of the table."""
    edges = [0, *changes.tolist(), len(keep)]
    first = 0 if keep[0] else 1
    return [table.slice(start, end - start) for start, end in zip(edges[first::2], edges[first + 1 :: 2], strict=False)]
