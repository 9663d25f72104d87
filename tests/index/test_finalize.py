"""The end of a build: staged parts, final names, the marker; what lies about, what is missing and what is garbage."""

from __future__ import annotations

import contextlib
import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

import shares
from build_worlds import World, begun, found, read_as_anyone, seeded
from siltstone import paths
from siltstone.errors import CorruptionError, MissingObjectError, SiltstoneError, UnavailableError, UnfinishedError
from siltstone.format.frame import digest
from siltstone.format.text import decode_marker
from siltstone.index.build import MadePart, open_build
from siltstone.testing.script import ANY, Crashed, Fault
from worlds import FOR_EVER

LOOKS = 24  # calls that read the build's log; then come the marker, the copies, the marker and the clearing


@pytest.fixture(scope="module")
def staged():
    """(objects, build, finals that it must end with) of a build all of whose items are done."""
    world = seeded()
    build = begun(world, items=2, staged=True)
    objects = world.objects()
    world.open().index_build(build).finalize()
    return objects, build, world.finals(build)


def finalize(world, build, store=None):
    return world.open(store).index_build(build).finalize()


# -- one finalizer -----------------------------------------------------------------------------------


def test_finalize__marker_can_not_be_written__staging_is_as_it_was_and_another_one_ends_it(staged):
    objects, build, finals = staged
    for fault in (Fault.REFUSE, Fault.DENY, Fault.FULL, Fault.CRASH_BEFORE):
        world = World(objects)
        store = world.faulty()
        for verb in ("put", "create"):
            store.on(verb, fault, key=paths.MARKER, times=FOR_EVER)
        before = world.staging(build)
        with pytest.raises((SiltstoneError, Crashed)):
            finalize(world, build, store)
        assert world.staging(build) == before
        assert paths.MARKER not in world.finals(build)
        finalize(world, build)
        assert world.finals(build) == finals
        assert world.staging(build) == {}


def test_finalize__foreign_objects_and_other_attempts_are_in_staging__none_is_named(staged):
    objects, build, finals = staged
    world = World(objects)
    store = world.plain()
    foreign = {
        paths.index(build, f"{paths.STAGING}/orphan.text"): b"orphan",
        paths.index(build, paths.staged_part(0, "f" * 32, 0)): b"another attempt, never told of",
        paths.index(build, paths.staged_part(7, "e" * 32, 0)): b"an item that the plan has not",
        paths.index(build, f"{paths.STAGING}/{paths.MARKER}"): b"no marker",
        paths.index(build, "part_9_9.text"): b"a final name that nobody planned",
    }
    for key, data in foreign.items():
        store.put(key, data)
    world.open().index_build(build).commit()
    made = world.finals(build)
    named = {part.name for part in decode_marker(made[paths.MARKER], name="").parts}
    assert named == finals.keys() - {paths.MARKER}
    assert {name: made[name] for name in finals} == finals
    # What nobody counts is left where it is: it may be another's.
    left = world.objects(f"indexes/{build}")
    assert {key: left[key] for key in foreign} == foreign
    table = world.open()
    assert [(one.parts, one.unindexed_rows) for one in table.indexes()] == [(len(named), 0)]
    world.plain().delete(foreign)
    assert found(world.open()) == found(table)


@pytest.mark.parametrize("garbage", ["nothing", "cut", "same size", "longer"])
def test_finalize__garbage_is_at_a_final_name__it_is_replaced_from_staging(staged, garbage):
    objects, build, finals = staged
    world = World(objects)
    for name, data in finals.items():
        if name != paths.MARKER:
            made = {"nothing": b"", "cut": data[:-1], "same size": bytes(len(data)), "longer": data * 2}[garbage]
            world.plain().put(paths.index(build, name), made)
    finalize(world, build)
    assert world.finals(build) == finals


def test_finalize__staging_can_not_be_cleared__is_done_and_leftovers_are_not_named(staged):
    objects, build, finals = staged
    world = World(objects)
    store = world.faulty()
    store.on("delete", Fault.DENY, times=FOR_EVER)
    world.open(store).index_build(build).commit()
    assert world.finals(build) == finals
    assert world.staging(build)
    assert found(world.open()) == found(World(objects).open())
    assert all(one.name in finals for one in decode_marker(finals[paths.MARKER], name="").parts)


def test_finalize__again_after_the_end__writes_nothing(staged):
    objects, build, _ = staged
    world = World(objects)
    first = finalize(world, build)
    store = world.interleaves()
    handle = world.open(store).index_build(build)
    store.calls.clear()
    assert handle.finalize() == first
    assert [call.verb for call in store.calls] == ["get"]


def test_finalize__staged_part_is_gone_or_of_another_size__is_told_and_no_marker_comes(staged):
    objects, build, _ = staged
    for damage, error in ((None, MissingObjectError), (b"cut", CorruptionError)):
        world = World(objects)
        key = sorted(world.staging(build))[1]
        if damage is None:
            world.plain().delete([key])
        else:
            world.plain().put(key, damage)
        with pytest.raises(error) as caught:
            finalize(world, build)
        assert caught.value.facts["object"] == key
        assert paths.MARKER not in world.finals(build)


def test_finalize__store_takes_no_copies__is_told_what_and_a_later_one_ends_it(staged):
    objects, build, finals = staged
    world = World(objects)
    store = world.faulty()
    store.on("copy", Fault.REFUSE, times=FOR_EVER)
    with pytest.raises(UnavailableError, match="could not be copied"):
        finalize(world, build, store)
    assert world.finals(build) == {}
    finalize(world, build)
    assert world.finals(build) == finals


# -- items that are missing ----------------------------------------------------------------------------


def test_finalize__a_task_never_ran__fails_and_names_its_fragments():
    world = seeded()
    build = begun(world, items=3)
    handle = world.open().index_build(build)
    handle.run(1, threads=1)
    plan = open_build(world.open()._log, build).plan
    for call in (handle.finalize, handle.commit):
        with pytest.raises(UnfinishedError) as caught:
            call()
        assert caught.value.facts["items"] == [0, 2] == handle.missing()
        names = [one.name for item in (0, 2) for one in plan.items[item].fragments]
        assert caught.value.facts["fragments"] == names
        assert all(name in caught.value.message for name in names)
        assert caught.value.retryable
    assert world.finals(build) == {}
    assert world.open().indexes() == []
    for item in handle.missing():
        handle.run(item, threads=1)
    handle.commit()
    assert [one.unindexed_rows for one in world.open().indexes()] == [0]


def test_finalize__more_fragments_are_missing_than_fit_a_line__facts_have_all_of_them():
    world = seeded(fragments=9, rows=1)
    build = begun(world, items=9)
    with pytest.raises(UnfinishedError, match="and 3 more") as caught:
        finalize(world, build)
    assert len(caught.value.facts["fragments"]) == 8  # one was deleted whole


# -- tasks that run twice ------------------------------------------------------------------------------


def test_run__done_again_by_anyone__returns_what_counts_and_writes_nothing():
    world = seeded()
    build = begun(world)
    first = world.open().index_build(build).run(0, threads=1)
    before = world.objects()
    assert world.open().index_build(build).run(0, threads=1) == first
    assert world.objects() == before


def test_run__two_attempts_between_any_two_calls__the_first_in_the_log_counts():
    ends = set()
    for nth in shares.calls():
        world = seeded()
        build = begun(world)
        store = world.interleaves()
        slow = world.open(store).index_build(build)
        others = []

        def run_whole(world=world, build=build, others=others):
            others.append(world.open().index_build(build).run(0, threads=1))

        store.before(ANY, run_whole, nth=nth)
        mine = slow.run(0, threads=1)
        if store.pending:
            assert nth > 5
            break
        assert mine == others[0] == world.open().index_build(build).run(0, threads=1)
        world.open().index_build(build).run_all()
        ends.add(tuple(sorted((name, data) for name, data in world.finals(build).items() if name != paths.MARKER)))
    assert len(ends) == 1


def test_run__threads_share_a_handle__every_item_counts_once():
    world = seeded(fragments=4)
    handle = world.open().index_build(begun(world, items=4))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda number: handle.run(number % handle.items, threads=1), range(4 * handle.items)))
    counted = handle._build.staged()
    assert all(one == counted[one.item] for one in made)
    assert handle.missing() == []
    handle.commit()
    assert read_as_anyone(world.plain(), handle.name)


@pytest.mark.parametrize("order", ["mine first", "other first"])
def test_stage__attempts_of_different_bytes__the_first_in_the_log_counts_for_every_finalizer(order):
    world = seeded()
    build = begun(world)
    handle = open_build(world.open()._log, build)
    runner = world.open().index_build(build)
    maker = runner._maker(1)
    mine = list(maker.make(0))
    other = [padded(*part) for part in mine]
    first, second = (mine, other) if order == "mine first" else (other, mine)
    counted = handle.stage(0, first)
    assert handle.stage(0, second) == counted
    assert open_build(world.open()._log, build).staged()[0] == counted
    runner.run_all()
    finals = world.finals(build)
    assert finals[paths.part(0, 0)] == first[0].data
    assert world.finals(build) == finals
    assert read_as_anyone(world.plain(), build)
    # The loser's file is left in staging, and no file of the index is it.
    assert list(world.staging(build).values()) == [second[0].data]


def padded(facts, data):
    """The same part with other bytes, as another version of a compressor might make them."""
    longer = data + b"\0"
    return MadePart(msgspec.structs.replace(facts, bytes=len(longer), sha256=digest(longer)), longer)


# -- several at once -----------------------------------------------------------------------------------


class Finalizers:
    """Finalizers one inside another: each is at some call of its own when the next one comes, or dies there."""

    def __init__(self, world, build, plan):
        self.world, self.build, self.plan = world, build, plan
        self.stores = []

    def run(self, number=0):
        """Finalize; the stores of this one and of all that came meanwhile are returned."""
        store = self.world.interleaves()
        self.stores.append(store)
        handle = self.world.open(store).index_build(self.build)
        store.calls.clear()
        if number < len(self.plan):
            at, dies = self.plan[number]
            store.before(ANY, lambda: self.step(number + 1, dies=dies), nth=at)
        with contextlib.suppress(Crashed):
            handle.finalize()
        return self.stores

    @property
    def calls(self):
        return [call for store in self.stores for call in store.calls]

    def step(self, number, *, dies):
        read_as_anyone(self.world.plain(), self.build)
        self.run(number)
        read_as_anyone(self.world.plain(), self.build)
        if dies:
            raise Crashed("killed")


def check_calls(calls, build):
    """No final name is ever deleted."""
    deleted = [key for call in calls if call.verb == "delete" for key in call.key.split()]
    assert all(key.startswith(f"indexes/{build}/{paths.STAGING}/") for key in deleted)


@pytest.mark.parametrize("count", range(2, 9))
def test_finalize__many_at_once_each_killed_anywhere__same_bytes(staged, count):
    objects, build, finals = staged
    met = 0
    for seed in range(20):
        chance = random.Random(f"{count} {seed}")
        world = World(objects)
        crowd = Finalizers(
            world, build, [(chance.randint(LOOKS, LOOKS + 13), chance.random() < 0.5) for _ in range(count - 1)]
        )
        met = max(met, len(crowd.run()))
        check_calls(crowd.calls, build)
        finalize(world, build)
        assert world.finals(build) == finals
        assert read_as_anyone(world.plain(), build)
    assert met == count


def test_finalize__two_at_once_and_either_dies_at_any_call__same_bytes(staged):
    objects, build, finals = staged
    for first in itertools.count(LOOKS):
        for second in itertools.count(LOOKS):
            world = World(objects)
            crowd = Finalizers(world, build, [(first, False), (second, True)])
            stores = crowd.run()
            check_calls(crowd.calls, build)
            finalize(world, build)
            assert world.finals(build) == finals
            if any(store.pending for store in stores):
                break
        if stores[0].pending:
            assert first > LOOKS + 10
            return


@pytest.mark.parametrize("cleared", [True, False], ids=["staging is cleared", "staging is left"])
def test_finalize__slept_through_the_end_that_another_one_brought_about__changes_nothing(staged, cleared):
    objects, build, finals = staged
    for nth in shares.calls():
        world = World(objects)
        store = world.interleaves()
        handle = world.open(store).index_build(build)
        seen = {}

        def other_one(world=world, seen=seen):
            other = world.faulty()
            if not cleared:
                other.on("delete", Fault.DENY, times=FOR_EVER)
            finalize(world, build, other)
            world.clock.advance(10)
            seen |= world.modified(build)

        store.before(ANY, other_one, nth=nth)
        handle.finalize()
        if store.pending:
            assert nth > 10
            return
        assert world.finals(build) == finals
        again = {name for name, at in world.modified(build).items() if at != seen[name]}
        # A copy that it was about to make, after its last look at the marker, has the same bytes.
        assert len(again) <= (0 if cleared else 1), f"call {nth}: {store.calls[nth - 1]}"
        assert paths.MARKER not in again
