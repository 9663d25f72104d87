"""What a conformance test of registries stands on: how to open yours, and how to run clients together."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar
from unittest import SkipTest

from siltstone.commit.registry import Claim, Registry
from siltstone.errors import InvalidInputError, UnavailableError
from siltstone.ids import SystemIds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

R = TypeVar("R")

RECONNECT_ATTEMPTS_MAX = 20


def digest_of(text: str) -> str:
    """A digest for a test's claim."""
    return hashlib.sha256(text.encode()).hexdigest()


def chain(scope: str, length: int, *, start: int = 0, parent: str = "") -> list[Claim]:
    """Claims that follow one another."""
    claims: list[Claim] = []
    for position in range(start, start + length):
        digest = digest_of(f"{scope}/{position}")
        claims.append(Claim(scope, position, digest, parent, f"staged/{position}"))
        parent = digest
    return claims


class RegistryHarness:
    """The hooks a subclass fills in, and what the tests share."""

    _handles: list[Registry]

    # -- to be filled in ----------------------------------------------------------------------------

    def make(self) -> Registry:
        """A new handle, independent of earlier ones, on the same service every time."""
        raise NotImplementedError

    def empty(self) -> None:
        """Remove everything from the service, as an operator's mistake would; optional."""
        raise SkipTest("this suite was not told how to empty the service")

    def crash(self) -> None:
        """Kill the service without warning and start it again with its disk; optional."""
        raise SkipTest("this suite was not told how to crash the service")

    # -- helpers ------------------------------------------------------------------------------------

    def setup_method(self) -> None:
        self._handles = []

    def teardown_method(self) -> None:
        for handle in self._handles:
            handle.close()

    def handle(self) -> Registry:
        made = self.make()
        self._handles.append(made)
        return made

    def scope(self) -> str:
        return f"suite/{SystemIds().new()}"

    def fill(self, registry: Registry, claims: Sequence[Claim]) -> None:
        for claim in claims:
            assert registry.claim(claim) == claim


def refused(call: Callable[[], object]) -> bool:
    """Whether a call was refused for its arguments."""
    try:
        call()
    except InvalidInputError:
        return True
    return False


def asked(call: Callable[[], R]) -> R:
    """The answer of a service that may be away for a moment."""
    for _ in range(RECONNECT_ATTEMPTS_MAX):
        try:
            return call()
        except UnavailableError:
            threading.Event().wait(0.25)
    return call()


def together(count: int, run: Callable[[int], R], gate: threading.Barrier | None = None) -> list[R]:
    """Run all at once; the first failure lets the others go and is raised."""

    def guarded(client: int) -> R:
        try:
            return run(client)
        except BaseException:
            if gate is not None:
                gate.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(guarded, client) for client in range(count)]
    failures = [error for error in (future.exception() for future in futures) if error is not None]
    for failure in failures:
        if not isinstance(failure, threading.BrokenBarrierError):
            raise failure
    return [future.result() for future in futures]
