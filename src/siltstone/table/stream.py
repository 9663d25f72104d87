"""Tasks run by a few threads, their results in order.

What must hold:
- Results come in the order of the tasks, whatever order they end in; an error comes where its task's result would.
- What is held is bounded: tasks are taken only while what is under way and not yet given out stays below
  ``Pace.bytes_max`` (two tasks always may), and the next ones only when results are asked for.
- When the results are no longer asked for, or one was an error, no thread is left.
- One task alone is run by the caller's own thread.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from siltstone.errors import ForkedError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from concurrent.futures import Future

    from siltstone.store.base import Store

THREADS_MAX = 8
READS_IN_FLIGHT = 16  # from a store behind a network: they wait more than they work
BYTES_IN_FLIGHT = 64 * 1024 * 1024
TASKS_LEAST = 2

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """What a task is told when it is run."""

    alone: bool  # no other task waits to be run, so it may use more than one thread itself
    stop: Event = field(default_factory=Event)  # set when nobody waits for it any more


ALONE = Turn(alone=True)


class Task(Protocol[T_co]):
    """A piece of work."""

    @property
    def nbytes(self) -> int:
        """About how much memory it takes, with its result."""

    def run(self, turn: Turn) -> T_co:
        """Do it."""


@dataclass(frozen=True)
class Pace:
    """How much is done at once. ``first`` tasks are begun with; each result that is asked for allows twice as many."""

    threads: int  # 0: the caller's own, one task after the other
    bytes_max: int = BYTES_IN_FLIGHT
    first: int = 0  # 0: as many as the threads can keep up with

    @property
    def most(self) -> int:
        """The tasks that may be under way, or done and not given out."""
        return max(TASKS_LEAST, self.threads * 2)


def pace_for(store: Store, *, bytes_max: int = BYTES_IN_FLIGHT, first: int = 0) -> Pace:
    """The pace for reading from a store."""
    if not store.traits.threads:
        return Pace(0, bytes_max, first)
    threads = min(THREADS_MAX, processors())
    return Pace(threads if store.traits.cheap_probes else READS_IN_FLIGHT, bytes_max, first)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(tasks: Iterator[Task[T]], pace: Pace) -> Generator[T, None, None]:
    """The results of tasks. ``tasks`` is asked for the next one by the caller's thread, and closed at the end."""
    try:
        first = next(tasks, None)
        if first is None:
            return
        if not pace.threads:
            yield first.run(ALONE)
            yield from (task.run(ALONE) for task in tasks)
            return
        if pace.first == 1:
            yield first.run(ALONE)
            first = next(tasks, None)
        second = next(tasks, None) if first is not None else None
        if first is not None and second is None:
            yield first.run(ALONE)
        elif first is not None and second is not None:
            yield from _Run(pace, tasks, [first, second]).results()
    finally:
        if hasattr(tasks, "close"):
            tasks.close()


class _Run(Generic[T]):
    """The results of tasks that are run by threads."""

    def __init__(self, pace: Pace, tasks: Iterator[Task[T]], waiting: list[Task[T]]) -> None:
        self._pace = pace
        self._tasks = tasks
        self._waiting = deque(waiting)
        self._running: deque[tuple[Future[T], int]] = deque()
        self._window = pace.first * 2 or pace.most
        self._held = 0
        self._queued: deque[None] = deque()  # as many as there are tasks that no thread has begun
        self._ended = False  # whether there are no more than those
        self._stop = Event()
        self._process = os.getpid()

    def results(self) -> Iterator[T]:
        pool = ThreadPoolExecutor(self._pace.threads, thread_name_prefix="siltstone-scan")
        try:
            self._fill(pool)
            while self._running:
                future, nbytes = self._running.popleft()
                yield future.result()
                self._check_process()
                self._held -= nbytes
                self._window = min(self._pace.most, self._window * 2)
                del future  # its result is the caller's now
                self._fill(pool)
        finally:
            self._stop.set()
            if os.getpid() == self._process:
                pool.shutdown(wait=True, cancel_futures=True)

    def _fill(self, pool: ThreadPoolExecutor) -> None:
        while len(self._running) < self._window:
            if not self._waiting:
                task = next(self._tasks, None)
                if task is None:
                    self._ended = True
                    return
                self._waiting.append(task)
            nbytes = self._waiting[0].nbytes
            if len(self._running) >= TASKS_LEAST and self._held + nbytes > self._pace.bytes_max:
                return
            task = self._waiting.popleft()
            self._queued.append(None)
            self._running.append((pool.submit(self._begin, task), nbytes))
            self._held += nbytes

    def _begin(self, task: Task[T]) -> T:
        self._queued.pop()
        # Threads that find nothing more to do help with the last task.
        return task.run(Turn(alone=self._ended and not self._queued, stop=self._stop))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ForkedError(
                "a scan was begun before os.fork() and can't go on in the child",
                hint="scan again in the child",
            )
