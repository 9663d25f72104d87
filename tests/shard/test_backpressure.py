"""A producer that is faster than its store: memory stays within the limit, and nobody waits for ever."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import crowd
import siltstone as ss
from shard_worlds import SCHEMA, ShardWorld, rows
from siltstone.env import Env
from siltstone.errors import BackpressureError, ClosedError, FencedError, WriterStoppedError
from siltstone.testing.s3server import Faults
from siltstone.testing.script import Fault
from worlds import FOR_EVER

TICK = threading.Event()  # is never set: to look again in a while
PRODUCER = Path(__file__).parent / "producer.py"
MIB = 2**20
WAL = "shards/a/wal/entries/"


def size_of(world, *ids):
    return world.writer_intake(world.table()).rows(rows(*ids)).chunks[0].nbytes


# -- without waiting -------------------------------------------------------------------------------


def test_put__no_room_and_told_not_to_wait__raises_and_takes_nothing():
    world = ShardWorld()
    size = size_of(world, 1)
    writer = world.writer(max_unflushed_memtable_bytes=10 * size)
    acks = [writer.put(rows(number), wait=False) for number in range(5)]  # in the queue, and in the memtable
    with pytest.raises(
        BackpressureError, match=f"{10 * size} bytes of shard a wait .* the limit is {10 * size}"
    ) as one:
        writer.put(rows(5), wait=False)
    assert one.value.retryable
    assert "max_unflushed_memtable_bytes" in one.value.hint
    assert (one.value.facts["held_bytes"], one.value.facts["limit_bytes"]) == (10 * size, 10 * size)
    assert writer.memtable_stats().rows == 5
    for ack in acks:
        ack.wait()
    writer.put(rows(6), wait=False).wait()
    assert sorted(world.ids()) == [0, 1, 2, 3, 4, 6]


def test_put__pieces_of_one_put_and_room_for_some__takes_all_or_nothing():
    world = ShardWorld()
    data = pa.table({"id": range(200), "note": ["x" * 50] * 200}, schema=SCHEMA)
    writer = world.writer(max_wal_buffer_size=2048, max_unflushed_memtable_bytes=16_000)
    assert len(writer.intake.rows(data).chunks) > 4
    writer.put(rows(1000), wait=False)
    with pytest.raises(BackpressureError):
        writer.put(data, wait=False)
    assert writer.wal_stats().pending_batches == 1
    writer.flush()
    writer.freeze()
    writer.flush_memtables()
    writer.put(data, wait=False).wait()  # it is over the limit by itself, and nothing else is held
    assert sorted(world.ids()) == [*range(200), 1000]


def test_put__one_put_over_the_limit_and_nothing_held__is_taken():
    world = ShardWorld()
    writer = world.writer(max_unflushed_memtable_bytes=1)
    for number in range(5):
        world.put(writer, number)
    assert sorted(world.check()) == list(range(5))


# -- waiting ---------------------------------------------------------------------------------------


class Held:
    """A writer with threads whose fragments are not written before the test says so; its memory is full."""

    def __init__(self, places, tmp_path, *, patience_s=30.0):
        place = places.store("faulty")
        self.server = places.honest
        self.table = ss.create(place.uri, schema=SCHEMA, storage_options=place.options, env=Env(patience_s=patience_s))
        config = ss.ShardWriterConfig(max_unflushed_memtable_bytes=300, max_memtable_rows=5, max_wal_append_attempts=1)
        self.writer = self.table.shard("a").writer(config)

    def fill(self):
        """Put until there is no room; the next id."""
        for number in range(1000):
            try:
                self.writer.put(rows(number), wait=False).wait()
            except BackpressureError:
                return number
        raise AssertionError("there is no limit")

    def put_in_a_thread(self, number):
        told = []

        def put():
            try:
                told.append(self.writer.put(rows(number)))
            except Exception as error:
                told.append(error)

        thread = threading.Thread(target=put)
        thread.start()
        while self.writer.stats().backpressure_waits == 0:
            thread.join(0.005)
        return thread, told


@pytest.fixture
def held(places, tmp_path):
    made = Held(places, tmp_path)
    made.server.set(hold="/data/")
    yield made
    made.server.set(Faults())
    made.server.release()
    made.writer.close()


def test_put__no_room__waits_until_a_memtable_is_flushed(held):
    number = held.fill()
    thread, told = held.put_in_a_thread(number)
    assert thread.is_alive()
    assert told == []
    held.server.set(Faults())
    held.server.release()
    thread.join(60)
    assert told[0].done
    assert held.writer.stats().backpressure_ms > 0
    assert sorted(held.table.scan(fresh=True).to_arrow().column("id").to_pylist()) == list(range(number + 1))


@pytest.mark.parametrize("end", ["closed", "fenced"])
def test_put__waits_for_room_when_the_writer_ends__is_told(held, end):
    thread, told = held.put_in_a_thread(held.fill())
    held.server.set(Faults())
    if end == "closed":
        ending = threading.Thread(target=held.writer.close)
        held.writer.stop(ClosedError("closed by the test"))
    else:
        ending = threading.Thread(target=held.server.release)
        held.table.shard("a").writer().close()
    ending.start()
    thread.join(60)
    held.server.release()
    ending.join(60)
    assert isinstance(told[0], ClosedError if end == "closed" else FencedError)


def test_put__interrupted_while_it_waits_for_room__takes_nothing_and_the_writer_goes_on(held):
    number = held.fill()
    before = held.writer.stats().rows
    main = threading.get_ident()

    def interrupt():
        while held.writer._pressure.waits == 0:
            TICK.wait(0.001)
        signal.pthread_kill(main, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        held.writer.put(rows(number))
    other.join()
    assert held.writer.stats().rows == before
    held.server.set(Faults())
    held.server.release()
    held.writer.put(rows(number + 1))
    found = held.table.scan(fresh=True).to_arrow().column("id").to_pylist()
    assert sorted(found) == [*range(number), number + 1]


def test_put__memtables_cant_be_flushed__is_told_why_after_the_stores_patience(places, tmp_path):
    made = Held(places, tmp_path, patience_s=0.3)
    try:
        made.server.set(fail_match="/data/", fail_status=503)
        number = made.fill()
        with pytest.raises(BackpressureError, match=r"the last flush failed: ") as caught:
            made.writer.put(rows(number))
        assert "0.3 s" in caught.value.hint
        made.server.set(Faults())
        made.writer.put(rows(number))  # it goes on when the store does
        assert sorted(made.table.scan(fresh=True).to_arrow().column("id").to_pylist()) == list(range(number + 1))
    finally:
        made.server.set(Faults())
        made.writer.close()


def test_put__without_threads_and_no_room__makes_room_itself():
    world = ShardWorld()
    size = size_of(world, 1)
    writer = world.writer(max_unflushed_memtable_bytes=6 * size, durable_write=False)
    for number in range(40):
        writer.put(rows(number))
        stats = writer.memtable_stats()
        assert stats.bytes + stats.frozen_bytes + writer.wal_stats().pending_bytes <= 6 * size
    writer.close()
    assert sorted(world.ids()) == list(range(40))


def test_put__without_threads_and_the_store_is_away__is_told():
    world = ShardWorld()
    store = world.fault_store()
    size = size_of(world, 1)
    writer = world.writer(store, max_unflushed_memtable_bytes=4 * size, durable_write=False, max_wal_append_attempts=1)
    writer.put(rows(1))
    writer.put(rows(2))
    store.on("create", Fault.DENY, key=WAL, times=FOR_EVER)
    with pytest.raises(WriterStoppedError, match="not in the WAL"):
        writer.put(rows(3))
    assert world.ids() == []


# -- memory ----------------------------------------------------------------------------------------

BOUNDS = {  # knobs, the limit, what may come on top of it (a flush sorts and encodes a memtable), and how much is put
    "memtable": ({"max_memtable_size": 10 * MIB, "max_wal_buffer_size": 4 * MIB}, 24 * MIB, 56 * MIB, 96),
    "wal only": ({"enable_memtable": False, "max_wal_buffer_size": 4 * MIB}, 8 * MIB, 32 * MIB, 56),
}


class Producer:
    """A process of its own, whose memory nobody else used before. It is ready when it is made."""

    def __init__(self, job):
        self._process = crowd.start(job, worker=PRODUCER)
        assert json.loads(self._process.stdout.readline()) == {"ready": True}

    def run(self):
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("mode", BOUNDS)
def test_put__producer_outruns_a_store_of_200_ms_a_request__memory_stays_within_the_limit(places, mode):
    config, most, more, puts = BOUNDS[mode]
    place = places.store("faulty")
    table = ss.create(place.uri, schema=SCHEMA, storage_options=place.options)
    knobs = {**config, "max_unflushed_memtable_bytes": most, "durable_write": False}
    job = {"uri": place.uri, "options": place.options, "config": knobs, "puts": puts, "put_bytes": MIB}
    with contextlib.closing(Producer(job)) as producer:
        places.honest.set(latency_ms=200)
        try:
            told = producer.run()
        finally:
            places.honest.set(Faults())
    assert told["waits"] > 0, "it was never too fast"
    assert told["held"] <= most
    assert told["arrow"] < most + more < told["rows"] * 1000, "it puts more than that"
    assert told["grown"] < most + more
    table.merge_shards()
    assert table.count() == told["rows"]
