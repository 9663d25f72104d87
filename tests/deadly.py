"""A store at whose n-th call the process ends (SIGKILL), right before the call or right after it."""

from __future__ import annotations

import os
import signal
import threading

from siltstone.testing.stores import _CallByCall


class Deadly(_CallByCall):
    """Ends the process at its n-th call; never where that is 0."""

    def __init__(self, inner, kill_at, *, after):
        super().__init__(inner)
        self.calls = 0
        self._kill_at = kill_at
        self._after = after
        self._lock = threading.Lock()

    def _around(self, verb, key, effect, special=None):
        with self._lock:
            self.calls += 1
            mine = self.calls == self._kill_at
        if mine and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return effect()
        finally:
            if mine:
                os.kill(os.getpid(), signal.SIGKILL)
