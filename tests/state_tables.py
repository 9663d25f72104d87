"""States made by hand, change by change, with real fragments and vectors behind them, and the rows that they hold."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from siltstone import paths
from siltstone.env import REAL
from siltstone.format.table import Change
from siltstone.log.marks import Mark
from siltstone.store.connect import open_store
from siltstone.store.meter import MeteredStore
from siltstone.table.fragment import write_fragment
from siltstone.table.schema import arrow_schema, make_schema
from siltstone.table.state import State
from siltstone.table.tools import make_tools
from siltstone.table.vectors import Deleted, write_vectors

START = Mark(0, 0, "0" * 64)
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64()), ("grp", pa.int32())])


def rows_of(ids, *, seed=0):
    """Rows of ``COLUMNS``; names and scores are null here and there."""
    ids = np.asarray(ids, np.int64)
    random = np.random.default_rng(seed)
    empty = random.random(len(ids)) < 0.05
    names = pa.array([None if gone else f"name {one} {'x' * (one % 7)}" for one, gone in zip(ids, empty, strict=True)])
    return pa.table(
        [ids, names.cast(pa.string()), pa.array(random.random(len(ids)), mask=empty), random.integers(0, 10, len(ids))],
        names=COLUMNS.names,
    ).cast(COLUMNS)


class StateTable:
    """A state that grows, the tools to read it with, and ``rows``: what a scan of it must give, in order."""

    def __init__(self, columns=COLUMNS, key="id", *, store=None):
        self.store = MeteredStore(store or open_store(f"memory://state-{uuid.uuid4().hex}"))
        self.tools = make_tools(self.store, REAL)
        self.state = State(mark=START, block=START)
        self.apply(operation="create", schema=make_schema(columns, key))
        self._parts = {}

    @property
    def names(self):
        return [live.fragment.name for live in self.state.fragments]

    @property
    def rows(self):
        """All rows that are left, in the order of the fragments."""
        parts = [self._parts[name] for name in self.names]
        columns = arrow_schema(self.state.schema)
        return pa.concat_tables(parts) if parts else columns.empty_table()

    def apply(self, **change):
        self.state = self.state.apply(Change(**change), version=1)
        return self

    def add(self, table):
        """One more fragment."""
        table = table.cast(arrow_schema(self.state.schema))
        name = paths.name(0, REAL.ids.new())
        fragment = write_fragment(self.store, table, self.state.schema, name=name)
        self._parts[name] = table
        return self.apply(operation="append", add=(fragment,))

    def delete(self, number, gone):
        """Rows of a fragment go, by their numbers in the file; at most once for each fragment."""
        name = self.names[number]
        rows = self._parts[name].num_rows
        deleted = Deleted.from_numbers(np.asarray(gone, np.int64), rows=rows)
        vectors = write_vectors(self.store, {name: deleted}, base=0, env=REAL)
        self._parts[name] = self._parts[name].filter(pa.array(~deleted.mask()))
        return self.apply(operation="delete", mask=vectors)

    def evolve(self, schema, change_rows):
        """Other columns; ``change_rows`` does to rows in memory what reading does to those in files."""
        self._parts = {name: change_rows(part) for name, part in self._parts.items()}
        return self.apply(operation="schema", schema=schema)

    def fresh(self):
        """As a process that knows nothing yet: nothing is cached, nothing is counted."""
        self.tools = make_tools(self.store, REAL)
        self.store.reset()
        return self

    def damage(self, number):
        """Break a fragment's object, in the middle of its first column."""
        key = paths.data(self.names[number])
        data = bytearray(self.store.get(key))
        data[len(data) // 8 : len(data) // 8 + 64] = bytes(64)
        self.store.put(key, bytes(data))
        return self

    def lose(self, number):
        """Remove a fragment's object."""
        self.store.delete([paths.data(self.names[number])])
        return self
