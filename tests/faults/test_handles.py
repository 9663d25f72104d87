"""Handles: what closing releases, what a forked child is told, and what an operation costs that is run once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from siltstone import paths
from siltstone.commit.connect import open_registry
from siltstone.errors import ClosedError, ForkedError, UnsafeStoreError
from siltstone.format.records import encode_entry
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.testing.peek import bodies
from siltstone.testing.stores import Interleaves
from worlds import MODES, World

OP = "ab" * 16
CHILD_SECONDS_MAX = 3

# -- closing --------------------------------------------------------------------------------------------------


def test_close__commit_store_opened_from_a_uri__is_closed(tmp_path):
    with open_log(tmp_path / "log", commits=f"sqlite://{tmp_path}/claims.db", create=True) as log:
        log.add(b"x")
        registry = log.commits.registry
    with pytest.raises(ClosedError):
        registry.identity()


def test_entries__log_and_its_commit_store_were_closed__reads_what_is_published(tmp_path):
    with open_log(tmp_path / "log", commits=f"sqlite://{tmp_path}/claims.db", create=True) as log:
        log.add(b"x")
    assert bodies(log) == [b"x"]
    assert log.tip().position == 1


def test_close__store_replaced_the_last_entry__commit_store_is_closed_all_the_same(tmp_path):
    log = open_log(tmp_path / "log", commits=f"sqlite://{tmp_path}/claims.db", create=True)
    mark = log.add(b"x")
    log.store.put(paths.entry("", 0), encode_entry(log._header(log.start, 0, OP, "data"), b"other"))
    with pytest.raises(UnsafeStoreError):
        log.close()
    with pytest.raises(ClosedError):
        log.commits.registry.identity()
    with pytest.raises(ClosedError):
        log.append(b"y", after=mark)


def test_close__commit_store_was_passed_in__stays_open(tmp_path):
    with open_registry(f"sqlite://{tmp_path}/claims.db") as registry:
        with open_log(tmp_path / "log", commits=registry, create=True) as log:
            log.add(b"x")
        assert registry.identity() == log.identity.commits_identity
        assert open_log(tmp_path / "log", commits=registry).add(b"y").position == 2


# -- forking -----------------------------------------------------------------------------------------------------

CALLS = {
    "add": lambda log, _: log.add(b"child"),
    "append": lambda log, mark: log.append(b"child", after=mark),
    "fence": lambda log, _: log.fence(1),
    "truncate": lambda log, mark: log.truncate(mark),
}


def in_a_child(call) -> int:
    """The exit code of a forked child that makes a call: 0 where it was told that it was forked."""
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_SECONDS_MAX)  # ends a child that hangs
        try:
            call()
        except ForkedError:
            os._exit(0)
        except BaseException:
            os._exit(2)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("call", [*CALLS])
def test_log__forked_while_a_thread_appends__child_is_told_and_parent_works_on(tmp_path, call):
    store = Interleaves(open_store(tmp_path, sync=False))
    log = open_log(store, create=True, probe=False)
    mark = log.add(b"zero")
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        go_on.wait()

    store.before("create", wait, key=f"{paths.ENTRIES}/")
    thread = threading.Thread(target=log.add, args=(b"one",))
    thread.start()
    inside.wait()
    try:
        assert in_a_child(lambda: CALLS[call](log, mark)) == 0
    finally:
        go_on.set()
        thread.join()
    log.add(b"two")
    assert bodies(open_log(tmp_path)) == [b"zero", b"one", b"two"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("call", [*CALLS])
def test_log__opened_before_the_fork__child_is_told(tmp_path, call):
    log = open_log(tmp_path, create=True, probe=False, sync=False)
    mark = log.add(b"zero")
    assert in_a_child(lambda: CALLS[call](log, mark)) == 0
    assert bodies(log) == [b"zero"]


# -- once, behind a mark ------------------------------------------------------------------------------------------


def filled(mode: str, count: int):
    """A world with so many entries, and the mark behind the last one."""
    world = World(mode)
    log = world.open()
    for number in range(count):
        mark = log.add(b"%d" % number)
    return world, mark


def cost(mode: str, count: int) -> tuple[int, list[str]]:
    """Calls that an operation takes behind the last entry of a log of some length, and the entries it read."""
    world, mark = filled(mode, count)
    log = world.open(store := world.fault_store())
    store.calls.clear()
    assert log.add(b"x", op=OP, since=mark).position == count + 1
    reads = [call.key for call in store.calls if call.verb == "get" and call.key.startswith(paths.ENTRIES)]
    return len(store.calls), [key for key in reads if paths.parse_entry("", key)[0] < count - 1]


@pytest.mark.parametrize("mode", MODES)
def test_add__op_behind_a_mark__costs_the_same_in_a_long_log(mode):
    calls, older = cost(mode, 300)
    assert older == []
    assert calls == cost(mode, 5)[0]


@pytest.mark.parametrize("mode", MODES)
def test_add__op_behind_a_mark_is_there__is_not_added_again(mode):
    world, mark = filled(mode, 5)
    end = world.open().add(b"x", op=OP, since=mark)
    world.open().add(b"others")
    assert world.open().add(b"x", op=OP, since=mark) == end
    assert [entry.op for entry in world.check()].count(OP) == 1


@pytest.mark.parametrize("mode", MODES)
def test_add__op_behind_a_mark_that_was_truncated__is_looked_for_from_the_floor_on(mode):
    world, mark = filled(mode, 5)
    log = world.open()
    middle = log.add(b"middle")
    end = log.add(b"x", op=OP)
    log.truncate(middle)
    assert world.open().add(b"x", op=OP, since=mark) == end
    assert [entry.op for entry in world.check()].count(OP) == 1
