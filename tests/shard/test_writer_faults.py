"""A writer's calls to its store go wrong, one by one and in every way: what was acknowledged is there, and once."""

from __future__ import annotations

import itertools

import pytest

import shares
import siltstone as ss
from shard_worlds import MODES, SCHEMA, ShardWorld, attempt, rows, seeded
from siltstone.commit.memory import MemoryService
from siltstone.errors import CommitUnknownError, WriterStoppedError
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import manual_env
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.script import ANY, Fault
from siltstone.testing.stores import FaultStore
from worlds import FOR_EVER, ONCE

WAL = "shards/a/wal/entries/"
MANIFEST = "shards/a/manifest/entries/"
DATA = "shards/a/data/"


# -- workflows: each gets a world and a store that fails at some call ------------------------------


def life(world, store, **options):
    """A writer from its first call to its last."""
    writer = attempt(world.writer, store, **options)
    if isinstance(writer, BaseException):
        return writer
    world.put(writer, 10)
    world.put(writer, 11, 12)
    attempt(writer.freeze)
    attempt(writer.flush_memtables)
    world.put(writer, 13)
    return attempt(writer.close)


def queued(world, store):
    """Rows that nobody waits for, made durable together by ``close``."""
    writer = healthy(world, store)
    ids = [20, 21, 22]
    acks = [attempt(writer.put, rows(one), wait=False) for one in ids]
    told = attempt(writer.close)
    for one, ack in zip(ids, acks, strict=True):
        if told is None:
            assert ack.done
        if ack.done:
            world.acknowledged.append(one)
        elif isinstance(told, WriterStoppedError):
            world.refused[one] = told
        else:
            world.unknown.append(one)
    return told


def two_flushes(world, store):
    """Two memtables wait when the first flush begins; what fails is tried again."""
    writer = healthy(world, store)
    world.put(writer, 30)
    attempt(writer.freeze)
    world.put(writer, 31)
    attempt(writer.freeze)
    attempt(writer.flush_memtables)
    attempt(writer.flush_memtables)
    world.put(writer, 32)
    return writer


def healthy(world, store):
    """A writer that was opened before the store began to fail."""
    rules, store.script._rules = store.script._rules, []
    writer = world.writer(store)
    store.script.calls.clear()
    store.script._rules = rules
    return writer


WORKFLOWS = {"life": life, "queued": queued, "two flushes": two_flushes}
DOWN = (Fault.REFUSE, Fault.LOSE, Fault.DENY, Fault.DELAY, Fault.FULL)
WAYS = [(fault, 1) for fault in ONCE] + [(fault, FOR_EVER) for fault in DOWN]


def each_call(workflow, fault, *, times=1):
    """Worlds in which the n-th call of a workflow met a fault, for every n that it has; for one at least."""
    share = shares.calls()
    first = next(share)
    for nth in itertools.chain(sorted({1, first}), share):  # a workflow may have fewer calls than the share's first
        world = seeded()
        store = world.fault_store()
        store.on(ANY, fault, nth=nth, times=times)
        result = attempt(workflow, world, store)
        reached = sum(store.script.applies(fault, call.verb) for call in store.calls) >= nth
        yield world, store, result, reached
        if not reached:
            return


@pytest.mark.parametrize(("fault", "times"), WAYS, ids=lambda one: getattr(one, "name", one))
@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_writer__a_store_call_goes_wrong__what_was_acknowledged_is_there_once(workflow, fault, times):
    reached = 0
    for world, store, _, was_reached in each_call(WORKFLOWS[workflow], fault, times=times):
        if fault is Fault.DELAY:
            world.check()
        store.script.clear()
        store.release()  # what was delayed happens now
        world.go_on()
        reached += was_reached
    assert reached


@pytest.mark.parametrize(
    "fault", [Fault.REFUSE, Fault.LOSE, Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda one: one.name
)
def test_writer__a_call_to_its_commit_store_goes_wrong__what_was_acknowledged_is_there_once(fault):
    for nth in shares.calls():
        world = ShardWorld(service=MemoryService())
        world.put(world.writer(), 1)
        registry = FaultRegistry(world.registry())
        registry.script.on(ANY, fault, nth=nth)
        attempt(life, world, None, registry=registry)
        reached = len(registry.calls) >= nth
        registry.script.clear()
        world.go_on()
        if not reached:
            break
    assert nth > 10


# -- appends that fail -----------------------------------------------------------------------------


def batches(world):
    return [ids for _, ids in world.entries()]


@pytest.mark.parametrize("enable_memtable", [True, False])
def test_put__an_append_fails_and_then_works__batches_are_written_in_order_and_none_is_dropped(enable_memtable):
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, enable_memtable=enable_memtable, max_wal_append_attempts=3)
    acks = [writer.put(rows(one), wait=False) for one in (1, 2, 3)]
    store.on("create", Fault.DENY, key=WAL, times=2)
    world.put(writer, 4)
    assert all(ack.done for ack in acks)
    assert batches(world) == [[1, 2, 3, 4]]
    assert writer.wal_stats().retries == 2
    assert writer.wal_stats().pending_batches == writer.wal_stats().pending_bytes == 0


def test_put__an_append_fails_while_others_queue__what_was_under_way_comes_first():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, max_wal_append_attempts=2)
    writer.put(rows(1), wait=False)
    store.on("create", Fault.DENY, key=WAL)
    store.on("create", Fault.CRASH_BEFORE, key=WAL, nth=2)
    world.put(writer, 2)  # ends as if this thread were interrupted while it tries again
    writer.put(rows(3), wait=False)
    world.acknowledged += [1]
    world.put(writer, 4)
    assert batches(world) == [[1, 2], [3, 4]]
    world.acknowledged += [3]
    world.unknown.remove(2)
    world.acknowledged += [2]
    world.go_on()


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.FAIL_AFTER, Fault.EXISTS_OWN], ids=lambda fault: fault.name)
def test_put__answer_of_an_append_is_lost__is_acknowledged_and_there_once(fault):
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    store.on("create", fault, key=WAL)
    world.put(writer, 1)
    assert world.acknowledged == [1]
    assert batches(world) == [[1]]


def test_put__all_attempts_of_an_append_end_in_doubt__writer_is_stopped_and_the_next_one_has_it_once():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, max_wal_append_attempts=2)
    world.put(writer, 1)
    store.on("create", Fault.LOSE, key=WAL, times=FOR_EVER)
    store.on("get", Fault.REFUSE, key=WAL, times=FOR_EVER)
    told = world.put(writer, 2)
    assert isinstance(told, CommitUnknownError)
    assert "in 2 attempts" in told.message
    assert "open the writer again" in told.hint
    assert set(told.facts) >= {"op", "position"}
    later = world.put(writer, 3)
    assert isinstance(later, WriterStoppedError)
    assert "was stopped" in later.message
    store.script.clear()
    assert isinstance(world.put(writer, 4), WriterStoppedError), "a stopped writer stays so"
    assert batches(world) == [[1], [2]]
    world.go_on()


@MODES
def test_stats__of_a_stopped_writer__say_what_stopped_it(enable_memtable):
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, max_wal_append_attempts=2, enable_memtable=enable_memtable)
    world.put(writer, 1)
    assert (writer.stats().last_error, writer.wal_stats().last_error) == ("", "")
    store.on("create", Fault.REFUSE, key=WAL, times=FOR_EVER)
    told = world.put(writer, 2)
    assert isinstance(told, CommitUnknownError)
    assert writer.stats().last_error == told.message
    assert "2 attempts" in told.message
    assert "scripted" in writer.wal_stats().last_error
    later = world.put(writer, 3)
    assert isinstance(later, WriterStoppedError)
    assert not later.retryable, "a loop on it would never end"
    assert (later.facts["shard"], later.facts["table"]) == ("a", world.table().uri)
    assert "open the writer again" in later.hint
    writer.close()
    assert writer.stats().last_error == told.message, "closing it does not hide that"


def test_wal_stats__an_attempt_failed_and_the_next_did_not__has_the_error():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    store.on("create", Fault.DENY, key=WAL)
    world.put(writer, 1)
    assert world.acknowledged == [1]
    assert "scripted" in writer.wal_stats().last_error
    assert writer.stats().last_error == "", "the writer goes on"


def test_stats__one_shard_of_a_routed_writer_is_stopped__its_own_say_so():
    store = FaultStore(MemoryStore(bucket=MemoryBucket()))
    table = ss.create(store, schema=SCHEMA, key="id", shards=2, probe=False, env=manual_env(0))
    writer = table.writer(ss.ShardWriterConfig(max_wal_append_attempts=1))
    assert not writer.is_stopped
    store.on("create", Fault.DENY, key="shards/0000-0001/wal/entries/", times=FOR_EVER)
    ids = {table.shard_of(number)[0]: number for number in range(50)}
    writer.put(rows(ids[0]))
    with pytest.raises(WriterStoppedError, match="not in the WAL"):
        writer.put(rows(ids[1]))
    assert writer.is_stopped
    assert [bool(one.last_error) for one in writer.stats()] == [False, True]
    writer.close()


def test_put__doubt_is_followed_by_a_definite_refusal__is_not_told_that_nothing_was_written():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, max_wal_append_attempts=2)
    # The first attempt is written and nobody says so; the second one is refused for good.
    store.on("create", Fault.LOSE, key=WAL)
    store.on("create", Fault.DENY, key=WAL, nth=2, times=FOR_EVER)
    told = world.put(writer, 1)
    assert isinstance(told, CommitUnknownError)
    assert world.check() == [1]


def test_put__all_attempts_are_refused__rows_are_not_there_and_the_error_says_so():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, max_wal_append_attempts=4)
    world.put(writer, 1)
    store.on("create", Fault.DENY, key=WAL, times=FOR_EVER)
    told = world.put(writer, 2)
    assert isinstance(told, WriterStoppedError)
    assert "not in the WAL" in told.message
    assert len([call for call in store.calls if call.verb == "create" and WAL in call.key]) == 1 + 4
    assert world.check() == [1]
    store.script.clear()
    world.go_on()


def test_close__rows_nobody_waited_for_could_not_be_written__tells_it():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, durable_write=False, max_wal_append_attempts=1)
    writer.put(rows(1))
    store.on("create", Fault.DENY, key=WAL, times=FOR_EVER)
    with pytest.raises(WriterStoppedError, match="not in the WAL"):
        writer.flush_unasked()  # as the writer's own thread does: nobody hears of it
    writer_too = pytest.raises(WriterStoppedError, match="not in the WAL")
    with writer_too:
        writer.close()
    writer.close()
    assert world.check() == []


def test_close__of_a_stopped_writer_whose_puts_were_told__raises_nothing():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store, max_wal_append_attempts=1)
    store.on("create", Fault.DENY, key=WAL, times=FOR_EVER)
    assert isinstance(world.put(writer, 1), WriterStoppedError)
    writer.close()


def test_close__store_is_away_and_all_is_durable__raises_nothing():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    world.put(writer, 1)
    store.on(ANY, Fault.REFUSE, times=FOR_EVER)
    writer.close()
    assert world.check() == [1]
