"""Others step in at each call of a move to another WAL store."""

from __future__ import annotations

import pytest

import shares
from siltstone.api import drop_table
from siltstone.errors import CommitUnknownError, ConflictError, FencedError, SiltstoneError, WrongWalStoreError
from wal_worlds import DAY_S, KEYED, SHARD, WalWorld, attempt, rows

MOST = 150


def world_from(how):
    if how == "own":
        world = WalWorld()
        world.life(puts=1)
        world.merge()
        world.life(puts=2, close=False)
        return world
    if how == "fresh":
        return WalWorld()
    world = WalWorld(wal="fast")
    world.life("fast", puts=2, flush=True)
    return world


def each_call(how, wal, rival, *, which="table", after=False):
    """Run ``rival`` at each call of a writer that moves the WAL; yields the world, and what both were told."""
    for nth in shares.some(range(1, MOST)):
        world = world_from(how)
        store = world.interleaves("table" if which == "table" else wal)
        told = []
        (store.after if after else store.before)("*", lambda world=world, told=told: told.append(rival(world)), nth=nth)
        stores = {"store": store} if which == "table" else {}
        writer = attempt(world.writer, store if which == "wal" else wal, **stores)
        if not isinstance(writer, SiltstoneError):
            world.put(writer)
        if store.pending:
            assert nth > 5
            return
        yield world, writer, told[0]
    pytest.fail("a move takes more calls than that")


def finish(world, *stores):
    """Whichever store the WAL is in by now, every row is there, and another writer can go on."""
    recorded = world.state().wal.store
    named = {world.store(name).uri: name for name in stores if name is not None}
    given = None if recorded is None else named[recorded.uri]
    world.check(given)
    world.go_on(given)


PAIRS = [("fresh", "fast", "faster"), ("fresh", "fast", None), ("own", "fast", "faster"), ("own", "fast", None),
         ("ended", "faster", "fastest"), ("ended", "faster", "fast"), ("ended", None, "fast")]  # fmt: skip


@pytest.mark.parametrize(("how", "mine", "theirs"), PAIRS)
@pytest.mark.parametrize("end", ["open", "merged"])
def test_writer__another_opens_with_another_store__one_has_it_and_the_other_is_told(how, mine, theirs, end):
    def rival(world):
        writer = attempt(world.writer, theirs)
        if isinstance(writer, SiltstoneError):
            return writer
        world.put(writer)
        if end == "merged":
            writer.close()
            attempt(world.merge, theirs)
        return writer

    for world, writer, other in each_call(how, mine, rival):
        for told in (writer, other):
            assert not isinstance(told, SiltstoneError) or isinstance(
                told, FencedError | ConflictError | WrongWalStoreError
            )
        held = [one for one in (writer, other) if not isinstance(one, SiltstoneError)]
        assert held
        puts = [attempt(one.put, rows(10_000 + number), wait=True) for number, one in enumerate(held)]
        world.unknown += [10_000 + number for number in range(len(held))]
        if end == "open":
            assert sum(not isinstance(told, SiltstoneError) for told in puts) <= 1
        finish(world, mine, theirs, "fast")


@pytest.mark.parametrize("how", ["own", "ended", "fresh"])
@pytest.mark.parametrize("which", ["table", "wal"])
def test_writer__merged_at_each_call__every_row_once(how, which):
    wal = "faster" if how == "ended" else "fast"

    def rival(world):
        return [attempt(world.merge, given) for given in (None, "fast", "faster")]

    for world, writer, _ in each_call(how, wal, rival, which=which):
        assert not isinstance(writer, SiltstoneError), writer
        finish(world, "fast", "faster")


@pytest.mark.parametrize("how", ["own", "ended"])
@pytest.mark.parametrize("which", ["table", "wal"])
def test_scan__fresh_at_each_call_of_a_move__sees_every_acknowledged_row(how, which):
    wal = "faster" if how == "ended" else "fast"

    def rival(world):
        for given in (wal, "fast", None):  # the one from before and the one from then on
            found = attempt(world.ids, given)
            if not isinstance(found, SiltstoneError):
                return world.check(found=found)
        raise AssertionError("nobody could read")

    for world, writer, _ in each_call(how, wal, rival, which=which):
        assert not isinstance(writer, SiltstoneError), writer
        finish(world, wal, "fast")


def test_scan__one_reader_over_a_move__sees_every_acknowledged_row():
    for nth in shares.some(range(1, MOST)):
        world = WalWorld()
        world.life(puts=2, close=False)
        store = world.interleaves("table")
        table = world.open("fast", store=store)
        assert table.count(fresh=True) == 2
        store.before("*", lambda world=world: world.life("fast", puts=2, close=False), nth=nth)
        found = table.scan(fresh=True).to_arrow().column("id").to_pylist()
        assert {1, 2} <= set(found)
        if store.pending:
            assert nth > 2
            return
        world.check(found=table.scan(fresh=True).to_arrow().column("id").to_pylist())
    pytest.fail("a read takes more calls than that")


@pytest.mark.parametrize("scope", ["all", "durable"])
@pytest.mark.parametrize("how", ["own", "ended"])
def test_checkpoint__at_each_call_of_a_move__has_what_was_acknowledged(how, scope):
    wal = "faster" if how == "ended" else "fast"

    def rival(world):
        before = list(world.acknowledged)
        for given in (wal, "fast", None):
            made = attempt(world.open(given).checkpoint, f"kept-{given}", scope=scope)
            if not isinstance(made, SiltstoneError):
                return made, before
        raise AssertionError("nobody could make one")

    for world, writer, (made, before) in each_call(how, wal, rival):
        assert not isinstance(writer, SiltstoneError), writer
        world.put(writer)
        writer.close()
        world.merge(wal)
        world.clock.advance(DAY_S)
        world.open(wal).gc(keep_days=0)
        for given in (wal, "fast", None):
            found = attempt(kept_rows, world, given, made.name)
            if not isinstance(found, SiltstoneError):
                break
        ids = found.column("id").to_pylist()
        assert set(before) <= set(ids)
        assert len(ids) == len(set(ids))


def kept_rows(world, given, name):
    return world.open(given).at(checkpoint=name).scan().to_arrow()


def test_split__at_each_call_of_a_move__one_comes_first():
    for nth in shares.some(range(1, MOST)):
        world = WalWorld(keyed=True)
        world.life(puts=2, close=False)
        store = world.interleaves("table")
        store.before("*", lambda world=world: world.open("fast").split_shards(2), nth=nth)
        writer = attempt(world.writer, "fast", store=store)
        if store.pending:
            assert nth > 5
            return
        if isinstance(writer, SiltstoneError):
            assert isinstance(writer, FencedError | ConflictError), writer
        elif writer.place.name == KEYED:  # one of before the split
            assert isinstance(world.put(writer), FencedError | CommitUnknownError)
        world.check("fast")
        with world.open("fast").writer() as routed:
            routed.put(rows(500, 501))
        assert world.open("fast").count(fresh=True) == 4
    pytest.fail("a move takes more calls than that")


@pytest.mark.parametrize("given", [None, "fast"])
def test_split__a_writer_claims_a_closed_shard_at_each_call__is_fenced_or_the_split_is_refused(given):
    for nth in shares.some(range(1, MOST)):
        world = WalWorld(keyed=True, wal="fast")
        world.life("fast", flush=True)
        store = world.interleaves("table")
        writers = []
        store.before("*", lambda world=world, writers=writers: writers.append(attempt(world.writer, "fast")), nth=nth)
        split = attempt(world.open(given, store=store).split_shards, 2)
        if store.pending:
            assert nth > 5
            return
        (writer,) = writers
        if isinstance(split, SiltstoneError):
            assert isinstance(split, WrongWalStoreError)
            assert not world.state().sealed
        if isinstance(writer, SiltstoneError):
            assert isinstance(writer, FencedError | ConflictError)
        elif writer.place.name == KEYED:  # one of before the split
            told = world.put(writer)
            assert isinstance(told, FencedError) != isinstance(split, SiltstoneError)
        world.check("fast")
    pytest.fail("a split takes more calls than that")


def test_drop__a_writer_claims_a_closed_shard_at_each_call__is_told():
    for nth in shares.some(range(1, MOST)):
        world = WalWorld(wal="fast")
        world.life("fast", flush=True)
        store = world.interleaves("table")
        writers = []
        store.before("*", lambda world=world, writers=writers: writers.append(attempt(world.writer, "fast")), nth=nth)
        dropped = attempt(lambda store=store, world=world: _drop(world, store))
        if store.pending:
            assert nth > 5
            return
        (writer,) = writers
        if isinstance(dropped, SiltstoneError):
            assert isinstance(dropped, WrongWalStoreError)
            assert not world.state().sealed
            if not isinstance(writer, SiltstoneError):
                world.put(writer)
            world.check("fast")
        elif not isinstance(writer, SiltstoneError):
            assert isinstance(world.put(writer), FencedError)
    pytest.fail("a drop takes more calls than that")


def _drop(world, store):
    drop_table(store, probe=False, env=world.env())


def test_claim__a_fenced_old_writer_of_the_first_wal__is_told_after_two_moves():
    world = WalWorld()
    first = world.writer(name="first")
    world.put(first)
    second = world.writer("fast", name="second")
    world.put(second)
    second.close()
    world.merge("fast")
    third = world.writer("faster", name="third")
    world.put(third)
    for old in (first, second):
        assert isinstance(attempt(old.put, rows(9_999), wait=True), SiltstoneError)
    assert SHARD in repr(third)
    world.check("faster")
