"""Something else happens between two store calls of a checkpoint, at each of them.

What must hold: a checkpoint that was returned has every row that was acknowledged when it was asked for, and is read
the same ever after; what others do is there whole, too.
"""

from __future__ import annotations

import functools
import itertools
import threading

import pytest

import shares
import siltstone as ss
from checkpoint_worlds import NAME, age, begun, check_kept, check_whole, model_of, pins_of, put, record_of, writers_of
from shard_models import (
    MERGE,
    SCHEMA,
    content,
    delete,
    number_of,
    plain,
    rows_of,
    split,
    stages,
    told,
    update,
    watched,
)
from siltstone.errors import AlreadyExistsError, ConflictError, FencedError, NotFoundError
from siltstone.retain.capture import capture
from siltstone.retain.checkpoint import Asked, Begin, Complete
from siltstone.testing.manual import START_MS
from siltstone.testing.script import ANY

PLACES = 9  # that a test looks at, of those where a checkpoint that merges may be met
SCOPES = pytest.mark.parametrize("scope", ["all", "durable"])


@functools.cache
def places(scope, keyed=True):
    """Where something else may happen: before each run of like calls."""
    world = begun(keyed=keyed)
    store, table = watched(world)
    table.checkpoint(NAME, scope=scope)
    found = stages(store.calls)
    return found if scope == "durable" else found[:: max(1, len(found) // PLACES)]


def rival_calls(world):
    """What another process may do meanwhile, by name; each takes handles of its own."""
    writers = writers_of(world)

    def puts():
        put(world, writers, {id_: 50 + id_ for id_ in range(28, 48)} if world.keyed else {901: 1, 902: 2})

    def flushes():
        puts()
        age(world, writers)

    found = {
        "put": puts,
        "flush": flushes,
        "merge": lambda: age(world),
        "update": lambda: world.do(world.open(), update(1000)),
        "delete rows": lambda: world.do(world.open(), delete(1)),
        "tag": lambda: world.open().tag("t"),
        "checkpoint of another name": lambda: world.open().checkpoint("other", scope="durable"),
        "takeover": lambda: put(world, writers_of(world), {61: 1, 62: 2, 63: 3}),
        "columns": lambda: world.open().add_column("more", SCHEMA.field("n").type),
    }
    if world.keyed:
        found["split"] = lambda: (world.do(world.open(), split(3)), age(world))
        found["compact"] = lambda: world.open().compact()
    return found


LET_GO = ("flush", "merge", "split")  # those that let shards go of rows meet it everywhere
RIVALS = (
    "put", "flush", "merge", "update", "delete rows", "tag", "checkpoint of another name", "takeover", "columns",
    "split", "compact",
)  # fmt: skip


@SCOPES
@pytest.mark.parametrize("rival", RIVALS)
def test_checkpoint__raced__has_what_was_acknowledged_and_stays_as_it_is(rival, scope):
    for nth in places(scope) if rival in LET_GO else places(scope)[RIVALS.index(rival) % 3 :: 3]:
        world = begun()
        call = rival_calls(world)[rival]
        began = world.book.ends()
        store, table = watched(world)
        store.before(ANY, call, nth=nth)
        made = table.checkpoint(NAME, scope=scope)
        assert not store.pending
        assert not made.pending
        by_version = {one.version: one.operation for one in world.open().history()}
        assert by_version[made.version] == "checkpoint", "it names the version that it made"
        if rival == "columns":
            check_whole(world, began)
            rows = plain(model_of(world))
            age(world)
            kept = world.open().at(checkpoint=NAME).scan(SCHEMA.names)
            assert content(kept) == rows
            continue
        rows = check_kept(world, began)
        age(world)
        assert check_kept(world, began) == rows
        world.check()


@SCOPES
@pytest.mark.parametrize("rival", ["put", "flush", "merge", "update", "delete rows", "takeover"])
def test_checkpoint__of_a_table_without_a_key_raced__has_what_was_acknowledged(rival, scope):
    for nth in places(scope, False)[::2]:
        world = begun(keyed=False)
        call = rival_calls(world)[rival]
        began = world.book.ends()
        store, table = watched(world)
        store.before(ANY, call, nth=nth)
        table.checkpoint(NAME, scope=scope)
        age(world)
        check_kept(world, began)
        world.check()


@pytest.mark.parametrize("scopes", [("durable", "durable"), ("all", "all"), ("all", "durable"), ("durable", "all")])
def test_checkpoint__two_of_one_name_at_once__one_checkpoint_that_has_the_rows_of_both(scopes):
    mine, theirs = scopes
    both = 0
    for nth in shares.some(places(mine)):
        world = begun()
        writers, told_other = writers_of(world), []

        def rival(world=world, writers=writers, told_other=told_other):
            put(world, writers, {70: 1, 71: 1, 72: 1, 73: 1})
            began = world.book.ends()
            told_other.append((told(lambda: world.open().checkpoint(NAME, scope=theirs)), began))

        began = world.book.ends()
        store, table = watched(world)
        store.before(ANY, rival, nth=nth)
        error = told(lambda table=table: table.checkpoint(NAME, scope=mine))
        other, their_began = told_other[0]
        assert other is None or error is None, (error, other)
        for one in (error, other):
            assert one is None or isinstance(one, AlreadyExistsError), one
        both += other is error is None
        age(world, writers)
        check_kept(world, {**(began if error is None else {}), **(their_began if other is None else {})})
        assert len({*pins_of(world)["0000-0000"]}) <= 1
    assert bool(both) == (scopes == ("durable", "durable")), "both have it only where one goes on with the other's"


@pytest.mark.parametrize("newer", [True, False], ids=["rows came in between", "no row came"])
def test_checkpoint__another_that_captured_before_this_call_ends_it_first__is_taken_where_it_has_all(newer):
    world = begun()
    slow = world.open()
    begin = Begin(Asked(NAME, None, START_MS, "a" * 32))
    slow._do(begin)
    state = slow._now()
    kept = capture(slow._shards.readers(state), begin.made.pin, state.shards)
    end = Complete(Asked(NAME, None, START_MS, "a" * 32), kept, looked_at=frozenset(state.shards))
    if newer:
        put(world, writers_of(world), {70: 1, 71: 1, 72: 1, 73: 1})
    store, table = watched(world)
    store.before("create", lambda: slow._do(end), key="log/entries")
    error = told(lambda: table.checkpoint(NAME, scope="durable"))
    assert not store.pending
    assert isinstance(error, AlreadyExistsError) if newer else error is None
    assert record_of(world).pin == "a" * 32
    check_kept(world)


def test_checkpoint__deleted_while_it_is_made__is_told_and_nothing_stays_pinned():
    told_so = 0
    for nth in shares.some(places("durable")):
        world = begun()
        store, table = watched(world)
        store.before(ANY, lambda world=world: told(lambda: world.open().delete_checkpoint(NAME)), nth=nth)
        error = told(lambda table=table: table.checkpoint(NAME, scope="durable"))
        if error is None:
            check_kept(world, world.book.ends())
            continue
        told_so += 1
        assert isinstance(error, ConflictError)
        assert "deleted by another" in error.message
        assert record_of(world) is None
        assert not any(pins_of(world).values())
        age(world)
        world.check()
    assert told_so >= 3


def test_checkpoint__deleted_and_made_anew_by_another_while_it_is_made__is_told_and_the_others_stands():
    told_so = 0
    for nth in shares.some(places("durable")):
        world = begun()
        made = []

        def rival(world=world, made=made):
            if told(lambda: world.open().delete_checkpoint(NAME)) is None:
                made.append(world.open().checkpoint(NAME, scope="durable"))

        store, table = watched(world)
        store.before(ANY, rival, nth=nth)
        error = told(lambda table=table: table.checkpoint(NAME, scope="durable"))
        age(world)
        check_kept(world, world.book.ends())
        if made:
            told_so += 1
            assert isinstance(error, ConflictError)
            assert record_of(world).pin == made[0].id
            assert all(pins == {made[0].id} for pins in pins_of(world).values())
    assert told_so >= 3


def test_delete_checkpoint__raced_by_one_that_is_being_made__the_new_one_keeps_its_pins():
    first = begun()
    old = first.open().checkpoint("old", scope="durable")
    store, table = watched(first.copy())
    table.delete_checkpoint(old)
    for nth in shares.some(stages(store.calls)):
        world = first.copy()
        store, table = watched(world)
        store.before(ANY, lambda world=world: world.open().checkpoint(NAME, scope="durable"), nth=nth)
        table.delete_checkpoint(old)
        age(world)
        check_kept(world, world.book.ends())


def test_refresh_checkpoint__raced_by_a_delete__is_told():
    world = begun()
    made = world.open().checkpoint(NAME)
    store, table = watched(world)
    store.before("create", lambda: world.open().delete_checkpoint(made), key="log/entries")
    with pytest.raises(NotFoundError):
        table.refresh_checkpoint(made, keep_days=1)
    assert record_of(world) is None


def test_delete_checkpoint__two_at_once__one_is_told_that_it_is_gone():
    world = begun()
    made = world.open().checkpoint(NAME, scope="durable")
    store, table = watched(world)
    store.before("create", lambda: world.open().delete_checkpoint(made), key="log/entries")
    with pytest.raises(NotFoundError):
        table.delete_checkpoint(made)


# -- at a reader's back ------------------------------------------------------------------------------


@pytest.mark.parametrize("rival", ["flush", "merge", "split", "takeover"])
def test_at__a_durable_checkpoint_while_shards_go_on__reads_the_same(rival):
    made = begun()
    made.open().checkpoint(NAME, scope="durable")
    expected = plain(model_of(made))
    store, table = watched(made.copy())
    content(table.at(checkpoint=NAME).scan())
    for nth in shares.some(stages(store.calls)):
        world = made.copy()
        store, table = watched(world)
        store.before(ANY, rival_calls(world)[rival], nth=nth)
        assert content(table.at(checkpoint=NAME).scan()) == expected


# -- threads -----------------------------------------------------------------------------------------


class Producer(threading.Thread):
    """Puts one row after another into a shard until it is told to stop."""

    def __init__(self, path, number, stop):
        super().__init__()
        self.writer = ss.open(path).shard(number).writer()
        self.ids = (id_ for id_ in itertools.count() if number_of(id_, 2) == number)
        self.asked, self.acknowledged, self.failed, self.halt = [], [], None, stop

    def run(self):
        try:
            while not self.halt.is_set():
                self.asked.append(next(self.ids))
                self.writer.put(rows_of({self.asked[-1]: 1}))
                self.acknowledged.append(self.asked[-1])
        except Exception as error:
            self.failed = error


@SCOPES
def test_checkpoint__threads_put_all_the_time__has_what_came_before_and_nothing_from_after(scope, tmp_path):
    table = ss.create(tmp_path, schema=SCHEMA, key="id", shards=2)
    stop, seen = threading.Event(), []
    threads = [Producer(tmp_path, number, stop) for number in range(2)]

    def ids(names):
        return {id_ for one in threads for id_ in getattr(one, names)}

    for one in threads:
        one.start()
    try:
        for number in range(5):
            before = ids("acknowledged")
            made = ss.open(tmp_path).checkpoint(f"c{number}", scope=scope)
            seen.append((made, before, ids("asked")))
    finally:
        stop.set()
        for one in threads:
            one.join()
    assert [one.failed for one in threads] == [None, None]
    for _ in range(2):
        for made, before, after in seen:
            found = set(table.at(checkpoint=made).scan(["id"]).to_arrow().column("id").to_pylist())
            assert before <= found <= after
        for one in threads:
            one.writer.close()
        table.merge_shards()
    assert set(table.scan(["id"]).to_arrow().column("id").to_pylist()) == ids("acknowledged")


def test_checkpoint__through_a_writer_that_was_fenced__is_told():
    world = begun()
    writer = world.writers()[0]
    writer.put(rows_of({next(id_ for id_ in range(100, 200) if number_of(id_, 2) == 0): 1}), wait=False)
    world.writers()
    world.do(world.open(), MERGE)
    with pytest.raises(FencedError):
        writer.checkpoint(NAME)
    assert record_of(world) is None
