"""A table with one shard whose WAL may be in other stores, time that stands still, and a book of what was said.

What must hold after anything: a row that was acknowledged is there once, whichever WAL it was put into, rows that
nobody put are not there, and positions only go up.
"""

from __future__ import annotations

import itertools

import pyarrow as pa

from siltstone.api import create_table, drop_table, open_table
from siltstone.errors import SiltstoneError
from siltstone.shard.config import ShardWriterConfig
from siltstone.store.memory import MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import Crashed
from siltstone.testing.stores import FaultStore, Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
SHARD = "a"
KEYED = "0000-0000"
DAY_S = 86_400
_numbers = itertools.count(1)


def rows(*ids):
    return pa.table({"id": list(ids), "note": [f"x{one}" for one in ids]}, schema=SCHEMA)


def attempt(call, *arguments, **options):
    """What a call returns or, where it is refused or cut off, raises."""
    try:
        return call(*arguments, **options)
    except (SiltstoneError, Crashed) as error:
        return error


class WalWorld:
    """Stores by name: ``table`` is the table's, and any other one may be for WALs."""

    def __init__(self, *, keyed=False, wal=None, commits=None, **options):
        self.clock = ManualClock()
        self.number = next(_numbers)
        self.keyed = keyed
        self.commits = commits
        self.acknowledged = []
        self.unknown = []
        self._ids = itertools.count(1)
        options |= {"key": "id", "shards": 1} if keyed else {}
        create_table(
            self.store("table"), schema=SCHEMA, wal=self.wal(wal), commits=self.registry(), probe=False, env=self.env(),
            **options,
        )  # fmt: skip

    @property
    def shard(self):
        return KEYED if self.keyed else SHARD

    # -- handles -------------------------------------------------------------------------------------

    def store(self, name):
        return MemoryStore(f"wal-world-{self.number}-{name.replace(' ', '-')}", clock=self.clock)

    def wal(self, wal):
        return self.store(wal) if isinstance(wal, str) else wal

    def faulty(self, name):
        return FaultStore(self.store(name))

    def interleaves(self, name):
        return Interleaves(self.store(name))

    def env(self, patience_s=5.0):
        return manual_env(next(_numbers), clock=self.clock, patience_s=patience_s)

    def registry(self):
        return None if self.commits is None else self.commits()

    def open(self, wal=None, *, store=None, **options):
        given = {"probe": False, "env": self.env(), "commits": self.registry(), **options}
        return open_table(store or self.store("table"), wal=self.wal(wal), **given)

    def writer(self, wal=None, *, store=None, table=None, name="", **config):
        """A writer without threads: what they would do happens when the test says so."""
        table = table or self.open(wal, store=store)
        chosen = 0 if self.keyed else SHARD
        return table._open_writer(chosen, ShardWriterConfig(**config), name, background=False)

    def drop(self, wal=None, **options):
        drop_table(self.store("table"), wal=self.wal(wal), probe=False, env=self.env(), **options)

    # -- what happens --------------------------------------------------------------------------------

    def put(self, writer, count=1, **options):
        """A durable put of rows that were never put before; what its caller was told."""
        ids = list(itertools.islice(self._ids, count))
        try:
            told = writer.put(rows(*ids), wait=True, **options)
        except (SiltstoneError, Crashed) as error:
            self.unknown += ids
            return error
        self.acknowledged += ids
        return told

    def life(self, wal=None, *, puts=2, flush=False, close=True, **config):
        """One writer from its opening to its end."""
        writer = self.writer(wal, **config)
        for _ in range(puts):
            self.put(writer)
        if flush:
            writer.freeze()
            writer.flush_memtables()
        if close:
            writer.close()
        return writer

    def merge(self, wal=None):
        return self.open(wal).merge_shards()

    def wipe(self, name):
        """All objects of a store are gone."""
        self.store(name).delete(self.keys(name))

    # -- what is there -------------------------------------------------------------------------------

    def keys(self, name, under=""):
        return [info.key for info in self.store(name).list(under)]

    def state(self):
        """What the shard's manifest says; no WAL store is needed for that."""
        table = self.open()
        manifest = table._shards.a_place(self.shard).manifest()
        return manifest.read()

    def ids(self, wal=None):
        """The rows that a fresh read sees."""
        return self.open(wal).scan(fresh=True).to_arrow().column("id").to_pylist()

    def check(self, wal=None, found=None):
        """Every acknowledged row is there, once; returns the rows."""
        found = self.ids(wal) if found is None else found
        assert len(found) == len(set(found)), f"a row is there twice: {found}"
        assert set(self.acknowledged) <= set(found), f"acknowledged and lost: {set(self.acknowledged) - set(found)}"
        assert set(found) <= {*self.acknowledged, *self.unknown}, "rows are there that nobody put"
        return sorted(found)

    def go_on(self, wal=None, **config):
        """Another writer goes on, everything is there before and afterwards, merged or not."""
        self.check(wal)
        writer = self.life(wal, **config)
        assert writer.stats().last_error == ""
        self.check(wal)
        self.merge(wal)
        self.check(wal)
        self.check(found=self.open().scan().to_arrow().column("id").to_pylist())
