"""Each call of a move to another WAL store goes wrong: no acknowledged row is lost or doubled, and others go on."""

from __future__ import annotations

import pytest

from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import SiltstoneError
from siltstone.ids import SystemIds
from siltstone.testing.script import ONLY_FOR, Crashed
from siltstone.testing.stores import Fault
from wal_worlds import SHARD, WalWorld, attempt

FAULTS = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOSE, Fault.REFUSE, Fault.EXISTS_OWN]
MOST = 200


def registries():
    service = MemoryService()
    return lambda: MemoryRegistry(service, ids=SystemIds())


def from_own(commits=None):
    """Rows in the table's own WAL, in a fragment, and merged."""
    world = WalWorld(commits=commits)
    world.life(puts=1)
    world.merge()
    world.life(puts=1, flush=True)
    world.life(puts=2, close=False)
    return world


def from_ended(commits=None):
    """A WAL in another store of which nothing is needed."""
    world = WalWorld(wal="fast", commits=commits)
    world.life("fast", puts=2, flush=True)
    return world


MOVES = {
    "own to another": (from_own, "fast"),
    "ended to another": (from_ended, "faster"),
    "ended to own": (from_ended, None),
}


def opened_and_put(world, wal, table=None):
    """A writer that moves the WAL, puts, flushes and ends."""
    writer = world.writer(wal, store=table)
    world.put(writer)
    writer.freeze()
    writer.flush_memtables()
    world.put(writer)
    writer.close()


def calls_of(make, wal, which, commits):
    world = make(commits() if commits else None)
    store = world.faulty("table" if which == "table" else wal)
    opened_and_put(world, *((wal, store) if which == "table" else (store,)))
    return list(store.calls)


CASES = [
    (move, which, commits)
    for move in MOVES
    for which in ("table", "wal")
    for commits in (None, registries)
    if not (which == "wal" and MOVES[move][1] is None)
]


@pytest.mark.parametrize(("move", "which", "commits"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_writer__a_call_of_its_move_goes_wrong__no_row_is_lost_or_doubled(move, which, commits, fault):
    make, wal = MOVES[move]
    calls = calls_of(make, wal, which, commits)
    assert 5 < len(calls) < MOST
    step = 1 if fault is Fault.CRASH_AFTER and commits is None else 3
    for number in range(0, len(calls), step):
        verb = calls[number].verb
        if verb not in ONLY_FOR.get(fault, {verb}):
            continue
        world = make(commits() if commits else None)
        store = world.faulty("table" if which == "table" else wal)
        nth = sum(call.verb == verb for call in calls[: number + 1])
        store.on(verb, fault, nth=nth)
        told = attempt(opened_and_put, world, *((wal, store) if which == "table" else (store,)))
        assert told is None or isinstance(told, SiltstoneError | Crashed)
        # Whoever comes next goes on, and may move it back and forth.
        given = wal
        if isinstance(attempt(world.ids, given), SiltstoneError):  # it was not moved
            given = "fast" if move != "own to another" else None
        world.check(given)
        world.go_on(wal)
        assert (world.state().wal.store is None) == (wal is None)


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOSE], ids=lambda fault: fault.name)
def test_create__a_call_to_the_wal_store_goes_wrong__the_same_call_ends_it(fault):
    for nth in range(1, 10):
        world = WalWorld()
        store = world.faulty("fast")
        store.on("*", fault, nth=nth)
        opened = attempt(world.writer, store)
        if len(store.calls) < nth:
            break
        del opened
        world.go_on("fast")
        assert world.keys("fast").count("wal-store") == 1
    assert nth > 4


def test_close__the_note_of_its_end_fails__rows_stay_needed():
    world = WalWorld(wal="fast")
    store = world.faulty("table")
    writer = world.writer("fast", store=store)
    world.put(writer)
    writer.freeze()
    writer.flush_memtables()
    store.on("create", Fault.REFUSE, key=f"shards/{SHARD}/manifest/entries", times=10**6)
    writer.close()
    assert world.state().closed is None
    world.check("fast")
    with pytest.raises(SiltstoneError, match="none was given"):
        world.writer()
    world.go_on("fast")
