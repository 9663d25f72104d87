"""Tables without data files: their logs, rollups and states alone."""

from __future__ import annotations

import uuid

import pyarrow as pa

from siltstone import paths
from siltstone.env import REAL
from siltstone.format.table import Bounds, Change, Cursor, Fragment, encode_body, encode_change
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.table.commit import commit
from siltstone.table.history import History
from siltstone.table.operations import Work
from siltstone.table.schema import make_schema
from siltstone.table.tools import make_tools

SCHEMA = make_schema(pa.schema([("id", pa.int64()), ("name", pa.string())]), "id")


def new_table(store=None, **options):
    """(tools, history, state) of a new table."""
    store = open_store(store or f"memory://table-{uuid.uuid4().hex}")
    log = open_log(store, root=paths.LOG, create=True, probe=False, guard="receipt", **options)
    log.append(encode_body(encode_change(Change(operation="create", schema=SCHEMA))), after=log.start)
    history = History(log)
    return make_tools(store, REAL), history, history.newest()


def cursor(position, digit="a", *, epoch=0):
    """A place in a shard's WAL."""
    return Cursor(position=position, epoch=epoch, digest=digit * 64 if position else "")


def fragment(low=0, high=99, *, rows=100, base=0):
    """A fragment that exists on paper."""
    return Fragment(
        name=paths.name(base, uuid.uuid4().hex),
        rows=rows,
        bytes=4096,
        sha256="ab" * 32,
        bounds={"1": Bounds(low, high, 0), "2": Bounds("a", "z", 0)},
    )


class Adds(Work):
    """An operation that adds fragments, removes some, sets labels, or moves shards, and reads nothing."""

    operation = "append"

    def __init__(self, *fragments, remove=(), tags=None, settings=None, shards=None, sharding=None):
        self.fragments, self.removes, self.tags, self.settings = fragments, remove, tags, settings
        self.shards, self.sharding = shards or {}, sharding

    def run(self, draft):
        draft.remove(self.removes)
        draft.add(self.fragments)
        if self.tags or self.settings:
            draft.set_labels(tags=self.tags, settings=self.settings)
        if self.shards or self.sharding:
            draft.set_shards(self.shards, self.sharding)


def grow(tools, history, state, count, *, each=lambda n: Adds(fragment(n * 100, n * 100 + 99))):
    """The state after so many more versions."""
    for _ in range(count):
        state = commit(tools, history, state, [each(state.version)], base=state.version).state
    return state
