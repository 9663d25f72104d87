"""Requests and bytes are counted as a bill would count them, and what a log costs is what we say."""

from __future__ import annotations

import pytest

from siltstone.errors import AlreadyExistsError
from siltstone.log import open_log
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.meter import MeteredStore


@pytest.fixture
def store():
    return MeteredStore(MemoryStore(bucket=MemoryBucket()))


def test_usage__each_verb__is_counted_with_its_bytes(store):
    store.create("a", b"123")
    store.put("b", b"4567")
    store.get("a")
    store.get_ranges("b", [(0, 1), (1, 3)])
    store.read_into("b", 1, memoryview(bytearray(2)))
    store.head("a")
    store.copy("a", "c")
    list(store.get_many(["a", "missing"]))
    list(store.list())
    store.delete(["a", "b"])
    usage = store.usage()
    assert usage.requests == {"create": 1, "put": 1, "get": 6, "head": 1, "copy": 1, "list": 1, "delete": 1}
    assert (usage.bytes_out, usage.bytes_in) == (7, 3 + 3 + 2 + 3)
    assert usage.total == 12


def test_usage__calls_that_fail__count_too(store):
    store.create("a", b"1")
    with pytest.raises(AlreadyExistsError):
        store.create("a", b"2")
    assert store.usage().requests == {"create": 2}


def test_usage__long_listings_and_deletes__count_a_request_for_each_page(store):
    for number in range(2500):
        store.put(f"k/{number:05d}", b"")
    store.reset()
    assert len(list(store.list("k"))) == 2500
    store.delete(f"k/{number:05d}" for number in range(2500))
    assert store.usage().requests == {"list": 3, "delete": 3}


def test_reset__after_calls__starts_anew(store):
    store.put("a", b"1")
    store.reset()
    assert store.usage().total == 0


def test_append__one_after_the_other__is_one_request_each(store):
    log = open_log(store, create=True, probe=False)
    log.add(b"first")
    store.reset()
    for _ in range(20):
        log.add(b"x")
    assert store.usage().requests == {"create": 20}
