"""What the demo's steps are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """Something that must hold, and whether it did."""

    what: str
    ok: bool


@dataclass(frozen=True)
class Step:
    """A part of the demo and how it went."""

    name: str
    checks: tuple[Check, ...]
    seconds: float
    says: str = ""  # what it did
    rows: int = 0
    versions: int = 0
    lines: tuple[str, ...] = ()  # what else there is to see

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return all(check.ok for check in self.checks)
