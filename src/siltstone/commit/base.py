"""Deciding what a place holds: once, for everyone, for ever.

What must hold for every commit store: all calls of ``decide`` for one place return the same bytes,
and these are the proposal of one of the callers (or an abort entry where a claimed proposal was lost).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class Place(NamedTuple):
    """Something that is decided once: an entry of a log, or an object of its own (position 0)."""

    key: str  # where the winner is published; a directory of it where published by fork
    scope: str  # the chain of decisions it belongs to, in an external commit store
    position: int = 0
    prev: str = ""  # digest of what was decided at position - 1
    root: str = ""  # of the log
    log: str = ""  # uuid of the log; empty for an object of its own
    epoch: int = 0  # of the predecessor


class CommitStore(ABC):
    """Decides places."""

    @abstractmethod
    def decide(self, place: Place, proposal: bytes) -> bytes:
        """Propose; return what is decided, which may be another's proposal.

        Raises CommitUnknownError where it can't be found out: the proposal may yet be decided.
        Any other error means that this call decided nothing.
        """

    def check_open(self, place: Place) -> None:  # noqa: B027 - most decide and publish in one step
        """Raise CommitUnknownError where the place was decided but is not published yet."""

    @abstractmethod
    def decided(self, place: Place) -> bytes | None:
        """What the place holds, published for all to read; None where it is open."""
