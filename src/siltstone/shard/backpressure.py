"""Bounded memory: puts wait while too much is neither flushed nor in the WAL.

What must hold:
- What is held stays within the limit, but for one put that is over it by itself and comes while nothing else is held.
- Whoever waits is let in when room is made, and told when there never will be: at once where the writer was stopped,
  after the store's patience where memtables can't be flushed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import BackpressureError
from siltstone.telemetry import events, metrics

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from siltstone.env import Env
    from siltstone.errors import SiltstoneError

LOOK_AGAIN_S = 1.0  # whoever makes room says so; this is for the case that it died


class BackpressureController:
    """Guards ``held()`` bytes by ``limit``; ``room`` is notified whenever something was let go.

    ``failed()`` is why the last flush of a memtable failed. The caller of all methods has ``room``'s lock, but for
    ``is_full``.
    """

    def __init__(
        self,
        limit: int,
        *,
        held: Callable[[], int],
        failed: Callable[[], SiltstoneError | None],
        room: threading.Condition,
        env: Env,
        name: str,
        table: str = "",
    ) -> None:
        self._limit = limit
        self._held = held
        self._failed = failed
        self._room = room
        self._env = env
        self._name = name
        self._about = {"table": table, "shard": name.removeprefix("shard ")}
        self.waits = 0
        self.waited_ms = 0.0

    def is_full(self, nbytes: int) -> bool:
        """Whether ``nbytes`` more are too many now."""
        held = self._held()
        return held > 0 and held + nbytes > self._limit

    def admit(self, nbytes: int) -> None:
        """Raise BackpressureError where ``nbytes`` more may not be held now."""
        if self.is_full(nbytes):
            raise self._full("put again when wait() of an earlier put returned, or raise max_unflushed_memtable_bytes")

    def wait(self, nbytes: int, *, check: Callable[[], None], push: Callable[[], None]) -> None:
        """Return when ``nbytes`` more may be held.

        ``check`` raises where waiting is of no use any more; ``push`` gets what is held moving.

        Raises:
            BackpressureError: memtables can't be flushed.
        """
        if not self.is_full(nbytes):
            return
        began = self._env.clock.monotonic()
        self.waits += 1
        metrics.BACKPRESSURE_WAITS.add(**self._about)
        events.BACKPRESSURE_BEGINS.tell(**self._about, held_bytes=self._held(), limit_bytes=self._limit)
        try:
            while self.is_full(nbytes):
                check()
                if self._env.clock.monotonic() - began > self._env.patience_s and self._failed() is not None:
                    raise self._full(f"no room was made in {self._env.patience_s} s; see why the flush fails")
                push()
                self._room.wait(LOOK_AGAIN_S)
        finally:
            waited_s = self._env.clock.monotonic() - began
            self.waited_ms += waited_s * 1000
            metrics.BACKPRESSURE_SECONDS.add(waited_s, **self._about)
            events.BACKPRESSURE_ENDS.tell(**self._about, waited_ms=round(waited_s * 1000))

    def _full(self, hint: str) -> BackpressureError:
        held, failed = self._held(), self._failed()
        why = f"; the last flush failed: {failed.message}" if failed is not None else ""
        return BackpressureError(
            f"{held} bytes of {self._name} wait to be written, the limit is {self._limit}{why}",
            hint=hint,
            held_bytes=held,
            limit_bytes=self._limit,
        )
