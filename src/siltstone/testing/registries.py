"""Registries that misbehave as told, and registries that let a test step in between two calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from siltstone.testing.script import Call, Fault, Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.commit.registry import Behind, Claim, Registry, Truncated

T = TypeVar("T")
REGISTRY_VERBS = ("identity", "claim", "lookup", "newest", "restore", "truncate", "adopt")


class FaultRegistry:
    """A registry whose n-th call of a verb goes wrong in a stated way.

    Keys are ``<scope>/<position>``. ``before`` and ``after`` run something else at a call, for races.
    """

    def __init__(self, inner: Registry) -> None:
        self.inner = inner
        self.kind = inner.kind
        self.uri = inner.uri
        self.script = Script(REGISTRY_VERBS)
        self._steps: list[tuple[str, bool, Callable[[], object]]] = []

    def on(self, verb: str, fault: Fault, *, key: str = "", nth: int = 1, times: int = 1) -> None:
        """As ``Script.on``."""
        self.script.on(verb, fault, key=key, nth=nth, times=times)

    def before(self, verb: str, action: Callable[[], object]) -> None:
        """Run ``action`` once, right before the next call of ``verb``."""
        self._steps.append((verb, False, action))

    def after(self, verb: str, action: Callable[[], object]) -> None:
        """Run ``action`` once, right after the next call of ``verb`` took effect."""
        self._steps.append((verb, True, action))

    @property
    def calls(self) -> list[Call]:
        """What was called so far, hit or not."""
        return self.script.calls

    def release(self) -> int:
        """Let delayed calls take effect."""
        return self.script.release()

    def identity(self) -> str:
        return self._around("identity", "", self.inner.identity)

    def claim(self, claim: Claim) -> Claim | Behind | Truncated:
        return self._around("claim", f"{claim.scope}/{claim.position}", lambda: self.inner.claim(claim))

    def lookup(self, scope: str, position: int) -> Claim | None:
        return self._around("lookup", f"{scope}/{position}", lambda: self.inner.lookup(scope, position))

    def newest(self, scope: str) -> Claim | None:
        return self._around("newest", scope, lambda: self.inner.newest(scope))

    def restore(self, claim: Claim) -> Claim | Truncated:
        return self._around("restore", f"{claim.scope}/{claim.position}", lambda: self.inner.restore(claim))

    def truncate(self, scope: str, *, below: int, digest: str) -> None:
        self._around("truncate", f"{scope}/{below}", lambda: self.inner.truncate(scope, below=below, digest=digest))

    def adopt(self, identity: str) -> None:
        self._around("adopt", identity, lambda: self.inner.adopt(identity))

    def close(self) -> None:
        self.inner.close()

    def _around(self, verb: str, key: str, effect: Callable[[], T]) -> T:
        due = [step for step in self._steps if step[0] == verb]
        self._steps = [step for step in self._steps if step[0] != verb]
        for _, after, action in due:
            if not after:
                action()
        try:
            return self.script.run(verb, key, effect)
        finally:
            for _, after, action in due:
                if after:
                    action()
