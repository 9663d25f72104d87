"""The threads behind a writer: one writes rows to the WAL that nobody waits for, one flushes memtables.

What must hold: they end with their writer, also where it is forgotten; what they fail at is told by the writer's next
call, never swallowed.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from siltstone.errors import InternalError, SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.shard.writer import ShardWriter

RETRY_S = 0.5  # between two tries to flush a memtable


class Background:
    """Threads that start when there is something to do."""

    def __init__(self, writer: ShardWriter) -> None:
        self._writer = weakref.ref(writer)
        self._process = os.getpid()
        self._interval_s = writer.knobs.max_wal_flush_interval_ms / 1000
        self._wal = _Loop(f"siltstone-wal-{writer.place.name}", self._flush_wal)
        self._memtables = _Loop(f"siltstone-flush-{writer.place.name}", self._flush_memtables)
        weakref.finalize(writer, self.stop, wait=False)

    def queued(self) -> None:
        """Rows wait that nobody waits for: write them when their time has come."""
        self._wal.wake(after_s=self._interval_s)

    def wake_wal(self) -> None:
        """Write what waits now."""
        self._wal.wake(after_s=0)

    def wake_memtables(self) -> None:
        """Flush what is frozen."""
        self._memtables.wake(after_s=0)

    def stop(self, *, wait: bool) -> None:
        """End the threads; with ``wait``, when they are done with what they do."""
        if os.getpid() == self._process:  # a child of a fork has none of them, and finds their locks as they were
            self._wal.stop(wait=wait)
            self._memtables.stop(wait=wait)

    def _flush_wal(self) -> float | None:
        return self._run(lambda writer: writer.flush_unasked())

    def _flush_memtables(self) -> float | None:
        return self._run(lambda writer: writer.flush_memtables())

    def _run(self, work: Callable[[ShardWriter], object]) -> float | None:
        """In how many seconds to try again, if at all."""
        writer = self._writer()
        if writer is None:
            return None
        try:
            work(writer)
        except SiltstoneError:  # it was noted, or the writer is stopped and says why
            return None if writer.is_stopped else RETRY_S
        except Exception as error:
            writer.stop(InternalError(f"a thread of the writer met {type(error).__name__}: {error}"))
        return None


class _Loop:
    """A thread that runs ``work`` when it is due; what ``work`` returns is in how many seconds to run it again."""

    def __init__(self, name: str, work: Callable[[], float | None]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Condition()
        self._due: float | None = None
        self._ended = False
        self._thread: threading.Thread | None = None

    def wake(self, *, after_s: float) -> None:
        """Run ``work`` in so many seconds, or earlier where that was asked for."""
        due = time.monotonic() + after_s
        with self._lock:
            if self._ended or (self._due is not None and self._due <= due):
                return
            self._due = due
            self._lock.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def stop(self, *, wait: bool) -> None:
        """Run nothing more."""
        with self._lock:
            self._ended = True
            self._lock.notify()
            thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while self._is_due():
            again_s = self._work()
            if again_s is not None:
                self.wake(after_s=again_s)

    def _is_due(self) -> bool:
        """Wait until there is something to do; False where there never will be."""
        with self._lock:
            while not self._ended:
                if self._due is None:
                    self._lock.wait()
                elif (left := self._due - time.monotonic()) > 0:
                    self._lock.wait(left)
                else:
                    self._due = None
                    return True
            return False
