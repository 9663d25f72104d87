"""Every store call of a checkpoint goes wrong, in every way.

What must hold afterwards, to whoever knows nothing of it: there is no checkpoint, one that is pending, or a whole one;
the same call ends a pending one, with all that is acknowledged by then; writers and merges go on; what was given up is
let go of.
"""

from __future__ import annotations

import pytest

import shares
from checkpoint_worlds import NAME, age, begun, check_kept, pins_of, put, record_of, writers_of
from shard_models import WRITES, told
from siltstone.errors import AlreadyExistsError, InvalidInputError, NotFoundError, SiltstoneError
from siltstone.testing.script import ANY, Crashed, Fault
from worlds import FOR_EVER, ONCE

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
SCOPES = pytest.mark.parametrize("scope", ["all", "durable"])


def faulty(world, fault, nth, *, times=1):
    """A handle whose ``nth`` store call from now on goes wrong."""
    store = world.faulty()
    table = world.open(store)
    store.script.clear()
    store.on(ANY, fault, nth=nth, times=times)
    return store, table


def numbers(fault, call):
    """Which calls to hit. Whether something ends before a read or after it is all the same to others."""
    world = begun()
    store = world.faulty()
    table = world.open(store)
    store.script.clear()
    call(table)
    found = [one for one in store.calls if store.script.applies(fault, one.verb)]
    hits = [nth for nth, one in enumerate(found, 1) if one.verb in WRITES]
    return hits if fault in CRASHES else sorted({*hits, *range(1, len(found) + 1, 7)})


def attempt(call):
    try:
        return told(call)
    except Crashed as error:
        return error


def go_on(world):
    """Rows come, are flushed and merged, and time passes."""
    writers = writers_of(world)
    put(world, writers, dict.fromkeys(range(28, 45), 7))
    age(world, writers)


def end(world, began, *, scope):
    """Whatever is there of a checkpoint, the same call ends it."""
    had = record_of(world)
    again = told(lambda: world.open().checkpoint(NAME, scope=scope, keep_days=40))
    if had is None or had.pending:
        assert again is None, again
        began = world.book.ends()
    else:
        assert isinstance(again, AlreadyExistsError)
    go_on(world)
    check_kept(world, began)
    world.check()


@SCOPES
@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: fault.name)
def test_checkpoint__a_store_call_goes_wrong__the_same_call_ends_it(fault, scope):
    for nth in shares.some(numbers(fault, lambda table: table.checkpoint(NAME, scope=scope, keep_days=40))):
        world = begun()
        began = world.book.ends()
        store, table = faulty(world, fault, nth)
        error = attempt(lambda table=table: table.checkpoint(NAME, scope=scope, keep_days=40))
        store.script.clear()
        if nth % 2:
            go_on(world)  # others work, with what is pending
        store.release()
        had = record_of(world)
        if error is None:
            assert had is not None
            assert not had.pending
        if had is not None and had.pending:
            with pytest.raises(InvalidInputError, match="begun and not ended"):
                world.open().at(checkpoint=NAME)
        end(world, began, scope=scope)


@SCOPES
@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.LOSE, Fault.DENY], ids=lambda fault: fault.name)
def test_checkpoint__the_store_fails_from_some_call_on__is_told_and_the_next_one_ends_it(fault, scope):
    for nth in shares.some(numbers(fault, lambda table: table.checkpoint(NAME, scope=scope, keep_days=40))[::2]):
        world = begun()
        began = world.book.ends()
        store, table = faulty(world, fault, nth, times=FOR_EVER)
        error = attempt(lambda table=table: table.checkpoint(NAME, scope=scope, keep_days=40))
        assert error is None or isinstance(error, SiltstoneError)
        store.script.clear()
        end(world, began, scope=scope)


@pytest.mark.parametrize("fault", CRASHES, ids=lambda fault: fault.name)
def test_checkpoint__cut_off_and_given_up__is_deleted_and_nothing_stays_pinned(fault):
    pending = 0
    for nth in numbers(fault, lambda table: table.checkpoint(NAME, scope="durable")):
        world = begun()
        _, table = faulty(world, fault, nth)
        attempt(lambda table=table: table.checkpoint(NAME, scope="durable"))
        had = record_of(world)
        go_on(world)
        if had is None:
            assert not any(pins_of(world).values()), "a pin came before the entry that names it"
            continue
        pending += had.pending
        world.open().delete_checkpoint(NAME)
        assert not any(pins_of(world).values())
        age(world)
        assert [key for key in world.keys("shards/") if "/data/" in key] == []
        world.check()
    assert pending >= 3


@pytest.mark.parametrize("fault", [one for one in ONCE if one not in CRASHES], ids=lambda fault: fault.name)
def test_delete_checkpoint__a_store_call_goes_wrong__it_is_gone_or_there_whole(fault):
    def calls(table):
        table.checkpoint(NAME, scope="durable")
        table.delete_checkpoint(NAME)

    first = len(numbers(fault, lambda table: table.checkpoint(NAME, scope="durable")))
    for nth in shares.some(range(1, len(numbers(fault, calls)) - first + 2, 2)):
        world = begun()
        began = world.book.ends()
        world.open().checkpoint(NAME, scope="durable")
        store, table = faulty(world, fault, nth)
        attempt(lambda table=table: table.delete_checkpoint(NAME))
        store.script.clear()
        go_on(world)
        store.release()
        if record_of(world) is not None:
            check_kept(world, began)
            world.open().delete_checkpoint(NAME)
        else:
            with pytest.raises(NotFoundError):
                world.open().delete_checkpoint(NAME)
        world.check()


@pytest.mark.parametrize("fault", CRASHES, ids=lambda fault: fault.name)
def test_delete_checkpoint__cut_off__pins_that_stay_are_let_go_with_the_next_one(fault):
    left = 0
    world = begun()
    world.open().checkpoint(NAME, scope="durable")
    for nth in shares.some(range(1, 40)):
        other = world.copy()
        _, table = faulty(other, fault, nth)
        attempt(lambda table=table: table.delete_checkpoint(NAME))
        if record_of(other) is not None:
            other.open().delete_checkpoint(NAME)
        left += any(pins_of(other).values())
        table = other.open()
        table.delete_checkpoint(table.checkpoint("next", scope="durable"))
        assert not any(pins_of(other).values())
        go_on(other)
        other.check()
    assert left, "no crash left a pin behind"
