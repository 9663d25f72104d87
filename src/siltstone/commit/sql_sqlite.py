"""SQLite: a file on one machine's disk, for the processes of that machine.

What must hold: a commit is on the disk when it returns (write-ahead log, synchronous FULL), and a handle
never goes on deciding in a file that was removed or replaced.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from siltstone.commit.sql_dialect import Dialect, Fault
from siltstone.errors import InvalidInputError

if TYPE_CHECKING:
    from siltstone.commit.location import Location


class _SqliteConnection(sqlite3.Connection):
    """A connection that remembers which file it opened."""

    file: tuple[int, int] = (0, 0)


class Sqlite(Dialect):
    """A file on this machine's disk."""

    kind = "sqlite"
    driver = "sqlite3"
    options: ClassVar[dict[str, type]] = {"table": str}
    mark = "?"
    columns = (
        "scope TEXT NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL, parent TEXT NOT NULL, "
        "value TEXT NOT NULL, below INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (scope, position)"
    )
    table_suffix = " WITHOUT ROWID"

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        path = location.path
        if location.host or location.user or location.password or path in {"", "/"} or path.strip("/") == ":memory:":
            raise InvalidInputError(
                "the SQLite URI names no file",
                hint="use sqlite:///absolute/path.db or sqlite:relative/path.db; for tests there is memory://name",
            )
        # Taken now: a later change of directory must not lead to another file.
        self.path = Path(path).absolute()

    def connect(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            raise InvalidInputError(
                f"{self.location.shown}: the directory {self.path.parent} does not exist", hint="create it first"
            )
        timeout_s = self.location.timeout_s
        raw = sqlite3.connect(
            self.path, timeout=timeout_s, isolation_level=None, check_same_thread=False, factory=_SqliteConnection
        )
        try:
            self._make_durable(raw, time.monotonic() + timeout_s)
            raw.file = self._file()
        except BaseException:
            raw.close()
            raise
        return raw

    def _make_durable(self, raw: sqlite3.Connection, deadline: float) -> None:
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA fullfsync = 1")
        raw.execute("PRAGMA checkpoint_fullfsync = 1")
        # Changing the journal mode needs the file alone, and does not wait for the busy timeout by itself.
        while True:
            try:
                mode = raw.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.OperationalError as error:
                if self.fault(error) is not Fault.UNAVAILABLE or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        if mode in {"off", "memory"}:
            self.refuse_weak(f"its journal mode is {mode}", "put the file on a local disk")

    def _file(self) -> tuple[int, int]:
        found = self.path.stat()
        return (found.st_dev, found.st_ino)

    def is_current(self, raw: Any) -> bool:
        # A file that was removed or replaced still takes claims through an open descriptor; nobody would see them.
        try:
            return bool(raw.file == self._file())
        except OSError:
            return False

    def fault(self, error: Exception) -> Fault | None:
        if isinstance(error, OSError):
            return Fault.DENIED if isinstance(error, PermissionError) else Fault.UNAVAILABLE
        if not isinstance(error, sqlite3.Error):
            return None
        name = str(getattr(error, "sqlite_errorname", ""))
        if name == "SQLITE_ERROR" and "no such table" in str(error):
            return Fault.NO_TABLE
        for start, fault in _SQLITE_FAULTS.items():
            if name.startswith(start):
                return fault
        return Fault.UNAVAILABLE


_SQLITE_FAULTS = {
    "SQLITE_CONSTRAINT": Fault.TAKEN,
    "SQLITE_READONLY": Fault.DENIED,
    "SQLITE_PERM": Fault.DENIED,
    "SQLITE_AUTH": Fault.DENIED,
    "SQLITE_CANTOPEN": Fault.DENIED,
    "SQLITE_FULL": Fault.FULL,
    "SQLITE_NOTADB": Fault.CORRUPT,
    "SQLITE_CORRUPT": Fault.CORRUPT,
    "SQLITE_ERROR": Fault.INVALID,
}
