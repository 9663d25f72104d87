"""Work that may take long, bounded in time and in how much of it runs at once.

What must hold: a request is answered when its time is over, whatever its work does. Work that is given up ends at its
next look at ``is_over``; until then it keeps its place, so that giving up many does not make many run.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from siltstone.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 20.0
PLACES = 4
WAIT_S = 5.0  # for a place

T = TypeVar("T")


class Deadline:
    """When some work is to be over."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return time.monotonic() >= self._at


class Budget:
    """Places for work, and the time that each piece of it has."""

    def __init__(self, *, places: int = PLACES, seconds: float = SECONDS, wait_s: float = WAIT_S) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._count = places
        self._seconds = seconds
        self._wait_s = wait_s

    def run(self, work: Callable[[Deadline], T], *, hint: Callable[[], str] = lambda: "") -> T:
        """What ``work`` returns or raises. Raises UnavailableError where there is no place, or no time left.

        ``hint`` says what to do about work that took too long, as far as that came to light.
        """
        if not self._places.acquire(timeout=self._wait_s):
            raise UnavailableError(
                f"{self._count} searches and previews are running already", hint="wait for them, then try again"
            )
        deadline = Deadline(self._seconds)
        results: list[T] = []
        errors: list[BaseException] = []

        def go() -> None:
            try:
                results.append(work(deadline))
            except BaseException as error:
                errors.append(error)
            finally:
                self._places.release()

        # A daemon: who ends the console does not wait for a search.
        thread = threading.Thread(target=go, name="siltstone-console-work", daemon=True)
        thread.start()
        thread.join(self._seconds)
        if errors:
            raise errors[0]
        if not results:
            raise UnavailableError(
                f"it took more than {self._seconds:g} seconds, and was given up",
                hint=hint() or "narrow it, or use the command line",
            )
        return results[0]
