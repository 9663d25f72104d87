"""Checkpoints as a user sees them: what they keep, for how long, and what is refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import pickle

import pyarrow as pa
import pytest

import siltstone as ss
from checkpoint_worlds import NAME, age, begun, check_kept, model_of, put, record_of, writers_of
from shard_models import MERGE, SCHEMA, World, append, content, ids_of, plain, rows_of, split, update
from siltstone.errors import (
    ClosedError,
    InvalidInputError,
    MissingObjectError,
    NotFoundError,
)
from siltstone.shard.manifest import to_cursor

SCOPES = pytest.mark.parametrize("scope", ["all", "durable"])
KEYED = pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "free"])


# -- what is kept ------------------------------------------------------------------------------------


@SCOPES
@KEYED
def test_checkpoint__rows_in_the_table_and_in_shards__has_them_all_whatever_comes_later(scope, keyed):
    world = begun(keyed=keyed)
    began, fresh = world.book.ends(), content(world.open().scan(fresh=True))
    made = world.open().checkpoint(NAME, scope=scope)
    writers = writers_of(world)
    put(world, writers, dict.fromkeys(range(20, 60), 1) if keyed else dict.fromkeys(range(60, 99), 1))
    age(world, writers)
    world.do(world.open(), update(1000))
    world.open().compact()
    check_kept(world, began)
    assert content(world.open().at(checkpoint=made).scan()) == fresh
    world.check()


@SCOPES
def test_checkpoint__what_it_returns__is_what_is_listed(scope):
    world = begun()
    table = world.open()
    now = world.clock.wall_ms()
    made = table.checkpoint(NAME, scope=scope, keep_days=7)
    assert isinstance(made, ss.Checkpoint)
    assert (made.name, made.scope, made.pending, made.holder) == (NAME, scope, False, None)
    assert made.version == table.version == table.history(1)[0].version
    assert table.history(1)[0].operation == "checkpoint"
    assert 0 <= made.created.timestamp() * 1000 - now < 1000
    assert made.expires == made.created + dt.timedelta(days=7)
    assert made.shards == (() if scope == "all" else ("0000-0000", "0000-0001"))
    assert table.checkpoints() == world.open().checkpoints() == [made]
    assert dataclasses.is_dataclass(made)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "other"


def test_checkpoints__several__come_by_version():
    table = begun().open()
    later = table.checkpoint("a")
    early = table.checkpoint("b", version=1)
    assert table.checkpoints() == [early, later]


@SCOPES
def test_checkpoint__of_a_table_without_shards__is_its_newest_version(scope):
    world = World(shards=None)
    table = world.open()
    world.do(table, append({1: 1}))
    made = table.checkpoint(NAME, scope=scope)
    world.do(table, append({2: 1}))
    assert content(table.at(checkpoint=NAME).scan()) == plain({1: 1})
    assert made.shards == ()


@SCOPES
def test_checkpoint__of_shards_that_nobody_wrote_to__makes_nothing_in_them(scope):
    world = World()
    world.open().checkpoint(NAME, scope=scope)
    assert world.keys("shards/") == []
    check_kept(world)


def test_checkpoint__of_an_earlier_version__keeps_that_and_leaves_shards_alone():
    world = begun()
    table = world.open()
    before = table._now().shards
    made = table.checkpoint(NAME, version=1)
    assert (made.version, made.scope) == (1, "all")
    assert table._now().shards == before
    assert content(table.at(checkpoint=NAME).scan()) == content(table.at(version=1).scan())


@pytest.mark.parametrize("memtable", [True, False], ids=["empty memtable", "rows in the memtable"])
def test_checkpoint__scope_all_of_a_freshly_fenced_shard__needs_no_object_of_a_shard(memtable):
    world = begun()
    if memtable:
        world.open().merge_shards()
    writers = writers_of(world)  # each has put a fence behind the last entry
    table = world.open()
    table.checkpoint(NAME)
    state = table._history.at(record_of(world).version)
    for name in state.shards:
        tip = table._shards.reader(name, state).place.read().wal.tip()
        assert state.shards[name] == to_cursor(tip), "the fence is behind what the checkpoint has"
    assert record_of(world).shards == {}
    expected = plain(model_of(world))
    put(world, writers, {70: 1, 71: 1})
    world.do(world.open(), MERGE)
    for key in world.keys("shards/"):
        world.store().delete([key])
    assert content(world.open().at(checkpoint=NAME).scan()) == expected


@SCOPES
def test_checkpoint__writers_at_work__are_not_disturbed(scope):
    world = begun()
    writers = writers_of(world)
    epochs = [one.epoch for one in world.open().shards()]
    world.open().checkpoint(NAME, scope=scope)
    put(world, writers, dict.fromkeys(range(40, 50), 9))
    for writer in writers:
        world.flush(writer)
    assert [one.epoch for one in world.open().shards()] == epochs
    world.check()


def test_checkpoint__scope_durable__rewrites_nothing():
    world = begun()
    table = world.open()
    before, cursors = set(world.keys("data/")) | set(world.keys("vectors/")), table._now().shards
    shards = {key for key in world.keys("shards/") if "/data/" in key or "/wal/entries" in key}
    table.checkpoint(NAME, scope="durable")
    assert set(world.keys("data/")) | set(world.keys("vectors/")) == before
    assert {key for key in world.keys("shards/") if "/data/" in key or "/wal/entries" in key} == shards
    assert table._now().shards == cursors


def test_checkpoint__split_behind_it__is_read_from_the_old_shards():
    world = begun()
    began = world.book.ends()
    world.open().checkpoint(NAME, scope="durable")
    world.do(world.open(), split(3))
    world.do(world.open(), split(5))
    age(world)
    check_kept(world, began)


def test_checkpoint__columns_changed_behind_it__has_those_of_then():
    world = begun()
    table = world.open()
    table.checkpoint(NAME, scope="durable")
    table.add_column("more", pa.int64(), default=7)
    table.rename_column("note", "text")
    assert table.at(checkpoint=NAME).schema.names == ["id", "n", "note"]
    check_kept_columns = table.at(checkpoint=NAME).scan(["note"]).to_arrow()
    assert check_kept_columns.num_rows == len(model_of(world))


# -- through writers -----------------------------------------------------------------------------------


@SCOPES
def test_checkpoint__through_a_writer__has_what_it_accepted_and_nobody_waited_for(scope):
    world = begun()
    table = world.open()
    writer = world.writers(table)[0]
    ids = list(itertools.islice(ids_of(0, 2, start=100), 5))
    for id_ in ids:
        writer.put(rows_of({id_: 5}), wait=False)
    made = writer.checkpoint(NAME, scope=scope, keep_days=1)
    kept = table.at(checkpoint=made)
    assert kept.get(ids).num_rows == len(ids)
    assert made.expires == made.created + dt.timedelta(days=1)


@SCOPES
def test_checkpoint__through_a_routed_writer__has_the_rows_of_all_shards(scope, tmp_path):
    table = ss.create(tmp_path, schema=SCHEMA, key="id", shards=3)
    with table.writer() as writer:
        writer.put(rows_of(dict.fromkeys(range(50), 1)), wait=False)
        made = writer.checkpoint(NAME, scope=scope)
        writer.put(rows_of(dict.fromkeys(range(100), 2)))
        assert content(table.at(checkpoint=made).scan()) == plain(dict.fromkeys(range(50), 1))


def test_checkpoint__through_a_writer_that_was_closed__is_refused():
    world = begun()
    writer = world.writers()[0]
    writer.close()
    with pytest.raises(ClosedError):
        writer.checkpoint(NAME)
    assert record_of(world) is None


# -- reading it ------------------------------------------------------------------------------------------


@SCOPES
def test_at__a_checkpoint__reads_alike_by_scan_get_sql_and_a_pickled_handle(scope, tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=2)
    table.append(rows_of(dict.fromkeys(range(10), 0)))
    with table.writer() as writer:
        writer.put(rows_of(dict.fromkeys(range(5, 15), 1)))
        writer.delete([2])
        made = table.checkpoint(NAME, scope=scope)
        writer.put(rows_of(dict.fromkeys(range(20), 2)))
    expected = plain({id_: int(id_ >= 5) for id_ in range(15) if id_ != 2})
    kept = table.at(checkpoint=made)
    for one in (kept, table.at(checkpoint=NAME), pickle.loads(pickle.dumps(kept)), kept.at(checkpoint=NAME)):
        assert content(one.scan()) == expected
        assert one.version == made.version
        assert one.get([2, 3, 7]).column("n").to_pylist() == [0, 1]
        assert one.sql("SELECT sum(n) AS s FROM t").to_arrow().column("s").to_pylist() == [10]
        assert one.scan(where="n = 1", limit=3).to_arrow().num_rows == 3


def test_at__a_handle_at_a_durable_checkpoint__shows_other_versions_as_they_are():
    world = begun()
    table = world.open()
    table.checkpoint(NAME, scope="durable")
    kept = table.at(checkpoint=NAME)
    assert content(kept.at(version=1).scan()) == content(table.at(version=1).scan())
    changed = table.changes(0, until=table.version).to_arrow().num_rows
    assert kept.changes(0).to_arrow().num_rows == changed


def test_at__a_pickled_handle_whose_checkpoint_is_another_by_now__is_refused(tmp_path):
    table = ss.create(tmp_path, schema=SCHEMA, key="id", shards=1)
    with table.writer() as writer:
        writer.put(rows_of({1: 1}))
    table.checkpoint(NAME, scope="durable")
    data = pickle.dumps(table.at(checkpoint=NAME))
    table.delete_checkpoint(NAME)
    with pytest.raises(NotFoundError, match="no checkpoint"):
        pickle.loads(data)
    table.checkpoint(NAME, scope="durable")
    with pytest.raises(NotFoundError, match="another one has its name"):
        pickle.loads(data)


def test_at__a_checkpoint__can_not_be_written_or_read_fresh():
    table = begun().open()
    kept = table.at(checkpoint=table.checkpoint(NAME, scope="durable"))
    with pytest.raises(InvalidInputError, match="pinned"):
        kept.append(rows_of({900: 1}))
    with pytest.raises(InvalidInputError, match="pinned"):
        kept.checkpoint("other")
    with pytest.raises(InvalidInputError, match="pinned"):
        kept.scan(fresh=True)


@pytest.mark.parametrize("part", ["wal/entries", "wal/identity", "data/"])
def test_at__an_object_of_the_capture_is_gone__is_an_error_and_never_fewer_rows(part):
    world = begun()
    world.open().checkpoint(NAME, scope="durable")
    gone = [key for key in world.keys("shards/0000-0000/") if key.startswith(f"shards/0000-0000/{part}")]
    world.store().delete(gone[-1:])
    with pytest.raises(MissingObjectError):
        content(world.open().at(checkpoint=NAME).scan())


def test_at__the_wal_was_truncated_behind_a_pins_back__is_told():
    world = begun()
    table = world.open()
    table.checkpoint(NAME, scope="durable")
    wal = table._shards.reader("0000-0000", table._now()).place.read().wal
    wal.truncate(wal.tip())
    with pytest.raises(MissingObjectError, match="0000-0000, and not all of them are there"):
        table.at(checkpoint=NAME)
