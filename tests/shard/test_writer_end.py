"""How a writer ends: closed, forgotten, or in the child of a fork."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time

import pytest

import siltstone as ss
from shard_worlds import SCHEMA, ShardWorld, rows
from siltstone.errors import ClosedError, ForkedError, InvalidInputError

TICK = threading.Event()  # is never set: to look again in a while


def test_writer__closed__refuses_everything_and_can_be_closed_again():
    world = ShardWorld(keyed=True)
    writer = world.writer()
    ack = writer.put(rows(1), wait=False)
    writer.close()
    assert ack.done
    ack.wait()
    writer.close()
    calls = [lambda: writer.put(rows(2)), lambda: writer.delete([1]), writer.flush, writer.scan, writer.freeze]
    for call in [*calls, writer.flush_memtables, lambda: writer.get([1])]:
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert writer.is_stopped
    assert world.ids() == [1]


def test_writer__block_ends_with_an_error__rows_are_durable_and_the_error_is_the_users():
    world = ShardWorld()
    writer = world.writer(durable_write=False)
    writer.put(rows(1))
    with pytest.raises(ZeroDivisionError), writer:
        1 / 0  # noqa: B018
    assert writer.is_stopped
    assert world.ids() == [1]


def test_writer__in_the_child_of_a_fork__is_refused_and_stays_the_parents(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=1)
    writer = table.shard(0).writer(ss.ShardWriterConfig(durable_write=False))
    ack = writer.put(rows(1))
    calls = [
        lambda: writer.put(rows(2)),
        lambda: writer.delete([1]),
        ack.wait,
        writer.flush,
        writer.freeze,
        writer.flush_memtables,
        writer.scan,
        lambda: writer.get([1]),
        writer.stats,
        writer.wal_stats,
        writer.memtable_stats,
    ]
    child = os.fork()
    if not child:
        status = 1
        try:
            for call in calls:
                with pytest.raises(ForkedError, match="fork"):
                    call()
            writer.close()  # the parent's to close
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    writer.put(rows(3), wait=True)
    os.mkfifo(tmp_path / "go")
    child = os.fork()
    if not child:  # its copy of the memtable is of no use: what the parent puts from now on is not in it
        (tmp_path / "go").read_bytes()
        found = table.scan(fresh=True).to_arrow().column("id").to_pylist()
        os._exit(0 if sorted(found) == [1, 3, 4] else 1)
    writer.put(rows(4), wait=True)
    (tmp_path / "go").write_bytes(b"x")
    assert os.waitpid(child, 0)[1] == 0
    writer.close()


def threads_of(shard):
    return [one for one in threading.enumerate() if one.name.endswith(f"-{shard}")]


def test_writer__forgotten_without_a_close__its_threads_end(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    writer = table.shard("forgotten").writer(ss.ShardWriterConfig(durable_write=False, max_memtable_rows=2))
    for number in range(4):
        writer.put(rows(number)).wait()
    running = threads_of("forgotten")
    assert running
    del writer
    end = time.monotonic() + 30
    while threads_of("forgotten") and time.monotonic() < end:  # a thread may hold the writer for as long as it works
        gc.collect()
        running[0].join(0.05)
    assert threads_of("forgotten") == []
    with table.shard("forgotten").writer() as writer:
        assert writer.scan().count() == 4
    assert threads_of("forgotten") == []


def test_put__nobody_waits__is_durable_after_the_interval(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    with table.shard("a").writer(ss.ShardWriterConfig(durable_write=False, max_wal_flush_interval_ms=1)) as writer:
        ack = writer.put(rows(1))
        end = time.monotonic() + 30
        while not ack.done and time.monotonic() < end:
            TICK.wait(0.001)
        assert ack.done
        assert ss.open(tmp_path / "t").count(fresh=True) == 1


def test_pickle__a_writer__is_refused_with_what_to_do():
    with pytest.raises(InvalidInputError, match="can't be pickled") as caught:
        pickle.dumps(ShardWorld().writer())
    assert "takes the shard over" in caught.value.hint


@pytest.mark.parametrize("wait", ["yes", 1, 0.5])
def test_put__wait_that_is_no_flag__is_refused_and_nothing_is_queued(wait):
    writer = ShardWorld().writer()
    with pytest.raises(InvalidInputError, match="wait must be"):
        writer.put(rows(1), wait=wait)
    assert writer.wal_stats().pending_batches == 0


def test_repr__of_a_writer__names_the_shard_and_the_epoch():
    assert repr(ShardWorld().writer()) == "ShardWriter(memory://, shard a, epoch 1)"
