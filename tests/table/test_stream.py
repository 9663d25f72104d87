from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from threading import Event

import pytest

from siltstone.errors import CorruptionError, ForkedError
from siltstone.store.base import Traits
from siltstone.store.memory import MemoryStore
from siltstone.table.stream import READS_IN_FLIGHT, THREADS_MAX, Pace, Turn, _Run, in_order, pace_for

PACE = Pace(threads=3)
WAIT_S = 30


def threads():
    return [one for one in threading.enumerate() if one.name.startswith("siltstone-scan")]


@dataclass
class Job:
    number: int
    nbytes: int = 1
    after: Event | None = None  # wait for it before the end
    begun: Event = field(default_factory=Event)
    ended: Event = field(default_factory=Event)
    error: Exception | None = None
    turn: Turn | None = None
    thread: str = ""

    def run(self, turn):
        self.turn, self.thread = turn, threading.current_thread().name
        self.begun.set()
        if self.after is not None:
            assert self.after.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        self.ended.set()
        return self.number


def jobs(count, **options):
    return [Job(number, **options) for number in range(count)]


def test_in_order__later_tasks_end_first__results_are_in_order():
    made = jobs(6)
    made[0].after = made[1].ended
    made[1].after = made[2].ended
    assert list(in_order(iter(made), PACE)) == [0, 1, 2, 3, 4, 5]
    assert threads() == []


def test_in_order__no_task__gives_nothing():
    assert list(in_order(iter(()), PACE)) == []


def test_in_order__one_task__is_run_by_the_caller_alone():
    (job,) = made = jobs(1)
    assert list(in_order(iter(made), PACE)) == [0]
    assert job.thread == threading.current_thread().name
    assert job.turn.alone


def test_in_order__several_tasks__are_run_by_threads_side_by_side():
    made = jobs(2)
    made[0].after, made[1].after = made[1].begun, made[0].begun
    assert list(in_order(iter(made), Pace(threads=2))) == [0, 1]
    assert {job.thread.rpartition("_")[0] for job in made} == {"siltstone-scan"}


def test_in_order__last_task_begins__may_use_the_threads_that_are_idle():
    first, last = made = jobs(2)
    run = _Run(Pace(threads=2), iter(()), [])
    run._queued.extend([None, None])
    assert [run._begin(first), run._ended] == [0, False]
    run._ended = True
    assert run._begin(last) == 1
    assert [job.turn.alone for job in made] == [False, True]


def test_in_order__a_task_fails__its_error_comes_after_the_results_before_it():
    made = jobs(20)
    made[2].error = CorruptionError("broken", object="data/x")
    found = in_order(iter(made), PACE)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(CorruptionError, match="broken"):
        next(found)
    assert threads() == []
    assert not made[19].begun.is_set()


def test_in_order__the_tasks_themselves_fail__the_error_comes_and_no_thread_stays():
    def some():
        yield from jobs(3)
        raise CorruptionError("no more")

    with pytest.raises(CorruptionError, match="no more"):
        list(in_order(some(), PACE))
    assert threads() == []


def test_in_order__closed_early__running_tasks_are_told_and_no_thread_stays():
    ended = []

    def some():
        try:
            yield from made
        finally:
            ended.append(True)

    made = jobs(50)
    found = in_order(some(), PACE)
    assert next(found) == 0
    found.close()
    assert threads() == []
    assert ended == [True]
    assert made[0].turn.stop.is_set()
    assert not made[49].begun.is_set()


def test_in_order__never_asked__runs_nothing():
    made = jobs(3)
    in_order(iter(made), PACE).close()
    assert not any(job.begun.is_set() for job in made)


def test_in_order__results_not_asked_for__only_as_many_bytes_are_in_flight():
    made = jobs(20, nbytes=30)
    found = in_order(iter(made), Pace(threads=8, bytes_max=100))
    next(found)
    assert made[2].ended.wait(WAIT_S)
    assert not made[3].begun.is_set()
    next(found)
    assert made[3].ended.wait(WAIT_S)
    assert not made[4].begun.is_set()
    found.close()


def test_in_order__tasks_over_the_limit__two_run_all_the_same():
    made = jobs(5, nbytes=1000)
    found = in_order(iter(made), Pace(threads=8, bytes_max=100))
    next(found)
    assert made[1].ended.wait(WAIT_S)
    assert not made[2].begun.is_set()
    assert list(found) == [1, 2, 3, 4]


def test_in_order__tasks_without_weight__no_more_than_the_threads_need_are_taken():
    taken = []

    def some():
        for job in jobs(100, nbytes=0):
            taken.append(job.number)
            yield job

    found = in_order(some(), Pace(threads=2))
    next(found)
    assert len(taken) == 4
    found.close()


def test_in_order__first_is_one__the_second_is_not_even_taken_before_it_is_asked_for():
    taken = []

    def some():
        for job in jobs(100):
            taken.append(job.number)
            yield job

    found = in_order(some(), Pace(threads=8, first=1))
    next(found)
    assert taken == [0]
    assert threads() == []
    next(found)
    assert len(taken) == 3
    next(found)
    assert len(taken) == 6
    assert list(found) == list(range(3, 100))
    assert threads() == []


def test_in_order__goes_on_in_a_forked_child__refuses():
    found = in_order(iter(jobs(20)), Pace(threads=2))
    next(found)
    child = os.fork()
    if not child:
        code = 1
        try:
            next(found)
        except ForkedError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(found) == list(range(1, 20))


def test_pace_for__a_store_behind_a_network__has_more_reads_in_flight():
    near = MemoryStore("near")
    assert pace_for(near).threads <= THREADS_MAX
    far = MemoryStore("far")
    far.traits = Traits(kind="s3", known_good=True, cheap_probes=False)
    assert pace_for(far).threads == READS_IN_FLIGHT


def test_in_order__a_store_for_one_thread__tasks_are_run_by_the_caller_one_after_the_other():
    store = MemoryStore("alone")
    store.traits = Traits(kind="sim", known_good=True, cheap_probes=False, threads=False)
    assert not store.traits.overlaps
    made = jobs(4)
    found = in_order(iter(made), pace_for(store))
    assert next(found) == 0
    assert not made[1].begun.is_set()
    assert list(found) == [1, 2, 3]
    assert {job.thread for job in made} == {threading.current_thread().name}
