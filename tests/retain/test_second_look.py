"""Promises of what keeps and drops tables that a second look at the code could break, and what must stay with them."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest

from clone_worlds import World, content, numbered, rows_of
from siltstone.errors import ConflictError, SiltstoneError, UnavailableError, WrongWalStoreError
from siltstone.retain.pins import Asked, Pin, claim_of
from siltstone.shard.route import shard_numbers
from siltstone.shard.split import seal
from siltstone.table.operations import Work
from siltstone.testing.stores import Fault

# -- a drop that sleeps, and the table that comes after it -------------------------------------------


def put(table, rows):
    with table.writer() as writer:
        writer.put(rows_of(rows))


def comes_again(world):
    """Another one ends the drop, and makes a table there with rows in its shards."""
    world.drop("t")
    table = world.create("t", key="id", shards=1)
    put(table, numbered(100, 110))
    return table


def slow_drop(world, meanwhile):
    """Drop a table, with something that happens right before its objects are deleted."""
    table = world.create("t", key="id", shards=1)
    put(table, numbered(0, 5))
    store = world.interleaves("t")
    store.before("list", meanwhile, key="data")
    world.drop("t", store=store)
    assert not store.pending


def test_drop__a_later_table_is_being_split__keeps_its_rows():
    world = World()

    def meanwhile():
        table = comes_again(world)
        seal(table._shards.readers(table._looked()))  # and is cut off

    slow_drop(world, meanwhile)
    table = world.open("t")
    assert table.count(fresh=True) == 10
    table.split_shards(2)
    assert content(table) == numbered(100, 110)


def test_drop__a_later_table_was_split_behind_a_durable_checkpoint__keeps_that():
    world = World()

    def meanwhile():
        table = comes_again(world)
        table.checkpoint("kept", scope="durable")
        table.split_shards(2)
        table.delete("id >= 0")

    slow_drop(world, meanwhile)
    assert content(world.open("t").at(checkpoint="kept")) == numbered(100, 110)


def test_drop__a_later_table_is_half_dropped_too__keeps_its_rows_until_that_is_decided():
    world = World()

    def meanwhile():
        comes_again(world)
        store = world.faulty("t")
        store.on("create", Fault.REFUSE, key="log/entries/", times=1000)
        with pytest.raises(SiltstoneError):
            world.drop("t", store=store)

    slow_drop(world, meanwhile)
    assert world.open("t").count(fresh=True) == 10


def test_drop__nothing_came_since__lets_shards_from_before_a_split_go():
    world = World()
    table = world.create("t", key="id", shards=1)
    put(table, numbered(0, 5))
    table.checkpoint("kept", scope="durable")
    table.split_shards(2)
    put(table, numbered(5, 10))
    table.close()
    world.drop("t")
    assert [key for key in world.keys("t", "shards") if "/data/" in key] == []


# -- a table where another one was dropped -----------------------------------------------------------


def half_dropped(world, **options):
    """A table with rows in a shard whose drop was cut off before they went."""
    table = world.create("t", **options)
    with (table.shard(0) if options else table.shard("w")).writer() as writer:
        writer.put(rows_of(numbered(0, 5)))
    table.close()
    store = world.faulty("t")
    store.on("list", Fault.REFUSE, key="data", times=1000)
    with pytest.raises(UnavailableError):
        world.drop("t", store=store)


@pytest.mark.parametrize("whole", [False, True])
def test_split_shards__first_one_where_a_table_with_shards_was_dropped__gets_shards_that_nobody_used(whole):
    world = World()
    half_dropped(world, key="id", shards=1)
    if whole:
        world.drop("t")
    table = world.create("t", key="id")
    table.append(rows_of({500: "own"}))
    table.split_shards(1)
    assert content(table) == {500: "own"}
    put(table, {501: "put"})
    table.merge_shards()
    assert content(table) == {500: "own", 501: "put"}


def test_writer__shard_of_a_name_that_a_dropped_table_had__is_refused_and_brings_no_rows_back():
    world = World()
    half_dropped(world)
    table = world.create("t")
    with pytest.raises(ConflictError, match="another name"):
        table.shard("w").writer()
    assert table.count(fresh=True) == 0
    table.merge_shards()
    assert table.count() == 0


# -- a WAL store that was lost -----------------------------------------------------------------------


def in_one_shard(world, number):
    """A table of which one shard has a row, in a WAL in another store."""
    table = world.create("t", key="id", shards=3, wal=world.store("wal"))
    keys = pa.table({"id": pa.array(range(100), pa.int64())})
    key = shard_numbers(keys, 3).tolist().index(number)
    writer = table.shard(number).writer()
    writer.put(rows_of({key: "only in the WAL"}))
    return key


@pytest.mark.parametrize("number", [0, 1, 2])
def test_drop__wal_store_lost_and_other_shards_never_written__an_empty_place_is_enough(number):
    world = World()
    in_one_shard(world, number)
    world.drop("t", wal=world.store("empty"))
    assert world.open_or_none("t") is None
    assert world.keys("empty") == []


def test_drop__refused_by_a_clone_after_a_wal_was_given_up__the_wal_counts_again():
    world = World()
    key = in_one_shard(world, 0)
    store = world.interleaves("t")
    store.before("create", lambda: world.clone("t", "clone", at=0), key="log/entries/")
    with pytest.raises(ConflictError, match="clones read from it"):
        world.drop("t", store=store, wal=world.store("empty"))
    with pytest.raises(WrongWalStoreError):
        world.open("t").count(fresh=True)
    table = world.open("t", wal=world.store("wal"))
    assert table.count(fresh=True) == 1
    table.merge_shards()
    assert content(table) == {key: "only in the WAL"}


# -- makers of a clone that sleep --------------------------------------------------------------------


def small_parent():
    world = World()
    table = world.create("parent", key="id")
    table.append(rows_of(numbered(0, 10)))
    return world


def slow_clone(world, parent, side, nth, meanwhile):
    """Clone, with something that happens right before a call to a store.

    What was read of the clone, None where its maker was told otherwise; and whether it happened.
    """
    store = world.interleaves(side)
    store.before("*", meanwhile, nth=nth)
    origins = {world.uri("parent"): store} if side == "parent" != parent else None
    found = None
    with contextlib.suppress(SiltstoneError):
        table = world.open(parent, store=store if side == parent else None, origins=origins)
        found = content(table.clone(store if side == "clone" else world.store("clone"), probe=False))
    return found, not store.pending


def at_each_call(check):
    """Go on until nothing happens any more."""
    nth = 1
    while check(nth):
        nth += 1
    assert nth > 10


@pytest.mark.parametrize("side", ["parent", "clone"])
def test_clone__dropped_and_made_as_another_meanwhile__is_never_taken_for_the_one_that_was_asked_for(side):
    def check(nth):
        world = small_parent()

        def another():
            world.drop("clone", missing_ok=True)
            world.clone("parent", "clone", where="id < 3")

        found, happened = slow_clone(world, "parent", side, nth, another)
        assert found in (None, numbered(0, 10))
        assert world.pins("parent") == [world.uri("clone")]
        return happened

    at_each_call(check)


@pytest.mark.parametrize("side", ["parent", "clone"])
def test_clone__made_and_detached_by_another_meanwhile__no_pin_is_left(side):
    def check(nth):
        world = small_parent()
        _, happened = slow_clone(world, "parent", side, nth, lambda: world.clone("parent", "clone").detach())
        if happened:
            assert world.pins("parent") == []
            assert content(world.open("clone")) == numbered(0, 10)
        return happened

    at_each_call(check)


@pytest.mark.parametrize("side", ["parent", "middle", "clone"])
def test_clone__of_a_clone_made_and_detached_by_another_meanwhile__no_pin_is_left(side):
    def check(nth):
        world = small_parent()
        world.clone("parent", "middle").append(rows_of(numbered(10, 12)))
        _, happened = slow_clone(world, "middle", side, nth, lambda: world.clone("middle", "clone").detach())
        if happened:
            assert world.pins("parent") == [world.uri("middle")]
            assert world.pins("middle") == []
        return happened

    at_each_call(check)


def test_clone__wal_store_of_the_parent__is_refused_before_anything_is_pinned():
    world = World()
    table = world.create("parent", key="id", shards=1, wal=world.store("wal"))
    with pytest.raises(WrongWalStoreError):
        table.clone(world.store("clone"), wal=world.store("wal"), probe=False)
    assert world.pins("parent") == []
    assert world.keys("clone", "log/entries") == []
    assert content(table.clone(world.store("clone"), wal=world.store("another"), probe=False)) == {}


def test_detach__a_maker_that_slept_pins_before_the_record_goes__the_pin_goes_too():
    world = small_parent()
    world.clone("parent", "clone")
    store = world.interleaves("clone")
    clone = world.open("clone", store=store)

    def pins_again():  # as a maker does that slept since
        table = world.open("parent")
        claim = claim_of(clone._log, clone._state)
        assert world.pins("parent") == []
        table._do(Pin(claim, Asked(table.version), pin=world.env().ids.new(), created_ms=0))

    store.before("create", pins_again, key="log/entries/", nth=2)  # the first one detaches, the second one forgets
    clone.detach()
    assert not store.pending
    assert world.pins("parent") == []


def test_delete_checkpoint__clone_says_that_it_needs_nothing_of_here__goes():
    world = small_parent()
    clone = world.clone("parent", "clone")
    table = world.open("parent")
    (pin,) = table.checkpoints()
    with pytest.raises(SiltstoneError, match="reads from it"):
        table.delete_checkpoint(pin)
    record = table._state.checkpoints[pin.name]
    clone.detach()
    table._do(_Again(pin.name, record))
    table.delete_checkpoint(pin.name)
    assert table.checkpoints() == []


class _Again(Work):
    """Puts a checkpoint back, as one would be left by a maker that died."""

    operation = "checkpoint"

    def __init__(self, name, record):
        self._name, self._record = name, record

    def run(self, draft):
        draft.depends(kept=True)
        draft.retain(checkpoints={self._name: self._record})
