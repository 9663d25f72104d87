"""A store whose create-if-absent is a lie, with a commit store that decides: what counts is decided once."""

from __future__ import annotations

import contextlib

import pytest

import shares
import siltstone as ss
from build_worlds import SCHEMA, World, found, read_as_anyone, rows_of
from siltstone import paths
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import AlreadyExistsError, SiltstoneError
from siltstone.ids import SystemIds
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.script import ANY, Crashed, Fault
from siltstone.testing.stores import FaultStore, Interleaves
from worlds import FOR_EVER


class Lying(World):
    """Every handle's store lies about every create; a commit store of its own decides."""

    def __init__(self):
        super().__init__()
        self.service = MemoryService()

    def lying(self, inner=None):
        store = FaultStore(inner or self.plain())
        store.traits = store.traits._replace(known_good=False)
        store.on("create", Fault.LIE, times=FOR_EVER)
        return store

    def interleaves(self):
        store = Interleaves(self.lying())
        store.traits = store.inner.traits
        return store

    def registry(self):
        return MemoryRegistry(self.service, ids=SystemIds())

    def open(self, store=None, *, commits=None, **options):
        commits = commits or self.registry()
        return ss.open(store or self.lying(), commits=commits, probe=False, env=self.env(), **options)


@pytest.fixture
def lying():
    """Makes tables with three fragments on such a store."""

    def make():
        world = Lying()
        commits = world.registry()
        options = {"schema": SCHEMA, "key": "id", "commits": commits, "probe": False}
        table = ss.create(world.lying(), **options, env=world.env())
        for number in range(3):
            table.append(rows_of(range(number * 4, number * 4 + 4)))
        return world

    return make


def test_run__two_attempts_on_a_store_that_lies__one_counts_for_everyone(lying):
    for nth in shares.calls():
        world = lying()
        build = world.open().begin_text_index("body", items=1)
        store = world.interleaves()
        slow = world.open(store).index_build(build.name)
        others = []
        store.before(ANY, lambda build=build, others=others: others.append(build.run(0, threads=1)), nth=nth)
        mine = slow.run(0, threads=1)
        if store.pending:
            assert nth > 5
            return
        assert mine == others[0] == world.open().index_build(build.name).run(0, threads=1)
        build.commit()
        slow.commit()
        assert read_as_anyone(world.plain(), build.name)
        assert (
            world.staging(build.name)
            .keys()
            .isdisjoint(paths.index(build.name, paths.staged_part(0, mine.attempt, k)) for k in range(len(mine.parts)))
        )


def test_finalize__two_on_a_store_that_lies__same_bytes(lying):
    ends = set()
    for nth in shares.calls():
        world = lying()
        build = world.open().begin_text_index("body", items=3)
        for item in range(3):
            build.run(item, threads=1)
        store = world.interleaves()
        slow = world.open(store).index_build(build.name)
        seen = {}

        def other_one(world=world, build=build, seen=seen):
            build.finalize()
            seen |= world.finals(build.name)

        store.before(ANY, other_one, nth=nth)
        slow.finalize()
        if store.pending:
            break
        assert world.finals(build.name) == seen
        ends.add(tuple(sorted((name, data) for name, data in seen.items() if name != paths.MARKER)))
    assert len(ends) == 1
    assert nth > 10


def test_create__twice_on_a_store_that_lies__one_wins(lying):
    for nth in shares.calls():
        world = lying()
        one, two = (world.open().begin_text_index("body") for _ in range(2))
        one.run(0, threads=1)
        two.run(0, threads=1)
        store = world.interleaves()
        slow = world.open(store).index_build(one.name)
        told = {}

        def commit(build, told=told):
            try:
                build.commit()
            except AlreadyExistsError as error:
                told[build.name] = error

        store.before(ANY, lambda two=two, commit=commit: commit(two), nth=nth)
        commit(slow)
        if store.pending:
            assert nth > 5
            return
        assert len(told) == 1, "both won, or nobody did"
        (winner,) = {one.name, two.name} - told.keys()
        table = world.open()
        assert [index.segments[0].build for index in table._now().indexes.values()] == [winner]
        assert len(found(table)) > 0


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOSE, Fault.DELAY])
def test_run_all__a_call_of_the_commit_store_goes_wrong__another_handle_ends_it(lying, fault):
    for nth in shares.calls():
        world = lying()
        build = world.open().begin_text_index("body", items=2)
        registry = FaultRegistry(world.registry())
        handle = world.open(commits=registry)
        registry.script.clear()
        registry.script.on(ANY, fault, nth=nth)
        with contextlib.suppress(Crashed, SiltstoneError):
            handle.index_build(build.name).run_all()
        calls = len(registry.script.calls)
        registry.script.clear()
        registry.script.release()
        world.open().index_build(build.name).run_all()
        table = world.open()
        assert [(one.segments, one.unindexed_rows) for one in table.indexes()] == [(1, 0)]
        assert read_as_anyone(world.plain(), build.name)
        assert len([one for one in table.history() if one.operation == "index"]) == 1
        if calls < nth:
            assert nth > 3
            return
