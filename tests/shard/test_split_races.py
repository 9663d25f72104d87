"""Two splits at once, and splits while writers are at work.

What must hold each time: the rows are those of the acknowledged operations, each key is in the shard that it belongs
to, and a writer of an old shard acknowledges nothing that the new ones don't have.
"""

from __future__ import annotations

import random
from functools import partial

import pytest

import shares
from shard_models import (
    delete,
    ids_of,
    number_of,
    rows_of,
    split,
    told,
    upsert,
    watched,
)
from siltstone.errors import ConflictError, FencedError, NotFoundError
from siltstone.shard.config import ShardWriterConfig
from siltstone.testing.script import ANY, Fault
from split_tables import begun, go_on, places

# -- at once -----------------------------------------------------------------------------------------


class Splits:
    """Splits a table, and writes to the new shards from then on."""

    def __init__(self, world, count):
        self.world, self.count, self.writers = world, count, []
        self.table = world.open()

    def split(self):
        self.world.do(self.table, split(self.count))
        self.writers = self.world.writers()
        self.put(1)

    def put(self, n):
        """What is refused is refused because of another split."""
        for number, writer in enumerate(self.writers):
            try:
                self.world.put(writer, {next(ids_of(number, len(self.writers), start=5000)): n})
            except FencedError:
                self.world.book.maybe.clear()


@pytest.mark.parametrize("count", [3, 5])
def test_split_shards__two_at_once__one_wins_and_the_other_is_told(count):
    for nth in places(1):
        world = begun().copy()
        other = Splits(world, count)
        store, table = watched(world)
        store.before(ANY, other.split, nth=nth)
        error = told(lambda world=world, table=table: world.do(table, split(3)))
        now = world.open()._now().sharding
        if error is not None:
            assert isinstance(error, ConflictError), error
            assert (count, now.count, now.map) == (5, 5, 1)
        else:
            # The second one may have begun when the first was over.
            assert (now.count, now.map) in {(3, 1), (3, 2), (count, 2), (count, 1)}
        other.put(2)
        go_on(world, now.count)


def writes(world, writers):
    """Put through writers of old shards: what is acknowledged is noted, what is refused is told to be fenced."""
    fenced = 0
    for number, writer in enumerate(writers):
        ids = ids_of(number, 2, start=1000)
        try:
            world.put(writer, {next(ids): 7, next(ids_of(number, 2, start=8)): 7})
        except FencedError:
            fenced += 1
            world.book.maybe.clear()
    return fenced


def test_split_shards__a_writer_is_open_and_puts__it_is_fenced_or_its_row_is_kept():
    outcomes = set()
    for nth in [*places(2), None]:
        world = begun().copy()
        writers = world.writers()
        store, table = watched(world)
        if nth is not None:
            store.before(ANY, lambda world=world, writers=writers: outcomes.add(writes(world, writers)), nth=nth)
        world.do(table, split(3))
        assert writes(world, writers) == 2, "an old writer was acknowledged after the split"
        go_on(world, 3)
    assert outcomes >= {0, 2}


def test_split_shards__a_writer_flushes__it_is_fenced_or_its_rows_are_kept():
    for nth in places(3):
        world = begun().copy()
        writers = world.writers()
        world.put_all(writers, dict.fromkeys(range(40, 44), 4))
        store, table = watched(world)
        store.before(ANY, partial(flush_all, world, writers), nth=nth)
        world.do(table, split(3))
        go_on(world, 3)


def flush_all(world, writers):
    """Writers that were fenced are told, and that is all."""
    for writer in writers:
        told(partial(world.flush, writer))


def test_split_shards__a_writer_opens_and_puts_at_any_place__it_is_refused_or_its_row_is_kept():
    told_of = set()
    for nth in places(4):
        world = begun().copy()
        store, table = watched(world)
        seen = []

        def takes(world=world, seen=seen):
            for number in range(2):
                try:
                    writer = world.writer(number)
                except (ConflictError, FencedError) as error:
                    seen.append(type(error))
                    continue
                if writer.place.name.startswith("0001"):  # the split is over
                    continue
                world.put(writer, {next(ids_of(number, 2, start=2000)): 5})
                seen.append(None)

        store.before(ANY, takes, nth=nth)
        world.do(table, split(3))
        told_of.update(seen)
        go_on(world, 3)
    assert told_of == {None, ConflictError}


def test_split_shards__in_the_middle_of_a_writer_that_opens__no_row_is_acknowledged_and_lost():
    """The other way round: the split happens between two calls of the writer that takes the shard over."""
    world = begun().copy()
    store, table = watched(world)
    world.writer(0, table)
    count = len(store.calls)
    outcomes = set()
    for nth in shares.some(range(1, count + 1)):
        world = begun().copy()
        store, table = watched(world)
        store.before(ANY, lambda world=world: world.do(world.open(), split(3)), nth=nth)
        try:
            writer = world.writer(0, table)
            outcomes.add("watched")
            number, of = (writer.place.route.number, writer.place.route.count)
            world.put(writer, {next(ids_of(number, of, start=3000)): 6})
            outcomes.add("acknowledged")
        except (ConflictError, FencedError) as error:
            outcomes.add(type(error).__name__)
        go_on(world, 3)
    assert {"ConflictError", "FencedError"} <= outcomes


def test_split_shards__a_stalled_put_lands_at_any_place_of_it__it_is_kept_or_never_acknowledged():
    for nth in places(5):
        world = begun().copy()
        late = world.faulty()
        writer = world.writer(0, world.open(late), max_wal_append_attempts=1)
        id_ = next(ids_of(0, 2, start=4000))
        late.on("create", Fault.DELAY, key="wal/entries")
        late.on(ANY, Fault.REFUSE, key="wal/", nth=2, times=10**9)
        assert told(lambda writer=writer, id_=id_: writer.put(rows_of({id_: 8}))) is not None
        store, table = watched(world)
        store.before(ANY, late.release, nth=nth)
        world.do(table, split(3))
        late.script.clear()
        late.release()
        there = world.open().get([id_]).num_rows
        if there:
            world.book.puts["0000-0000"].append((world.book.ends()["0000-0000"], {id_: 8}))
        assert told(lambda writer=writer, id_=id_: writer.put(rows_of({id_: 9}))) is not None
        go_on(world, 3)


@pytest.mark.parametrize("operation", [upsert({3: 5, 10: 5, 18: 5, 77: 5}), delete(1)], ids=lambda one: one.name)
def test_split_shards__a_change_of_the_table_at_once__both_are_done(operation):
    for nth in places(6):
        world = begun().copy()
        other = world.open()
        store, table = watched(world)
        store.before(ANY, lambda world=world, other=other: world.do(other, operation), nth=nth)
        world.do(table, split(3))
        go_on(world, 3)


# -- writers of all shards ---------------------------------------------------------------------------


def test_writer__table_is_split_while_it_opens_shards__all_are_of_one_map_and_rows_are_where_they_belong():
    world = begun().copy()
    store, table = watched(world)
    writer = table.writer()
    count = len(store.calls)
    writer.close()
    chance = random.Random(7)
    for nth in [*range(1, 12), *chance.sample(range(12, count + 1), 12)]:
        world = begun().copy()
        store, table = watched(world)
        store.before(ANY, lambda world=world: world.do(world.open(), split(3)), nth=nth)
        with table.writer(ShardWriterConfig(max_wal_flush_interval_ms=3_600_000)) as writer:
            maps = {one.place.name[:4] for one in writer.writers}
            assert len(maps) == 1
            error = told(lambda writer=writer: writer.put(rows_of(dict.fromkeys(range(30), 3))))
        assert not store.pending
        if error is None:
            assert maps == {"0001"}
            position = {one.place.name: one.wal_stats().next_wal_entry_position - 1 for one in writer.writers}
            for number, one in enumerate(writer.writers):
                mine = {id_: 3 for id_ in range(30) if number_of(id_, 3) == number}
                world.book.puts.setdefault(one.place.name, []).append((position[one.place.name], mine))
        else:
            assert isinstance(error, FencedError)
        go_on(world, 3)


def test_writer__shards_are_fewer_by_now__old_numbers_are_not_found():
    world = begun().copy()
    world.do(world.open(), split(1))
    assert isinstance(told(lambda: world.writer(1)), NotFoundError)
