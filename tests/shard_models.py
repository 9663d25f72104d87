"""Tables with shards in memory, and a plain model of what they must hold: what was acknowledged, in its order.

A row that went through a shard has a position in the shard's WAL; what was done at the table has a version. A version
says of each shard up to which position it has its rows, and what was done in it comes behind those. So the order of
everything that was acknowledged is known, and a dict can be brought up to any version, or to what is fresh.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pyarrow as pa

import siltstone as ss
from siltstone.api import create_table, open_table
from siltstone.errors import SiltstoneError
from siltstone.shard.config import ShardWriterConfig
from siltstone.shard.route import shard_numbers
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.stores import FaultStore, Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64()), ("note", pa.string())])
PATIENCE_S = 5.0
DAY_S = 86_400
WRITES = {"create", "put", "copy", "delete"}
BEFORE = {id_: id_ for id_ in range(10)}
_seeds = itertools.count(1)


def rows_of(values):
    """Rows by their ids: ``{1: 10}`` is a row with id 1 and n 10."""
    return [{"id": id_, "n": n, "note": f"{id_} is {n}"} for id_, n in values.items()]


def number_of(id_, count):
    """The shard of an id."""
    return int(shard_numbers(pa.table({"id": pa.array([id_], pa.int64())}), count)[0])


def ids_of(number, count, *, start=0):
    """The ids of one shard, one after another."""
    return (id_ for id_ in itertools.count(start) if number_of(id_, count) == number)


# -- what can be done at a table -------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """One operation on a table: how it is asked for, what it makes of a dict, and which ids it looks at (None: all)."""

    name: str
    perform: object
    apply: object
    ids: tuple | None = None


def upsert(values):
    return Operation(
        "upsert", lambda table: table.upsert(rows_of(values)), lambda had: {**had, **values}, tuple(values)
    )


def append(values):
    def apply(had):
        assert not had.keys() & values.keys(), "append took a key that was there"
        return {**had, **values}

    return Operation("append", lambda table: table.append(rows_of(values)), apply, tuple(values))


def delete(rest, mod=3):
    return Operation(
        f"delete {rest} of {mod}",
        lambda table: table.delete(f"id % {mod} = {rest}"),
        lambda had: {id_: n for id_, n in had.items() if id_ % mod != rest},
    )


def update(plus):
    return Operation(
        "update",
        lambda table: table.update({"n": f"n + {plus}", "note": f"concat(id, ' is ', n + {plus})"}),
        lambda had: {id_: n + plus for id_, n in had.items()},
    )


def overwrite(values):
    return Operation("overwrite", lambda table: table.overwrite(rows_of(values)), lambda _: dict(values))


def restore(version, values):
    return Operation("restore", lambda table: table.restore(version=version), lambda _: dict(values))


MERGE = Operation("merge", lambda table: table.merge_shards(), lambda had: had)
COMPACT = Operation("compact", lambda table: table.compact(), lambda had: had)


def split(count):
    return Operation(f"split into {count}", lambda table: table.split_shards(count), lambda had: had)


# -- the world ---------------------------------------------------------------------------------------


@dataclass
class Book:
    """What was acknowledged."""

    puts: dict = field(default_factory=dict)  # by shard: (position, {id: n, or None where it was deleted})
    done: dict = field(default_factory=dict)  # by version: (operation, what the shards had when it began)
    maybe: list = field(default_factory=list)  # ids that puts without an answer touched

    def copy(self):
        return Book({name: list(puts) for name, puts in self.puts.items()}, dict(self.done), list(self.maybe))

    def ends(self):
        """By shard, the position behind the last put that was acknowledged."""
        return {name: puts[-1][0] + 1 for name, puts in self.puts.items() if puts}


class World:
    """A table with shards, those who use it, and the book. Time stands still; nothing runs in the background."""

    def __init__(self, *, keyed=True, shards: int | None = 2, bucket=None, clock=None, book=None):
        self.keyed, self.bucket, self.clock = keyed, bucket or MemoryBucket(), clock or ManualClock()
        self.book = book or Book()
        if bucket is None:
            options = {"key": "id", "shards": shards} if keyed else {}  # a table may have none at first
            create_table(self.store(), schema=SCHEMA, probe=False, env=self.env(), **options)

    def copy(self):
        """Another world, the same so far."""
        bucket, clock = MemoryBucket(), ManualClock()
        bucket.objects, bucket.keys = dict(self.bucket.objects), list(self.bucket.keys)
        clock.advance(self.clock.monotonic())
        return World(keyed=self.keyed, bucket=bucket, clock=clock, book=self.book.copy())

    # -- who is in it ------------------------------------------------------------------------------

    def env(self, patience_s=PATIENCE_S):
        return manual_env(next(_seeds), clock=self.clock, patience_s=patience_s)

    def store(self):
        return MemoryStore(bucket=self.bucket, clock=self.clock)

    def faulty(self):
        return FaultStore(self.store())

    def interleaves(self):
        return Interleaves(self.store())

    def open(self, store=None, **options):
        return open_table(store or self.store(), probe=False, env=self.env(**options))

    def writer(self, shard, table=None, **config):
        """A writer without threads; small memtables are frozen by themselves, and flushed when a test says so."""
        return (table or self.open())._open_writer(shard, ShardWriterConfig(**config), "", background=False)

    def writers(self, table=None, **config):
        table = table or self.open()
        return [self.writer(number, table, **config) for number in range(table._now().sharding.count)]

    # -- what they do ------------------------------------------------------------------------------

    def put(self, writer, values):
        return self._write(writer, values, lambda: writer.put(rows_of(values)))

    def delete(self, writer, ids):
        return self._write(writer, dict.fromkeys(ids), lambda: writer.delete(list(ids)))

    def _write(self, writer, values, call):
        try:
            call()
        except BaseException:
            self.book.maybe += values
            raise
        position = writer.wal_stats().next_wal_entry_position - 1
        self.book.puts.setdefault(writer.place.name, []).append((position, values))
        return position

    def put_all(self, writers, values):
        """Put rows, each by the writer of its shard."""
        for number, writer in enumerate(writers):
            mine = {id_: n for id_, n in values.items() if number_of(id_, len(writers)) == number}
            if mine:
                self.put(writer, mine)

    def flush(self, writer):
        writer.freeze()
        writer.flush_memtables()

    def do(self, table, operation):
        """Do something at the table, and note which version it became."""
        began = self.book.ends()
        done = operation.perform(table)
        if operation is not COMPACT and done.operation != "none":
            assert done.version not in self.book.done, "a version was told to two"
            self.book.done[done.version] = (operation, began)
        return done

    # -- what must be there ------------------------------------------------------------------------

    def expected(self, table):
        """The rows of each version, and those that are fresh, by what the book says."""
        rows, taken, versions, counts = {}, {}, [], {}
        for version in range(table.version + 1):
            state = table._history.at(version)
            cursors = state.shards
            if state.sharding is not None:
                counts[state.sharding.map] = state.sharding.count
            for name in self.book.puts:
                # A shard that is not there any more was merged to its end by the split that removed it.
                gone = name not in cursors and name in taken
                until = cursors[name].position if name in cursors else (2**62 if gone else 0)
                rows = _applied(rows, self.book.puts[name], taken.get(name, 0), until)
                if name in cursors or gone:
                    taken[name] = until
            if version in self.book.done:
                operation, began = self.book.done[version]
                for name in self._before(operation, began, counts):
                    assert taken.get(name, 0) >= began[name], f"{operation.name}, {version}, is older than shard {name}"
                rows = operation.apply(rows)
            versions.append(dict(rows))
        for name, puts in self.book.puts.items():
            rows = _applied(rows, puts, taken.get(name, 0), 2**62)
        return versions, rows

    def _before(self, operation, began, counts):
        """The shards whose rows, as far as they were acknowledged when an operation began, come before it."""
        if operation.ids is None or not self.keyed:
            return list(began)
        numbers = {name: [int(part) for part in name.split("-")] for name in began}
        return [
            name
            for name, (map_, number) in numbers.items()
            if any(number_of(id_, counts[map_]) == number for id_ in operation.ids)
        ]

    def check(self, *, merge=True):
        """Every way of reading agrees with the book: versions, fresh reads, and what a last merge leaves."""
        table = self.open()
        versions, fresh = self.expected(table)
        for version in {table.version, table.version // 2, max(0, table.version - 1)}:
            assert content(table.at(version=version).scan()) == plain(versions[version]), f"version {version}"
        self.check_fresh(table, fresh)
        if merge:
            table.merge_shards()
            assert content(table.scan()) == plain(fresh)
            self.check_fresh(table, fresh)
            assert table.merge_shards().operation == "none", "what was merged is not merged again"
        return fresh

    def check_fresh(self, table, fresh):
        assert content(table.scan(fresh=True)) == plain(fresh)
        assert table.count(fresh=True) == len(fresh)
        if self.keyed:
            asked = sorted({*fresh, *(id_ for puts in self.book.puts.values() for _, some in puts for id_ in some)})
            found = table.get(asked, fresh=True) if asked else None
            assert found is None or plain_rows(found) == plain(fresh)

    # -- objects -----------------------------------------------------------------------------------

    def keys(self, under=""):
        return [key for key in self.bucket.keys if key.startswith(under)]

    def shard_keys(self, name, part=""):
        return self.keys(f"shards/{name}/{part}")


def begun(**options):
    """A table with some rows, a handle on it, and the writers of its shards."""
    world = World(**options)
    table = world.open()
    world.do(table, append(BEFORE))
    return world, table, world.writers(table)


def busy():
    """Rows in the table, in shards' fragments, in their WALs, merged and not; and the writers."""
    world, table, writers = begun()
    world.put_all(writers, {id_: 100 + id_ for id_ in range(5, 25)})
    world.do(table, MERGE)
    world.put_all(writers, {id_: 200 + id_ for id_ in range(8, 28)})
    for writer in writers:
        world.flush(writer)
    world.put_all(writers, {id_: 300 + id_ for id_ in range(20, 30)})
    world.delete(writers[number_of(9, 2)], [9])
    return world, table, writers


def watched(world):
    """A store that lets others act between its calls, and a handle on the table; a rival may let days pass."""
    store = world.interleaves()
    table = world.open(store, patience_s=10 * DAY_S)
    store.calls.clear()
    return store, table


def _applied(rows, puts, start, until):
    rows = dict(rows)
    for position, values in puts:
        if start <= position < until:
            for id_, n in values.items():
                rows.pop(id_, None)
                if n is not None:
                    rows[id_] = n
    return rows


def plain(values):
    """What ``content`` gives for such a model."""
    return sorted((id_, n, f"{id_} is {n}") for id_, n in values.items())


def content(scan):
    """All rows of a scan in order: one that is there twice is there twice."""
    return plain_rows(scan.to_arrow())


def plain_rows(found):
    return sorted(zip(*(found.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def stages(calls):
    """Numbers of the store calls that begin something: a run of reads, or of writes of one verb, in one folder."""
    found, last = [], None
    for nth, call in enumerate(calls, 1):
        here = (call.verb if call.verb in WRITES else "", "/".join(call.key.split("/")[:3]))
        if here != last:
            found.append(nth)
        last = here
    return found


def told(call):
    """What a call raises; None where it returns."""
    try:
        call()
    except SiltstoneError as error:
        return error
    return None


def once(id_):
    """An id of a put that is to count once."""
    return ss.table.once.Once(id=id_)
