"""Rows in memory that are read as those of a fragment are.

What must hold:
- Reading gives what the file of a fragment with the same rows and columns would give.
- The rows never change, and none of them is gone: what is not to be read is not in here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone import paths
from siltstone.errors import InternalError, InvalidInputError
from siltstone.format.table import Fragment
from siltstone.table.bounds import bounds_of
from siltstone.table.columns import filler
from siltstone.table.files import Group
from siltstone.table.keys import match
from siltstone.table.masking import no_columns
from siltstone.table.schema import arrow_type

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from siltstone.env import Env
    from siltstone.format.table import Bounds, Field, Schema

GROUP_ROWS = 131_072
_NO_SUM = "0" * 64  # there are no bytes that it could be the sum of


def memory_fragment(rows: pa.Table, schema: Schema, env: Env) -> Fragment:
    """The record of rows that are in no file; they have the columns of a schema, and there is at least one."""
    if not rows.num_rows:
        raise InternalError("a fragment has at least one row")
    return Fragment(
        name=paths.name(0, env.ids.new()),
        rows=rows.num_rows,
        bytes=rows.nbytes,
        sha256=_NO_SUM,
        bounds=bounds_of(rows, schema),
    )


class Came(NamedTuple):
    """How rows in memory came: some at a time, in order. Of each row, its place among all of those.

    Chunks never change, and more may come behind them. What is made of them, and not of the rows that count now, is
    ``kept`` for those who read them then.
    """

    chunks: tuple[pa.Table, ...]
    places: np.ndarray
    kept: dict[Hashable, object]


class MemoryFile:
    """Rows of a table in memory, in the columns' present names and types. Safe to share between threads."""

    source = None  # there is no file

    def __init__(self, fragment: Fragment, rows: pa.Table, came: Came | None = None) -> None:
        self.came = came
        if fragment.rows != rows.num_rows:
            raise InternalError(f"a fragment of {fragment.rows} rows can't be {rows.num_rows} rows in memory")
        self.fragment = fragment
        self.groups = tuple(
            Group(start, min(GROUP_ROWS, rows.num_rows - start)) for start in range(0, rows.num_rows, GROUP_ROWS)
        )
        self._rows = rows.combine_chunks()

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return int(self._rows.nbytes)

    def read(self, group: int, fields: Sequence[Field], *, threads: bool = False) -> pa.Table:
        """Some columns of a part of the rows; ``threads`` changes nothing."""
        start, rows = self.groups[group]
        return self._columns(fields).slice(start, rows)

    def take(self, rows: np.ndarray, fields: Sequence[Field]) -> pa.Table:
        """Some columns of some rows, whose numbers are distinct and in order."""
        rows = np.asarray(rows, np.int64)
        if len(rows) and (rows[0] < 0 or rows[-1] >= self.fragment.rows or (np.diff(rows) <= 0).any()):
            raise InvalidInputError(
                "row numbers of rows in memory are out of range or not in order",
                hint=f"give distinct numbers from 0 to {self.fragment.rows - 1}, the smallest first",
            )
        return self._columns(fields).take(pa.array(rows)) if fields else no_columns(len(rows))

    def find(self, keys: pa.Array, field: Field) -> tuple[np.ndarray, np.ndarray]:
        """The rows whose value is one of some distinct keys, in order, and the place of each one's key in ``keys``."""
        column = self._column(field)
        which = match(keys, column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
        rows = np.flatnonzero(which >= 0)
        return rows, which[rows]

    def lookup(self, keys: pa.Array, field: Field, fields: Sequence[Field]) -> tuple[np.ndarray, np.ndarray, pa.Table]:
        """What ``find`` gives, and some columns of these rows."""
        rows, which = self.find(keys, field)
        return rows, which, self.take(rows, fields)

    def group_bounds(self, group: int, field: Field) -> Bounds | None:
        """Never known: the log's bounds are of the same rows, and reading those is no work."""
        return None

    def page_bounds(self, group: int, field: Field) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Never known: there are no pages."""
        return None

    def _columns(self, fields: Sequence[Field]) -> pa.Table:
        if not fields:
            return no_columns(self.fragment.rows)
        schema = pa.schema([pa.field(one.name, arrow_type(one), nullable=one.nullable) for one in fields])
        return pa.Table.from_arrays([self._column(one) for one in fields], schema=schema)

    def _column(self, field: Field) -> pa.ChunkedArray:
        """A column; where the rows lack it, it was added since, and they have its default."""
        if self._rows.schema.get_field_index(field.name) < 0:
            return filler(field, self.fragment.rows)
        column = self._rows.column(field.name)
        kind = arrow_type(field)
        return column if column.type == kind else column.cast(kind)

    def __repr__(self) -> str:
        return f"MemoryFile({self.fragment.rows} rows)"
