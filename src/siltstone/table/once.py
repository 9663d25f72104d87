"""What makes a transaction one that is applied once: an id of its own, or a place in a stream of batches.

What must hold:
- A transaction whose id was applied before, or whose batch is not above the last one of its stream, changes nothing.
- An id names one piece of work: one that was applied as an upsert is refused to an append, where that is known.
- A stream leaves one number in the state, however many batches it has; an id stays for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.table.types import shown

if TYPE_CHECKING:
    from siltstone.table.state import State

_ARTICLES = {"append": "an", "overwrite": "an", "upsert": "an", "delete": "a", "update": "an"}


@dataclass(frozen=True)
class Once:
    """Neither: the transaction is applied whenever it is committed."""

    id: str = ""
    stream: str = ""
    batch: int = 0

    def __bool__(self) -> bool:
        return bool(self.id or self.stream)

    def applied(self, state: State) -> int | None:
        """The version it was applied in, or, for a batch, one by which it was; None where it was not."""
        if self.stream and state.batches.get(self.stream, -1) >= self.batch:
            return state.version
        return state.once.get(self.id)

    def applied_as(self, state: State, operation: str) -> int | None:
        """The same; refuses an id that another kind of operation on rows has, where the steps at hand tell."""
        version = self.applied(state)
        if version is None or not self.id or operation not in _ARTICLES:
            return version
        step = next((one for one in reversed(state.recent) if one.position == version), None)
        found = step.said.operation if step is not None and step.said is not None else operation
        # Those of several kinds, and what a clone took over, are told by other names.
        if found == operation or found not in _ARTICLES:
            return version
        raise InvalidInputError(
            f"once={shown(self.id)} was applied as {_ARTICLES[found]} {found} in version {version}, and this is "
            f"{_ARTICLES[operation]} {operation}",
            hint="nothing was changed; give this work an id of its own",
            version=version,
        )


ANYTIME = Once()
