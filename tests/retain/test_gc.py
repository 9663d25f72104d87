"""What a collection removes, and what it leaves: compared with a book of all versions that knows nothing of it."""

from __future__ import annotations

import random
import uuid

import pytest

import siltstone as ss
from gc_models import DAY_S, GcWorld, content, grown, rows_of
from siltstone import paths
from siltstone.errors import InvalidInputError, TruncatedError
from siltstone.store.memory import MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import Crashed, Fault

UNNAMED = paths.data(paths.name(3, "ab" * 16))


def kinds(collected):
    return {kind: count for kind, count in collected.objects.items() if count}


# -- which version becomes the floor ---------------------------------------------------------------


def test_gc__versions_of_several_days__floor_is_the_newest_that_is_older():
    world = GcWorld()
    table = world.open()
    for day in range(10):
        table.append(rows_of({day: day}))
        world.clock.advance(DAY_S)
    # Version n was made on day n - 1, and it is day 10 now.
    done = table.gc(keep_days=3)
    assert done.floor == 7
    assert [one.version for one in table.history()] == [11, 10, 9, 8, 7]


def test_gc__clocks_of_writers_are_days_off__the_stores_counts():
    world = GcWorld()
    for day, skew_days in enumerate([0, 90, 0, 300, 5, 0]):
        clock = ManualClock()
        clock.advance(skew_days * DAY_S)
        ss.open(world.store(), probe=False, env=manual_env(day, clock=clock)).append(rows_of({day: skew_days}))
        world.clock.advance(DAY_S)
    collector = ManualClock()
    collector.advance(1000 * DAY_S)
    table = ss.open(world.store(), probe=False, env=manual_env(9, clock=collector))
    assert table.gc(keep_days=2).floor == 4


def test_gc__keep_versions__so_many_stay_however_old():
    world = grown()
    world.clock.advance(100 * DAY_S)
    table = world.open()
    newest = table.version
    assert table.gc(keep_versions=4).floor == newest - 3
    world.check()


def test_gc__all_is_young__nothing_is_changed():
    world = grown()
    before = dict(world.bucket.objects)
    done = world.open().gc()
    assert (done.floor, done.deleted) == (0, 0)
    assert {key for key in world.bucket.objects if world.bucket.objects[key] != before.get(key)} <= {"log/clock"}


def test_gc__setting_of_the_table__is_the_default():
    world = grown()
    table = world.open()
    table.set({"gc.keep_days": "30"})
    world.clock.advance(20 * DAY_S)
    assert table.gc().floor == 0
    assert table.gc(keep_days=10).floor > 0


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf"), "7", True, 10**9])
def test_gc__bad_days__are_refused(days):
    with pytest.raises(InvalidInputError, match="keep_days"):
        grown().open().gc(keep_days=days)


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_gc__bad_setting__is_named(text):
    table = grown().open()
    table.set({"gc.keep_days": text})
    with pytest.raises(InvalidInputError, match=r"gc\.keep_days") as told:
        table.gc()
    assert "table.set" in told.value.hint


@pytest.mark.parametrize("options", [{"keep_versions": 0}, {"keep_versions": 1.5}, {"dry_run": 1}, {"progress": 3}])
def test_gc__bad_arguments__are_refused(options):
    with pytest.raises(InvalidInputError):
        grown().open().gc(**options)


def test_gc__of_a_pinned_handle__is_refused():
    with pytest.raises(InvalidInputError, match="pinned"):
        grown().open().at(version=1).gc()


# -- what goes and what stays ----------------------------------------------------------------------


def test_gc__old_versions__their_files_go_and_all_else_stays():
    world = grown()
    world.clock.advance(8 * DAY_S)
    table = world.open()
    done = table.gc()
    state = world.check(clean=True)
    assert done.floor == state.floor == state.version - 1
    assert done.kept == (2,)
    assert kinds(done)["fragment"]


def test_gc__dry_run__names_exactly_what_a_run_removes():
    world = grown()
    world.store().put(UNNAMED, b"left by a crash")
    world.clock.advance(8 * DAY_S)
    table = world.open()
    told = table.gc(dry_run=True)
    before = dict(world.bucket.objects)
    assert told.dry_run
    done = table.gc()
    world.clock.advance(DAY_S)  # entries stay a little longer
    table.gc()
    gone = before.keys() - world.bucket.objects.keys()
    assert {one.key for one in told.doomed} == gone
    assert (told.floor, told.objects["fragment"]) == (done.floor, done.objects["fragment"])
    assert all(one.why and one.bytes == len(before[one.key][0]) for one in told.doomed)
    assert "no version names it" in next(one.why for one in told.doomed if one.key == UNNAMED)
    assert sum(told.objects.values()) == told.deleted == len(told.doomed)


def test_gc__dry_run__changes_nothing():
    world = grown()
    world.clock.advance(8 * DAY_S)
    before = {key: data for key, (data, _) in world.bucket.objects.items()}
    world.open().gc(dry_run=True)
    assert {key: data for key, (data, _) in world.bucket.objects.items() if key != "log/clock"} == before


def test_gc__objects_without_a_name_of_ours__are_not_touched():
    world = grown()
    keys = [
        "data/notes.txt",
        "data/0-abc.parquet",
        f"data/{paths.name(0, 'ab' * 16)}.parquet.bak",
        f"data/{paths.name(0, 'ab' * 16)}.bits",
        f"data/sub/{paths.name(0, 'ab' * 16)}.parquet",
        f"vectors/{paths.name(0, 'ab' * 16)}.parquet",
        "rollups/00-what.arrow",
        "elsewhere/x",
    ]
    for key in keys:
        world.store().put(key, b"somebody's")
    world.clock.advance(30 * DAY_S)
    for _ in range(3):
        world.open().gc(keep_days=0)
        world.clock.advance(DAY_S)
    assert all(world.store().get(key) == b"somebody's" for key in keys)


def test_gc__idle_table__makes_no_versions_for_ever():
    world = grown()
    world.idle()


def test_gc__tag_goes__what_it_kept_goes_with_the_next_one():
    world = grown()
    world.clock.advance(8 * DAY_S)
    table = world.open()
    table.gc()
    kept = world.there()
    table.untag("old")
    world.note()
    table.gc(keep_days=0)
    assert world.there() < kept
    with pytest.raises(TruncatedError):
        table.at(version=2)
    world.idle()


def test_gc__checkpoint_that_expired__goes_in_the_same_entry():
    world = grown()
    table = world.open()
    table.checkpoint("short", keep_days=1)
    table.checkpoint("long", keep_days=100)
    table.upsert(rows_of({5: 5}))
    table.compact()
    world.note()
    world.clock.advance(10 * DAY_S)
    done = table.gc()
    assert done.expired == ("short",)
    assert [one.name for one in table.checkpoints()] == ["long"]
    world.check(clean=True)
    assert "short" not in world.open()._now().checkpoints
    world.idle()


def test_gc__shards_with_rows_everywhere__nothing_that_is_needed_goes():
    world = GcWorld(shards=2)
    table = world.open()
    writers = world.writers(table)
    for round_ in range(4):
        world.put_all(writers, {id_: round_ * 100 + id_ for id_ in range(20)})
        for writer in writers:
            world.flush(writer)
        world.put_all(writers, {id_: round_ * 100 + id_ for id_ in range(10, 30)})
        table.merge_shards()
        world.note()
        world.clock.advance(3 * DAY_S)
        before = sorted(map(tuple, (one.values() for one in table.scan(fresh=True).to_arrow().to_pylist())))
        table.gc(keep_days=1)
        world.check()
        assert sorted(map(tuple, (one.values() for one in table.scan(fresh=True).to_arrow().to_pylist()))) == before
    world.idle()
    assert not world.keys("shards/0000-0000/data/")
    assert len(world.shard_keys("0000-0000", "manifest/entries/")) == 1


def test_gc__fragment_of_a_flush_that_was_cut_off__goes_and_one_under_way_stays():
    world = GcWorld(shards=1)
    table = world.open()
    writer = world.writers(table)[0]
    for round_ in range(3):
        world.put(writer, {round_: 1})
        world.flush(writer)
    generation = writer.place.read().manifest.read().generation
    old, young = (f"shards/0000-0000/data/{paths.name(n, 'cd' * 16)}.parquet" for n in (generation - 1, generation))
    world.store().put(old, b"x")
    world.store().put(young, b"x")
    told = table.gc(keep_days=0, dry_run=True)
    assert [one.key for one in told.doomed if one.kind == "shard fragment"] == [old]
    table.gc(keep_days=0)
    assert not world.keys(old)
    assert world.keys(young)
    assert table.count(fresh=True) == 3


def test_gc__durable_checkpoint__keeps_fragments_and_wal_of_shards_until_it_is_deleted():
    world = GcWorld(shards=1)
    table = world.open()
    writer = world.writers(table)[0]
    world.put(writer, {1: 1, 2: 2})
    world.flush(writer)
    world.put(writer, {3: 3})
    table.checkpoint("here", scope="durable")
    then = content(table.at(checkpoint="here").scan())
    assert len(then) == 3
    world.put(writer, {1: 10, 4: 4})
    world.flush(writer)
    table.merge_shards()
    world.note()
    for _ in range(3):
        world.clock.advance(8 * DAY_S)
        assert world.open().gc(keep_days=0).left == ()
        assert content(world.open().at(checkpoint="here").scan()) == then
    assert world.shard_keys("0000-0000", "data/")
    table.delete_checkpoint("here")
    world.idle()
    assert not world.shard_keys("0000-0000", "data/")
    assert not world.shard_keys("0000-0000", "wal/entries/")


def test_gc__checkpoint_that_was_begun_and_given_up__goes_after_a_day():
    world = GcWorld(shards=1)
    table = world.open()
    writer = world.writers(table)[0]
    world.put(writer, {1: 1})
    store = world.faulty()
    doomed = world.open(store)
    store.on("create", Fault.CRASH_BEFORE, key="log/entries/", nth=2)
    with pytest.raises(Crashed):
        doomed.checkpoint("half", scope="durable")
    assert world.open()._now().checkpoints["half"].pending
    assert table.gc(keep_days=0).expired == ()
    assert "half" in world.open()._now().checkpoints
    world.clock.advance(2 * DAY_S)
    assert table.gc(keep_days=0).expired == ("half",)
    assert world.open()._now().checkpoints == {}
    assert not writer.place.read().manifest.read().pins
    assert table.count(fresh=True) == 1


def test_gc__wal_is_in_a_store_that_was_not_given__is_said():
    world = GcWorld(shards=1)
    wal = MemoryStore(f"gc-wal-{uuid.uuid4().hex}", clock=world.clock)
    table = ss.open(world.store(), wal=wal, probe=False, env=world.env())
    writer = world.writer(0, table)
    world.put(writer, {1: 1})
    table.merge_shards()
    world.note()
    world.clock.advance(8 * DAY_S)
    done = world.open().gc(keep_days=0)
    assert all("0000-0000" in one for one in done.left)
    assert ss.open(world.store(), wal=wal, probe=False, env=world.env()).gc(keep_days=0).left == ()
    assert table.count(fresh=True) == 1


# -- random operations -----------------------------------------------------------------------------


def one_step(random_, world, table, tags, number):
    """Something that changes the table."""
    ids = {random_.randrange(40): number for _ in range(random_.randrange(1, 6))}
    version = random_.randrange(table.version + 1)
    steps = {
        "upsert": lambda: table.upsert(rows_of(ids)),
        "upsert again": lambda: table.upsert(rows_of(ids)),
        "delete": lambda: table.delete(f"id % 7 = {random_.randrange(7)}"),
        "update": lambda: table.update({"n": "n + 1"}, f"id % 5 = {random_.randrange(5)}"),
        "compact": table.compact,
        "checkpoint": lambda: table.checkpoint(f"c{number}", keep_days=random_.choice([1, 5, None])),
        "wait": lambda: world.clock.advance(random_.randrange(3 * DAY_S)),
    }
    if table._now().keeps(version):
        steps["restore"] = lambda: table.restore(version=version)
        steps["tag"] = lambda: (table.tag(f"t{number}", version=version), tags.append(f"t{number}"))
    if tags:
        steps["untag"] = lambda: table.untag(tags.pop(random_.randrange(len(tags))))
    steps[random_.choice([*steps])]()


@pytest.mark.parametrize("seed", range(12))
def test_gc__after_random_operations__keeps_what_must_be_kept(seed):
    random_ = random.Random(seed)
    world = GcWorld(shards=2 if seed % 2 else None)
    table, tags = world.open(), []
    writers = world.writers(table) if seed % 2 else []
    for number in range(40):
        one_step(random_, world, table, tags, number)
        if writers and random_.random() < 0.5:
            world.put_all(writers, {random_.randrange(40): number for _ in range(3)})
            if random_.random() < 0.3:
                world.flush(random_.choice(writers))
            if random_.random() < 0.4:
                table.merge_shards()
        world.note()
        if random_.random() < 0.2:
            world.check()
            fresh = sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist())
            done = table.gc(keep_days=random_.choice([0, 1, 2]), keep_versions=random_.choice([1, 1, 5]))
            assert done.left == ()
            world.check(clean=True)
            assert sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist()) == fresh
    world.idle()
