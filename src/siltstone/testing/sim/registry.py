"""A simulated commit store, which may fail over to a stale copy, be emptied, or be down for a while.

What must hold: until it fails over or is emptied it decides like the real ones, with the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.commit.checks import Range
    from siltstone.commit.registry import Behind, Claim, Truncated
    from siltstone.testing.sim.faults import Kind
    from siltstone.testing.sim.world import Process, World

T = TypeVar("T")


class Copy(NamedTuple):
    """What a standby had at some time."""

    identity: str
    claims: dict[str, dict[int, Claim]]
    ranges: dict[str, Range]


class SimService:
    """What all processes share."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memory = MemoryService()
        self.down_until = 0.0
        self.lost_rows = 0
        self._copy = Copy("", {}, {})

    def copy(self) -> None:
        """Bring the standby up to date."""
        memory = self.memory
        claims = {scope: dict(rows) for scope, rows in memory.claims.items()}
        self._copy = Copy(memory.identity, claims, dict(memory.ranges))

    def fail_over(self) -> None:
        """Go on with what the standby has."""
        memory, copy = self.memory, self._copy
        lost = sum(at not in copy.claims.get(scope, {}) for scope, rows in memory.claims.items() for at in rows)
        self._count(lost + (memory.ranges != copy.ranges))
        memory.identity = copy.identity
        memory.claims = {scope: dict(rows) for scope, rows in copy.claims.items()}
        memory.ranges = dict(copy.ranges)

    def empty(self) -> None:
        """Lose everything, the identity too."""
        self._count(sum(len(rows) for rows in self.memory.claims.values()))
        self.memory.empty()
        self.copy()

    def go_down(self, seconds: float) -> None:
        """Answer nothing for a while."""
        self.world.note(f"the commit store is down for {seconds:.1f} s")
        self.down_until = self.world.now + seconds

    def _count(self, lost: int) -> None:
        self.world.note(f"the commit store loses {lost} rows")
        self.lost_rows += lost
        self.world.counters["faults"] += 1
        self.world.counters["rows lost"] += lost


class SimRegistry:
    """One process's connection."""

    kind = "sim"
    uri = "sim://registry"

    def __init__(self, process: Process, service: SimService) -> None:
        self._process = process
        self._service = service
        self._memory = MemoryRegistry(service.memory, ids=process.env.ids, name="sim")

    def identity(self) -> str:
        return self._ask("claim", "identity", self._memory.identity)

    def claim(self, claim: Claim) -> Claim | Behind | Truncated:
        return self._ask("claim", f"claim {claim.position}", lambda: self._memory.claim(claim))

    def lookup(self, scope: str, position: int) -> Claim | None:
        return self._ask("read", f"look up {position}", lambda: self._memory.lookup(scope, position))

    def newest(self, scope: str) -> Claim | None:
        return self._ask("read", "newest", lambda: self._memory.newest(scope))

    def restore(self, claim: Claim) -> Claim | Truncated:
        return self._ask("claim", f"restore {claim.position}", lambda: self._memory.restore(claim))

    def truncate(self, scope: str, *, below: int, digest: str) -> None:
        self._ask("claim", f"truncate {below}", lambda: self._memory.truncate(scope, below=below, digest=digest))

    def adopt(self, identity: str) -> None:
        self._ask("claim", "adopt", lambda: self._memory.adopt(identity))

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, kind: Kind, what: str, effect: Callable[[], T]) -> T:
        def unless_down() -> T:
            if self._service.world.now < self._service.down_until:
                raise UnavailableError("the commit store is down")
            return effect()

        return self._process.ask(kind, f"registry {what}", unless_down)
