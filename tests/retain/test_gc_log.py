"""A table whose log lost its beginning, transactions that took longer than versions are kept, and what it all costs."""

from __future__ import annotations

import pytest

import siltstone as ss
from gc_models import DAY_S, GcWorld, grown, rows_of
from siltstone import paths
from siltstone.errors import ConflictError, TruncatedError
from siltstone.store.meter import MeteredStore
from siltstone.table.history import ROLLUP_EVERY, History

# -- a log without its beginning -------------------------------------------------------------------


def shortened(versions=100):
    """A table whose log was truncated; the versions it had, and a transaction's id from its beginning."""
    world = GcWorld()
    table = world.open()
    ops = []
    with table.transaction(once="first") as first:
        first.append(rows_of({0: 0}))
    for number in range(versions):
        world.clock.advance(60)
        ops.append(table.upsert(rows_of({1: number})).op)
    world.note(rows=False)
    world.rows = [[]] * len(world.names)
    world.clock.advance(8 * DAY_S)
    table.gc(keep_days=0)
    world.clock.advance(DAY_S)
    table.gc(keep_days=0)
    assert not world.keys(paths.entry(paths.LOG, 0))
    return world, ops


def test_open__truncated_log__gives_the_same_table():
    world, ops = shortened()
    table = world.open()
    assert table.get([0, 1]).column("n").to_pylist() == [0, 99]
    assert table.resolve(ops[3]) == 5
    assert table.resolve("ab" * 16) is None
    with table.transaction(once="first") as again:
        again.append(rows_of({0: 0}))
    assert again.result.version == 1
    assert len(table.history()) == table.version - table._now().floor + 1


def test_rollups__of_a_truncated_log__one_stands_alone_and_old_ones_are_gone():
    world, _ = shortened(300)
    state = world.open()._now()
    positions = [paths.parse_rollup(key) for key in world.keys("rollups/")]
    assert state.oldest + 1 in positions
    assert sum(one < state.oldest + 1 for one in positions) <= 1
    for key in world.keys("rollups/"):
        if paths.parse_rollup(key) != state.oldest + 1:
            world.store().delete([key])
    assert world.open().version == state.version


def test_changes__since_a_collected_version__is_told():
    world, _ = shortened()
    table = world.open()
    floor = table._now().floor
    with pytest.raises(TruncatedError) as told:
        table.changes(since=3)
    assert told.value.facts["floor"] == floor
    table.upsert(rows_of({5: 5}))
    assert table.changes(since=floor).to_arrow().column("id").to_pylist() == [5]


def test_changes__since_a_tag_below_the_floor__is_told_and_of_itself_is_empty():
    world = grown()
    world.clock.advance(8 * DAY_S)
    table = world.open()
    table.gc()
    with pytest.raises(TruncatedError, match="collected"):
        table.changes(since=2)
    assert table.changes(since=2, until=2).to_arrow().num_rows == 0


def test_at__time_of_a_collected_version__is_told():
    world, _ = shortened()
    table = world.open()
    first = int(table._now().all_versions().column("time_ms")[5].as_py())
    with pytest.raises(TruncatedError, match="was collected"):
        table.at(timestamp=first)


def test_handle__that_slept_while_its_log_was_truncated__reads_and_writes():
    world = GcWorld()
    sleeper = world.open()
    table = world.open()
    for number in range(50):
        table.upsert(rows_of({1: number}))
    for _ in range(2):
        world.clock.advance(8 * DAY_S)
        table.gc(keep_days=0)
    assert not world.keys(paths.entry(paths.LOG, 1))
    assert sleeper.append(rows_of({2: 2})).version == table.refresh()
    assert sleeper.count() == 2
    assert not [key for key in world.keys("log/entries/") if int(key[-20:]) < world.open()._now().oldest]


def test_create__where_the_log_was_truncated__says_that_there_is_a_table():
    world, _ = shortened()
    with pytest.raises(ss.errors.AlreadyExistsError):
        ss.create(world.store(), schema=world.open().schema, key="id", probe=False, env=world.env())
    table = ss.create(world.store(), schema=world.open().schema, key="id", exist_ok=True, probe=False, env=world.env())
    assert table.version == world.open().version


def test_newest__log_is_truncated_while_it_is_read__looks_again():
    world = GcWorld()
    table = world.open()
    for number in range(3 * ROLLUP_EVERY):
        table.upsert(rows_of({1: number}))
    store = world.interleaves()

    def collect():
        for _ in range(2):
            world.clock.advance(8 * DAY_S)
            table.gc(keep_days=0)

    reader = world.open()
    store.after("list", collect, key="rollups")
    log = ss.open_log(store, root=paths.LOG, probe=False, env=world.env())
    assert History(log).newest().version == table.version
    assert store.pending == 0
    assert reader.version == table.version


def test_gc__many_tags__versions_between_them_go():
    world = GcWorld()
    table = world.open()
    for number in range(30):
        table.overwrite(rows_of({1: number, 2: number}))
        if number % 5 == 0:
            table.tag(f"v{number}")
    world.note()
    world.clock.advance(8 * DAY_S)
    table.gc(keep_days=0)
    state = world.check(clean=True)
    assert len(world.keys("data/")) == len(state.kept) + 1


# -- transactions that take long -------------------------------------------------------------------


def test_commit__begun_below_the_floor__is_refused_and_its_files_go():
    world = grown()
    slow = world.open().transaction()
    slow.upsert(rows_of({1: 1}))
    world.open().upsert(rows_of({9: 9}))
    world.note()
    world.clock.advance(8 * DAY_S)
    world.open().gc(keep_days=0)
    with pytest.raises(ConflictError) as told:
        slow.commit()
    assert told.value.facts["floor"] > told.value.facts["version"]
    assert "run it again" in told.value.hint
    world.idle()


def test_commit__begun_at_the_floor__is_taken():
    world = grown()
    slow = world.open().transaction()
    slow.upsert(rows_of({1: 1}))
    world.clock.advance(8 * DAY_S)
    assert world.open().gc(keep_days=0).floor == slow._state.version
    slow.commit()
    world.check()
    world.idle()


def test_gc__slow_transaction_landed_behind_the_floor__its_older_files_stay():
    world = grown()
    slow = world.open().transaction()
    slow.upsert(rows_of({1: 1}))
    base = slow._state.version
    world.open().upsert(rows_of({9: 9}))
    world.open().upsert(rows_of({10: 9}))
    slow.commit()
    world.note()
    world.open().upsert(rows_of({11: 9}))
    world.note()
    assert world.open().gc(keep_days=0, keep_versions=3).floor > base
    world.check(clean=True)


def test_commit__rows_written_before_the_handle_looked_again__are_refused_by_their_names():
    # Another thread of the handle moves it on between the writing of the files and the commit.
    world = grown()
    table = world.open()
    work = table._written(rows_of({50: 1}), twice="refuse")
    base = table._begun.version
    world.open().append(rows_of({60: 1}))
    world.note()
    world.clock.advance(8 * DAY_S)
    world.open().gc(keep_days=0)
    table.refresh()
    assert table._begun.version > base
    with pytest.raises(ConflictError) as told:
        table._do(ss.table.operations.Append(work))
    assert "floor" in told.value.facts
    world.idle()


def test_append__handle_is_behind_the_floor__is_run_again_by_itself():
    world = grown()
    table = world.open()
    world.open().append(rows_of({60: 1}))
    world.note()
    world.clock.advance(8 * DAY_S)
    world.open().gc(keep_days=0)
    table.append(rows_of({61: 1}))
    assert table.count("id >= 60") == 2


@pytest.mark.parametrize("call", ["delete", "update", "upsert", "append"])
def test_operation__files_that_the_handle_knows_were_collected__is_run_on_the_newest_version(call):
    world = grown()
    sleeper = world.open()
    calls = {
        "delete": lambda: sleeper.delete("id = 7"),
        "update": lambda: sleeper.update({"n": "n + 1"}, "id = 7"),
        "upsert": lambda: sleeper.upsert(rows_of({7: 70})),
        "append": lambda: sleeper.append(rows_of({70: 70})),
    }
    table = world.open()
    table.compact()
    table.overwrite(rows_of({7: 0, 8: 0}))
    world.note()
    for _ in range(2):
        world.clock.advance(8 * DAY_S)
        table.gc(keep_days=0)
    assert calls[call]().operation == call
    world.check()


# -- cost ------------------------------------------------------------------------------------------


def test_gc__100_000_objects__are_listed_once_and_deleted_in_bulk():
    world = GcWorld()
    table = world.open()
    for number in range(3):
        table.overwrite(rows_of({1: number}))
    for number in range(100_000):
        key = paths.data(paths.name(0, f"{number:032x}"))
        world.bucket.objects[key] = (b"", 0)
    world.bucket.keys = sorted(world.bucket.objects)
    world.clock.advance(8 * DAY_S)
    store = MeteredStore(world.store())
    table = world.open(store)
    store.reset()
    said = []
    done = table.gc(keep_days=0, progress=lambda *numbers: said.append(numbers))
    asked = store.usage().requests
    assert done.objects["fragment"] >= 100_000
    assert asked["delete"] <= 100_000 // 1000 + 5
    assert asked["list"] <= 100_000 // 1000 + 25
    assert sum(asked.values()) < 300
    assert said[-1][0] == said[-1][1] >= 100_000
    assert [a for a, _ in said] == sorted(a for a, _ in said)
    assert table.count() == 1


def test_gc__repeated__asks_little():
    world = grown()
    world.idle()
    store = MeteredStore(world.store())
    table = world.open(store)
    store.reset()
    table.gc(keep_days=0)
    assert store.usage().total < 45
