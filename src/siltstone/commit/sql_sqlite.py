"""SQLite: a file on one machine's disk, for the processes of that machine.

What must hold:
- A commit is on the disk when it returns (write-ahead log, synchronous FULL).
- A handle never goes on deciding in a file that was removed or replaced, nor, after a change of directory or in
  another process, in another file than it was opened for.
- A process that was forked while a connection was open decides nothing. SQLite's own table of locks is inherited, the
  system's locks are not: the child would believe in locks that it does not hold, and go on in a write-ahead log that
  the parent removed when it closed.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import msgspec

from siltstone.commit.sql_dialect import Dialect, Fault
from siltstone.errors import ForkedError, InvalidInputError

if TYPE_CHECKING:
    from siltstone.commit.location import Location

ABSOLUTE_HINT = "sqlite:///x is an absolute path; write sqlite:x for a file in this directory"


class _Process:
    """The connections that this process has open, and whether it was forked while there were any."""

    def __init__(self) -> None:
        self.open: set[sqlite3.Connection] = set()
        self.forked = False

    def after_fork(self) -> None:
        self.forked = self.forked or bool(self.open)
        for inherited in self.open:
            # One reference for ever: closed at the end of this process, it would undo what the parent is writing.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.after_fork)


class _SqliteConnection(sqlite3.Connection):
    """A connection that remembers which file it opened, and is counted while it is open."""

    file: tuple[int, int] = (0, 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _process.open.add(self)  # first: a fork may come while it opens
        try:
            super().__init__(*args, **kwargs)
        except BaseException:
            _process.open.discard(self)
            raise

    def close(self) -> None:
        super().close()
        _process.open.discard(self)


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
        path = location.path
        if location.host or location.user or location.password or path in {"", "/"} or path.strip("/") == ":memory:":
            raise InvalidInputError(
                "the SQLite URI names no file",
                hint="use sqlite:///absolute/path.db or sqlite:relative/path.db; for tests there is memory://name",
            )
        # Taken now: a change of directory, here or in a process that gets a copy, must not lead to another file.
        self.path = Path(path).absolute()
        if any(ord(c) < 32 or ord(c) == 127 or "\ud800" <= c <= "\udfff" for c in str(self.path)):
            raise InvalidInputError(
                "the path of the SQLite file holds a control character or is no text",
                hint="use a directory with a plain name",
            )
        self._given_absolute = path.startswith("/")
        super().__init__(msgspec.structs.replace(location, path=str(self.path)))

    @property
    def denied_hint(self) -> str:
        hint = "check the permissions of the file and its directory"
        return f"{hint}; {ABSOLUTE_HINT}" if self._given_absolute else hint

    def settled(self, uri: str) -> str:
        _, mark, query = uri.partition("?")
        return f"sqlite://{quote(str(self.path))}{mark}{query}"

    def connect(self) -> sqlite3.Connection:
        if _process.forked:
            raise ForkedError(
                f"{self.location.shown}: SQLite was in use before os.fork(), and its locks do not survive a fork",
                hint="start workers with the multiprocessing start method 'spawn', or open commit stores only in the "
                "child",
                subject=self.location.shown,
            )
        if not self.path.parent.is_dir():
            raise InvalidInputError(
                f"{self.location.shown}: the directory {self.path.parent} does not exist",
                hint=f"create it first; {ABSOLUTE_HINT}" if self._given_absolute else "create it first",
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
