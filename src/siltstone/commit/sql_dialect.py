"""What differs between the SQL databases: connecting, durability, a few words of SQL, and error codes.

What must hold:
- A connection is handed out only when a commit on it survives a crash of the server, or the caller
  accepted less with ``accept_weak_durability``; and only to a server that takes writes, so that no
  replica answers a look-up with the past.
- Scopes compare byte by byte: no case folding, no padding.
- Driver errors are told apart by code where there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from siltstone.commit.location import require_driver
from siltstone.errors import UnavailableError, UnsafeStoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.commit.location import Location


class Fault(Enum):
    """What a driver's error asks for."""

    NO_TABLE = "no-table"
    TAKEN = "taken"
    AGAIN = "again"  # the database rolled the statement back to let another through
    DENIED = "denied"
    UNKNOWN_NAME = "unknown-name"
    FULL = "full"
    CORRUPT = "corrupt"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"


class Answer(NamedTuple):
    """Rows of a query, or how many rows a statement changed."""

    rows: list[tuple[Any, ...]]
    changed: int


class Dialect(ABC):
    """One database's ways; holds nothing but what the location says."""

    kind: ClassVar[str]
    driver: ClassVar[str]
    options: ClassVar[dict[str, type]] = {}
    default_port: ClassVar[int] = 0
    mark: ClassVar[str] = "%s"
    quote: ClassVar[str] = '"'
    columns: ClassVar[str]
    table_suffix: ClassVar[str] = ""
    share_lock: ClassVar[str] = ""
    or_nothing: ClassVar[str] = " ON CONFLICT DO NOTHING"

    def __init__(self, location: Location) -> None:
        self.location = location

    @property
    def denied_hint(self) -> str:
        """What to do where access was refused."""
        return "check user, password and certificate"

    def settled(self, uri: str) -> str:
        """The URI as it means the same in every process."""
        return uri

    @property
    def module(self) -> Any:
        """The driver."""
        return require_driver(self.driver, extra="sql")

    @abstractmethod
    def connect(self) -> Any:
        """A checked connection in autocommit mode."""

    @abstractmethod
    def fault(self, error: Exception) -> Fault | None:
        """What an error asks for; None where it is not the driver's."""

    def execute(self, raw: Any, sql: str, values: Sequence[object]) -> Answer:
        """Run one statement as a transaction of its own."""
        cursor = raw.execute(sql, values)
        return Answer(cursor.fetchall() if cursor.description else [], cursor.rowcount)

    def encode(self, text: str) -> str | bytes:
        """Text as the driver takes it."""
        return text

    def decode(self, cell: str | bytes) -> str:
        """Text as the driver gives it."""
        return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell

    def is_current(self, raw: Any) -> bool:
        """Whether the connection still reaches what the URI names."""
        return True

    def refuse_weak(self, what: str, hint: str) -> None:
        """Raise UnsafeStoreError unless the caller accepted weak durability."""
        if not self.location.options.get("accept_weak_durability", False):
            raise UnsafeStoreError(
                f"{self.location.shown} may forget decided claims: {what}",
                hint=f"{hint}, or pass accept_weak_durability=True",
                subject=self.location.shown,
            )


def read_only_error(location: Location) -> UnavailableError:
    """The error for a server that takes no writes."""
    return UnavailableError(
        f"{location.shown} takes no writes",
        hint="name the primary: a replica may answer with the past",
        subject=location.shown,
    )
