"""What metrics say is what happened."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import siltstone as ss
from siltstone.errors import DuplicateKeyError, NotFoundError, UnsafeStoreError
from siltstone.store.connect import open_store
from siltstone.telemetry import metrics, seams
from siltstone.testing.s3server import Faults, FaultServer
from siltstone.testing.stores import Interleaves
from telemetry_worlds import (
    SCHEMA,
    commits_and_reads,
    conflicts,
    failed_flush,
    fenced,
    fresh_uri,
    lost_answer,
    lying_store,
    new_table,
    note,
    unknown_commit,
    waits_for_room,
)
from worlds import World

REQUESTS = "siltstone.store.requests"


@pytest.fixture
def server():
    with FaultServer(in_thread=True) as made:
        yield made


# -- requests --------------------------------------------------------------------------------------


def test_requests__a_table_on_s3__are_those_that_the_server_counted(ears, server):
    table = ss.create("s3://bkt/orders", schema=SCHEMA, key="id", shards=1, storage_options=server.storage_options)
    for number in range(3):
        table.append(note(number))
    with table.writer() as writer:
        writer.put(note(10))
        writer.put(note(11))
    table.merge_shards()
    with pytest.raises(DuplicateKeyError):
        table.append(note(1))
    assert table.scan().to_arrow().num_rows == 5
    table.close()
    told = {verb: ears.count(REQUESTS, store="s3", verb=verb) for verb in ("get", "head", "list", "delete")}
    told["put"] = ears.count(REQUESTS, verb="put") + ears.count(REQUESTS, verb="create")
    counted = server.stats()
    told["delete-many"] = told.pop("delete")
    assert {verb: count for verb, count in told.items() if count} == counted.verbs
    assert counted.conditional["refused"] == ears.count(REQUESTS, verb="create", outcome="already-exists")


def test_requests__each_way_to_fail__has_its_outcome(ears, server):
    store = open_store("s3://bkt/x", server.storage_options)
    store.put("a", b"12345")
    assert store.get("a") == b"12345"
    assert store.get_ranges("a", [(0, 2), (3, 5)]) == [b"12", b"45"]
    assert store.head("b") is None
    assert list(store.get_many(["a", "b"])) == [b"12345", None]
    with pytest.raises(ss.errors.AlreadyExistsError):
        store.create("a", b"x")
    with pytest.raises(NotFoundError):
        store.get("b")
    server.set(deny=("put",))
    with pytest.raises(ss.errors.PermissionDeniedError):
        store.put("c", b"x")
    server.set(Faults(full=True))
    with pytest.raises(ss.errors.StoreFullError):
        store.put("c", b"x")
    found = {(have["verb"], have["outcome"]): value for name, _, have, value in ears.points() if name == REQUESTS}
    assert found == {
        ("put", "ok"): 1,
        ("get", "ok"): 4,
        ("head", "not-found"): 1,
        ("get", "not-found"): 2,
        ("create", "already-exists"): 1,
        ("put", "permission-denied"): 1,
        ("put", "store-full"): 1,
    }
    assert ears.count("siltstone.store.bytes", direction="read") == 5 + 4 + 5
    assert ears.count("siltstone.store.bytes", direction="written") == 5


def test_requests__listings_and_deletions_of_many__count_as_the_meter_does(ears):
    store = open_store(fresh_uri())
    for number in range(2500):
        store.put(f"k/{number:05d}", b"")
    assert len(list(store.list("k"))) == 2500
    assert list(store.list("none")) == []
    store.delete(f"k/{number:05d}" for number in range(2500))
    store.delete([])
    for verb in ("list", "delete", "put"):
        assert ears.count(REQUESTS, verb=verb) == store.usage().requests[verb]
    assert ears.count("siltstone.store.request.duration", verb="put") == 2500


def test_requests__threads_share_a_store__none_is_lost(ears):
    store = open_store(fresh_uri())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(f"k{number}", b"1"), range(400)))
    assert ears.count(REQUESTS, verb="put", outcome="ok") == 400
    assert ears.count("siltstone.store.bytes", direction="written") == 400


# -- commits ---------------------------------------------------------------------------------------


def test_commits__each_outcome__is_counted_with_its_operation(ears):
    table = new_table()
    table.append(note(1, 2))
    table.upsert(note(2))
    table.delete("id = 77")
    with pytest.raises(DuplicateKeyError):
        table.append(note(1))
    with table.transaction() as transaction:
        transaction.delete("id = 1")
        transaction.append(note(5))
    found = {
        (have["operation"], have["outcome"]): value
        for name, _, have, value in ears.points()
        if name == "siltstone.commits"
    }
    assert found == {
        ("append", "ok"): 1,
        ("upsert", "ok"): 1,
        ("delete", "unchanged"): 1,
        ("append", "duplicate-key"): 1,
        ("transaction", "ok"): 1,
    }
    assert ears.count("siltstone.commit.duration") == 5
    assert ears.count("siltstone.commit.conflicts") == 0


def test_commits__another_is_first_twice__conflicts_and_retries_are_counted(ears):
    conflicts()
    assert ears.count("siltstone.commit.conflicts", table="orders") == 2
    assert ears.count("siltstone.commit.retries", table="orders") == 2
    assert ears.count("siltstone.commits", operation="delete", outcome="ok") == 1


def test_commits__an_answer_is_lost__is_one_commit_and_one_lost_answer(ears):
    lost_answer()
    assert ears.count("siltstone.commit.lost_answers") == 1
    assert ears.count("siltstone.commits", outcome="ok") == 1
    assert ears.count("siltstone.commits.unknown") == 0


def test_commits__nobody_can_tell__is_unknown_once(ears):
    unknown_commit()
    assert ears.count("siltstone.commits.unknown") == 1
    assert ears.count("siltstone.commits", outcome="commit-unknown") == 1
    assert ears.count("siltstone.alarms") == 0


def test_commit_store__decides__its_requests_are_counted(ears, tmp_path):
    table = new_table(commits=f"sqlite:{tmp_path}/claims.db")
    before = ears.count("siltstone.commit_store.requests", verb="claim")
    table.append(note(1))
    table.append(note(2))
    assert ears.count("siltstone.commit_store.requests", store="sqlite", verb="claim", outcome="ok") == before + 2
    assert ears.count("siltstone.commit_store.request.duration", verb="claim") == before + 2


# -- alarms ----------------------------------------------------------------------------------------


def test_alarms__a_store_lies__is_one(ears):
    lying_store()
    assert ears.count("siltstone.alarms", kind="unsafe-store") == 1


def test_alarms__a_log_on_its_own_is_lied_to__are_one_for_each_who_was_told(ears):
    world = World("witness").seeded()
    store = Interleaves(world.store())
    one, two = world.open(store), world.open()
    tip = one.tip()

    def rival():
        world.append(two, tip, b"rival")
        key = next(info.key for info in world.store().list("entries") if info.key.endswith(f"{tip.position}"))
        world.store().delete([key])  # so that the store accepts a second one

    store.before("create", rival, key="entries/")
    assert isinstance(world.append(one, tip, b"mine"), UnsafeStoreError)
    assert ears.count("siltstone.alarms", kind="unsafe-store") == 1
    assert [found["event"] for found in ears.events()] == ["alarm"]


def test_alarms__an_object_of_a_table_is_damaged__is_one(ears):
    uri = fresh_uri()
    new_table(uri).append(note(1, 2))
    store = open_store(uri)
    key = next(info.key for info in store.list("data"))
    store.put(key, store.get(key)[:-4] + b"oops")
    with pytest.raises(ss.errors.CorruptionError):
        ss.open(uri, probe=False).scan().to_arrow()
    assert ears.count("siltstone.alarms", kind="corruption") == 1


# -- shards ----------------------------------------------------------------------------------------


def test_shards__a_writer_is_taken_over__says_who_was_fenced_and_what_was_replayed(ears):
    fenced()
    assert ears.count("siltstone.shard.fenced") == 1
    assert ears.count("siltstone.shard.takeovers") == 1
    assert ears.count("siltstone.shard.replayed") == 1
    assert ears.count("siltstone.shard.puts", outcome="ok") == 2
    assert ears.count("siltstone.shard.puts", outcome="fenced") == 1
    assert ears.count("siltstone.shard.flushes", into="fragment", outcome="ok") == 1


def test_shards__a_memtable_cannot_be_flushed__is_counted_as_such(ears):
    failed_flush()
    assert ears.count("siltstone.shard.flushes", into="fragment", outcome="permission-denied") == 1
    assert ears.count("siltstone.shard.flushes", into="wal", outcome="ok") == 1


def test_shards__a_put_waits_for_room__waits_and_seconds_are_those_of_the_writer(ears):
    stats = waits_for_room()
    assert ears.count("siltstone.shard.backpressure.waits", table="full") == stats.backpressure_waits == 1
    told = [value for name, _, _, value in ears.points() if name == "siltstone.shard.backpressure.duration"]
    assert told == [(1, pytest.approx(stats.backpressure_ms / 1000))]
    assert ears.count("siltstone.shard.rows") == stats.rows
    assert ears.count("siltstone.shard.puts", outcome="backpressure") == 1


def test_shards__routed_puts__count_calls_and_rows(ears):
    table = new_table(shards=4)
    with table.writer() as writer:
        writer.put(note(*range(20)))
        writer.delete([3, 4])
    table.merge_shards()
    assert ears.count("siltstone.shard.puts", outcome="ok") == 2
    assert ears.count("siltstone.shard.rows") == 22
    assert ears.count("siltstone.shard.merges", outcome="ok") == 1
    assert ears.count("siltstone.shard.merge.duration") == 1


def test_shards__their_wal_is_in_another_store__all_is_told_of_the_table(ears):
    table = new_table(shards=1, wal=fresh_uri("somewhere-else"))
    with table.writer() as first:
        first.put(note(1))
        with table.writer() as second:
            second.put(note(2))
            with pytest.raises(ss.errors.FencedError):
                first.put(note(3))
    told = {have["table"] for name, _, have, _ in ears.points() if name.startswith("siltstone.shard.")}
    assert told == {"orders"}
    assert ears.count("siltstone.shard.fenced", table="orders") == 1
    assert {one["table"] for one in ears.events()} == {"orders"}


# -- upkeep ----------------------------------------------------------------------------------------


def test_gc__objects_go__are_counted_by_kind_as_it_says(ears):
    table = new_table()
    for number in range(3):
        table.overwrite(note(number))
    done = table.gc(keep_days=0)
    assert done.deleted
    for kind, objects in done.objects.items():
        assert ears.count("siltstone.gc.removed", table="orders", kind=kind) == objects
        assert ears.count("siltstone.gc.removed.bytes", kind=kind) == done.bytes[kind]
    assert ears.count("siltstone.gc.duration", outcome="ok") == 1


def test_gc__dry_run__removes_nothing_and_says_so(ears):
    table = new_table()
    table.overwrite(note(1))
    table.overwrite(note(2))
    table.gc(keep_days=0, dry_run=True)
    assert ears.count("siltstone.gc.removed") == 0


def test_index__built_and_searched__items_ends_and_searches_are_counted(ears):
    table = new_table()
    for number in range(3):
        table.append(note(number))
    build = table.begin_text_index("note", items=3)
    for item in build.missing():
        build.run(item)
    build.commit()
    table.search("note", "note").to_arrow()
    assert ears.count("siltstone.index.items", outcome="ok") == build.items
    assert ears.count("siltstone.index.finalize.duration", outcome="ok") == 1
    assert ears.count("siltstone.index.search.duration", outcome="ok") == 1


# -- what they may say -----------------------------------------------------------------------------


def test_metrics__all_that_work_tells__have_the_attributes_and_units_they_were_declared_with(ears, tmp_path):
    commits_and_reads(tmp_path)
    for name, unit, have, _ in ears.points():
        assert (unit, set(have)) == (metrics.ALL[name].unit, set(metrics.ALL[name].attributes)), name


def test_metrics__more_tables_than_may_be_named__the_rest_are_told_as_others(ears, monkeypatch):
    monkeypatch.setattr(seams, "_tables", {})
    for number in range(seams.TABLES_MAX + 5):
        metrics.SHARD_PUTS.add(table=f"s3://bucket/table-{number}", outcome="ok")
    names = {have["table"] for name, _, have, _ in ears.points() if name == "siltstone.shard.puts"}
    assert len(names) == seams.TABLES_MAX + 1
    assert ears.count("siltstone.shard.puts", table=seams.OTHERS) == 5
