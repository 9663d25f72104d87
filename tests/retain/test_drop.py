"""Dropping: who is told, what stays, what may be made there afterwards, and drops that were cut off."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pytest

import shares
import siltstone as ss
from clone_worlds import DAY_S, SCHEMA, World, content, numbered, parent, rows_of
from siltstone.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    SiltstoneError,
    TruncatedError,
)
from siltstone.testing.script import ANY, Crashed, Fault

STAYS = {"log", "rollups", "shards"}


def check_gone(world, name="parent"):
    with pytest.raises(NotFoundError, match="was dropped"):
        world.open(name)


# -- what it does ------------------------------------------------------------------------------------


def test_drop__a_table__is_not_there_and_neither_are_its_rows():
    world = parent()
    world.drop("parent")
    check_gone(world)
    assert world.keys("parent", "data") == world.keys("parent", "vectors") == []
    assert {key.partition("/")[0] for key in world.keys("parent")} == STAYS


def test_drop__a_day_later_and_again__leaves_a_mark_and_sealed_shards():
    world = parent()
    world.drop("parent")
    world.clock.advance(DAY_S)
    world.drop("parent")
    rest = [key for key in world.keys("parent") if "/clock" not in key and "/hint" not in key]
    entries = [key for key in rest if key.startswith("log/entries/")]
    assert len(entries) == 1
    assert len([key for key in rest if key.startswith("log/floor/")]) == 1
    assert len([key for key in rest if key.startswith("rollups/")]) == 1
    assert not [key for key in rest if "/wal/entries/" in key or "/data/" in key]
    check_gone(world)


def test_drop__whoever_uses_it__is_told():
    world = parent()
    table = world.open("parent")
    writer, began = table.writer(), table.transaction()
    began.append(rows_of({500: "late"}))
    world.drop("parent")
    calls = [
        table.scan,
        table.refresh,
        table.compact,
        table.merge_shards,
        table.writer,
        table.detach,
        table.shards,
        began.commit,
        partial(table.append, rows_of({600: "late"})),
        partial(table.checkpoint, "late"),
        partial(table.tag, "late"),
        partial(table.scan, fresh=True),
        partial(table.clone, world.store("clone"), probe=False),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match="was dropped"):
            call()
    with pytest.raises(SiltstoneError):
        writer.put(rows_of({700: "late"}))
    check_gone(world)


def test_drop__nothing_there__is_not_found_unless_that_is_fine():
    world = World()
    with pytest.raises(NotFoundError, match="no table"):
        world.drop("nothing")
    world.drop("nothing", missing_ok=True)
    assert world.keys("nothing") == []
    with pytest.raises(InvalidInputError, match="missing_ok"):
        world.drop("nothing", missing_ok=1)


def test_drop__a_clone__lets_go_of_its_parent():
    world = parent()
    world.clone("parent", "clone").append(rows_of({50: "own"}))
    world.drop("clone")
    assert world.pins("parent") == []
    check_gone(world, "clone")
    world.drop("parent")


def test_drop__a_clone_whose_parent_is_gone__ends():
    world = parent()
    world.clone("parent", "clone")
    world.store("parent").delete(world.keys("parent"))
    world.drop("clone")
    check_gone(world, "clone")


def test_drop__a_clone_came_between_any_two_calls__is_refused_or_the_clone_is():
    for nth in shares.calls():
        world = parent(shards=1)
        store = world.interleaves("parent")
        made = []

        def clone(world=world, made=made):
            try:
                made.append(world.clone("parent", "clone"))
            except SiltstoneError as error:
                made.append(error)

        store.before(ANY, clone, nth=nth)
        told = None
        try:
            world.drop("parent", store=store)
        except ConflictError as error:
            told = error
        if told is not None:
            assert world.uri("clone") in told.message
            assert content(made[0]) == content(world.open("clone")) == world.expected
            with world.open("parent").writer() as writer:
                writer.put(rows_of({40: "not sealed"}))
        else:
            assert store.pending or isinstance(made[0], NotFoundError), made
            check_gone(world)
        if store.pending:
            assert nth > 10
            return


def test_drop__rows_are_put_between_any_two_calls__nobody_is_told_that_they_are_kept_afterwards():
    for nth in shares.calls():
        world = parent(shards=1)
        writer = world.open("parent").writer()
        store = world.interleaves("parent")
        store.after(ANY, partial(put_or_be_told, writer), nth=nth)
        world.drop("parent", store=store)
        with pytest.raises(SiltstoneError):
            writer.put(rows_of({41: "late"}))
        if store.pending:
            return


def put_or_be_told(writer):
    try:
        writer.put(rows_of({40: "in between"}))
    except SiltstoneError:
        return


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOSE])
@pytest.mark.parametrize("which", ["table", "clone"])
def test_drop__cut_off_at_every_call__the_same_call_ends_it(which, fault):
    for nth in shares.calls():
        world = parent(shards=1)
        name = "parent"
        if which == "clone":
            world.clone("parent", "clone").append(rows_of({50: "own"}))
            name = "clone"
        store = world.faulty(name)
        store.on(ANY, fault, nth=nth)
        try:
            world.drop(name, store=store)
        except (Crashed, SiltstoneError):
            world.drop(name)
        check_gone(world, name)
        assert world.keys(name, "data") == world.keys(name, "vectors") == []
        if which == "clone":
            assert world.pins("parent") == []
            assert content(world.open("parent"), fresh=True) == world.expected
        made = world.create(name, key="id", shards=1)
        with made.writer() as writer:
            writer.put(rows_of({1: "new"}))
        assert content(made, fresh=True) == {1: "new"}
        if len(store.calls) < nth:
            assert nth > 10
            return


@pytest.mark.parametrize("place", ["parent", "clone"])
def test_drop__a_clone_was_cut_off__another_table_is_made_there_only_when_its_pin_is_gone(place):
    for nth in shares.calls():
        world = parent(shards=1)
        world.clone("parent", "clone")
        stores = {"parent": world.faulty("parent"), "clone": world.faulty("clone")}
        stores[place].on("create", Fault.CRASH_BEFORE, nth=nth)
        try:
            world.drop("clone", store=stores["clone"], origins={world.uri("parent"): stores["parent"]})
        except Crashed:
            if world.open_or_none("clone") is not None:
                world.drop("clone")
        world.create("clone")
        assert world.pins("parent") == []
        if sum(call.verb == "create" for call in stores[place].calls) < nth:
            return


def test_drop__by_two_at_once__both_end():
    for nth in shares.calls():
        world = parent(shards=1)
        store = world.interleaves("parent")
        store.before(ANY, partial(world.drop, "parent"), nth=nth)
        world.drop("parent", store=store)
        check_gone(world)
        if store.pending:
            return


# -- afterwards --------------------------------------------------------------------------------------


def test_create__where_a_table_was_dropped__goes_on_in_its_log_as_another_table():
    world = parent()
    old = world.open("parent")
    last, before = old.version, datetime.fromtimestamp(world.clock.wall_ms() / 1000, UTC)
    world.clock.advance(100)
    world.drop("parent")
    world.clock.advance(100)
    other = pa.schema([("name", pa.string())])
    made = world.create("parent", schema=other)
    made.append(pa.table({"name": ["a"]}))
    assert made.version == last + 3
    assert made.schema == other
    assert made.key == ()
    assert [one.operation for one in made.history()] == ["append", "create"]
    assert made.shards() == []
    assert made.at(version=last + 2).count() == 0
    for version in (0, 1, last):
        with pytest.raises(TruncatedError):
            made.at(version=version)
    with pytest.raises(NotFoundError):
        made.at(timestamp=before)
    with pytest.raises(NotFoundError):
        made.at(version=last + 1)
    assert made.changes(last + 2).to_arrow()["name"].to_pylist() == ["a"]
    with pytest.raises(TruncatedError):
        made.changes(1)
    with pytest.raises(NotFoundError, match="another one was made there"):
        old.scan()
    with pytest.raises(NotFoundError, match="another one was made there"):
        old.append(rows_of({9: "late"}))
    with pytest.raises(AlreadyExistsError):
        world.create("parent", schema=other)


def test_create__after_many_drops_and_versions__opens_as_it_is():
    world = World()
    for round_ in range(4):
        table = world.create("t", key="id", shards=2 if round_ % 2 else None)
        for number in range(20):
            table.append(rows_of({number: f"{round_}"}))
        if round_ % 2:
            with table.writer() as writer:
                writer.put(rows_of({100: "put"}))
        found = world.open("t")
        expected = dict.fromkeys(range(20), f"{round_}") | ({100: "put"} if round_ % 2 else {})
        assert content(found, fresh=True) == expected
        assert found.at(version=found.version - 3).count() == 17
        assert len(found.history()) == 21
        if round_ < 3:
            world.drop("t")
            world.clock.advance(DAY_S)
            world.drop("t")
    assert world.open("t")._now().sharding.map == 1


def test_create__with_shards_where_others_were_dropped__rows_of_before_never_come_back():
    world = parent()
    stalled = world.open("parent").writer()
    world.drop("parent")
    made = world.create("parent", key="id", shards=2)
    with pytest.raises(SiltstoneError):
        stalled.put(rows_of({1: "late"}))
    with made.writer() as writer:
        writer.put(rows_of({1: "new"}))
    made.merge_shards()
    assert content(world.open("parent"), fresh=True) == {1: "new"}
    assert [one.name for one in made.shards()] == ["0001-0000", "0001-0001"]


def test_drop__late_and_another_table_is_there_since__its_objects_stay():
    for nth in shares.calls():
        world = parent(shards=1)
        store = world.interleaves("parent")

        def make(world=world):
            try:
                made = world.create("parent", key="id", shards=1)
            except AlreadyExistsError:
                return
            made.append(rows_of({1: "new"}))
            made.delete("id = 7")
            with made.writer() as writer:
                writer.put(rows_of({2: "put"}))

        store.after(ANY, make, nth=nth)
        world.drop("parent", store=store)
        if store.pending:
            return
        table = world.open_or_none("parent")
        if table is not None:
            assert content(table, fresh=True) == {1: "new", 2: "put"}, nth
            table.append(rows_of({3: "goes on"}))


def test_clone__where_a_clone_was_dropped__is_another_one():
    world = parent()
    world.clone("parent", "clone", where="id < 5")
    world.drop("clone")
    made = world.clone("parent", "clone", where="id >= 5")
    assert content(made) == {id_: v for id_, v in world.expected.items() if id_ >= 5}
    assert world.pins("parent") == [world.uri("clone")]
    made.detach()
    assert world.pins("parent") == []


def test_drop__public_name__takes_a_uri(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", sync=False)
    table.append(rows_of(numbered(0, 3)))
    ss.drop(tmp_path / "t")
    with pytest.raises(NotFoundError, match="was dropped"):
        ss.open(tmp_path / "t")
    assert ss.create(tmp_path / "t", schema=SCHEMA).count() == 0


def test_create__shards_that_are_named_freely__need_names_that_no_dropped_one_had():
    world = World()
    table = world.create("t")
    with table.shard("a").writer() as writer:
        writer.put(rows_of({1: "old"}))
    world.drop("t")
    made = world.create("t")
    with pytest.raises(ConflictError, match="sealed by a drop"):
        made.shard("a").writer()
    with made.shard("b").writer() as writer:
        writer.put(rows_of({2: "new"}))
    assert content(made, fresh=True) == {2: "new"}


def test_drop__a_table_without_shards_in_use__seals_those_that_nobody_wrote_to():
    world = World()
    stale = world.create("t", key="id", shards=1)
    world.drop("t")
    with pytest.raises(SiltstoneError):
        stale.shard(0).writer()
    assert [key for key in world.keys("t", "shards") if key.endswith("manifest/identity")]
