"""Spreading keys over another number of shards: what it does, what it leaves, and a split that was cut off."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from shard_models import (
    BEFORE,
    DAY_S,
    MERGE,
    WRITES,
    World,
    append,
    ids_of,
    rows_of,
    split,
    told,
    upsert,
    watched,
)
from siltstone.errors import ConflictError, InvalidInputError, LimitExceededError, SiltstoneError
from siltstone.format.table import Sharding
from siltstone.shard.split import check_count
from siltstone.testing.script import ANY, Crashed, Fault
from split_tables import begun, calls, go_on

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
    world = World(shards=None)
    world.do(world.open(), append(BEFORE))
    world.do(world.open(), split(2))
    go_on(world, 2)


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


def test_split_shards__no_name_is_left_for_a_shard__is_refused():
    assert check_count(3, Sharding(count=2, map=9998)) == 3
    with pytest.raises(LimitExceededError, match="split 9999 times"):
        check_count(3, Sharding(count=2, map=9999))


def test_split_shards__shards_that_nobody_wrote_to__are_sealed_too():
    world = World(shards=2)
    world.do(world.open(), split(3))
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
    store, table = watched(world)
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
    for nth in itertools.count(1, 6):
        world = begun().copy()
        store = world.faulty()
        table = world.open(store)
        store.script.clear()
        store.on(ANY, fault, nth=nth)
        error = told(partial(table.split_shards, 3))
        reached = sum(store.script.applies(fault, call.verb) for call in store.calls) >= nth
        if error is not None:  # some calls are not tried again by themselves; the whole is
            world.open().split_shards(3)
        assert world.check(merge=False) == before
        if not reached:
            break


def test_split_shards__cut_off_between_seal_and_version__shards_can_be_read_merged_and_not_written():
    world = begun().copy()
    before = world.check(merge=False)
    store, table = watched(world)

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
