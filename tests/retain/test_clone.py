"""Clones as a user sees them: what they hold, what they share, and what is refused."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from clone_worlds import DAY_S, SCHEMA, World, content, numbered, parent, rows_of
from siltstone.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    MissingObjectError,
    NotFoundError,
    TruncatedError,
)
from siltstone.paths import bare, origin_of

# -- what it holds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [True, False])
def test_clone__of_the_newest_version__has_all_that_was_durable_and_copies_nothing(keyed):
    world = parent(keyed=keyed)
    made = world.clone("parent", "clone")
    assert content(made) == world.expected
    assert world.keys("clone", "data") == world.keys("clone", "vectors") == []
    assert content(world.open("clone")) == world.expected
    assert content(world.open("parent"), fresh=True) == world.expected
    assert made.history()[0].operation == "clone"
    assert made.history()[0].inserted == len(world.expected)
    assert len(made.history()) == 1


def test_clone__keeps_what_a_table_has__but_tags_and_checkpoints():
    world = parent()
    table = world.open("parent")
    table.set({"owner": "me"})
    table.tag("v1")
    table.checkpoint("mine")
    with table.transaction(once="job 1") as change:
        change.append(rows_of({77: "a"}))
    made = world.clone("parent", "clone")
    assert made.schema == table.schema
    assert made.key == ("id",)
    assert made.settings == table.settings
    assert made.tags == {}
    assert made.checkpoints() == []
    assert [one.name for one in made.shards()] == ["0000-0000", "0000-0001"]
    before = made.version
    with made.transaction(once="job 1") as change:
        change.append(rows_of({78: "b"}))
    assert made.version == before, "it was applied in the parent"


@pytest.mark.parametrize("how", ["version", "tag", "name", "checkpoint"])
def test_clone__of_an_earlier_version__has_its_rows(how):
    world = World()
    table = world.create("parent", key="id")
    table.append(rows_of(numbered(0, 5)))
    table.tag("early")
    kept = table.checkpoint("kept")
    at = {"version": 1, "tag": "early", "name": "kept", "checkpoint": kept}[how]
    table.append(rows_of(numbered(5, 9)))
    assert content(world.clone("parent", "clone", at=at)) == numbered(0, 5)


def test_clone__of_a_checkpoint_of_scope_durable__has_exactly_what_was_acknowledged_before_it():
    world = parent()
    table = world.open("parent")
    writer = table.writer()
    kept = table.checkpoint("kept", scope="durable")
    writer.put(rows_of(numbered(50, 60)))
    table.merge_shards()
    world.clock.advance(DAY_S)
    table.merge_shards()
    made = world.clone("parent", "clone", at=kept)
    assert content(made) == world.expected
    assert content(world.open("clone")) == world.expected
    pin = table._looked().checkpoints[f"clone {made._log.identity.log}"]
    assert (pin.scope, pin.shards) == ("all", {}), "what it needed of shards is its own now"
    table.delete_checkpoint("kept")
    world.clock.advance(DAY_S)
    table.merge_shards()
    assert content(world.open("clone")) == world.expected
    writer.close()


def test_clone__an_entry_of_the_wal_is_gone_that_the_checkpoint_needs__is_an_error_and_no_smaller_clone():
    world = parent()
    table = world.open("parent")
    table.checkpoint("kept", scope="durable")
    doomed = [key for key in world.keys("parent", "shards") if "/wal/entries/" in key]
    world.store("parent").delete(doomed)
    with pytest.raises(MissingObjectError):
        world.clone("parent", "clone", at="kept")
    with pytest.raises(NotFoundError, match="not ended"):
        world.open("clone")


def test_clone__where__has_those_rows_only_and_masks_them_with_vectors_of_its_own():
    world = parent()
    made = world.clone("parent", "clone", where="id < 7 or id >= 15")
    assert content(made) == {id_: v for id_, v in world.expected.items() if id_ < 7 or id_ >= 15}
    assert world.keys("clone", "vectors")
    assert world.keys("clone", "data") == []
    assert content(world.open("parent"), fresh=True) == world.expected


def test_clone__where_is_null_for_a_row__leaves_it_out():
    world = World()
    world.create("parent").append(rows_of({1: None, 2: "a", 3: "b"}))
    assert content(world.clone("parent", "clone", where="v <> 'b'")) == {2: "a"}


def test_clone__where_a_fragment_has_no_such_row__it_is_not_opened():
    world = World()
    table = world.create("parent", key="id")
    table.append(rows_of(numbered(0, 10)))
    table.append(rows_of(numbered(100, 110)))
    store = world.faulty("parent")
    made = world.clone(world.open("parent", store=store), "clone", where="id >= 100")
    name = next(iter(made._now().fragments)).fragment.name
    read = {call.key for call in store.calls if call.key.startswith("data/")}
    assert content(made) == numbered(100, 110)
    assert all(bare(name) in key for key in read)


def test_clone__two_halves__all_rows_are_in_one_of_them_and_the_parent_can_go():
    world = parent()
    world.open("parent").checkpoint("split", scope="durable")
    low = world.clone("parent", "low", at="split", where="id < 11")
    high = world.clone("parent", "high", at="split", where="not (id < 11)")
    assert {**content(low), **content(high)} == world.expected
    assert not content(low).keys() & content(high).keys()
    low.detach()
    with pytest.raises(ConflictError, match=world.uri("high")):
        world.drop("parent")
    high.detach()
    world.drop("parent")
    assert {**content(world.open("low")), **content(world.open("high"))} == world.expected
    assert len(content(low)) + len(content(high)) == len(world.expected)


def test_clone__an_empty_table__is_an_empty_table():
    world = World()
    world.create("parent", key="id")
    made = world.clone("parent", "clone")
    assert content(made) == {}
    made.append(rows_of({1: "a"}))
    assert content(world.open("clone")) == {1: "a"}


# -- what it shares ----------------------------------------------------------------------------------


def test_clone__writes_to_either__do_not_reach_the_other():
    world = parent()
    made, table = world.clone("parent", "clone"), world.open("parent")
    made.append(rows_of({100: "clone"}))
    table.append(rows_of({200: "parent"}))
    with made.writer() as writer:
        writer.put(rows_of({101: "clone"}))
    with table.writer() as writer:
        writer.put(rows_of({201: "parent"}))
    assert content(made, fresh=True) == world.expected | {100: "clone", 101: "clone"}
    assert content(table, fresh=True) == world.expected | {200: "parent", 201: "parent"}


def test_clone__everything_that_a_table_can__a_clone_can():
    world = parent()
    made, expected = world.clone("parent", "clone"), dict(world.expected)
    made.upsert(rows_of({1: "up", 300: "new"}))
    expected |= {1: "up", 300: "new"}
    made.delete("id = 2")
    del expected[2]
    made.update({"v": "concat(v, '!')"}, where="id = 4")
    expected[4] += "!"
    assert content(made) == expected
    assert made.get([1, 2, 4, 300]).to_pydict() == {"id": [1, 4, 300], "v": ["up", "x4!", "new"]}
    assert made.scan(where="id = 10").count() == 1
    assert made.sql(f"SELECT count(*) AS n FROM {made.name}").to_arrow().to_pydict() == {"n": [len(expected)]}
    feed = made.changes(1).to_arrow().to_pydict()
    assert sorted(set(zip(feed["id"], feed["_change"], strict=True))) == [
        (1, "update_after"), (1, "update_before"), (2, "delete"), (4, "update_after"), (4, "update_before"),
        (300, "insert"),
    ]  # fmt: skip
    made.add_column("n", pa.int32())
    made.drop_column("n")
    made.restore(version=1)
    assert content(made) == world.expected
    made.compact()
    assert content(made) == world.expected
    assert content(world.open("clone").at(version=1)) == world.expected
    assert content(world.open("parent"), fresh=True) == world.expected


def test_clone__compacted__names_objects_of_its_own_for_what_was_rewritten():
    world = World()
    table = world.create("parent", key="id")
    for start in range(0, 40, 10):
        table.append(rows_of(numbered(start, start + 10)))
    made = world.clone("parent", "clone")
    made.compact()
    assert {origin_of(live.fragment.name) for live in made._now().fragments} == {0}
    assert content(world.open("clone")) == numbered(0, 40)
    assert content(world.open("parent")) == numbered(0, 40)


def test_clone__the_users_checkpoint_and_tag_go__harms_nothing():
    world = parent()
    table = world.open("parent")
    kept = table.checkpoint("kept")
    table.tag("t", version=kept.version)
    made = world.clone("parent", "clone", at=kept)
    table.delete_checkpoint("kept")
    table.untag("t")
    assert table._looked().keeps(kept.version)
    assert content(world.open("clone")) == content(made) == world.expected


def test_delete_checkpoint__that_a_clone_holds__is_refused():
    world = parent()
    made = world.clone("parent", "clone")
    name = f"clone {made._log.identity.log}"
    with pytest.raises(InvalidInputError, match=world.uri("clone")):
        world.open("parent").delete_checkpoint(name)


def test_clone__pickled__is_opened_with_its_parent():
    world = parent()
    made = world.clone("parent", "clone")
    assert content(pickle.loads(pickle.dumps(world.open("clone")))) == content(made)


def test_open__the_parent_is_not_there__says_so():
    world = parent()
    world.clone("parent", "clone")
    store = world.store("parent")
    store.delete(world.keys("parent"))
    with pytest.raises(MissingObjectError, match="not there"):
        world.open("clone")


def test_open__the_parent_is_elsewhere_now__origins_says_where():
    world = parent()
    world.clone("parent", "clone")
    old, new = world.store("parent"), world.store("moved")
    for key in world.keys("parent"):
        new.put(key, old.get(key))
    old.delete(world.keys("parent"))
    for origins in ({old.uri: new}, {old.uri: new.uri}, {1: new}, {old.uri: {"uri": new.uri}}):
        assert content(world.open("clone", origins=origins)) == world.expected
    with pytest.raises(MissingObjectError, match="not it"):
        world.open("clone", origins={old.uri: world.store("clone")})


@pytest.mark.parametrize("origins", [3, "x", {1.5: "a"}, {True: "a"}, {"memory://x": 3}, {1: {"region": 3}}])
def test_open__origins_that_say_nothing__are_refused(origins):
    world = World()
    world.create("parent")
    with pytest.raises(InvalidInputError, match="origins"):
        world.open("parent", origins=origins)


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"at": "nothing"}, NotFoundError),
        ({"at": 99}, NotFoundError),
        ({"at": -1}, InvalidInputError),
        ({"at": 1.5}, InvalidInputError),
        ({"at": True}, InvalidInputError),
        ({"at": ""}, InvalidInputError),
        ({"where": "nothing = 1"}, InvalidInputError),
        ({"where": "id"}, InvalidInputError),
        ({"where": "random() < 0.5"}, InvalidInputError),
        ({"where": 3}, InvalidInputError),
        ({"guard": "nothing"}, InvalidInputError),
        ({"wal": 3}, InvalidInputError),
        ({"wal_options": {"a": "b"}}, InvalidInputError),
        ({"commits": 3}, InvalidInputError),
    ],
)
def test_clone__of_what_is_not_there__is_refused_and_nothing_is_made(options, error):
    world = parent()
    with pytest.raises(error):
        world.clone("parent", "clone", **options)
    assert world.keys("clone") == []
    assert world.pins("parent") == []


def test_clone__a_checkpoint_and_a_tag_of_one_name__is_refused():
    world = parent()
    table = world.open("parent")
    table.tag("both", version=1)
    table.checkpoint("both")
    with pytest.raises(InvalidInputError, match="checkpoint of version"):
        table.clone(world.store("clone"), at="both", probe=False)


def test_clone__where_a_table_is__is_refused():
    world = parent()
    world.create("other")
    with pytest.raises(AlreadyExistsError, match="no clone"):
        world.clone("parent", "other")
    with pytest.raises(AlreadyExistsError, match="no clone"):
        world.clone("parent", "parent")
    assert world.pins("parent") == []


def test_clone__again__is_opened_unless_it_was_written_to():
    world = parent()
    made = world.clone("parent", "clone")
    assert world.clone("parent", "clone").version == made.version
    made.append(rows_of({99: "a"}))
    with pytest.raises(AlreadyExistsError, match="written to since"):
        world.clone("parent", "clone")
    assert len(world.pins("parent")) == 1


def test_clone__again_with_other_arguments__is_refused():
    world = parent()
    table = world.open("parent")
    table.checkpoint("kept")
    world.create("other", key="id").append(rows_of({1: "a"}))
    world.clone("parent", "clone", at=2)
    for options in ({}, {"at": 1}, {"at": "kept"}, {"at": 2, "where": "id > 1"}):
        with pytest.raises(AlreadyExistsError, match="another clone"):
            world.clone("parent", "clone", **options)
    with pytest.raises(AlreadyExistsError, match="another clone"):
        world.clone("other", "clone", at=1)
    assert world.pins("other") == []


def test_clone__a_version_before_it__is_none():
    world = parent()
    made = world.clone("parent", "clone")
    with pytest.raises(TruncatedError):
        made.at(version=0)
    with pytest.raises(TruncatedError):
        made.changes(0)


def test_clone__through_a_handle_of_a_version__is_refused():
    world = parent()
    with pytest.raises(InvalidInputError, match="pinned"):
        world.open("parent").at(version=1).clone(world.store("clone"))


def test_clone__of_a_table_without_shards__has_none():
    world = World()
    world.create("parent", key="id").append(rows_of({1: "a"}))
    made = world.clone("parent", "clone")
    assert made.shards() == []
    assert made.split_shards(2).operation == "split"
    assert made.schema.equals(SCHEMA)
