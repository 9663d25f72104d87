"""A small world for tests of shard writers: one shard in memory, time that stands still, and a book of what was said.

What must hold after anything: a row that was acknowledged is in the shard once, one that was refused for good is not in
it and never will be, none is in it twice, rows are in the order in which they were put, and the next writer can go on.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import siltstone as ss
from siltstone.api.shards import AddShard
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import BackpressureError, InvalidInputError, SiltstoneError, UnavailableError, WriterStoppedError
from siltstone.ids import SystemIds
from siltstone.shard.chunks import POSITION, shard_schema
from siltstone.shard.config import ShardWriterConfig, knobs
from siltstone.shard.intake import Intake
from siltstone.shard.wal import WalTailer
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.table.schema import make_schema
from siltstone.table.tools import make_tools
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import Crashed
from siltstone.testing.stores import FaultStore, Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
SHARD = "a"
FIELDS = shard_schema(make_schema(SCHEMA, None)).fields
# Errors that say that rows are not in the WAL, and never will be.
DEFINITE = (UnavailableError, WriterStoppedError, BackpressureError, InvalidInputError)
MODES = pytest.mark.parametrize("enable_memtable", [True, False], ids=["memtable", "wal only"])
_numbers = itertools.count(1)


def rows(*ids, note="x"):
    return pa.table({"id": list(ids), "note": [f"{note}{one}" for one in ids]}, schema=SCHEMA)


def attempt(call, *arguments, **options):
    """What a call returns or, where it is refused or cut off, raises."""
    try:
        return call(*arguments, **options)
    except (SiltstoneError, Crashed) as error:
        return error


@functools.cache
def _made(keyed: bool) -> dict:
    """The objects of a table with one shard that nobody wrote to."""
    bucket = MemoryBucket()
    store = MemoryStore(bucket=bucket, clock=ManualClock())
    options = {"key": "id", "shards": 1} if keyed else {}
    table = ss.create(store, schema=SCHEMA, probe=False, env=manual_env(0), **options)
    if not keyed:
        table._do(AddShard(SHARD))
    return dict(bucket.objects)


@dataclass
class ShardWorld:
    """One shard, and what its writers were told."""

    keyed: bool = False
    bucket: MemoryBucket = field(default_factory=MemoryBucket)
    clock: ManualClock = field(default_factory=ManualClock)
    acknowledged: list = field(default_factory=list)
    unknown: list = field(default_factory=list)
    refused: dict = field(default_factory=dict)
    patience_s: float = 5.0
    service: MemoryService | None = None  # the commit store that decides, if any

    def __post_init__(self):
        if self.service is not None:
            table = ss.create(self.store(), schema=SCHEMA, commits=self.registry(), probe=False, env=manual_env(0))
            table._do(AddShard(SHARD))
            return
        for key, (data, _) in _made(self.keyed).items():
            self.store().put(key, data)

    def registry(self):
        return None if self.service is None else MemoryRegistry(self.service, ids=SystemIds())

    @property
    def shard(self) -> str:
        return "0000-0000" if self.keyed else SHARD

    # -- handles -------------------------------------------------------------------------------------

    def store(self) -> MemoryStore:
        return MemoryStore(bucket=self.bucket, clock=self.clock)

    def fault_store(self) -> FaultStore:
        return FaultStore(self.store())

    def interleaves(self) -> Interleaves:
        return Interleaves(self.store())

    def table(self, store=None, *, registry=None):
        env = manual_env(next(_numbers), clock=self.clock, patience_s=self.patience_s)
        return ss.open(store or self.store(), commits=registry or self.registry(), probe=False, env=env)

    def writer(self, store=None, *, registry=None, table=None, name="", **config):
        """A writer without threads: what they would do happens when the test says so."""
        table = table or self.table(store, registry=registry)
        state = table._looked()
        chosen = knobs(ShardWriterConfig(**config), state.settings)
        return table._shards.open_writer(self.shard, state, chosen, writer=name, background=False)

    @staticmethod
    def writer_intake(table) -> Intake:
        """What checks rows for a writer of a table without a key."""
        return Intake(table._looked().schema, None, entry_bytes_max=2**20)

    # -- the book --------------------------------------------------------------------------------------

    def note(self, ids, call):
        """Run a put and write down what its caller was told."""
        try:
            told = call()
        except DEFINITE as error:
            self.refused.update(dict.fromkeys(ids, error))
            return error
        except (SiltstoneError, Crashed, KeyboardInterrupt) as error:
            self.unknown += ids
            return error
        self.acknowledged += ids
        return told

    def put(self, writer, *ids, run=lambda call: call(), **options):
        """A durable put of rows with these ids, each used once in a world; ``run`` makes the call."""
        return self.note(ids, lambda: run(lambda: writer.put(rows(*ids), wait=True, **options)))

    # -- the verdict -----------------------------------------------------------------------------------

    def entries(self) -> list:
        """Position and ids of each entry of the WAL that is not flushed."""
        table = self.table()
        logs = table._shards.reader(self.shard, table._looked()).place.read()
        tailer = WalTailer(logs.wal, after=logs.manifest.read().replay_from)
        return [(one.position, one.chunk.rows.column("id").to_pylist()) for one in tailer.read(table._looked().schema)]

    def ids(self) -> list:
        """All rows that a fresh read sees, in its order."""
        return self.table().scan(fresh=True).to_arrow().column("id").to_pylist()

    def check(self, found=None) -> list:
        """What must hold, as a reader sees it that knows nothing of the past; returns the ids."""
        found = self.ids() if found is None else found
        assert len(found) == len(set(found)), f"a row is there twice: {found}"
        assert set(self.acknowledged) <= set(found), f"acknowledged and lost: {set(self.acknowledged) - set(found)}"
        there = {one: error for one, error in self.refused.items() if one in found}
        assert not there, f"rows are there whose writer was told {there}"
        assert set(found) <= {*self.acknowledged, *self.unknown}, "rows are there that nobody put"
        return found

    def take_over(self, **config):
        """Another writer takes over: it has all rows in its memtables or in fragments, in the order of the puts."""
        table = self.table()
        writer = self.writer(table=table, name="next", **config)
        if writer.knobs.enable_memtable:
            state, chunks, end = writer.chunks(table._looked().schema, durable_only=True)
            assert writer.wal_stats().next_wal_entry_position == end.position
            assert writer.stats().replayed_rows == sum(chunk.count for chunk in chunks)
            files = make_tools(writer.place.store, table._log.env).files
            fragments = [files.open(one.fragment) for one in state.fragments]
            held = [pa.concat_tables(file.read(n, FIELDS) for n in range(len(file.groups))) for file in fragments]
            merged = table._looked().shards[self.shard].position
            held = [part.filter(pc.field(POSITION) >= merged) for part in held]
            held += [chunk.rows for chunk in chunks]
            found = [one for part in held for one in part.column("id").to_pylist()]
            assert found == sorted(found), "rows are not in the order in which they were put"
            self.check(found + table.scan().to_arrow().column("id").to_pylist())
        return writer

    def go_on(self, **config) -> None:
        """The next writer goes on, and what it puts is there."""
        writer = self.take_over(**config)
        self.put(writer, 10**6 + len(self.acknowledged))
        assert writer.stats().last_error == ""
        if writer.knobs.enable_memtable:
            writer.freeze()
            writer.flush_memtables()
        writer.close()
        self.check()


def seeded(**config):
    """A shard with rows in a fragment, and others in the WAL alone."""
    world = ShardWorld()
    writer = world.writer(**config)
    world.put(writer, 1, 2)
    world.put(writer, 3)
    if writer.knobs.enable_memtable:
        writer.freeze()
        writer.flush_memtables()
    world.put(writer, 4)
    world.put(writer, 5, 6)
    return world
