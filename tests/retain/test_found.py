"""Faults that the simulator found in what keeps and collects versions; each was a failing seed first."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone import open_log, paths
from siltstone.errors import ConflictError, NotFoundError
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import manual_env
from siltstone.testing.stores import Fault, FaultStore, Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def ids(table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def place(name: str, bucket: MemoryBucket | None = None) -> MemoryStore:
    return MemoryStore(name, bucket=bucket or MemoryBucket())


# -- detach, where only earlier versions need the parent -------------------------------------------------


def compacted_clone():
    """A parent, and a clone whose newest version names nothing of it any more."""
    parent = ss.create(place("parent"), schema=SCHEMA, key="id")
    parent.append([{"id": 1}])
    parent.append([{"id": 2}])
    clone = parent.clone(place("clone"))
    clone.tag("begin")
    clone.delete("id = 2")
    clone.overwrite([{"id": 3}])
    return parent, clone


def test_detach__only_a_tagged_version_names_the_parent__is_refused():
    parent, clone = compacted_clone()
    with pytest.raises(ConflictError, match="begin"):
        clone.detach()
    assert [one.holder for one in parent.checkpoints()] == [clone.uri]
    assert ids(clone.at(tag="begin")) == [1, 2]


def test_detach__only_earlier_versions_name_the_parent__they_are_given_up():
    parent, clone = compacted_clone()
    clone.untag("begin")
    clone.detach()
    assert parent.checkpoints() == []
    with pytest.raises(NotFoundError):  # not: files that are missing once the parent is collected
        clone.at(version=1)
    with pytest.raises(NotFoundError):
        clone.restore(version=1)
    assert ids(clone) == [3]


# -- the mark of a table that was dropped is no version of the one that came after it ---------------------


def came_again():
    bucket = MemoryBucket()
    ss.create(place("again", bucket), schema=SCHEMA, key="id").append([{"id": 1}])
    ss.drop(place("again", bucket))
    table = ss.create(place("again", bucket), schema=SCHEMA, key="id")
    table.append([{"id": 2}])
    return table


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.at(version=2),
        lambda table: table.restore(version=2),
        lambda table: table.tag("mark", version=2),
        lambda table: table.checkpoint("mark", version=2),
        lambda table: table.clone(place("clone"), at=2),
    ],
    ids=["at", "restore", "tag", "checkpoint", "clone"],
)
def test_version__that_dropped_the_table_before__is_not_found(call):
    table = came_again()
    with pytest.raises(NotFoundError):
        call(table)
    assert ids(table) == [2]
    assert (table.tags, table.checkpoints()) == ({}, [])


# -- a store that says "exists" where nothing is ----------------------------------------------------------


def test_drop__rollup_refused_and_not_there__the_place_can_be_used_again():
    bucket = MemoryBucket()
    ss.create(place("refused", bucket), schema=SCHEMA, key="id").append([{"id": 1}])
    store = FaultStore(place("refused", bucket))
    store.on("create", Fault.EXISTS_NOTHING, key="rollups/")
    ss.drop(store)
    with pytest.raises(NotFoundError, match="was dropped"):
        ss.open(place("refused", bucket))
    ss.create(place("refused", bucket), schema=SCHEMA, key="id").append([{"id": 2}])
    assert ids(ss.open(place("refused", bucket))) == [2]


# -- a log that is truncated while someone follows it -----------------------------------------------------


def test_refresh__log_is_truncated_under_entries_that_nothing_repeats__is_no_alarm():
    bucket = MemoryBucket()
    open_log(place("short", bucket), create=True, root="log/", trust_ms=0)
    table = ss.create(place("short", bucket), schema=SCHEMA, key="id")
    table.append([{"id": 1}])
    store = Interleaves(place("short", bucket))
    reader = ss.open(store)
    table.append([{"id": 2}])
    table.gc(keep_days=0)  # whoever opens it now begins with a rollup, and repeats nothing before it
    ss.open(place("short", bucket)).append([{"id": 3}])
    store.before("get", lambda: table.gc(keep_days=0), key=paths.entry("log/", 2))
    assert ids(reader) == [1, 2, 3]
    assert not table._log.is_taken(2)


# -- a WAL's beginning that could not be deleted at once --------------------------------------------------


def test_gc__wal_of_a_shard_that_was_flushed_and_never_merged__loses_its_beginning():
    env, bucket = manual_env(1), MemoryBucket()
    store = MemoryStore("wal", bucket=bucket, clock=env.clock)
    table = ss.create(store, schema=SCHEMA, key="id", shards=1)
    with table.shard(0).writer() as writer:
        writer.put([{"id": 1}])
        writer.freeze()
        writer.flush_memtables()
    entries = "shards/0000-0000/wal/entries"
    assert [*store.list(entries)] != []  # they stay for a while: someone may trust an old look at the floor
    for _ in range(2):
        env.clock.advance(86_400)
        table.gc()
    assert [*store.list(entries)] == []
    assert ids(ss.open(store).at(version=table.version)) == []
    assert table.count(fresh=True) == 1
