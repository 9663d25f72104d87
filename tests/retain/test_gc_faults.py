"""Every store call of a collection goes wrong, in every way; and whoever else is at work acts between any two of them.

What must hold afterwards, to whoever knows nothing of it: every version that is kept reads as it did, what was
acknowledged is there, what was refused is not, and the next collection ends what this one began.
"""

from __future__ import annotations

import contextlib
import functools

import pytest

import shares
from gc_models import DAY_S, GcWorld, content, grown, rows_of, told
from shard_models import stages
from siltstone import paths
from siltstone.errors import ConflictError, NotFoundError, SiltstoneError, TruncatedError
from siltstone.testing.script import ANY, Crashed, Fault

KEEPS = {"keep_days": 0}


@functools.cache
def begun(*, sharded=False):
    """A table that has something of every kind to let go of."""
    world = grown(shards=1 if sharded else None)
    table = world.open()
    table.checkpoint("stays", keep_days=100)
    if sharded:
        writer = world.writer(0, table)
        for number in range(3):
            world.put(writer, {40 + number: number})
            world.flush(writer)
        table.merge_shards()
        world.put(writer, {50: 50})
        world.flush(writer)
    table.upsert(rows_of({5: 5}))
    table.compact()
    world.note()
    world.store().put(paths.data(paths.name(1, "ab" * 16)), b"left by a crash")
    world.clock.advance(8 * DAY_S)
    table.gc(keep_days=0, keep_versions=3)  # some of the log is below its floor by now
    table.checkpoint("over", keep_days=1)
    table.overwrite(rows_of(dict.fromkeys(range(12), 0)))
    world.note()
    world.clock.advance(2 * DAY_S)
    return world


def calls_of(world):
    store = world.interleaves()
    table = world.open(store)
    store.calls.clear()
    table.gc(**KEEPS)
    return store.calls


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharded", [False, True], ids=["plain", "shards"])
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOSE, Fault.REFUSE, Fault.DENY])
def test_gc__a_call_goes_wrong__nothing_is_lost_and_the_next_one_ends_it(fault, sharded):
    calls = calls_of(begun(sharded=sharded).copy())
    writes = [nth for nth, call in enumerate(calls, 1) if call.verb in {"create", "put", "copy", "delete"}]
    # Whether something ends before a read or after it is all the same to others.
    for nth in shares.some(stages(calls)) if fault in {Fault.REFUSE, Fault.DENY} else shares.some(writes, 2):
        world = begun(sharded=sharded).copy()
        store = world.faulty()
        table = world.open(store)
        store.script.clear()
        store.on(ANY, fault, nth=nth)
        with contextlib.suppress(SiltstoneError, Crashed):
            table.gc(**KEEPS)
        state = world.check()
        assert "stays" in state.checkpoints
        done = world.open().gc(**KEEPS)
        assert done.left == ()
        world.check(clean=True)
        if nth % 10 == 0:
            world.idle()


# -- races -----------------------------------------------------------------------------------------


def do_nothing(world):
    del world


def do_tag(world, _):
    table = world.open()
    floor = table._now().floor
    result = told(lambda: world.open().tag("mine", version=floor))
    assert not isinstance(result, Exception) or isinstance(result, TruncatedError), result
    if isinstance(result, Exception):
        return None
    return lambda: content(world.open().at(tag="mine").scan()) == world.rows[floor]


def do_restore(world, _):
    result = told(lambda: world.open().restore(tag="old"))
    assert not isinstance(result, Exception), result


def do_restore_floor(world, floor):
    result = told(lambda: world.open().restore(version=floor))
    assert not isinstance(result, Exception) or isinstance(result, TruncatedError), result


def do_floor_of(world):
    return world.open()._now().floor


def do_untag(world, _):
    world.open().untag("old")


def do_begin(world):
    slow = world.open().transaction()
    slow.upsert(rows_of({7: 77, 8: 88}))
    world.open().upsert(rows_of({9: 99}))  # so that the floor can go further
    world.note()
    return slow


def do_commit(world, slow):
    result = told(slow.commit)
    assert not isinstance(result, Exception) or isinstance(result, ConflictError), result
    there = not isinstance(result, Exception)
    return lambda: (world.open().get([7]).column("n").to_pylist() == [77]) == there


def do_upsert(world, _):
    world.open().upsert(rows_of({1: 11, 60: 60}))


def do_compact(world, _):
    world.open().compact()


def do_refresh(world, _):
    result = told(lambda: world.open().refresh_checkpoint("over", keep_days=50))
    assert not isinstance(result, Exception) or isinstance(result, NotFoundError), result
    there = not isinstance(result, Exception)
    return lambda: ("over" in world.open()._now().checkpoints) == there


def do_checkpoint(world, _):
    made = world.open().checkpoint("another", keep_days=50)
    return lambda: content(world.open().at(checkpoint="another").scan()) == world.rows[made.version]


def do_collect(world, _):
    world.open().gc(**KEEPS)


def do_collect_all(world, _):
    for _ in range(2):
        world.clock.advance(2 * DAY_S)
        world.open().gc(**KEEPS)


# What others do while a collection is under way: (before it begins, in between).
RIVALS = {
    "tag": (do_nothing, do_tag),
    "restore a tag": (do_nothing, do_restore),
    "restore the floor": (do_floor_of, do_restore_floor),
    "untag": (do_nothing, do_untag),
    "commit what was begun before": (do_begin, do_commit),
    "upsert": (do_nothing, do_upsert),
    "compact": (do_nothing, do_compact),
    "refresh an expired checkpoint": (do_nothing, do_refresh),
    "checkpoint": (do_nothing, do_checkpoint),
    "collect": (do_nothing, do_collect),
    "collect, days later": (do_nothing, do_collect_all),
}


@pytest.mark.parametrize("name", RIVALS)
def test_gc__another_acts_in_between__both_hold(name):
    before, rival = RIVALS[name]
    for nth in shares.some(stages(calls_of(begun().copy()))):
        world = begun().copy()
        given = before(world)
        store = world.interleaves()
        table = world.open(store, patience_s=100 * DAY_S)
        store.calls.clear()

        holds = []

        def act(world=world, given=given, holds=holds):
            holds.append(rival(world, given))
            world.note()

        store.before(ANY, act, nth=nth)
        result = told(lambda table=table: table.gc(**KEEPS))
        assert not isinstance(result, Exception), (nth, result)
        assert store.pending == 0
        world.check()
        world.open().gc(**KEEPS)
        world.check(clean=True)
        assert all(one is None or one() for one in holds), nth


@pytest.mark.parametrize("name", ["tag", "restore a tag", "upsert", "compact", "checkpoint", "untag"])
def test_operation__a_collection_in_between__both_hold(name):
    calls = {
        "tag": lambda table: table.tag("mine", version=table._now().floor),
        "restore a tag": lambda table: table.restore(tag="old"),
        "upsert": lambda table: table.upsert(rows_of({1: 11, 60: 60})),
        "compact": lambda table: table.compact(),
        "checkpoint": lambda table: table.checkpoint("another", keep_days=50),
        "untag": lambda table: table.untag("old"),
    }
    call = calls[name]

    def run(world, nth=None):
        store = world.interleaves()
        table = world.open(store, patience_s=100 * DAY_S)
        store.calls.clear()
        if nth is not None:
            store.before(ANY, lambda: collected(world), nth=nth)
        return store, told(lambda: call(table))

    def collected(world):
        for _ in range(2):
            world.note()
            world.open().gc(**KEEPS)
            world.clock.advance(2 * DAY_S)

    def small():
        world = begun().copy()
        world.open().upsert(rows_of({9: 1}))
        world.open().upsert(rows_of({10: 1}))
        world.note()
        return world

    count = len(run(small())[0].calls)
    assert count >= 2
    for nth in shares.some(range(1, count + 1)):
        world = small()
        _, result = run(world, nth)
        fine = not isinstance(result, Exception) or isinstance(result, ConflictError | TruncatedError)
        assert fine, (nth, result)
        world.check()
        world.open().gc(**KEEPS)
        world.check(clean=True)


def test_gc__restore_lands_between_look_and_entry__its_files_stay():
    world = GcWorld()
    table = world.open()
    table.append(rows_of({1: 1}))
    table.overwrite(rows_of({2: 2}))
    table.overwrite(rows_of({3: 3}))
    world.note()
    store = world.interleaves()
    collector = world.open(store)
    store.before("create", lambda: (world.open().restore(version=1), world.note()), key="log/entries")
    collector.gc(**KEEPS)
    assert store.pending == 0
    assert world.check(clean=True).floor == 3
    assert table.scan().to_arrow().column("id").to_pylist() == [1]


def test_gc__two_at_once_step_by_step__one_floor_and_nothing_lost():
    world = begun().copy()
    one, other = world.interleaves(), world.interleaves()
    tables = [world.open(store, patience_s=100 * DAY_S) for store in (one, other)]
    one.before("delete", lambda: tables[1].gc(**KEEPS), key="data/")
    tables[0].gc(**KEEPS)
    world.check(clean=True)
    world.idle()


def test_commit__writer_stalls_in_its_put_until_the_log_is_truncated__is_told_conflict():
    world = grown()
    store = world.interleaves()
    table = world.open(store, patience_s=100 * DAY_S)

    def collected():
        world.open().upsert(rows_of({9: 9}))
        for _ in range(3):
            world.note()
            world.clock.advance(2 * DAY_S)
            world.open().gc(keep_days=0)
        world.open().untag("old")
        for _ in range(3):
            world.note()
            world.clock.advance(2 * DAY_S)
            world.open().gc(keep_days=0)

    position = table._now().mark.position
    slow = table.transaction()
    slow.delete("id = 3")
    store.before("create", collected, key=paths.entry(paths.LOG, position))
    result = told(slow.commit)
    assert isinstance(result, ConflictError), result
    assert "floor" in result.facts
    assert world.open().get([3]).num_rows == 1
    world.check()
    world.idle()
