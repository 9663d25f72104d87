"""What an external commit store must do: bind a place to one claim, for ever.

What must hold for every registry:
- ``claim`` binds a (scope, position) at most once; everyone gets the same winner for ever.
- A claim at position n > 0 is taken only when the claim at n - 1 is there with ``digest`` equal to
  the new claim's ``parent`` (or n - 1 is the last truncated one, with that digest). A registry that
  lost rows therefore says so at the next claim instead of starting a second history.
- Claims never expire. ``truncate`` replaces those below a position by one range claim, which keeps
  refusing them and remembers the digest of the last one.
- Every method may be repeated with the same arguments; a lost answer is resolved by asking again.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

VALUE_BYTES_MAX = 1024
SCOPE_BYTES_MAX = 512
POSITION_MAX = 2**63 - 1


class Claim(msgspec.Struct, frozen=True):
    """One proposal for a place, or the one that won it."""

    scope: str
    position: int
    digest: str  # sha256 (hex) of the bytes that are decided
    parent: str  # digest of the claim at position - 1; "" where there is none
    value: str  # where the staged bytes are, or whatever the caller decides


class Behind(msgspec.Struct, frozen=True):
    """The registry can't take the claim because its predecessor is absent or another one."""

    found: Claim | None


class Truncated(msgspec.Struct, frozen=True):
    """The position lies below the scope's range claim."""

    below: int


class Registry(Protocol):
    """A service that decides: SQL, Redis, etcd, DynamoDB or your own."""

    kind: str
    """Short name recorded in a log's identity, such as ``postgresql``."""
    uri: str
    """Where it is, without credentials; for people."""

    def identity(self) -> str:
        """The id this service created for itself at first use; another after it was emptied."""
        ...

    def claim(self, claim: Claim) -> Claim | Behind | Truncated:
        """Bind the place to ``claim`` unless it is bound; return what it is bound to."""
        ...

    def lookup(self, scope: str, position: int) -> Claim | None:
        """The claim at a place."""
        ...

    def newest(self, scope: str) -> Claim | None:
        """The claim with the highest position of a scope."""
        ...

    def restore(self, claim: Claim) -> Claim | Truncated:
        """As ``claim`` without asking for a predecessor: repair puts lost rows back with it."""
        ...

    def truncate(self, scope: str, *, below: int, digest: str) -> None:
        """Replace the claims under ``below`` by a range claim; ``digest`` is that of below - 1.

        A range never shrinks: a ``below`` under the present one changes nothing.
        """
        ...

    def adopt(self, identity: str) -> None:
        """Take the identity of a service that was lost: ``repair --adopt`` lets this one stand in for it."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
