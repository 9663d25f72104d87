"""A source for queries that notes what is read of it."""

from __future__ import annotations

import math

import pyarrow as pa

from siltstone.format.table import Bounds
from siltstone.table.sql import run_sql


class Parts:
    """A source of tables, one for each part, that notes what is read."""

    def __init__(self, *tables, prunes=True):
        self.tables = tables
        self.schema = tables[0].schema
        self.read = []
        self._prunes = prunes

    def parts(self, where):
        kept = [number for number, table in enumerate(self.tables) if self._keeps(where, table)]
        return [self._part(number) for number in kept]

    def _keeps(self, where, table):
        return (
            where is None or not self._prunes or where.keeps(lambda name: _bounds(table.column(name)), rows=len(table))
        )

    def _part(self, number):
        def rows(columns):
            self.read.append((number, tuple(columns)))
            return self.tables[number].select(list(columns)).to_batches()

        return rows


def _bounds(column):
    values = [one for one in column.to_pylist() if one is not None]
    if not values or any(one != one for one in values):  # noqa: PLR0124  NaN
        return Bounds(None, None, column.null_count)
    return Bounds(min(values), max(values), column.null_count)


def numbers(first, rows=10):
    ids = list(range(first, first + rows))
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "x": pa.array([math.nan if n % 10 == 0 else n / 2 for n in ids], pa.float64()),  # the first of each part is NaN
        "Name": pa.array([f"n{n % 7}" for n in ids]),
        "small": pa.array([n % 2 == 0 for n in ids]),
    })  # fmt: skip


def ask(query, **tables):
    return run_sql(query, tables).to_arrow().to_pylist()
