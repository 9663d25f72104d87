"""Clones whose fragments are columns of their entry: they are as any other, and an older reader refuses them."""

from __future__ import annotations

import pytest

from clone_worlds import World, content, numbered, parent, rows_of
from retain.test_clone_faults import KINDS, check, hit
from siltstone import paths
from siltstone.errors import CorruptionError, MissingObjectError, NotFoundError, UnsupportedFormatError
from siltstone.format import records, version
from siltstone.format.records import decode_entry
from siltstone.format.version import COLUMNS_FROM
from siltstone.testing.script import Crashed, Fault

BROUGHT = paths.entry(paths.LOG, 1)  # the entry that brings what a clone has


@pytest.fixture
def always(monkeypatch):
    """Columns for ever so few fragments."""
    monkeypatch.setattr(version, "COLUMNS_FROM", 1)


def required(world, name="clone", key=BROUGHT):
    return decode_entry(world.store(name).get(key), name=key)[0].requires


def lives(table):
    return {one.fragment.name: one for one in table._looked().fragments}


def of_many(count):
    world = World()
    with world.create("parent", key="id").transaction() as change:
        for number in range(count):
            change.append(rows_of({number: f"x{number}"}))
    world.expected = numbered(0, count)
    return world


# -- when --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [COLUMNS_FROM - 1, COLUMNS_FROM])
def test_clone__of_so_many_fragments__has_columns_from_a_number_on(count):
    world = of_many(count)
    made = world.clone("parent", "clone")
    assert required(world) == (("columns",) if count >= COLUMNS_FROM else ())
    for table in (made, world.open("clone")):
        assert content(table) == world.expected
        assert table.history()[0].fragments_added == count
        assert table.history()[0].inserted == count


def test_clone__none_of_many_fragments_is_chosen__is_empty():
    world = of_many(COLUMNS_FROM)
    made = world.clone("parent", "clone", where="id < 0")
    assert required(world) == ()
    assert content(made) == content(world.open("clone")) == {}


# -- what it holds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("where", [None, "id < 12", "id != 4"])
def test_clone__with_columns__has_what_one_without_has(monkeypatch, keyed, where):
    world = parent(keyed=keyed)
    without = world.clone("parent", "without", where=where)
    monkeypatch.setattr(version, "COLUMNS_FROM", 1)
    made = world.clone("parent", "clone", where=where)
    again = world.open("clone")
    assert (required(world), required(world, "without")) == (("columns",), ())
    assert content(made) == content(again) == content(without)
    assert made._looked().fragments.rows == again._looked().fragments.rows == without._looked().fragments.rows

    def changes(table):
        return sorted(table.changes(1).to_arrow().select(["id", "v"]).to_pylist(), key=str)

    assert changes(again) == changes(without)
    if where is None:
        assert lives(made) == lives(again) == lives(without)


def test_clone__of_a_durable_checkpoint__has_the_rows_of_shards_as_fragments_of_its_own(always):
    world = parent()
    world.open("parent").checkpoint("kept", scope="durable")
    made = world.clone("parent", "clone", at="kept")
    assert content(made) == content(world.open("clone")) == world.expected
    assert world.keys("clone", "data")
    assert required(world) == ("columns",)


def test_clone__of_a_clone_with_rows_of_both__names_objects_of_each_table(always):
    world = parent()
    world.clone("parent", "first").append(rows_of({50: "first"}))
    world.open("first").delete("id = 7")
    world.clone("first", "second").append(rows_of({51: "second"}))
    expected = {**world.expected, 50: "first", 51: "second"}
    del expected[7]
    made = world.clone("second", "clone")
    assert content(made) == content(world.open("clone")) == expected
    assert {paths.origin_of(one.fragment.name) for one in made._looked().fragments} == {1, 2, 3}
    for name in ("parent", "first", "second"):
        assert world.uri("clone") in world.pins(name)


def test_clone__is_written_to_for_long__every_version_stays_as_it_was(always):
    world = parent()
    made, expected = world.clone("parent", "clone"), dict(world.expected)
    was = {made.version: dict(expected)}
    for number in range(100, 140):
        made.append(rows_of({number: "n"}))
        expected[number] = "n"
        was[made.version] = dict(expected)
    assert world.keys("clone", "rollups")
    again = world.open("clone")
    for number in (1, 2, 6, 7, 8, 15, 31, 32, 40):
        assert content(again.at(version=number)) == was[number]
    assert len(again.history()) == len(was)
    made.delete("id in (1, 101)")
    del expected[1], expected[101]
    assert content(world.open("clone")) == expected
    world.store("clone").delete(world.keys("clone", "rollups"))
    assert content(world.open("clone")) == expected


@pytest.mark.parametrize("later", [False, True])
def test_gc__of_a_clone_and_of_its_parent__takes_nothing_that_it_names(always, later):
    world = parent()
    made = world.clone("parent", "clone")
    made.tag("begun")
    if later:
        made.append(rows_of({99: "new"}))
        made.compact()
    world.open("parent").overwrite(rows_of({1: "other"}))
    expected = content(made)
    for name in ("parent", "clone", "parent"):
        world.open(name).gc(keep_days=0)
    assert content(world.open("clone")) == expected
    assert content(world.open("clone").at(tag="begun")) == world.expected


def test_gc__objects_that_only_columns_name__are_kept(always):
    world = parent()
    world.open("parent").checkpoint("kept", scope="durable")
    made = world.clone("parent", "clone", at="kept")
    own = world.keys("clone", "data")
    for number in range(5):
        made.append(rows_of({200 + number: "n"}))
    made.gc(keep_days=0)
    assert set(own) <= set(world.keys("clone", "data"))
    assert {key: content(made)[key] for key in world.expected} == world.expected


def test_detach_and_drop__of_a_clone_with_columns__let_go_of_the_parent(always):
    world = parent()
    made = world.clone("parent", "clone")
    world.clone("parent", "other")
    made.detach()
    assert world.pins("parent") == [world.uri("other")]
    world.drop("other")
    assert world.pins("parent") == []
    world.drop("parent")
    assert content(world.open("clone")) == world.expected


# -- what can go wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_clone__cut_off_at_each_write_of_the_clone__is_ended_by_the_next(always, kind, fault):
    for world, source, options, _ in hit(kind, "clone", "create", fault):
        check(world, source, options)
        assert required(world) == ("columns",)


def test_clone__another_ended_it_meanwhile__there_is_one(always):
    world = parent()
    store = world.faulty("clone")
    store.on("create", Fault.CRASH_BEFORE, key=BROUGHT)
    with pytest.raises(Crashed):
        world.clone("parent", "clone", store=store)
    between = world.interleaves("clone")
    between.before("create", lambda: world.clone("parent", "clone"), key=BROUGHT)
    made = world.clone("parent", "clone", store=between)
    assert content(made) == world.expected
    assert [one.operation for one in made.history()] == ["clone"]
    assert world.pins("parent") == [world.uri("clone")]


def test_open__by_a_reader_that_knows_no_columns__is_refused_for_reads_and_writes(always, monkeypatch):
    world = parent()
    world.clone("parent", "clone").append(rows_of({99: "new"}))
    monkeypatch.setattr(records, "FEATURES", frozenset())
    with pytest.raises(UnsupportedFormatError, match="needs features columns"):
        world.open("clone")
    assert content(world.open("parent"), fresh=True) == world.expected


def test_open__the_entry_with_the_columns_is_damaged_or_gone__is_told(always):
    world = parent()
    world.clone("parent", "clone").append(rows_of({99: "new"}))
    store, data = world.store("clone"), world.store("clone").get(BROUGHT)
    for at in range(0, len(data), 97):
        store.put(BROUGHT, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((CorruptionError, UnsupportedFormatError)):
            world.open("clone")
    store.delete([BROUGHT])
    with pytest.raises((CorruptionError, MissingObjectError)):
        world.open("clone")
    store.put(BROUGHT, data)
    assert content(world.open("clone")) == {**world.expected, 99: "new"}


def test_clone__dropped_while_it_was_made__is_told(always):
    world = parent()
    between = world.interleaves("clone")
    between.before("create", lambda: world.drop("clone"), key=BROUGHT)
    with pytest.raises(NotFoundError, match="dropped"):
        world.clone("parent", "clone", store=between)
    assert world.pins("parent") == []
