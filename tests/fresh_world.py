"""Tables with shards made by hand: real fragments, tails in memory, and a plain model of what fresh reads must give."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import replace

import numpy as np
import pyarrow as pa

import key_types
from siltstone import paths
from siltstone.env import REAL
from siltstone.format.shard import ShardState
from siltstone.format.table import Change, Cursor, ShardFragment
from siltstone.log.marks import Mark
from siltstone.shard.chunks import Chunk, newest, shard_schema, tombstones
from siltstone.shard.fresh import Freshness
from siltstone.shard.fresh_get import fresh_get
from siltstone.shard.snapshot import Snapshot
from siltstone.store.connect import open_store
from siltstone.store.meter import MeteredStore
from siltstone.store.scoped import ScopedStore
from siltstone.table.fragment import FragmentWriter
from siltstone.table.scan import Scan
from siltstone.table.schema import arrow_schema, key_fields, make_schema
from siltstone.table.source import TableSource
from siltstone.table.sql import run_sql
from siltstone.table.state import State
from siltstone.table.tools import make_tools
from siltstone.table.vectors import Deleted, write_vectors

START = Mark(0, 0, "0" * 64)
NUMBERS = 90  # of keys that random histories are about
VALUES = [
    pa.field("name", pa.string(), nullable=False),
    pa.field("score", pa.float64()),
    pa.field("grp", pa.int32(), nullable=False),
]
KEYS = {
    **{name: ([("id", kind)], lambda n, make=make: (make(n),)) for name, (kind, make) in key_types.KEYS.items()},
    "text and day": (
        [("shop", pa.string()), ("day", pa.date32())],
        lambda n: ("ab" * (n % 4), dt.date(2020, 1, 1) + dt.timedelta(days=n // 4)),
    ),
    "two numbers": ([("b", pa.int32()), ("a", pa.int64())], lambda n: (n % 5, n)),
}


class World:
    """A table with shards, and ``rows()``: what a fresh read of it must give, in any order."""

    def __init__(self, kind="int64", *, shards=2, store=None, seed=0, values=VALUES):
        key, self.key_of = KEYS[kind] if kind else ([], lambda n: (n,))
        self.random = np.random.default_rng(seed)
        self.columns = pa.schema([*key, *([] if kind else [("n", pa.int64())]), *values])
        self.key = [name for name, _ in key]
        self.schema = make_schema(self.columns, self.key or None)
        self.store = MeteredStore(store or open_store(f"memory://fresh-{uuid.uuid4().hex}"))
        self.tools = make_tools(self.store, REAL)
        self.state = State(mark=START, block=START).apply(Change(operation="create", schema=self.schema), version=0)
        self.freshness = Freshness(self.tools)
        self.base = {}  # the rows of the table by their key
        self.places = {}  # by the name of a fragment: the keys of its rows
        self.shards = [Shard(self, f"s{number}") for number in range(shards)]
        self.written = 0
        self.rows_per_fragment = 40

    # -- writing -----------------------------------------------------------------------------------

    def row(self, n):
        """A row with key number ``n``, and values that no other row has."""
        self.written += 1
        values = (f"name {self.written}", None if self.written % 5 == 0 else self.written / 2, self.written % 10)
        key = self.key_of(n) if self.key else (self.written,)
        return dict(zip(self.columns.names, (*key, *values), strict=True))

    def key_of_row(self, row):
        return tuple(row[name] for name in self.key) if self.key else row["n"]

    def table(self, rows):
        return pa.Table.from_pylist(rows, arrow_schema(self.state.schema))

    def apply(self, **change):
        self.state = self.state.apply(Change(**change), version=1)
        mark = self.state.mark
        self.state = replace(self.state, mark=Mark(mark.position + 1, 0, mark.digest))

    def add(self, rows, *, shards=None):
        """Rows of the table itself; those of the same keys go."""
        for key in map(self.key_of_row, rows):
            self._lose(key)
        writer = FragmentWriter(self.store, self.state.schema, base=0, rows_per_fragment=self.rows_per_fragment)
        if rows:
            writer.write(self.table(rows))
        fragments = [one.fragment for one in writer.finish()]
        start = 0
        ordered = self._ordered(rows)
        for one in fragments:
            self.places[one.name] = [self.key_of_row(row) for row in ordered[start : start + one.rows]]
            start += one.rows
        self.base |= {self.key_of_row(row): row for row in rows}
        self.apply(operation="merge", add=tuple(fragments), shards=shards or {})

    def _ordered(self, rows):
        """Rows as fragments have them."""
        most = self.rows_per_fragment
        parts = [rows[start : start + most] for start in range(0, len(rows), most)]
        return [row for part in parts for row in (sorted(part, key=self.key_of_row) if self.key else part)]

    def _lose(self, key):
        if self.base.pop(key, None) is None:
            return
        for live in self.state.fragments:
            places = self.places[live.fragment.name]
            if key in places:
                number = places.index(key)
                places[number] = None
                gone = Deleted.from_mask(np.array([one is None for one in places]))
                if gone.count == gone.rows:
                    self.apply(operation="delete", remove=(live.fragment.name,))
                else:
                    vectors = write_vectors(self.store, {live.fragment.name: gone}, base=0, env=REAL)
                    self.apply(operation="delete", mask=vectors)

    def lose(self, keys):
        for key in keys:
            self._lose(key)

    # -- what must be there ------------------------------------------------------------------------

    def rows(self):
        found = dict(self.base)
        for shard in self.shards:
            for position, key, row in shard.history:
                if position >= shard.merged:
                    found.pop(key, None)
                    if row is not None:
                        found[key] = row
        return list(found.values())

    # -- reading -----------------------------------------------------------------------------------

    @property
    def snapshots(self):
        return [shard.snapshot() for shard in self.shards]

    def fresh(self):
        return self.freshness.read(self.state, self.snapshots)

    def scan(self, **options):
        return Scan(*self.fresh(), **options)

    def sql(self, query):
        return run_sql(query, {"t": TableSource(*self.fresh())}).to_arrow()

    def get(self, keys, columns=None):
        return fresh_get(self.tools, self.freshness, self.state, self.snapshots, keys, columns)


class Shard:
    """One shard: its fragments, its tail, and all that was ever written to it."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.store = ScopedStore(world.store, paths.shard(name))
        self.state = ShardState()
        self.tail = []
        self.history = []  # (position, key, row or None)
        self.position = 0
        self.merged = 0

    def put(self, rows):
        """Rows; none is an entry without any, which changes nothing."""
        self.tail.append(Chunk(self.position, self.world.table(rows)))
        self.history += [(self.position, self.world.key_of_row(row), row) for row in rows]
        self.position += 1

    def delete(self, keys):
        fields = key_fields(self.world.state.schema)
        columns = arrow_schema(self.world.state.schema)
        given = pa.table(
            {
                one.name: pa.array([key[place] for key in keys], columns.field(one.name).type)
                for place, one in enumerate(fields)
            }
        )
        self.tail.append(tombstones(given, self.world.state.schema, position=self.position))
        self.history += [(self.position, key, None) for key in keys]
        self.position += 1

    def flush(self, **options):
        chunks = [one for one in self.tail if one.position >= self.merged]
        fragments = ()
        if chunks:
            writer = FragmentWriter(
                self.store, shard_schema(self.world.state.schema), base=self.state.generation, **options
            )
            writer.write(newest(chunks, self.world.key))
            fragments = tuple(
                ShardFragment(
                    fragment=one.fragment,
                    generation=self.state.generation,
                    first=chunks[0].position,
                    until=self.position,
                )
                for one in writer.finish()
            )
        self.state = ShardState(
            generation=self.state.generation + 1,
            fragments=(*self.state.fragments, *fragments),
            replay_from=Cursor(position=self.position, epoch=1, digest="0" * 64),
        )
        self.tail = []

    def merge(self, until):
        """Bring the rows before a position into the table."""
        last = {key: row for position, key, row in self.history if self.merged <= position < until}
        self.merged = until
        self.world.lose([key for key, row in last.items() if row is None])
        cursor = Cursor(position=until, epoch=1, digest="0" * 64)
        self.world.add([row for row in last.values() if row is not None], shards={self.name: cursor})

    def drop_merged(self):
        """Forget fragments that are merged, as a writer does some time later."""
        kept = tuple(one for one in self.state.fragments if one.until > self.merged)
        self.state = ShardState(generation=self.state.generation, fragments=kept, replay_from=self.state.replay_from)

    def snapshot(self):
        until = Mark(self.position, 1, f"{self.position:064x}")
        return Snapshot(self.name, self.state, self.store, tuple(self.tail), until)


def shop():
    """Keys 0 to 39 (by their numbers) in the table, and one shard."""
    world = World(shards=1)
    world.add([world.row(one) for one in range(40)])
    return world, world.shards[0]


def live(world, steps):
    """A random history, step by step."""
    random, count = world.random, len(world.shards)
    for _ in range(steps):
        step = random.choice(["put", "put", "put", "delete", "flush", "merge", "drop"])
        number = int(random.integers(count))
        shard = world.shards[number]
        mine = [one for one in random.integers(0, NUMBERS, random.integers(2, 40)).tolist() if one % count == number]
        if step == "put" and mine:
            shard.put([world.row(one) for one in mine])
        elif step == "delete" and mine and world.key:
            shard.delete(list(dict.fromkeys(map(world.key_of, mine))))
        elif step == "flush":
            shard.flush(rows_per_fragment=int(random.choice([7, 1000])))
        elif step == "merge" and shard.position > shard.merged:
            shard.merge(int(random.integers(shard.merged + 1, shard.position + 1)))
        elif step == "drop":
            shard.drop_merged()
        yield step


def check_gets(world):
    """Rows by their keys are those of the model."""
    rows = {world.key_of_row(row): row for row in world.rows()}
    for count in (1, 1, 5, 70):
        asked = [world.key_of(one) for one in world.random.integers(0, NUMBERS, count).tolist()]
        given = [key[0] for key in asked] if len(world.key) == 1 else asked
        expected = [rows[key] for key in dict.fromkeys(asked) if key in rows]
        found = world.get(given)
        assert found.to_pylist() == expected
        assert found.schema == world.scan().schema
        assert world.get(given, ["name"]).to_pylist() == [{"name": row["name"]} for row in expected]
