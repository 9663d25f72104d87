"""Something else happens in the middle of a merge, or of a change made at a table whose rows are still in shards.

No threads: the rival acts between two store calls of the first one (``Interleaves``). What must hold each time: the
rows are those of the acknowledged operations, in the order of positions and versions.
"""

from __future__ import annotations

import functools
import random

import pyarrow as pa
import pytest

from shard_models import (
    COMPACT,
    DAY_S,
    MERGE,
    World,
    append,
    delete,
    ids_of,
    overwrite,
    restore,
    rows_of,
    split,
    told,
    update,
    upsert,
    watched,
)
from siltstone.errors import ConflictError, FencedError
from siltstone.shard.merge import Settle
from siltstone.table.draft import Draft

BEFORE = {id_: id_ for id_ in range(20)}
BUSIEST = {"flush", "merge", "merge_and_remove"}
NAMES = ("a", "b")  # of shards, where there is no key


@functools.cache
def begun(shards=2, *, keyed=True):
    """Rows in the table, in fragments of shards and in their WALs; some keys in all three, some deleted in between."""
    world = World(keyed=keyed, shards=shards)
    table = world.open()
    world.do(table, append({id_: n for id_, n in BEFORE.items() if id_ % 2}))
    world.do(table, append({id_: n for id_, n in BEFORE.items() if not id_ % 2}))
    if not keyed:
        for number, name in enumerate(NAMES[:shards]):
            writer, start = world.writer(name, table), 100 * (number + 1)
            world.put(writer, {id_: id_ for id_ in range(start, start + 5)})
            world.flush(writer)
            world.put(writer, {id_: id_ for id_ in range(start + 5, start + 9)})
        return world
    writers = world.writers(table)
    world.put_all(writers, {id_: id_ + 100 for id_ in range(10, 30)})
    for number, writer in enumerate(writers):
        world.delete(writer, [next(ids_of(number, shards, start=5))])
        world.flush(writer)
    world.put_all(writers, {id_: id_ + 200 for id_ in range(15, 35)})
    for number, writer in enumerate(writers):
        world.delete(writer, [next(ids_of(number, shards, start=25))])
    return world


class Rival:
    """Whoever acts in between: it has the shards' writers, and a handle of its own."""

    def __init__(self, world, shards):
        self.world, self.shards = world, shards
        self.table = world.open()
        self.names = range(shards) if world.keyed else NAMES[:shards]
        self.writers = [world.writer(name, self.table) for name in self.names]
        self.news = 1000  # ids that no one else has

    def values(self, number):
        """New rows of one shard, and new values of rows that others touch too."""
        self.news += 10
        if not self.world.keyed:
            return {self.news: 1, self.news + 1: 2}
        ids = [next(ids_of(number, self.shards, start=start)) for start in (self.news, 3, 17)]
        return dict.fromkeys(ids, self.news)

    def put(self):
        for number, writer in enumerate(self.writers):
            self.world.put(writer, self.values(number))

    def tombstone(self):
        for number, writer in enumerate(self.writers):
            self.world.delete(writer, [next(ids_of(number, self.shards, start=start)) for start in (1, 21)])

    def flush(self):
        self.put()
        for writer in self.writers:
            self.world.flush(writer)

    def take_over(self):
        """Others become the writers; the earlier ones are told."""
        earlier, self.writers = self.writers, [self.world.writer(name) for name in self.names]
        self.put()
        for number, writer in enumerate(earlier):
            rows = rows_of(self.values(number))
            assert isinstance(told(lambda writer=writer, rows=rows: writer.put(rows)), FencedError)

    def wal_only(self):
        self.writers = [self.world.writer(name, self.table, enable_memtable=False) for name in self.names]
        self.put()

    def merge(self):
        self.put()
        self.world.do(self.table, MERGE)

    def merge_and_remove(self):
        """A merge, and all that it left is removed at once, as if a day had passed."""
        self.flush()
        self.world.do(self.table, MERGE)
        self.world.clock.advance(DAY_S)
        self.put()
        self.world.do(self.table, MERGE)

    def upsert(self):
        self.world.do(self.table, upsert({3: 7003, 17: 7017, 90: 7090}))

    def delete(self):
        self.world.do(self.table, delete(2))

    def compact(self):
        self.world.do(self.table, COMPACT)

    def add_column(self):
        self.table.add_column("extra", pa.int64(), default=5)

    def split(self):
        self.world.do(self.table, split(3))
        self.writers = []


def rivals(*, keyed):
    found = ["put", "flush", "take_over", "wal_only", "merge", "merge_and_remove", "delete", "compact", "add_column"]
    return [*found, "tombstone", "upsert", "split"] if keyed else found


MAINS = {
    "merge": MERGE,
    "upsert": upsert({3: 9003, 17: 9017, 26: 9026, 91: 9091}),
    "append": append({92: 9092, 93: 9093}),
    "delete": delete(1),
    "update": update(10_000),
    "overwrite": overwrite({1: 5, 500: 6}),
    "restore": restore(2, BEFORE),
    "compact": COMPACT,
}


def places(main, shards, *, keyed):
    """Which store calls of a main are the first of their kind: those of one verb in one folder are one place."""
    store, table = watched(begun(shards, keyed=keyed).copy())
    main.perform(table)
    found, last = [], None
    for nth, call in enumerate(store.calls, 1):
        here = (call.verb, call.key.rpartition("/")[0])
        if here != last:
            found.append(nth)
        last = here
    return found


def race(main, rival, nth, shards, *, keyed):
    """``rival`` acts right before the ``nth`` store call of ``main``."""
    world = begun(shards, keyed=keyed).copy()
    other = Rival(world, shards)
    store, table = watched(world)
    store.before("*", getattr(other, rival), nth=nth)
    error = told(lambda: world.do(table, main))
    if error is not None:
        # Rows that a compaction was about to rewrite may be gone.
        assert (main, type(error)) == (COMPACT, ConflictError), f"{main.name} | {rival} at {nth}: {error!r}"
    other.put()
    world.check()
    assert not store.pending


@pytest.mark.parametrize("rival", rivals(keyed=True))
def test_merge__something_happens_at_any_place_of_it__rows_are_those_that_were_acknowledged(rival):
    where = places(MERGE, 1, keyed=True)
    for nth in random.Random(rival).sample(where, len(where) // 2):
        race(MERGE, rival, nth, 1, keyed=True)


@pytest.mark.parametrize("main", MAINS)
def test_change__something_happens_somewhere_in_it__rows_are_those_that_were_acknowledged(main):
    chance = random.Random(main)
    where = places(MAINS[main], 2, keyed=True)
    for rival in rivals(keyed=True):
        for nth in chance.sample(where, 1 + (rival in BUSIEST)):
            race(MAINS[main], rival, nth, 2, keyed=True)


@pytest.mark.parametrize("main", ["merge", "delete", "update", "overwrite", "restore", "compact"])
def test_change__without_a_key_and_something_happens__no_row_is_lost_or_doubled(main):
    chance = random.Random(main)
    where = places(MAINS[main], 2, keyed=False)
    for rival in rivals(keyed=False):
        race(MAINS[main], rival, chance.choice(where), 2, keyed=False)


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "free"])
def test_merge__another_that_saw_less_lands_first__takes_the_rest_alone(keyed):
    world = begun(keyed=keyed).copy()
    other = Rival(world, 2)
    early = Settle(other.table._shards.readers)
    early.run(Draft(other.table._tools, other.table._now()))  # what it takes is settled from here on
    other.put()
    store, table = watched(world)

    def land():
        other.table._do(early)
        if keyed:  # newer than what both have read
            world.do(other.table, upsert({17: 7017, 21: 7021, 34: 7034}))

    store.before("create", land, key="log/entries")
    world.do(table, MERGE)
    assert not store.pending
    other.put()
    world.check()
