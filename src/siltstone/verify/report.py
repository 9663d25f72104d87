"""What verification finds, as records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Fault = Literal[
    "corrupt",  # an object is not what was written
    "missing",  # a position that must be there is not
    "overwritten",  # the chain says that another entry was here
    "lost",  # an operation has a witness and no place in the log
    "contested",  # witnesses contradict the newest entry, so writers refuse to go on behind it
    "split",  # two objects were published for one position
    "unpublished",  # the commit store decided a position, and its bytes are nowhere
    "behind",  # the commit store does not know what is published
    "receipt",  # an acknowledged entry is not what it was
    "commit-store",  # the commit store is another one, or contradicts the log, or can't be asked
]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and whether ``repair`` can mend it."""

    fault: Fault
    detail: str
    position: int | None = None
    op: str = ""
    object: str = ""
    repairable: bool = False


@dataclass(frozen=True)
class LogReport:
    """What was found in one log; ``notes`` is what could not be checked, or is not wrong yet worth knowing."""

    uri: str
    root: str
    log: str
    decided_by: str
    guard: str
    floor: int
    tip: int
    entries: int
    epoch: int
    dead: int = 0
    staged: int = 0
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    repaired: tuple[str, ...] = field(default=())
    given_up: int = 0  # places that were closed: what was decided there is gone, and may have been acknowledged

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems
