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
    rows = len(keep)
    places = np.flatnonzero(keep)
    if len(places) == rows:
        return table
    if not table.num_columns:
        return no_columns(len(places))
    if 2 * len(places) >= rows:
        # Where most rows are kept and lie in long runs, slices of the columns do.
        ends = np.flatnonzero(np.diff(places) != 1)
        if (len(ends) + 1) * RUN_ROWS <= len(places):
            return _slices(table, places, ends)
    return chosen(table, places, keep=keep)


def chosen(table: pa.Table, places: NDArray[np.int64], *, keep: NDArray[np.bool_] | None = None) -> pa.Table:
    """The rows at ``places``, in order; ``keep`` is the same as a mask, where the caller has it."""
    if keep is None or 4 * len(places) < len(keep):
        return table.take(pa.array(places))
    # Arrow takes values of one width faster by place, and texts faster by mask.
    by_place, by_mask = pa.array(places), pa.array(keep)
    columns = [
        column.take(by_place) if kinds.is_primitive(column.type) else column.filter(by_mask) for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


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


def _slices(table: pa.Table, places: NDArray[np.int64], ends: NDArray[np.int64]) -> pa.Table:
    firsts = places[np.concatenate(([0], ends + 1))].tolist()
    lasts = places[np.concatenate((ends, [len(places) - 1]))].tolist()
    return pa.concat_tables([table.slice(first, last - first + 1) for first, last in zip(firsts, lasts, strict=True)])
