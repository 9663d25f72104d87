"""Commit store in this process: for tests and the simulator, where nothing may be left to chance.

What must hold: it decides exactly as the services do, under one lock, and draws nothing random but the
identity, from the ids it was given. It is gone with the process.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

from siltstone.commit.checks import (
    NO_RANGE,
    Range,
    Standing,
    check_claim,
    check_digest,
    check_identity,
    check_place,
    check_position,
    check_scope,
    judge,
)
from siltstone.commit.location import parse_location
from siltstone.commit.registry import Behind, Claim, Truncated
from siltstone.errors import ClosedError, InternalError, InvalidInputError
from siltstone.ids import Ids, SystemIds

if TYPE_CHECKING:
    from collections.abc import Callable


class MemoryService:
    """What several handles share, as clients share a server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.identity = ""
        self.claims: dict[str, dict[int, Claim]] = {}
        self.ranges: dict[str, Range] = {}

    def empty(self) -> None:
        """Forget everything, as a service does that was set up anew."""
        with self.lock:
            self.identity = ""
            self.claims.clear()
            self.ranges.clear()


class MemoryRegistry:
    """A handle on a service in this process."""

    kind = "memory"

    def __init__(self, service: MemoryService, *, ids: Ids, name: str = "") -> None:
        self.uri = f"memory://{name}"
        self.service = service
        self._ids = ids
        self._name = name
        self._closed = False

    def __repr__(self) -> str:
        return f"MemoryRegistry({self.uri!r})"

    def __reduce__(self) -> tuple[Callable[[str], MemoryRegistry], tuple[str]]:
        # In another process the name means an empty service with an identity of its own, which a log refuses.
        if not self._name:
            raise InvalidInputError(
                "a nameless commit store in memory can't be sent anywhere", hint="use memory://name"
            )
        return (open_registry, (self.uri,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def identity(self) -> str:
        with self._open().lock:
            if not self.service.identity:
                self.service.identity = self._ids.new()
            return self.service.identity

    def claim(self, claim: Claim) -> Claim | Behind | Truncated:
        return self._bind(claim, chained=True)

    def restore(self, claim: Claim) -> Claim | Truncated:
        answer = self._bind(claim, chained=False)
        if isinstance(answer, Behind):
            raise InternalError("a restored claim was asked for its predecessor", subject=self.uri)
        return answer

    def lookup(self, scope: str, position: int) -> Claim | None:
        check_place(scope, position)
        with self._open().lock:
            return self.service.claims.get(scope, {}).get(position)

    def newest(self, scope: str) -> Claim | None:
        check_scope(scope)
        with self._open().lock:
            claims = self.service.claims.get(scope)
            return claims[max(claims)] if claims else None

    def truncate(self, scope: str, *, below: int, digest: str) -> None:
        check_scope(scope)
        check_position(below, "below")
        check_digest(digest, "digest")
        service = self._open()
        with service.lock:
            if below > service.ranges.get(scope, NO_RANGE).below:
                service.ranges[scope] = Range(below, digest)
                kept = {at: claim for at, claim in service.claims.get(scope, {}).items() if at >= below}
                service.claims[scope] = kept

    def adopt(self, identity: str) -> None:
        check_identity(identity)
        with self._open().lock:
            self.service.identity = identity

    def close(self) -> None:
        self._closed = True

    def _bind(self, claim: Claim, *, chained: bool) -> Claim | Behind | Truncated:
        check_claim(claim)
        service = self._open()
        with service.lock:
            claims = service.claims.setdefault(claim.scope, {})
            truncated = service.ranges.get(claim.scope, NO_RANGE)
            standing = Standing(truncated, claims.get(claim.position), claims.get(claim.position - 1))
            answer = judge(claim, standing, chained=chained)
            if answer is None:
                claims[claim.position] = answer = claim
            return answer

    def _open(self) -> MemoryService:
        if self._closed:
            raise ClosedError(f"{self.uri} was closed", hint="open it again", subject=self.uri)
        return self.service


_services: dict[str, MemoryService] = {}
_services_lock = threading.Lock()


def open_registry(uri: str, *, ids: Ids | None = None, **options: Any) -> MemoryRegistry:
    """Open ``memory://name``: one service for each name in this process."""
    location = parse_location(uri, options, accepts={})
    name = location.host + location.path
    if not name:
        raise InvalidInputError("memory:// names no service", hint="use memory://name")
    with _services_lock:
        service = _services.setdefault(name, MemoryService())
    return MemoryRegistry(service, ids=ids or SystemIds(), name=name)
