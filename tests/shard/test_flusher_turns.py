"""Whose turn it is to write the WAL: threads that come between another's look and its step, made to happen."""

from __future__ import annotations

import threading

import pytest

from shard_worlds import ShardWorld, rows
from siltstone.errors import InternalError


class Turn:
    """The lock of a flusher's turn, with something that happens before it is taken, or before it is looked at."""

    def __init__(self):
        self._lock = threading.Lock()
        self.before_it_is_taken = []
        self.answers = []  # given instead of the truth, which was so a moment ago

    def locked(self):
        return self.answers.pop(0) if self.answers else self._lock.locked()

    def __enter__(self):
        if self.before_it_is_taken:
            self.before_it_is_taken.pop()()
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)


class NoGates(list):
    """Gates of those who wait, where nobody must: no wake-up would come for a second."""

    def append(self, gate):
        raise AssertionError(f"someone waits at {gate}")


def with_turn(writer):
    writer._flusher._turn = Turn()
    return writer._flusher._turn


def test_wait__whoever_wrote_is_done_before_one_waits_for_it__writes_by_itself_at_once():
    world = ShardWorld()
    writer = world.writer()
    turn = with_turn(writer)
    turn.answers.append(True)
    writer._flusher._gates = NoGates()
    world.put(writer, 1)
    assert world.acknowledged == [1]
    assert turn.answers == []


def test_wait__another_wrote_these_rows_before_the_turn_came__they_are_written_once():
    world = ShardWorld()
    writer = world.writer()
    turn = with_turn(writer)
    ack = writer.put(rows(1), wait=False)
    turn.before_it_is_taken.append(writer.flush)
    ack.wait()
    assert turn.before_it_is_taken == []
    assert world.entries() == [(0, [1])]
    assert writer.wal_stats().entries == 1


def test_flush__of_a_put_that_was_never_queued__is_an_error_and_writes_nothing():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1)
    with pytest.raises(InternalError, match="nothing waits"):
        writer._flusher.flush(writer._flusher.last + 1)
    assert world.entries() == [(0, [1])]
    world.put(writer, 2)
    assert world.check() == [1, 2]


def test_put__another_takes_the_room_that_was_made__makes_room_again_and_nothing_is_lost(monkeypatch):
    world = ShardWorld()
    size = world.writer_intake(world.table()).rows(rows(1, note="x" * 2000)).chunks[0].nbytes
    writer = world.writer(max_unflushed_memtable_bytes=size * 5 // 2)
    make_room, made = writer._make_room, []

    def make_room_for_another():
        make_room()
        made.append(len(made))
        if made == [0]:
            writer.put(rows(2, note="x" * 2000), wait=False)

    monkeypatch.setattr(writer, "_make_room", make_room_for_another)
    writer.put(rows(1, note="x" * 2000), wait=True)
    writer.put(rows(3, note="x" * 2000), wait=True)
    assert made == [0, 1]
    assert sorted(world.ids()) == [1, 2, 3]


def test_flush_memtables__rows_that_are_in_no_entry_of_the_wal__are_not_let_go():
    world = ShardWorld()
    writer = world.writer()
    writer.put(rows(1), wait=False)
    writer.freeze()
    held = writer._tables.oldest
    with pytest.raises(InternalError, match="in no entry of the WAL"):
        writer._flush(held)
    assert writer._tables.oldest is held
    assert writer.flush_memtables() == 1
    assert world.ids() == [1]
