"""Spreading keys over another number of shards: cut off, twice at once, and while writers are at work.

What must hold each time: the rows are those of the acknowledged operations, each key is in the shard that it belongs
to, and a writer of an old shard acknowledges nothing that the new ones don't have.
"""

from __future__ import annotations

import functools
import itertools
import random

import pyarrow as pa
import pytest

from shard_models import (
    MERGE,
    WRITES,
    World,
    append,
    delete,
    ids_of,
    number_of,
    rows_of,
    split,
    stages,
    told,
    upsert,
)
from siltstone.api import create_table
from siltstone.errors import ConflictError, FencedError, InvalidInputError, NotFoundError, SiltstoneError
from siltstone.shard.config import ShardWriterConfig
from siltstone.testing.script import ANY, Crashed, Fault

DAY_S = 86_400
PLACES = 24  # that a test looks at, of about 80
BEFORE = {id_: id_ for id_ in range(12)}


@functools.cache
def begun(shards=2):
    """Rows in the table, in fragments of shards, and in their WALs."""
    world = World(shards=shards)
    table = world.open()
    world.do(table, append(BEFORE))
    writers = world.writers(table)
    world.put_all(writers, {id_: id_ + 100 for id_ in range(8, 16)})
    for writer in writers:
        world.flush(writer)
    world.put_all(writers, {id_: id_ + 200 for id_ in range(12, 20)})
    world.delete(writers[number_of(3, shards)], [3])
    return world


def opened(world):
    store = world.interleaves()
    table = world.open(store, patience_s=10 * DAY_S)
    store.calls.clear()
    return store, table


@functools.cache
def calls():
    """The store calls of a split."""
    store, table = opened(begun().copy())
    table.split_shards(3)
    return store.calls


def places(seed):
    """Some of the places of a split where something else may happen."""
    found = stages(calls())
    return sorted(random.Random(seed).sample(found, PLACES))


def go_on(world, count):
    """The new shards can be written, each key goes to the right one, and nobody can have an old one."""
    table = world.open()
    assert table._now().sharding.count == count
    assert [one.sealed for one in table.shards()] == [False] * count
    writers = world.writers(table)
    world.put_all(writers, {id_: id_ + 900 for id_ in range(0, 30, 2)})
    wrong = next(id_ for id_ in range(100) if number_of(id_, count) != 0) if count > 1 else None
    if wrong is not None:
        assert isinstance(told(lambda: writers[0].put(rows_of({wrong: 1}))), InvalidInputError)
    return world.check(merge=False)


# -- what it does ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_split_shards__more_fewer_or_as_many__rows_stay_and_keys_are_spread_anew(count):
    world = begun().copy()
    before = world.check(merge=False)
    done = world.do(world.open(), split(count))
    assert done.operation == "split"
    assert world.check() == before
    go_on(world, count)


def test_split_shards__again_and_again__each_map_is_written_to():
    world = begun().copy()
    for count in (3, 1, 4):
        world.do(world.open(), split(count))
        go_on(world, count)
    assert world.open()._now().sharding.map == 3


def test_split_shards__of_a_table_without_any__gives_it_some():
    world = World()
    world.bucket.objects.clear()
    world.bucket.keys.clear()
    create_table(world.store(), schema=world_schema(), key="id", probe=False, env=world.env())
    world.do(world.open(), append(BEFORE))
    world.do(world.open(), split(2))
    go_on(world, 2)


def world_schema():
    return pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64()), ("note", pa.string())])


def test_split_shards__of_a_table_without_a_key__is_refused():
    world = World(keyed=False)
    with pytest.raises(InvalidInputError, match="without a key"):
        world.open().split_shards(2)


@pytest.mark.parametrize("count", [0, -1, 10_000, 2.0, "2", None, True])
def test_split_shards__into_no_number_of_shards__is_refused_and_nothing_is_sealed(count):
    world = begun().copy()
    with pytest.raises(InvalidInputError, match="number of shards"):
        world.open().split_shards(count)
    assert not any(one.sealed for one in world.open().shards())


def test_split_shards__shards_that_nobody_wrote_to__are_sealed_too():
    world = World(shards=2)
    table = world.open()
    earlier = world.open()
    earlier.refresh()
    world.do(table, split(3))
    go_on(world, 3)


# -- afterwards --------------------------------------------------------------------------------------


def test_split_shards__a_day_later__rows_of_the_old_shards_are_gone_and_the_seals_stay():
    world = begun().copy()
    stalled = world.writers()
    world.do(world.open(), split(3))
    for name in ("0000-0000", "0000-0001"):
        assert world.shard_keys(name, "data/"), "whoever reads them may go on for a while"
    world.clock.advance(DAY_S)
    world.open().merge_shards()
    for name in ("0000-0000", "0000-0001"):
        assert world.shard_keys(name, "data/") == []
        assert world.shard_keys(name, "wal/entries/") == []
        assert len(world.shard_keys(name, "wal/floor/")) == 1
        assert world.shard_keys(name, "wal/identity")
        assert world.shard_keys(name, "manifest/identity")
        assert world.shard_keys(name, "manifest/entries/")
    for number, writer in enumerate(stalled):
        error = told(lambda writer=writer, number=number: writer.put(rows_of({next(ids_of(number, 2)): 1})))
        assert isinstance(error, SiltstoneError), "it was acknowledged into a shard that is no more"
    go_on(world, 3)


def test_split_shards__a_day_later_and_a_flush_was_cut_off_before__its_file_goes_too():
    world = begun().copy()
    store = world.faulty()
    writer = world.writer(0, world.open(store))
    world.put(writer, {next(ids_of(0, 2, start=50)): 1})
    store.on("create", Fault.CRASH_BEFORE, key="manifest/entries")
    with pytest.raises(Crashed):
        world.flush(writer)
    world.do(world.open(), split(3))
    world.clock.advance(DAY_S)
    world.open().merge_shards()
    assert world.shard_keys("0000-0000", "data/") == []
    go_on(world, 3)


def test_merge_shards__old_shards_are_clean__looks_at_none_of_their_logs():
    world = begun().copy()
    world.do(world.open(), split(3))
    for _ in range(2):
        world.clock.advance(DAY_S)
        world.open().merge_shards()
    store, table = opened(world)
    table.merge_shards()
    assert [call for call in store.calls if "shards/0000" in call.key] == []


# -- cut off -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda fault: fault.name)
def test_split_shards__cut_off_anywhere__rows_are_there_and_another_one_ends_it(fault):
    before = begun().check(merge=False)
    # Whether it ends before a read, or after one, is all the same to others.
    for nth in [nth for nth, call in enumerate(calls(), 1) if call.verb in WRITES]:
        world = begun().copy()
        store = world.faulty()
        table = world.open(store)
        store.script.clear()
        store.on(ANY, fault, nth=nth)
        with pytest.raises(Crashed):
            table.split_shards(3)
        assert world.check(merge=nth % 2 == 0) == before
        after = world.open()
        if after._now().sharding.map == 0:
            world.do(after, split(3))
        go_on(world, 3)


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.REFUSE, Fault.EXISTS_OWN], ids=lambda fault: fault.name)
def test_split_shards__a_store_call_goes_wrong__it_is_done_all_the_same(fault):
    before = begun().check(merge=False)
    for nth in itertools.count(1, 4):
        world = begun().copy()
        store = world.faulty()
        table = world.open(store)
        store.script.clear()
        store.on(ANY, fault, nth=nth)
        error = told(lambda: table.split_shards(3))
        reached = sum(store.script.applies(fault, call.verb) for call in store.calls) >= nth
        if error is not None:  # some calls are not tried again by themselves; the whole is
            world.open().split_shards(3)
        assert world.check(merge=False) == before
        if not reached:
            break


def test_split_shards__cut_off_between_seal_and_version__shards_can_be_read_merged_and_not_written():
    world = begun().copy()
    before = world.check(merge=False)
    store, table = opened(world)

    def end():
        raise Crashed("before the version")

    store.before("create", end, key="log/entries")
    with pytest.raises(Crashed):
        table.split_shards(3)
    other = world.open()
    assert [one.sealed for one in other.shards()] == [True, True]
    error = told(lambda: world.writer(0, other))
    assert isinstance(error, ConflictError)
    assert "sealed" in error.message
    assert isinstance(told(other.writer), ConflictError)
    world.do(other, upsert({500: 1}))
    world.do(other, MERGE)
    assert world.check() == {**before, 500: 1}
    world.do(other, split(4))
    go_on(world, 4)


# -- at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 5])
def test_split_shards__two_at_once__one_wins_and_the_other_is_told(count):
    for nth in places(1):
        world = begun().copy()
        other = world.open()
        store, table = opened(world)
        store.before(ANY, lambda world=world, other=other: world.do(other, split(count)), nth=nth)
        error = told(lambda world=world, table=table: world.do(table, split(3)))
        now = world.open()._now().sharding
        if error is not None:
            assert isinstance(error, ConflictError), error
            assert (count, now.count, now.map) == (5, 5, 1)
        else:
            # The second one may have begun when the first was over.
            assert (now.count, now.map) in {(3, 1), (3, 2), (count, 2), (count, 1)}
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
        store, table = opened(world)
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
        store, table = opened(world)
        store.before(
            ANY, lambda world=world, writers=writers: [told(partial_flush(world, one)) for one in writers], nth=nth
        )
        world.do(table, split(3))
        go_on(world, 3)


def partial_flush(world, writer):
    return functools.partial(world.flush, writer)


def test_split_shards__a_writer_opens_and_puts_at_any_place__it_is_refused_or_its_row_is_kept():
    told_of = set()
    for nth in places(4):
        world = begun().copy()
        store, table = opened(world)
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
    store, table = opened(world)
    world.writer(0, table)
    count = len(store.calls)
    outcomes = set()
    for nth in range(1, count + 1):
        world = begun().copy()
        store, table = opened(world)
        store.before(ANY, lambda world=world: world.do(world.open(), split(3)), nth=nth)
        try:
            writer = world.writer(0, table)
            outcomes.add("opened")
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
        store, table = opened(world)
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
        store, table = opened(world)
        store.before(ANY, lambda world=world, other=other: world.do(other, operation), nth=nth)
        world.do(table, split(3))
        go_on(world, 3)


# -- writers of all shards ---------------------------------------------------------------------------


def test_writer__table_is_split_while_it_opens_shards__all_are_of_one_map_and_rows_are_where_they_belong():
    world = begun().copy()
    store, table = opened(world)
    writer = table.writer()
    count = len(store.calls)
    writer.close()
    chance = random.Random(7)
    for nth in [*range(1, 12), *chance.sample(range(12, count + 1), 12)]:
        world = begun().copy()
        store, table = opened(world)
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
