"""A writer is interrupted anywhere (Ctrl-C): nothing that was acknowledged is lost or doubled."""

from __future__ import annotations

import _weakrefset
import contextlib
import gc
import inspect
import itertools
import sys

import pytest

import shares
from shard_worlds import ShardWorld, attempt, rows
from siltstone.errors import WriterStoppedError
from siltstone.store import memory

# The objects are a service's, which nobody interrupts; what a weak reference calls can't raise; the rest is the test.
APART = {memory.__file__, _weakrefset.__file__, __file__}


class Interrupt:
    """KeyboardInterrupt at the n-th place where Python looks for signals: a call begins, or one into C ends."""

    def __init__(self, nth):
        self.left = nth

    def run(self, call):
        gc.disable()  # what others hung on the collector can't raise either
        sys.setprofile(self._profile)
        try:
            return call()
        finally:
            sys.setprofile(None)
            gc.enable()

    def _profile(self, frame, event, _argument):
        code = frame.f_code
        is_generator = event == "call" and code.co_flags & inspect.CO_GENERATOR  # Python does not stand an error there
        is_finalizer = code.co_name == "__del__"  # and drops one here
        is_place = event in {"call", "c_return"} and not is_generator and not is_finalizer
        if is_place and code.co_filename not in APART:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("enable_memtable", [True, False])
def test_put__interrupted_anywhere__nothing_acknowledged_is_lost_or_doubled(enable_memtable):
    config = {"enable_memtable": enable_memtable, "max_memtable_rows": 1}
    stopped = went_on = 0
    for nth in shares.calls():
        world = ShardWorld()
        writer = world.writer(**config)
        world.put(writer, 1)
        ack = writer.put(rows(2), wait=False)
        interrupt = Interrupt(nth)
        world.put(writer, 3, run=interrupt.run)
        told = world.put(writer, 4)
        if ack.done:
            world.acknowledged.append(2)
        else:
            world.unknown.append(2)
        if isinstance(told, WriterStoppedError):
            assert "cut off half way" in told.message
            stopped += 1
        else:
            assert 4 in world.acknowledged, told
            went_on += 1
        assert attempt(writer.close) is None
        world.go_on(**config)
        if interrupt.left > 0:
            break
    assert nth > 150, "there are more places than that"
    assert went_on > 10 * stopped


def test_flush_memtables__interrupted_anywhere__the_next_one_ends_it():
    for nth in itertools.count(1, 11):
        world = ShardWorld()
        writer = world.writer()
        world.put(writer, 1)
        writer.freeze()
        world.put(writer, 2)
        writer.freeze()
        interrupt = Interrupt(nth)
        with contextlib.suppress(KeyboardInterrupt):
            interrupt.run(writer.flush_memtables)
        world.put(writer, 3)
        assert sorted(writer.scan().to_arrow().column("id").to_pylist()) == [1, 2, 3]
        writer.flush_memtables()
        assert writer.stats().flushed_memtables <= 2
        assert writer.memtable_stats().frozen == 0
        assert sorted(writer.scan().to_arrow().column("id").to_pylist()) == [1, 2, 3]
        writer.close()
        world.go_on()
        if interrupt.left > 0:
            break
    assert nth > 500


def test_put__main_thread_is_interrupted_while_another_waits__the_other_is_told_the_truth():
    for nth in itertools.count(1, 5):
        world = ShardWorld()
        writer = world.writer(durable_write=False)
        acks = [writer.put(rows(one)) for one in (1, 2)]
        interrupt = Interrupt(nth)
        with contextlib.suppress(KeyboardInterrupt):
            interrupt.run(acks[0].wait)
        writer.put(rows(3)).wait()
        acks[1].wait()
        world.acknowledged += [1, 2, 3]
        assert world.check() == [1, 2, 3]
        writer.close()
        if interrupt.left > 0:
            break
    assert nth > 100
