"""Every store call of a merge goes wrong, in every way; and mergers and writers of other processes at the same time.

What must hold afterwards, to whoever knows nothing of it: the rows are those of the acknowledged operations, each once;
a merge that was cut off is ended by the next one; a change at the table is there whole or not at all.
"""

from __future__ import annotations

import functools
import itertools
import threading
from functools import partial

import pytest

import shares
import siltstone as ss
from shard_models import (
    BEFORE,
    DAY_S,
    MERGE,
    SCHEMA,
    WRITES,
    World,
    append,
    content,
    delete,
    ids_of,
    overwrite,
    plain,
    rows_of,
    told,
    update,
    upsert,
)
from siltstone.errors import CommitUnknownError, FencedError, SiltstoneError
from siltstone.shard.config import ShardWriterConfig
from siltstone.testing.s3server import Faults
from siltstone.testing.script import ANY, Crashed, Fault
from worlds import FOR_EVER, ONCE

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
CHANGES = {
    "upsert": upsert({2: 7, 12: 7, 40: 7}),
    "delete": delete(1),
    "update": update(1000),
    "overwrite": overwrite({1: 1}),
}


@functools.cache
def begun(*, keyed=True):
    """One shard with fragments and a WAL, of which some is merged already."""
    world = World(shards=1, keyed=keyed)
    table = world.open()
    world.do(table, append(BEFORE))
    writer = world.writer(0 if keyed else "a", table)
    world.put(writer, {id_: id_ for id_ in range(100, 103)})
    world.do(table, MERGE)
    for start in (104, 106):
        world.put(writer, {start: 1, start + 1: 2} | ({5: start} if keyed else {}))
        world.flush(writer)
    world.put(writer, {108: 1} | ({6: 2} if keyed else {}))
    if keyed:
        world.delete(writer, [7])
    world.clock.advance(DAY_S)  # what was dropped may be removed by the next one
    return world


def faulty(world, fault, nth, *, times=1):
    """A handle on the table whose ``nth`` store call from now on goes wrong."""
    store = world.faulty()
    table = world.open(store)
    store.script.clear()
    store.on(ANY, fault, nth=nth, times=times)
    return store, table


def numbers(fault, operation, *, keyed=True):
    """Which calls to hit. Whether something ends before a read or after it is all the same to others."""
    world = begun(keyed=keyed).copy()
    store = world.faulty()
    table = world.open(store)
    store.script.clear()
    operation.perform(table)
    found = [call for call in store.calls if store.script.applies(fault, call.verb)]
    hits = [nth for nth, call in enumerate(found, 1) if call.verb in WRITES]
    return hits if fault in CRASHES else sorted({*hits, *range(1, len(found) + 1, 9)})


# -- merges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: fault.name)
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "free"])
def test_merge_shards__a_store_call_goes_wrong__rows_stay_and_the_next_one_goes_on(fault, keyed):
    for nth in shares.some(numbers(fault, MERGE, keyed=keyed)):
        world = begun(keyed=keyed).copy()
        store, table = faulty(world, fault, nth)
        try:
            error = told(table.merge_shards)
        except Crashed:
            error = None
        world.check(merge=False)
        store.script.clear()
        store.release()
        writer = world.writer(0 if keyed else "a")
        world.put(writer, {200: 1})
        assert error is None or isinstance(error, SiltstoneError)
        world.check()


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.LOSE, Fault.DENY, Fault.FULL], ids=lambda fault: fault.name)
def test_merge_shards__the_store_fails_from_some_call_on__is_told_and_the_next_one_ends_it(fault):
    for nth in shares.some(numbers(fault, MERGE)[::2]):
        world = begun().copy()
        store, table = faulty(world, fault, nth, times=FOR_EVER)
        told(table.merge_shards)
        store.script.clear()
        world.check(merge=False)
        world.do(table, MERGE)
        world.check()


def test_merge_shards__cut_off_again_and_again__ends_at_last_and_nothing_is_doubled():
    world = begun().copy()
    writer = world.writer(0)
    cut_off = 0
    for nth in range(1, 31):
        world.put(writer, {300 + nth: nth, 5: nth})
        if nth % 4 == 0:
            world.flush(writer)
        _, table = faulty(world, Fault.CRASH_AFTER, 2 * nth)
        try:
            table.merge_shards()
        except Crashed:
            cut_off += 1
    assert cut_off > 10  # nobody is cut off behind a call that finds nothing
    world.check()


def named(world):
    """How many fragments the manifest of the first shard names."""
    table = world.open()
    return len(table._shards.readers(table._now())[0].place.read().manifest.read().fragments)


def test_merge_shards__cut_off_behind_its_version__the_next_one_tidies():
    world = begun().copy()
    store = world.interleaves()
    table = world.open(store)

    def end():
        raise Crashed("the version is there")

    store.after("create", end, key="log/entries")
    with pytest.raises(Crashed):
        table.merge_shards()
    status = world.open().shards()[0]
    assert (named(world), status.fragments, status.replay_from < status.merged_until) == (2, 0, True)
    assert world.open().merge_shards().operation == "none"
    status = world.open().shards()[0]
    assert (named(world), status.fragments, status.replay_from, status.wal_lag) == (0, 0, status.merged_until, 0)
    world.check()


# -- changes at the table ----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*CRASHES, Fault.LOSE, Fault.EXISTS_OWN, Fault.DELAY], ids=lambda fault: fault.name)
@pytest.mark.parametrize("change", CHANGES)
def test_change__a_store_call_goes_wrong__is_there_whole_or_not_at_all(change, fault):
    operation = CHANGES[change]
    before = begun().check(merge=False)
    after = operation.apply(before)
    for nth in shares.some(numbers(fault, operation)):
        world = begun().copy()
        store, table = faulty(world, fault, nth)
        outcome = "done"
        try:
            operation.perform(table)
        except (Crashed, CommitUnknownError):
            outcome = "unknown"
        except SiltstoneError:
            outcome = "refused"
        may = {"done": [after], "refused": [before], "unknown": [before, after]}[outcome]
        for _ in range(2):
            found = content(world.open().scan(fresh=True))
            assert found in [plain(rows) for rows in may], f"{change} was {outcome} at {nth}"
            store.script.clear()
            store.release()  # what was sent and never answered may still land
        world.open().merge_shards()
        assert content(world.open().scan()) == content(world.open().scan(fresh=True))
        assert content(world.open().scan()) in [plain(rows) for rows in may]


# -- on a store that lies ----------------------------------------------------------------------------


class Crew:
    """Threads that write and merge a table at once; each opens it by itself."""

    def __init__(self, uri, where):
        self.uri, self.where = uri, where
        self.acknowledged, self.errors = [{}, {}], []
        self.over = threading.Event()

    def write(self, number):
        """Three writers of a shard, one after another; each is fenced by the next, and told."""
        ids, earlier = list(itertools.islice(ids_of(number, 2), 6)), None
        with ss.open(self.uri, **self.where) as table:
            for round_ in range(3):
                writer = table.shard(number).writer(ShardWriterConfig(max_memtable_rows=4))
                if earlier is not None:
                    assert isinstance(told(partial(earlier.put, rows_of({ids[0]: -1}))), FencedError)
                for put in range(5):
                    n = 5 * round_ + put
                    values = {ids[n % 6]: n, ids[(n + round_) % 6]: n}
                    writer.put(rows_of(values))
                    self.acknowledged[number].update(values)
                earlier = writer

    def merge(self):
        with ss.open(self.uri, **self.where) as table:
            while not self.over.is_set():
                table.merge_shards()

    def run(self):
        mergers = [threading.Thread(target=self._noted, args=(self.merge,)) for _ in range(2)]
        writers = [threading.Thread(target=self._noted, args=(self.write, number)) for number in range(2)]
        for one in (*mergers, *writers):
            one.start()
        for one in writers:
            one.join()
        self.over.set()
        for one in mergers:
            one.join()

    def _noted(self, call, *arguments):
        try:
            call(*arguments)
        except BaseException as error:
            self.errors.append(error)


@pytest.mark.parametrize("commits", ["sqlite", "postgresql"])
def test_merge_shards__the_store_lies_and_a_commit_store_decides__mergers_and_writers_lose_nothing(places, commits):
    server = places.fault_server(Faults(lie="always"))
    where = {"storage_options": server.storage_options, "commits": places.commits_uri(commits)}
    uri = f"s3://bkt/{commits}"
    ss.create(uri, schema=SCHEMA, key="id", shards=2, **where).close()
    crew = Crew(uri, where)
    crew.run()
    assert crew.errors == []
    table = ss.open(uri, **where)
    wanted = plain({**crew.acknowledged[0], **crew.acknowledged[1]})
    assert content(table.scan(fresh=True)) == wanted
    table.merge_shards()
    assert content(table.scan()) == wanted
