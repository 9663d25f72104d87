"""A registry whose requests are told to telemetry. It is put around one only where telemetry is on.

What must hold: it changes no answer and makes no request of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.telemetry import metrics, seams

if TYPE_CHECKING:
    from siltstone.commit.registry import Behind, Claim, Registry, Truncated


def observed_registry(registry: Registry) -> Registry:
    """The registry, or one that tells of it, where somebody hears."""
    is_told = seams.sink() is None or isinstance(registry, ObservedRegistry)
    return registry if is_told else ObservedRegistry(registry)


class ObservedRegistry:
    """Counts and times what passes."""

    def __init__(self, inner: Registry) -> None:
        self.inner = inner
        self.kind = inner.kind
        self.uri = inner.uri

    def identity(self) -> str:
        with self._request("identity"):
            return self.inner.identity()

    def claim(self, claim: Claim) -> Claim | Behind | Truncated:
        with self._request("claim"):
            return self.inner.claim(claim)

    def lookup(self, scope: str, position: int) -> Claim | None:
        with self._request("lookup"):
            return self.inner.lookup(scope, position)

    def newest(self, scope: str) -> Claim | None:
        with self._request("newest"):
            return self.inner.newest(scope)

    def restore(self, claim: Claim) -> Claim | Truncated:
        with self._request("restore"):
            return self.inner.restore(claim)

    def truncate(self, scope: str, *, below: int, digest: str) -> None:
        with self._request("truncate"):
            self.inner.truncate(scope, below=below, digest=digest)

    def adopt(self, identity: str) -> None:
        with self._request("adopt"):
            self.inner.adopt(identity)

    def close(self) -> None:
        self.inner.close()

    def _request(self, verb: str) -> seams.Timed:
        hears = seams.sink()
        return seams.Timed(
            f"siltstone.commit_store.{verb}",
            {"store": self.kind, "verb": verb},
            count=metrics.DECIDER_REQUESTS,
            seconds=metrics.DECIDER_SECONDS,
            span=hears is not None and hears.requests,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Another process tells of it where telemetry is on there."""
        return (observed_registry, (self.inner,))

    def __repr__(self) -> str:
        return repr(self.inner)
