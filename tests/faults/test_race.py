"""Another writer steps in at every point of a workflow. No threads: each race is made, not hoped for."""

from __future__ import annotations

import itertools

import pytest

from siltstone.errors import CommitUnknownError, ConflictError, FencedError, SiltstoneError, TruncatedError
from worlds import MODES, World, attempt

RIVALS = ("appends one", "appends three", "fences", "truncates all", "appends and truncates all", "dies after staging")


def rival_of(world, how):
    """What another writer does, with a handle that it opened before."""
    log = world.open()
    log.tip()

    def run():
        if how == "appends one":
            world.add(log, b"rival")
        elif how == "appends three":
            for _ in range(3):
                world.add(log, b"rival")
        elif how == "fences":
            log.fence(log.tip().epoch + 1)
        elif how == "truncates all":
            log.truncate(log.tip())
        elif how == "appends and truncates all":
            world.add(log, b"rival")
            log.truncate(log.tip())
        else:
            log.store.put(f"staged/{3:020d}-{world.new_op()}", b"left behind")

    return run


def read_all(log):
    return list(log.entries())


def steps(world_of):
    """Worlds whose n-th store call has a rival right before it, for every call there is (and so after every call)."""
    for nth in itertools.count(1):
        world = world_of()
        store = world.interleaves()
        yield world, store, store.before, nth
        if len(store.calls) < nth:
            return


@pytest.mark.parametrize("how", RIVALS)
@pytest.mark.parametrize("mode", MODES)
def test_append__rival_at_each_call__one_truth_for_both(mode, how):
    for world, store, at, nth in steps(lambda: World(mode).seeded()):
        at("*", rival_of(world, how), nth=nth)
        log = world.open(store)
        tip = attempt(log.tip)
        if not isinstance(tip, SiltstoneError):
            told = world.append(log, tip)
            if isinstance(told, ConflictError):
                assert told.facts["end"] == world.check()[-1].end or how == "appends three"
            else:
                assert not isinstance(told, SiltstoneError) or isinstance(told, FencedError | CommitUnknownError), told
        world.check()
        world.go_on()


@pytest.mark.parametrize("how", RIVALS)
@pytest.mark.parametrize("mode", MODES)
def test_add__rival_at_each_call__is_in_the_log_or_told_why(mode, how):
    for world, store, at, nth in steps(lambda: World(mode).seeded()):
        at("*", rival_of(world, how), nth=nth)
        told = world.add(world.open(store))
        may = (
            (FencedError, CommitUnknownError) if how in {"fences", "truncates all", "appends and truncates all"} else ()
        )
        assert not isinstance(told, SiltstoneError) or isinstance(told, may), f"call {nth}: {told!r}"
        world.check()
        world.go_on()


@pytest.mark.parametrize("how", RIVALS)
@pytest.mark.parametrize("mode", MODES)
def test_entries__rival_at_each_call__unbroken_or_told_that_it_was_truncated(mode, how):
    for world, store, at, nth in steps(lambda: World(mode).seeded(5)):
        at("*", rival_of(world, how), nth=nth)
        reader = world.open(store)
        found = attempt(read_all, reader)
        if isinstance(found, SiltstoneError):
            assert isinstance(found, TruncatedError), f"call {nth}: {found!r}"
            assert "truncates" in how
        else:
            positions = [entry.position for entry in found]
            assert positions == list(range(positions[0], positions[0] + len(positions))) if positions else True
            assert "truncates" in how or len(positions) >= 5


@pytest.mark.parametrize("how", RIVALS)
@pytest.mark.parametrize("mode", MODES)
def test_truncate__rival_at_each_call__nothing_above_the_floor_is_lost(mode, how):
    for world, store, at, nth in steps(lambda: World(mode).seeded(5)):
        at("*", rival_of(world, how), nth=nth)
        log = world.open(store)
        marks = attempt(read_all, log)
        if not isinstance(marks, SiltstoneError) and marks:
            attempt(log.truncate, marks[len(marks) // 2].end)
        world.check()
        world.go_on()


@pytest.mark.parametrize("how", RIVALS)
@pytest.mark.parametrize("mode", MODES)
def test_fence__rival_at_each_call__the_higher_epoch_rules(mode, how):
    for world, store, at, nth in steps(lambda: World(mode).seeded()):
        at("*", rival_of(world, how), nth=nth)
        log = world.open(store)
        done = attempt(log.fence, 5)
        assert not isinstance(done, SiltstoneError) or isinstance(done, FencedError | CommitUnknownError), repr(done)
        world.check()
        if not isinstance(done, SiltstoneError):
            assert world.open().tip().epoch >= 5
            old = world.append(world.open(), done, epoch=4)
            assert isinstance(old, FencedError)
        world.go_on()


@pytest.mark.parametrize("how", RIVALS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["claim", "lookup", "identity"])
@pytest.mark.parametrize("mode", ["external", "fork"])
def test_append__rival_at_a_call_to_the_commit_store__one_truth_for_both(mode, verb, when, how):
    world = World(mode).seeded()
    registry = world.fault_registry()
    log = world.open(registry=registry)
    getattr(registry, when)(verb, rival_of(world, how))
    tip = log.tip()
    told = world.append(log, tip)
    assert not isinstance(told, SiltstoneError) or isinstance(told, ConflictError | FencedError | CommitUnknownError), (
        repr(told)
    )
    world.check()
    world.go_on()


@pytest.mark.parametrize("mode", MODES)
def test_open__two_make_the_log_at_each_call__one_log(mode):
    for world, store, at, nth in steps(lambda: World(mode)):
        rivals = []
        at("*", lambda world=world, rivals=rivals: rivals.append(world.open()), nth=nth)
        log = world.open(store)
        for rival in rivals:
            assert rival.identity == log.identity
            world.add(rival)
        world.add(log)
        assert not world.refused
        world.check()
