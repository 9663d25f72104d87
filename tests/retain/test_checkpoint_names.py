"""Names and arguments of checkpoints, what is refused, and what is let go of with them."""

from __future__ import annotations

import datetime as dt

import pytest

from checkpoint_worlds import NAME, Edit, age, begun, check_kept, pins_of, put, writers_of
from shard_models import split
from siltstone.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    TruncatedError,
)
from siltstone.format.table import Checkpoint, Holder
from siltstone.retain.checkpoint import CLONES

SCOPES = pytest.mark.parametrize("scope", ["all", "durable"])

# -- names and arguments --------------------------------------------------------------------------------


@SCOPES
def test_checkpoint__a_name_that_is_taken__is_refused(scope):
    world = begun()
    table = world.open()
    made = table.checkpoint(NAME, scope=scope)
    before = table.version
    for other in ("all", "durable"):
        with pytest.raises(AlreadyExistsError, match=f"of version {made.version}"):
            table.checkpoint(NAME, scope=other)
    assert (table.version, table.checkpoints()) == (before, [made])


def test_checkpoint__a_name_that_a_tag_has__is_another_thing():
    table = begun().open()
    table.tag(NAME, version=1)
    made = table.checkpoint(NAME)
    assert table.at(tag=NAME).version == 1
    assert table.at(checkpoint=NAME).version == made.version


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", InvalidInputError),
        ("a b", InvalidInputError),
        ("clone 00", InvalidInputError),
        ("12", InvalidInputError),
        ("é", InvalidInputError),
        ("a/b", InvalidInputError),
        (None, InvalidInputError),
        (7, InvalidInputError),
        (b"x", InvalidInputError),
        ("\ud800", InvalidInputError),
        ("x" * 300, LimitExceededError),
    ],
)
def test_checkpoint__a_name_that_is_none__is_refused(name, error):
    table = begun().open()
    before = table.version
    with pytest.raises(error):
        table.checkpoint(name)
    assert table.version == before


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), True, "7", dt.timedelta(days=1), 10**9, [1]])
def test_checkpoint__days_that_are_none__are_refused(days):
    table = begun().open()
    made = table.checkpoint("kept")
    with pytest.raises(InvalidInputError, match="keep_days"):
        table.checkpoint(NAME, keep_days=days)
    with pytest.raises(InvalidInputError, match="keep_days"):
        table.refresh_checkpoint(made, keep_days=days)
    assert table.checkpoints() == [made]


@pytest.mark.parametrize("scope", ["", "ALL", None, 1, ["all"], "version"])
def test_checkpoint__a_scope_that_is_none__is_refused(scope):
    with pytest.raises(InvalidInputError, match="scope"):
        begun().open().checkpoint(NAME, scope=scope)


@pytest.mark.parametrize(
    ("version", "error"),
    [(-1, InvalidInputError), (999, NotFoundError), ("1", InvalidInputError), (True, InvalidInputError)],
)
def test_checkpoint__a_version_that_is_none__is_refused(version, error):
    table = begun().open()
    with pytest.raises(error):
        table.checkpoint(NAME, version=version)
    assert table.checkpoints() == []


def test_checkpoint__an_earlier_version_with_scope_durable__is_refused():
    with pytest.raises(InvalidInputError, match="leave one of them out"):
        begun().open().checkpoint(NAME, version=1, scope="durable")


def test_checkpoint__a_version_that_was_collected__is_refused_unless_something_keeps_it():
    table = begun().open()
    table.tag("kept", version=1)
    table._do(Edit(floor=2))
    with pytest.raises(TruncatedError, match="version 0 was collected"):
        table.checkpoint(NAME, version=0)
    assert table.checkpoint(NAME, version=1).version == 1
    table.untag("kept")
    assert table.at(checkpoint=NAME).version == 1


@pytest.mark.parametrize("given", [None, 7, b"x", "", ["a"]])
def test_checkpoint_calls__given_something_that_names_none__are_refused(given):
    table = begun().open()
    for call in (table.delete_checkpoint, lambda one: table.refresh_checkpoint(one, keep_days=1)):
        with pytest.raises(InvalidInputError, match="named by a string"):
            call(given)
    with pytest.raises(InvalidInputError):
        table.at(checkpoint=given)


def test_checkpoint_calls__a_name_that_nothing_has__are_refused():
    table = begun().open()
    made = table.checkpoint(NAME)
    for call in (
        table.delete_checkpoint,
        lambda one: table.refresh_checkpoint(one, keep_days=1),
        lambda one: table.at(checkpoint=one),
    ):
        with pytest.raises(NotFoundError, match="checkpoints: before"):
            call("other")
    table.delete_checkpoint(made)
    table.checkpoint(NAME)
    for call in (table.delete_checkpoint, lambda one: table.refresh_checkpoint(one, keep_days=1)):
        with pytest.raises(NotFoundError, match="another one has its name"):
            call(made)
    assert len(table.checkpoints()) == 1


def test_at__a_checkpoint_and_something_else__is_refused():
    table = begun().open()
    table.checkpoint(NAME)
    with pytest.raises(InvalidInputError, match="2 of version="):
        table.at(checkpoint=NAME, version=1)
    with pytest.raises(InvalidInputError, match="0 of version="):
        table.at()


# -- letting go --------------------------------------------------------------------------------------------


def test_delete_checkpoint__scope_durable__shards_let_go_of_what_it_kept():
    world = begun()
    table = world.open()
    made = table.checkpoint(NAME, scope="durable")
    assert pins_of(world) == {"0000-0000": {made.id}, "0000-0001": {made.id}}
    age(world)
    kept = [key for key in world.keys("shards/") if "/data/" in key or "/wal/entries/" in key]
    assert kept, "what it needs is there"
    check_kept(world)
    table.delete_checkpoint(made)
    age(world)
    assert not any(pins_of(world).values())
    assert [key for key in kept if key in world.bucket.objects] == []
    with pytest.raises(NotFoundError):
        table.at(checkpoint=NAME)
    world.check()


def test_delete_checkpoint__one_of_two__the_other_keeps_what_it_needs():
    world = begun()
    table = world.open()
    first = table.checkpoint("first", scope="durable")
    writers = writers_of(world)
    put(world, writers, dict.fromkeys(range(30, 40), 8))
    for writer in writers:
        world.flush(writer)
    second = table.checkpoint("second", scope="durable")
    put(world, writers, dict.fromkeys(range(30, 40), 9))
    age(world, writers)
    for gone, left in ((first, second), (second, first)):
        other = world.copy()
        other.open().delete_checkpoint(gone)
        age(other)
        check_kept(other, name=left.name)
        assert all(pins == {left.id} for pins in pins_of(other).values())


def test_delete_checkpoint__after_a_split__old_shards_let_go_too():
    world = begun()
    table = world.open()
    made = table.checkpoint(NAME, scope="durable")
    world.do(table, split(3))
    age(world)
    check_kept(world)
    table.delete_checkpoint(made)
    age(world)
    assert not any(pins_of(world).values())
    assert [key for key in world.keys("shards/0000-") if "/data/" in key or "/wal/entries/" in key] == []


def test_delete_checkpoint__one_that_a_clone_holds__is_refused_and_says_who():
    world = begun()
    table = world.open()
    held = Checkpoint(version=1, pin="a" * 32, holder=Holder(table="b" * 32, uri="s3://bucket/trial"))
    table._do(Edit(checkpoints={CLONES + "b" * 32: held}))
    (shown,) = table.checkpoints()
    assert shown.holder == "s3://bucket/trial"
    with pytest.raises(InvalidInputError, match="the clone at s3://bucket/trial"):
        table.delete_checkpoint(shown)
    with pytest.raises(InvalidInputError, match="the clone at s3://bucket/trial"):
        table.refresh_checkpoint(shown.name, keep_days=1)
    assert table.checkpoints() == [shown]
    assert table.at(checkpoint=shown).version == 1
