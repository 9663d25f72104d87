"""An explicit-state model checker: every interleaving, breadth first, shortest counterexample.

A model has ``init() -> state``, ``steps(state) -> iterable of (label, next state)`` and
``wrong(state) -> str`` (empty where the state is fine). States are hashable. What is reported as holding
was enumerated: there is no sampling and no reduction.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

STATES_MAX = 3_000_000


class Model(Protocol):
    """What can be checked."""

    def init(self) -> Hashable:
        """The first state."""
        ...

    def steps(self, state: Hashable) -> Iterable[tuple[str, Hashable]]:
        """What may happen next."""
        ...

    def wrong(self, state: Hashable) -> str:
        """What must not be, or nothing."""
        ...


class Verdict(NamedTuple):
    """What was found: how many states, and the shortest way to a wrong one."""

    states: int
    wrong: str
    trace: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether no reachable state is wrong."""
        return not self.wrong


def check(model: Model) -> Verdict:
    """Enumerate every reachable state, or stop at the first wrong one."""
    first = model.init()
    came_from: dict[Hashable, tuple[Hashable, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        wrong = model.wrong(state)
        if wrong:
            return Verdict(len(came_from), wrong, _trace(came_from, state))
        for label, after in model.steps(state):
            if after not in came_from:
                came_from[after] = (state, label)
                queue.append(after)
        if len(came_from) > STATES_MAX:
            message = f"over {STATES_MAX} states: bound the model"
            raise RuntimeError(message)
    return Verdict(len(came_from), "", ())


def _trace(came_from: dict[Hashable, tuple[Hashable, str] | None], state: Hashable) -> tuple[str, ...]:
    labels = []
    while True:
        link = came_from[state]
        if link is None:
            return tuple(reversed(labels))
        state, label = link
        labels.append(label)
