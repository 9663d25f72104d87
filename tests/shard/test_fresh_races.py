"""Something happens in the middle of a fresh read: it sees what was there before, or after."""

from __future__ import annotations

import functools
import itertools
import random

import pyarrow as pa
import pytest

from shard_models import (
    DAY_S,
    MERGE,
    busy,
    content,
    ids_of,
    overwrite,
    plain,
    plain_rows,
    rows_of,
    split,
    stages,
    upsert,
)
from siltstone.testing.script import ANY

READS = {
    "scan": lambda table: content(table.scan(fresh=True)),
    "get": lambda table: plain_rows(table.get(list(range(60)), fresh=True)),
    "sql": lambda table: plain_rows(table.sql(f"select * from {table.name}", fresh=True).to_arrow()),
}


@functools.cache
def prepared():
    return busy()[0]


class Rival:
    def __init__(self, world):
        self.world = world
        self.table = world.open()
        self.writers = world.writers(self.table)

    def put(self):
        self.world.put(self.writers[0], dict.fromkeys(itertools.islice(ids_of(0, 2), 12), 5))

    def flush(self):
        for writer in self.writers:
            self.world.flush(writer)

    def merge(self):
        self.world.do(self.table, MERGE)

    def merge_and_truncate(self):
        """What a merge left of the WAL is removed; fragments stay for some minutes."""
        self.world.do(self.table, MERGE)
        self.world.clock.advance(120)
        self.world.put(self.writers[0], {next(ids_of(0, 2)): 6})
        self.world.do(self.table, MERGE)

    def take_over(self):
        self.world.put(self.world.writer(0), {next(ids_of(0, 2)): 6})

    def upsert(self):
        self.world.do(self.table, upsert({3: 7, 22: 7, 55: 7}))

    def overwrite(self):
        self.world.do(self.table, overwrite({1: 1}))

    def split(self):
        self.world.do(self.table, split(3))

    def columns(self):
        self.table.add_column("extra", pa.int64(), default=3)
        follower = self.writers[1]
        row = {**rows_of({next(ids_of(1, 2)): 8})[0], "extra": 4}
        follower.put([row])
        position = follower.wal_stats().next_wal_entry_position - 1
        self.world.book.puts["0000-0001"].append((position, {row["id"]: 8}))


@pytest.mark.parametrize("read", ["scan", "get"])
@pytest.mark.parametrize("rival", [name for name in vars(Rival) if not name.startswith("_")])
def test_read__something_happens_at_any_place_of_it__sees_what_was_there_before_or_after(rival, read):
    world = prepared().copy()
    store = world.interleaves()
    table = world.open(store)
    store.calls.clear()
    READS[read](table)
    found = stages(store.calls)
    for nth in random.Random(rival).sample(found, min(len(found), 12)):
        world = prepared().copy()
        other = Rival(world)
        _, before = world.expected(world.open())
        store = world.interleaves()
        table = world.open(store, patience_s=10 * DAY_S)
        store.calls.clear()
        store.before(ANY, getattr(other, rival), nth=nth)
        seen = READS[read](table)
        assert not store.pending
        _, after = world.expected(world.open())
        assert seen in (plain(before), plain(after)), f"{rival} at {nth}"
        assert READS[read](table) == plain(after)
