"""Reading many objects ahead holds a bounded number of bytes, whatever the objects' size."""

from __future__ import annotations

import threading

import pytest

from siltstone.store.remote import RemoteStore

OBJECT_BYTES = 2 * 1024 * 1024
COUNT = 60
HELD_BYTES_MAX = 80 * 1024 * 1024  # of 120 in all


class Counting(RemoteStore):
    """Knows how many bytes were read, and says when it is more than a reader should hold."""

    def __init__(self, uri, options) -> None:
        super().__init__(uri, options)
        self.too_many = threading.Event()
        self._lock_count = threading.Lock()
        self._held = 0

    def get(self, key: str, **options) -> bytes:
        data = super().get(key, **options)
        self.hold(len(data))
        return data

    def hold(self, change: int) -> None:
        with self._lock_count:
            self._held += change
            if self._held > HELD_BYTES_MAX:
                self.too_many.set()


@pytest.mark.parametrize("stop_at", [0, 20])
def test_get_many__large_objects_and_a_slow_reader__few_are_held(places, stop_at):
    server = places.fault_server()
    store = Counting("s3://bkt/x", server.storage_options)
    store.put("large", bytes(OBJECT_BYTES))
    for number, data in enumerate(store.get_many(["large"] * COUNT)):
        assert len(data) == OBJECT_BYTES
        if number == stop_at:  # a reader that reads on without end is there long before this
            assert not store.too_many.wait(0.5)
        store.hold(-len(data))
    assert number == COUNT - 1
    assert not store.too_many.is_set()


def test_get_many__small_objects__are_read_together(places):
    server = places.fault_server()
    store = RemoteStore("s3://bkt/x", server.storage_options)
    store.put("small", b"x")
    server.set(latency_ms=50.0, latency_match="small")
    one_by_one = threading.Event()
    timer = threading.Timer(COUNT * 0.05, one_by_one.set)
    timer.start()
    try:
        assert list(store.get_many(["small"] * COUNT)) == [b"x"] * COUNT
        assert not one_by_one.is_set()
    finally:
        timer.cancel()


def test_get_many__one_large_object_before_many_small_ones__these_are_read_together(places):
    server = places.fault_server()
    under_way, most, lock = 0, 0, threading.Lock()

    class Watching(RemoteStore):
        def get(self, key: str, **options) -> bytes:
            nonlocal under_way, most
            with lock:
                under_way += 1
                most = max(most, under_way * (key == "small"))
            try:
                return super().get(key, **options)
            finally:
                with lock:
                    under_way -= 1

    store = Watching("s3://bkt/x", server.storage_options)
    store.put("large", bytes(32 * 1024 * 1024))
    store.put("small", b"x")
    server.set(latency_ms=20.0, latency_match="small")
    read = store.get_many(["large", *["small"] * 400])
    for _ in range(100):
        next(read)
    with lock:
        most = 0  # by now the large one must be forgotten
    assert len(list(read)) == 301
    assert most > 20
