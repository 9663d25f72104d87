"""What makes a transaction one that is applied once: an id of its own, or a place in a stream of batches.

What must hold:
- A transaction whose id was applied before, or whose batch is not above the last one of its stream, changes nothing.
- A stream leaves one number in the state, however many batches it has; an id stays for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.table.state import State


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


ANYTIME = Once()
