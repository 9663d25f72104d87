"""Locks that do not stay locked in the child of a fork, where the thread that held them does not exist."""

from __future__ import annotations

import os
import threading
import weakref


class ForkLock:
    """A mutex for a ``with`` block; a child of ``os.fork()`` finds it free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _every.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Forget who held it."""
        self._lock = threading.Lock()


_every: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_every):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
