"""The ways in which rows that are read on demand are handed out: batches, a table, a stream, a frame.

What must hold: nothing is read before rows are asked for, and each call reads anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from siltstone.table import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_ROWS = 65_536
BATCH_ROWS_LEAST = 8_192  # fewer rows than these wait for more, unless there are none


class Output(ABC):
    """Rows that can be asked for in many forms."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches, with bounded memory."""

    def to_arrow(self) -> pa.Table:
        """All rows in memory."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream that other libraries read."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame.

        Raises:
            UnsupportedTypeError: pandas can't hold a column, or one of its values.
        """
        return frames.to_pandas(self)

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame.

        Raises:
            UnsupportedTypeError: polars can't hold a column.
        """
        return frames.to_polars(self)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


def in_batches(
    tables: Iterator[pa.Table], *, least: int = BATCH_ROWS_LEAST, most: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """The rows of tables in batches of at most ``most`` rows; few rows are joined with those that follow."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= least:
            yield from _cut(waiting, most)
            waiting, rows = [], 0
    if rows:
        yield from _cut(waiting, most)


def _cut(tables: list[pa.Table], most: int) -> Iterator[pa.RecordBatch]:
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
    return (batch for batch in table.to_batches(max_chunksize=most) if batch.num_rows)
