"""Parents and clones in memory: what they hold is known, and every call of their stores can be hit.

What must hold after anything: a clone has exactly the rows that its parent had, the parent has its own, and each table
that a clone reads from has one pin of it.
"""

from __future__ import annotations

import itertools

import pyarrow as pa

from siltstone.api import create_table, drop_table, open_table
from siltstone.errors import NotFoundError
from siltstone.store.memory import MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.stores import FaultStore, Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
DAY_S = 86_400
_numbers = itertools.count(1)


def rows_of(values):
    """Rows of a mapping from ids to texts."""
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def numbered(start, stop, text="x"):
    return {number: f"{text}{number}" for number in range(start, stop)}


def content(table, **scan):
    """What a table holds, each key once."""
    found = table.scan(**scan).to_arrow().to_pydict()
    assert len(set(found["id"])) == len(found["id"]), "a key is there twice"
    return dict(sorted(zip(found["id"], found["v"], strict=True)))


class World:
    """Tables by names. Time stands still."""

    def __init__(self):
        self.number = next(_numbers)
        self.clock = ManualClock()
        self.expected = {}

    def store(self, name):
        return MemoryStore(f"world-{self.number}-{name}", clock=self.clock)

    def uri(self, name):
        return self.store(name).uri

    def faulty(self, name):
        return FaultStore(self.store(name))

    def interleaves(self, name):
        return Interleaves(self.store(name))

    def env(self, patience_s=5.0):
        return manual_env(next(_numbers), clock=self.clock, patience_s=patience_s)

    def create(self, name, **options):
        return create_table(self.store(name), **{"schema": SCHEMA, "probe": False, "env": self.env(), **options})

    def open(self, name, **options):
        store = options.pop("store", None) or self.store(name)
        return open_table(store, **{"probe": False, "env": self.env(), **options})

    def open_or_none(self, name):
        """The table, where there is one."""
        try:
            return self.open(name)
        except NotFoundError:
            return None

    def drop(self, name, **options):
        drop_table(options.pop("store", None) or self.store(name), **{"probe": False, "env": self.env(), **options})

    def clone(self, parent, name, *, store=None, **options):
        """A clone made through handles of its own."""
        parent = self.open(parent) if isinstance(parent, str) else parent
        return parent.clone(store or self.store(name), probe=False, **options)

    def keys(self, name, under=""):
        return [info.key for info in self.store(name).list(under)]

    def pins(self, name):
        """Which clones hold a table, by their URIs."""
        return [one.holder for one in self.open(name).checkpoints() if one.holder]


def parent(*, keyed=True, shards=2):
    """A world with a table ``parent``: some fragments, deleted rows, and rows that are only in shards."""
    world = World()
    table = world.create("parent", key="id" if keyed else None, shards=shards if keyed else None)
    table.append(rows_of(numbered(0, 10)))
    table.append(rows_of(numbered(10, 20)))
    table.delete("id in (3, 13)")
    world.expected = {**numbered(0, 20)}
    del world.expected[3], world.expected[13]
    if keyed and shards:
        world.merged = dict(world.expected)
        with table.writer() as writer:
            writer.put(rows_of({**numbered(20, 25, "put"), 0: "put0"}))
            writer.delete([{"id": 5}])
        world.expected |= {**numbered(20, 25, "put"), 0: "put0"}
        del world.expected[5]
    return world
