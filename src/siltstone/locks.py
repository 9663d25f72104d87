"""Locks that do not stay locked in the child of a fork, where the thread that held them does not exist.

What must hold: an interrupt (KeyboardInterrupt) never leaves one locked. Python looks for signals where a function of
its own begins and where a call ends, so ``with`` must reach the lock without either: ``__enter__`` is C's.
"""

from __future__ import annotations

import _thread
import os
import weakref


class ForkLock(_thread.RLock):  # type: ignore[misc]  # final in the stubs only
    """A mutex for a ``with`` block; a child of ``os.fork()`` finds it free."""

    def __init__(self) -> None:
        super().__init__()
        _every.add(self)

    def renew(self) -> None:
        """Forget who held it."""
        self._at_fork_reinit()  # type: ignore[attr-defined]  # as threading does


_every: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_every):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
