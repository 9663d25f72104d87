"""Fresh reads through a table's handle: by others, in other processes, and on stores that may only be read."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

import shares
import siltstone as ss
from shard_models import (
    BEFORE,
    DAY_S,
    MERGE,
    SCHEMA,
    World,
    append,
    begun,
    busy,
    content,
    delete,
    ids_of,
    number_of,
    overwrite,
    plain,
    plain_rows,
    rows_of,
    split,
    told,
    upsert,
)
from siltstone.errors import FencedError, InvalidInputError
from siltstone.store.meter import MeteredStore
from siltstone.testing.s3server import Faults
from siltstone.testing.script import ANY

READS = {
    "scan": lambda table: content(table.scan(fresh=True)),
    "get": lambda table: plain_rows(table.get(list(range(60)), fresh=True)),
    "sql": lambda table: plain_rows(table.sql(f"select * from {table.name}", fresh=True).to_arrow()),
}


# -- what is seen --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memtable", [True, False], ids=["memtable", "WAL only"])
def test_scan__fresh_through_other_handles__sees_each_row_when_it_is_acknowledged(memtable):
    world, table, _ = begun()
    others = [table, world.open(), world.open()]
    writers = world.writers(table, enable_memtable=memtable)
    for n in range(12):
        world.put_all(writers, {n: 50 + n, 100 + n: n})
        if n % 3 == 2:
            world.delete(writers[number_of(n, 2)], [n])
        if n % 4 == 3 and memtable:
            world.flush(writers[n % 2])
        if n % 5 == 4:
            world.do(others[n % 3], MERGE)
        _, fresh = world.expected(table)
        for other in others:
            world.check_fresh(other, fresh)
    world.check()


def test_scan__not_fresh__sees_what_is_merged_alone():
    world, table, writers = begun()
    world.put_all(writers, {3: 50, 100: 1})
    assert content(table.scan()) == plain(BEFORE)
    assert table.get([100]).num_rows == 0
    assert table.count() == len(BEFORE)


def test_scan__fresh_with_columns_filters_and_limits__is_what_a_merged_table_gives():
    world, table, _ = busy()
    questions = [
        lambda: table.scan(["n"], where="n > 210", fresh=world.fresh).to_arrow().sort_by("n").to_pylist(),
        lambda: table.scan(where="note like '%3%' and id < 25", fresh=world.fresh).count(),
        lambda: table.count("id between 7 and 22", fresh=world.fresh),
        lambda: table.scan(limit=4, fresh=world.fresh).to_arrow().num_rows,
        lambda: table.sql(f"select max(n), count(*) from {table.name}", fresh=world.fresh).to_arrow().to_pylist(),
        lambda: table.get([3, 9, 22, 99, 12], ["n"], fresh=world.fresh).to_pylist(),
    ]
    world.fresh = True
    answers = [ask() for ask in questions]
    table.merge_shards()
    world.fresh = False
    assert [ask() for ask in questions] == answers


def test_put__not_waited_for__is_seen_by_its_writer_and_by_no_one_else():
    world, table, writers = begun()
    id_ = next(ids_of(0, 2, start=100))
    ack = writers[0].put(rows_of({id_: 1}), wait=False)
    assert writers[0].get([id_]).num_rows == 1
    assert table.get([id_], fresh=True).num_rows == world.open().get([id_], fresh=True).num_rows == 0
    ack.wait()
    assert table.get([id_], fresh=True).num_rows == world.open().get([id_], fresh=True).num_rows == 1


def test_scan__fresh_after_each_kind_of_change__a_reader_that_stays_open_keeps_up():
    world, table, writers = busy()
    reader = world.open()
    steps = [
        lambda: world.put_all(writers, {11: 1, 50: 1}),
        lambda: world.flush(writers[0]),
        lambda: world.do(table, MERGE),
        lambda: world.clock.advance(DAY_S),
        lambda: world.do(table, upsert({11: 2, 51: 1})),
        lambda: world.put_all(writers, {11: 3}),
        lambda: world.flush(writers[1]),
        lambda: world.do(table, delete(1)),
        lambda: world.put_all(writers, {12: 4, 52: 4}),
        lambda: world.do(table, overwrite({1: 1, 2: 2})),
        lambda: world.put_all(writers, {2: 5, 53: 5}),
        lambda: world.do(table, split(3)),
        lambda: world.put_all(world.writers(), {2: 6, 54: 6}),
    ]
    for step in steps:
        step()
        _, fresh = world.expected(table)
        world.check_fresh(reader, fresh)
    world.check()


def test_scan__fresh_and_then_changed_by_others__gives_what_was_there_when_it_was_asked_for():
    world, table, writers = busy()
    _, fresh = world.expected(table)
    scan = world.open().scan(fresh=True)
    world.put_all(writers, dict.fromkeys(range(40), 9))
    for writer in writers:
        world.flush(writer)
    world.do(table, MERGE)
    world.do(table, overwrite({1: 1}))
    for _ in range(2):
        assert content(scan) == plain(fresh)


def test_scan__fresh_of_a_version__is_refused():
    _, table, _ = begun()
    for read in (lambda: table.at(version=1).scan(fresh=True), lambda: table.at(version=1).get([1], fresh=True)):
        with pytest.raises(InvalidInputError, match="pinned"):
            read()


def test_scan__fresh_without_a_key__sees_rows_of_all_shards():
    world = World(keyed=False)
    table, reader = world.open(), world.open()
    world.do(table, append({1: 1}))
    for number, name in enumerate(["x", "y"]):
        writer = world.writer(name)
        world.put(writer, {10 * number + 100: 1})
        world.flush(writer)
        world.put(writer, {10 * number + 101: 1})
        _, fresh = world.expected(table)
        world.check_fresh(reader, fresh)
    assert len(world.check()) == 5


# -- a writer in this process --------------------------------------------------------------------------


def test_scan__a_writer_of_this_handle_was_fenced_and_does_not_know__rows_of_the_next_one_are_seen():
    world, table, writers = begun()
    world.put_all(writers, {20: 1})
    others = world.writers(world.open())
    world.put_all(others, {20: 2, 21: 2})
    _, fresh = world.expected(table)
    world.check_fresh(table, fresh)
    assert isinstance(told(lambda: writers[0].put(rows_of({next(ids_of(0, 2)): 1}))), FencedError)


def test_scan__a_fenced_writer_and_all_that_came_after_it_is_in_fragments__rows_are_seen():
    world, table, writers = begun()
    world.put_all(writers, {20: 1})
    others = world.writers(world.open())
    world.put_all(others, dict.fromkeys(range(20, 30), 2))
    for writer in others:
        world.flush(writer)
    world.clock.advance(DAY_S)
    for writer in others:  # what the WAL has before is removed
        world.put(writer, {next(ids_of(writer.place.route.number, 2, start=30)): 3})
        world.flush(writer)
    assert not world.shard_keys("0000-0000", "wal/entries/00000000000000000001")
    _, fresh = world.expected(table)
    world.check_fresh(table, fresh)


def test_scan__a_writer_of_this_handle_puts_at_any_place_of_it__sees_the_row_or_what_was_there_before():
    world, _, _ = begun()
    store = world.interleaves()
    table = world.open(store)
    writers = world.writers(table)
    world.put_all(writers, {20: 1, 21: 1, 22: 1})
    n = 1
    for nth in shares.calls():
        _, before = world.expected(world.open())
        n += 1
        store.calls.clear()
        store.before(ANY, lambda n=n: world.put_all(writers, {20: n, 21: n, 22: n}), nth=nth)
        found = content(table.scan(fresh=True))
        if store.pending:
            break
        each = [
            {**before, **dict(zip(chosen, [n] * 3, strict=False))}
            for size in range(4)
            for chosen in itertools.combinations((20, 21, 22), size)
        ]
        assert found in [plain(one) for one in each]
        _, after = world.expected(world.open())
        world.check_fresh(table, after)
    assert nth > 4


# -- who reads writes nothing --------------------------------------------------------------------------


@pytest.mark.parametrize("read", READS)
def test_read__fresh__writes_nothing(read):
    world, table, _ = busy()
    _, fresh = world.expected(table)
    store = MeteredStore(world.store())
    keys = list(world.bucket.keys)
    reader = world.open(store)
    for _ in range(2):
        assert READS[read](reader) == plain(fresh)
        assert len(reader.shards()) == 2
    reader.close()
    assert world.bucket.keys == keys
    assert not {"create", "put", "copy", "delete"} & store.usage().requests.keys()


def test_read__fresh_of_shards_that_nobody_wrote_to__makes_nothing():
    world = World()
    keys = list(world.bucket.keys)
    reader = world.open()
    assert READS["scan"](reader) == []
    assert [(one.epoch, one.wal_end) for one in reader.shards()] == [(0, 0), (0, 0)]
    assert world.bucket.keys == keys


def test_read__fresh_from_a_store_that_may_only_be_read__sees_every_row(places):
    server = places.fault_server()
    uri, options = "s3://bkt/fresh", server.storage_options
    table = ss.create(uri, schema=SCHEMA, key="id", shards=2, storage_options=options)
    table.append(rows_of(BEFORE))
    writer = table.writer()
    writer.put(rows_of(dict.fromkeys(range(5, 40), 7)))
    for one in writer.writers:
        one.freeze()
        one.flush_memtables()
    writer.put(rows_of(dict.fromkeys(range(30, 50), 8)))
    server.set(Faults(deny=("put", "delete")))
    reader = ss.open(uri, storage_options=options)
    wanted = {**BEFORE, **dict.fromkeys(range(5, 40), 7), **dict.fromkeys(range(30, 50), 8)}
    for read in READS.values():
        assert read(reader) == plain(wanted)
    assert reader.get(33, fresh=True)["n"].to_pylist() == [8]
    assert reader.get([6], fresh=True)["n"].to_pylist() == [7]
    server.set(Faults())
    writer.close()


def test_read__fresh_without_the_commit_store_at_hand__sees_every_row(tmp_path):
    commits = f"sqlite://{tmp_path}/claims.db"
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=2, commits=commits)
    with table.writer() as writer:
        reader = ss.open(tmp_path / "t")
        held = {}
        for n in range(3):
            values = dict.fromkeys(range(n, n + 10), n)
            writer.put(rows_of(values))
            held |= values
            assert READS["scan"](reader) == plain(held)


# -- other processes -----------------------------------------------------------------------------------

READER = """
import json, sys
import siltstone as ss
table = ss.open(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    keys = json.loads(line)
    found = table.get(keys, ["id", "n"], fresh=True).to_pylist()
    print(json.dumps([found, table.count(fresh=True), table.count()]), flush=True)
"""


class Reader:
    """A process that reads a table with its shards when it is asked."""

    def __init__(self, uri):
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, str(uri)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout.readline() == "ready\n"

    def ask(self, keys):
        self._process.stdin.write(json.dumps(keys) + "\n")
        self._process.stdin.flush()
        found, fresh, merged = json.loads(self._process.stdout.readline())
        return {row["id"]: row["n"] for row in found}, fresh, merged

    def close(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def reader_of(request):
    def start(uri):
        made = Reader(uri)
        request.addfinalizer(made.close)
        return made

    return start


def test_get__fresh_in_another_process__sees_each_row_as_soon_as_it_is_acknowledged(tmp_path, reader_of):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=2)
    reader = reader_of(tmp_path / "t")
    held = {}
    with table.writer(ss.shard.config.ShardWriterConfig(max_memtable_rows=20)) as writer:
        for n in range(60):
            values = {n: n, n // 2: n + 1000}
            writer.put(rows_of(values))
            held |= values
            if n % 10 == 9:
                writer.delete([n - 5])
                del held[n - 5]
            if n % 25 == 24:
                table.merge_shards()
            found, count, merged = reader.ask(list(range(60)))
            assert (found, count) == (held, len(held))
            assert merged <= count
    assert reader.ask([3])[0] == {3: held[3]}
