"""Where held puts wait, so that a test can make its own race.

What must hold: a held put was received whole and has had no effect; once a release answers, the effects of all it
released have happened.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class _Held(NamedTuple):
    key: str
    go: asyncio.Event
    done: asyncio.Event


class Gate:
    """Puts that wait to be let through, in the order of their arrival."""

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self._changed = asyncio.Condition()

    @property
    def keys(self) -> list[str]:
        """Keys of the puts that wait."""
        return [held.key for held in self._held]

    @asynccontextmanager
    async def passing(self, key: str, *, hold: bool) -> AsyncIterator[None]:
        """Do the body's work at once, or after a release."""
        if not hold:
            yield
            return
        held = _Held(key, asyncio.Event(), asyncio.Event())
        self._held.append(held)
        async with self._changed:
            self._changed.notify_all()
        await held.go.wait()
        try:
            yield
        finally:
            held.done.set()

    async def release(self, *, match: str, limit: int) -> list[str]:
        """Let puts with this substring in their key through, oldest first; their keys."""
        chosen = [held for held in self._held if match in held.key][:limit]
        for held in chosen:
            self._held.remove(held)
            held.go.set()
            await held.done.wait()
        return [held.key for held in chosen]

    async def wait_held(self, *, count: int, timeout_s: float) -> list[str]:
        """Keys of the waiting puts, as soon as there are ``count``. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: len(self._held) >= count)
        return self.keys
