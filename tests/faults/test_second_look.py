"""Marks that are not one's own, fences that are run again, and places that are claimed but not published."""

from __future__ import annotations

import threading

import pytest

from siltstone.errors import CommitUnknownError, FencedError, InvalidInputError
from siltstone.log import open_log
from siltstone.log.marks import Mark
from siltstone.store import local
from siltstone.store.local import LocalStore
from siltstone.testing.script import Fault
from worlds import MODES, World

OP = "ab" * 16
FOR_EVER = 10**6


@pytest.mark.parametrize("mode", MODES)
def test_add__since_a_mark_of_another_log__is_refused_and_nothing_written(mode):
    world, other = World(mode).seeded(2), World(mode).seeded(10)
    foreign = other.open().tip()
    log = world.open()
    with pytest.raises(InvalidInputError):
        log.add(b"x", op=OP, since=foreign)
    assert len(list(log.entries())) == 2


def test_append__forged_mark_right_at_the_floor__is_refused():
    world = World("conditional").seeded(5)
    log = world.open()
    log.truncate(log.tip())
    with pytest.raises(InvalidInputError):
        log.append(b"x", after=Mark(5, 0, "f" * 64))
    assert log.add(b"goes on").position == 6


def test_find__claimed_and_not_published__is_unknown_not_absent():
    world = World("external").seeded(1)
    log = world.open(store := world.fault_store())
    store.on("create", Fault.REFUSE, key="entries/", times=FOR_EVER)
    with pytest.raises(CommitUnknownError):
        log.add(b"pay", op=OP)
    with pytest.raises(CommitUnknownError):
        log.find(OP)
    assert world.open().find(OP) is not None


def test_fence__again_without_its_witness__is_not_acknowledged():
    world = World("witness").seeded(1)
    log = world.open(store := world.fault_store())
    store.on("put", Fault.REFUSE, key="witness/", times=FOR_EVER)
    for _ in range(2):
        with pytest.raises(CommitUnknownError):
            log.fence(1, op=OP)


def test_fence__same_op_for_an_epoch_that_another_took__is_fenced():
    world = World("conditional").seeded(1)
    first, second = world.open(), world.open()
    first.fence(3, op=OP)
    second.fence(5)
    with pytest.raises(FencedError):
        first.fence(5, op=OP)


def test_fence__lost_without_an_op__does_not_read_the_log():
    world = World("conditional").seeded(40)
    world.open().fence(1)
    log = world.open(store := world.fault_store())
    with pytest.raises(FencedError):
        log.fence(1)
    assert sum(call.verb == "get" for call in store.calls) < 10


def test_close__other_threads_are_reading_through_sqlite__ends_quietly(tmp_path):
    commits = f"sqlite:{tmp_path}/claims.db"
    with open_log(tmp_path / "log", create=True, commits=commits, sync=False) as log:
        log.add(b"x")
    for _ in range(5):
        log = open_log(tmp_path / "log", commits=commits, sync=False)
        going = threading.Event()
        stop = threading.Event()

        def read(log=log, going=going, stop=stop):
            while not stop.is_set():
                log.tip()
                going.set()

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        going.wait()
        log.close()
        stop.set()
        for reader in readers:
            reader.join()


def test_create__parent_of_the_root_can_not_be_read__works(tmp_path, monkeypatch):
    plain = local._sync

    def sync(directory):
        if directory == str(tmp_path):
            raise PermissionError(13, "Permission denied")
        plain(directory)

    monkeypatch.setattr(local, "_sync", sync)
    (tmp_path / "root").mkdir()
    LocalStore(tmp_path / "root").create("a/b", b"x")
