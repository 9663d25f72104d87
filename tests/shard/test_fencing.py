"""Two writers of one shard: the later one has it, and nothing that the earlier one acknowledged is lost on the way."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import shares
import siltstone as ss
from shard_worlds import ShardWorld, attempt, rows
from siltstone import paths
from siltstone.errors import CommitUnknownError, FencedError, SiltstoneError
from siltstone.format.records import Header, encode_entry
from siltstone.shard.rows import encode_body
from siltstone.testing.s3server import Faults
from siltstone.testing.script import ANY, Fault
from worlds import FOR_EVER

WAL = "shards/a/wal/entries/"
MANIFEST = "shards/a/manifest/entries/"


@pytest.mark.parametrize("enable_memtable", [True, False])
def test_open__a_writer_before_put_and_is_gone__the_next_one_has_its_rows(enable_memtable):
    world = ShardWorld()
    first = world.writer(name="first", enable_memtable=enable_memtable)
    world.put(first, 1, 2)
    world.put(first, 3)
    second = world.take_over()
    assert second.stats().epoch == 2
    assert second.stats().replayed_rows == second.memtable_stats().rows == 3
    assert world.check() == [1, 2, 3]


def test_put__another_writer_took_over__is_refused_with_both_epochs_and_its_name():
    world = ShardWorld()
    first = world.writer(name="first")
    world.put(first, 1)
    world.writer(name="the second")
    told = world.put(first, 2)
    assert isinstance(told, FencedError)
    assert (told.facts["epoch"], told.facts["found"]) == (1, 2)
    assert "the second" in told.message
    again = world.put(first, 3)
    assert isinstance(again, FencedError), "it stays so"
    for one in (told, again):
        assert (one.facts["shard"], one.facts["table"]) == ("a", world.table().uri)
    first.close()
    assert world.check() == [1]


def test_flush_memtables__another_writer_took_over__the_error_names_shard_and_table():
    world = ShardWorld()
    first = world.writer()
    world.put(first, 1)
    first.freeze()
    world.take_over()
    told = attempt(first.flush_memtables)
    assert isinstance(told, FencedError)
    assert (told.facts["shard"], told.facts["table"]) == ("a", world.table().uri)


def test_open__fresh_shard_and_two_open_it_at_once__the_first_entry_is_the_winners():
    world = ShardWorld()
    store = world.interleaves()
    others = []
    # The first one has claimed epoch 1 and is about to read the manifest once more.
    store.after("create", lambda: others.append(world.writer(name="second")), key=MANIFEST)
    told = attempt(world.writer, store, name="first")
    assert isinstance(told, FencedError)
    assert (told.facts["shard"], told.facts["table"]) == ("a", world.table().uri)
    world.put(others[0], 1)
    world.go_on()


# -- a put that comes late -------------------------------------------------------------------------


def test_put__stalled_while_another_takes_over__comes_too_late_and_is_never_acknowledged():
    world = ShardWorld()
    store = world.interleaves()
    stalled = world.writer(store)
    world.put(stalled, 1)
    successors = []
    store.before("create", lambda: successors.append(world.take_over()), key=WAL)
    assert isinstance(world.put(stalled, 2), FencedError)
    world.put(successors[0], 3)
    assert world.check() == [1, 3]


def test_put__lands_before_the_fence_of_the_next_writer__is_acknowledged_and_replayed():
    world = ShardWorld()
    first = world.writer()
    store = world.interleaves()
    # The next one has claimed the shard, and its fence is not there yet.
    store.before("create", lambda: world.put(first, 1), key=WAL)
    second = world.writer(store)
    assert world.acknowledged == [1]
    assert [chunk.rows.column("id").to_pylist() for chunk in second.active_memtable().chunks()] == [[1]]
    assert isinstance(world.put(first, 2), FencedError)
    assert world.check() == [1]


@pytest.mark.parametrize("arrives", ["before the claim", "between claim and fence", "after the fence", "after a put"])
def test_put__sent_and_delayed__whenever_it_arrives_it_is_kept_or_was_never_acknowledged(arrives):
    world = ShardWorld()
    late = world.fault_store()
    first = world.writer(late, max_wal_append_attempts=1)
    world.put(first, 1)
    late.on("create", Fault.DELAY, key=WAL, times=FOR_EVER)
    assert isinstance(world.put(first, 2), CommitUnknownError)
    store = world.interleaves()
    if arrives == "before the claim":
        late.release()
    elif arrives == "between claim and fence":
        store.before("create", late.release, key=WAL)
    second = world.writer(store)
    if arrives == "after a put":
        world.put(second, 3)
    late.release()
    kept = arrives in {"before the claim", "between claim and fence"}
    assert second.stats().replayed_rows == 1 + kept
    assert (2 in world.check()) == kept
    world.go_on()


def test_put__merged_and_passed_by_the_floor_before_its_answer__is_acknowledged_and_there_once():
    world = ShardWorld()
    store = world.interleaves()
    writer = world.writer(store)
    world.put(writer, 1)
    world.clock.advance(60)  # a look at the floor is due
    store.after("create", lambda: world.table().merge_shards(), key=WAL)
    world.put(writer, 2)
    assert world.acknowledged == [1, 2]
    assert world.table().count() == 2
    world.put(writer, 3)
    assert sorted(world.check()) == [1, 2, 3]
    world.go_on()


def test_put__own_entry_found_by_the_next_writer_before_its_answer__is_acknowledged_and_there_once():
    world = ShardWorld()
    store = world.interleaves()
    first = world.writer(store)
    store.after("create", world.writer, key=WAL)  # its answer is on the way while the shard is taken over
    world.put(first, 1)
    assert world.acknowledged == [1]
    assert isinstance(world.put(first, 2), FencedError)
    world.go_on()


def test_flush_memtables__another_writer_took_over__moves_no_cursor_and_stops_the_writer():
    world = ShardWorld()
    first = world.writer()
    world.put(first, 1)
    first.freeze()
    second = world.take_over()
    with pytest.raises(FencedError, match="epoch is 2, this writer's is 1"):
        first.flush_memtables()
    assert first.is_stopped
    assert isinstance(world.put(first, 2), FencedError)
    assert second.place.read().manifest.read().fragments == ()
    world.put(second, 3)
    second.freeze()
    second.flush_memtables()
    assert world.check() == [1, 3]


def test_flush_memtables__claimed_while_the_fragment_was_written__the_fragment_is_garbage():
    world = ShardWorld()
    store = world.interleaves()
    first = world.writer(store)
    world.put(first, 1)
    first.freeze()
    store.before("create", world.writer, key=MANIFEST)
    with pytest.raises(FencedError):
        first.flush_memtables()
    assert len(list(world.store().list("shards/a/data"))) == 1
    world.go_on()


# -- opening at the same time ----------------------------------------------------------------------


def each_call_of_open(begun, race, **config):
    """Worlds in which something else happens right before the n-th call of a writer's open, and what came of that."""
    for nth in shares.calls():
        world = begun()
        store = world.interleaves()
        store.before(ANY, lambda world=world: race(world), nth=nth)
        mine = attempt(world.writer, store, **config)
        if store.pending:
            assert nth > 30
            return
        yield world, mine


@pytest.mark.parametrize("merges", [True, False])
@pytest.mark.parametrize("enable_memtable", [True, False])
def test_open__another_opens_and_puts_at_any_of_its_calls__one_of_them_has_the_shard(enable_memtable, merges):
    fenced = went_on = 0
    old, rival = [], []

    def begun():
        world = ShardWorld()
        old[:] = [world.writer(enable_memtable=enable_memtable)]
        world.put(old[0], 1)
        return world

    def race(world):
        rival[:] = [world.writer(name="rival")]
        world.put(rival[0], 2)
        if merges:
            world.table().merge_shards()

    for world, mine in each_call_of_open(begun, race, enable_memtable=enable_memtable):
        world.put(rival[0], 3)
        if isinstance(mine, BaseException):
            assert isinstance(mine, FencedError)
            fenced += 1
            assert 3 in world.acknowledged
        else:
            world.put(mine, 4)
            went_on += 1
            assert (3 in world.acknowledged) != (4 in world.acknowledged)
        assert isinstance(world.put(old[0], 5), FencedError | CommitUnknownError)
        world.go_on(enable_memtable=enable_memtable)
    assert fenced
    assert went_on


@pytest.mark.parametrize("enable_memtable", [True, False])
def test_open__the_shard_is_merged_and_its_wal_removed_at_any_of_its_calls__all_rows_are_there(enable_memtable):
    def begun():
        world = ShardWorld()
        old = world.writer(enable_memtable=enable_memtable)
        for number in range(1, 4):
            world.put(old, number)
        return world

    def merge(world):
        other = world.table()
        other.merge_shards()
        world.clock.advance(3600)
        other.merge_shards()

    for world, writer in each_call_of_open(begun, merge, enable_memtable=enable_memtable):
        world.put(writer, 4)
        assert world.check() == [1, 2, 3, 4]
        assert world.table().count() >= 3
        world.go_on(enable_memtable=enable_memtable)


# -- entries that should not be there --------------------------------------------------------------


def forge(world, *, epoch, id_):
    """Put an entry of some epoch right behind the last one, past all rules."""
    table = world.table()
    log = table._shards.reader(world.shard, table._looked()).place.read().wal
    tip = log.tip()
    header = Header(
        log=log.identity.log, position=tip.position, epoch=epoch, op="f" * 32, nonce="e" * 32, prev=tip.digest,
        kind="data", writer="forger", time_ms=0,
    )  # fmt: skip
    intake = world.writer_intake(table)
    chunks = intake.rows(rows(id_)).chunks
    entry = encode_entry(header, encode_body(chunks, table._looked().schema))
    world.store().put(paths.entry(log.root, tip.position), entry)


@pytest.mark.parametrize("enable_memtable", [True, False])
def test_open__replay_meets_an_entry_of_a_higher_epoch__is_fenced_and_says_both_epochs(enable_memtable):
    world = ShardWorld()
    world.put(world.writer(), 1)
    forge(world, epoch=7, id_=2)
    forge(world, epoch=1, id_=3)  # at the end an older epoch again, so that the fence alone would not see it
    with pytest.raises(FencedError, match=r"met epoch 7 \(forger\) at position 1; this writer has epoch 2") as caught:
        world.writer(enable_memtable=enable_memtable)
    assert (caught.value.facts["epoch"], caught.value.facts["found"]) == (2, 7)


def test_open__an_entry_of_a_higher_epoch_is_the_last_one__is_fenced():
    world = ShardWorld()
    world.put(world.writer(), 1)
    forge(world, epoch=7, id_=2)
    with pytest.raises(FencedError, match="epoch 7"):
        world.writer()


def test_open__entry_of_a_fenced_writer_behind_the_fence__is_dead_and_left_out():
    world = ShardWorld()
    world.put(world.writer(), 1)
    world.writer()  # epoch 2
    forge(world, epoch=1, id_=2)
    writer = world.take_over()
    assert [chunk.rows.column("id").to_pylist() for chunk in writer.active_memtable().chunks()] == [[1]]
    assert world.check() == [1]


def test_put__another_has_the_same_epoch__is_fenced_and_not_acknowledged():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1)
    forge(world, epoch=1, id_=2)  # as a copy of this writer in another process would
    told = world.put(writer, 3)
    assert isinstance(told, FencedError)
    assert "another writer has epoch 1" in told.message
    assert world.ids() == [1, 2]


# -- stores that lie -------------------------------------------------------------------------------


@pytest.mark.services
@pytest.mark.parametrize("commits", ["sqlite", "postgresql"])
@pytest.mark.parametrize("lie", ["always", "check-then-put"])
def test_writers__fight_over_a_shard_of_a_lying_store__a_commit_store_lets_them_lose_nothing(places, commits, lie):
    server = places.fault_server(Faults(lie=lie, window_ms=5))
    where = {"storage_options": server.storage_options, "commits": places.commits_uri(commits)}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
    ss.create("s3://bkt/t", schema=schema, **where).close()
    if lie == "always":
        with ss.open_store("s3://bkt/probe", storage_options=server.storage_options) as store:
            store.create("one", b"1")
            store.create("one", b"2")  # it lies: what is there is replaced
    acknowledged, tried, problems = [], [], []
    config = ss.ShardWriterConfig(max_memtable_rows=4)

    def fight(number):
        table = ss.open("s3://bkt/t", **where)
        done = 0
        for attempt_number in range(40):
            try:
                with table.shard("a").writer(config, name=f"fighter {number}") as writer:
                    for step in range(5):
                        ids = [number * 10**6 + attempt_number * 100 + step * 10 + n for n in range(2)]
                        tried.extend(ids)
                        writer.put(pa.table({"id": ids, "note": ["x", "y"]}, schema=schema))
                        acknowledged.extend(ids)
                        done += 1
            except (FencedError, CommitUnknownError):
                continue
            except SiltstoneError as error:
                problems.append(error)
                return
            if done >= 15:
                return

    threads = [threading.Thread(target=fight, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len({one // 10**6 for one in acknowledged}) == 2
    assert server.stats().conditional["overwrote"] > 0 or lie != "always", "the store did not lie"
    table = ss.open("s3://bkt/t", **where)
    found = table.scan(fresh=True).to_arrow().column("id").to_pylist()
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found) <= set(tried)
    table.merge_shards()
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == sorted(found)
