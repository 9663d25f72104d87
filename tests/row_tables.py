"""Tables with rows in memory, changed through commits alone, and what is in them."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from siltstone import paths
from siltstone.env import REAL
from siltstone.format.table import Change, encode_body, encode_change
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.table import evolve
from siltstone.table.commit import commit
from siltstone.table.compact import Compact, compact, rewrite
from siltstone.table.history import History
from siltstone.table.inserts import write_rows
from siltstone.table.operations import Append, Columns, Delete, Overwrite, Restore, Upsert
from siltstone.table.scan import Scan
from siltstone.table.schema import arrow_schema, make_schema
from siltstone.table.tools import make_tools
from siltstone.table.update import Update

COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])


class RowTable:
    """One handle on a table; ``other`` gives a second one, which sees the same log."""

    def __init__(self, schema=COLUMNS, key=None, *, log=None, store=None):
        if log is None:
            store = open_store(f"memory://rows-{uuid.uuid4().hex}")
            log = open_log(store, root=paths.LOG, create=True, probe=False, guard="receipt")
            first = Change(operation="create", schema=make_schema(schema, key))
            log.append(encode_body(encode_change(first)), after=log.start)
        self.log = log
        self.tools = make_tools(log.store, REAL)
        self.history = History(log)
        self.state = self.history.newest()

    def other(self):
        return RowTable(log=self.log)

    def refresh(self):
        self.state = self.history.refresh(self.state)
        return self

    def do(self, *works, base=None):
        """Commit; what became of it."""
        base = self.state.version if base is None else base
        done = commit(self.tools, self.history, self.state, works, base=base)
        self.state = done.state
        return done

    def inserted(self, rows, *, twice="refuse"):
        data = (
            rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=arrow_schema(self.state.schema))
        )
        return write_rows(self.tools, self.state.schema, data, base=self.state.version, twice=twice)

    def append(self, rows):
        return self.do(Append(self.inserted(rows)))

    def upsert(self, rows):
        return self.do(Upsert(self.inserted(rows, twice="last wins")))

    def overwrite(self, rows):
        return self.do(Overwrite(self.inserted(rows)))

    def delete(self, where):
        return self.do(Delete(where, self.state.schema))

    def update(self, values, where=None):
        return self.do(Update(values, where, self.state.schema, base=self.state.version))

    def restore(self, version):
        return self.do(Restore(self.history.at(version)))

    def add_column(self, field, default=None):
        return self.do(Columns(lambda schema: evolve.add_column(schema, field, default)))

    def drop_column(self, name):
        return self.do(Columns(lambda schema: evolve.drop_column(schema, name)))

    def rename_column(self, name, to):
        return self.do(Columns(lambda schema: evolve.rename_column(schema, name, to=to)))

    def widen_column(self, name, to=None, **options):
        return self.do(Columns(lambda schema: evolve.widen_column(schema, name, to, **options)))

    def compact(self, **options):
        done = compact(self.tools, self.history, self.state, **options)
        self.state = done.state
        return done

    def rewritten(self, **options):
        """A compaction of all fragments that is read and written, and not committed yet."""
        lives = list(self.state.fragments)
        return Compact(rewrite(self.tools, self.state.schema, lives, base=self.state.version, **options))

    def rows(self, version=None):
        """The rows of a version, sorted."""
        state = self.state if version is None else self.history.at(version)
        return in_order(Scan(self.tools, state).to_arrow().to_pylist())


def in_order(rows):
    return sorted(rows, key=lambda row: tuple(map(repr, row.values())))


def numbered(*ids, text="a"):
    return [{"id": one, "text": f"{text}{one}"} for one in ids]


def grown(*lots, key=None):
    """A table with a fragment for each lot of ids."""
    table = RowTable(key=key)
    for lot in lots:
        table.append(numbered(*lot))
    return table


def ids_of(table):
    """The ids of each fragment's rows that are left, in its order."""
    found = []
    for live in table.state.fragments:
        file = table.tools.files.open(live.fragment)
        ids = file.take(np.arange(live.fragment.rows), table.state.schema.fields[:1]).column(0).to_numpy()
        deleted = (
            table.tools.vectors.read(live.vector, live.fragment).mask() if live.vector else np.zeros(len(ids), bool)
        )
        found.append(ids[~deleted].tolist())
    return found
