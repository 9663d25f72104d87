"""Readers: without the right to write, with marks in any order, and among objects that are not the log's."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.testing.peek import bodies
from siltstone.testing.stores import Crashed, Fault
from siltstone.verify import verify
from worlds import FOR_EVER, MODES, World

SEEDS = [b"seed 0", b"seed 1", b"seed 2"]


def claimed(mode: str) -> World:
    """A world whose fourth entry is claimed, and its writer did not live to publish it."""
    world = World(mode).seeded()
    log = world.open(store := world.fault_store())
    store.on("put" if mode == "fork" else "create", Fault.CRASH_BEFORE, key=f"{paths.ENTRIES}/")
    with pytest.raises(Crashed):
        log.add(b"decided")
    return world


@pytest.mark.parametrize("fault", [Fault.DENY, Fault.REFUSE, Fault.FULL])
@pytest.mark.parametrize("mode", ["external", "fork"])
def test_entries__claim_is_unpublished_and_writing_not_possible__reads_what_is_published(mode, fault):
    world = claimed(mode)
    store = world.fault_store()
    for verb in ("create", "put"):
        store.on(verb, fault, times=FOR_EVER)
    if fault is not Fault.FULL:
        store.on("delete", fault, times=FOR_EVER)
    log = world.open(store, create=False)
    before = set(world.bucket.objects)
    assert bodies(log) in (SEEDS, [*SEEDS, b"decided"])
    assert log.tip().position in {3, 4}
    assert set(world.bucket.objects) == before
    assert bodies(world.open(create=False)) == [*SEEDS, b"decided"]


@pytest.mark.parametrize("mode", MODES)
def test_entries__until_lies_before_after__yields_nothing(mode):
    log = World(mode).seeded(6).open()
    marks = [log.start, *(entry.end for entry in log.entries())]
    for after, until in ((5, 3), (1, 0), (6, 1), (4, 4), (0, 0)):
        assert list(log.entries(marks[after], until=marks[until])) == []
    assert [entry.position for entry in log.entries(marks[3], until=marks[5])] == [3, 4]


@pytest.mark.parametrize("name", [".keep", "notes.txt", "0" * 31, "A" * 32, f"{'0' * 32}/below", f"below/{'0' * 32}"])
@pytest.mark.parametrize("position", [1, 3])
def test_add__unrelated_object_beside_entries_published_by_fork__is_ignored(position, name):
    world = World("fork").seeded()
    world.store().put(f"{paths.entry('', position)}/{name}", b"not ours")
    log = world.open()
    assert log.tip().position == 3
    assert log.add(b"next").position == 4
    assert bodies(world.open()) == [*SEEDS, b"next"]
    [report] = verify(world.store(), commits=world.registry())
    assert report.problems == ()
    assert report.tip == 4
