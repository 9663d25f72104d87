"""The tables below a root, as the console holds them: opened once, refreshed, closed at the end.

What must hold:
- Every store is wrapped so that nothing can be written, and tables are opened without their commit store: a reader
  that has one publishes what others left undone.
- A handle that is in use is not closed; of those that are not, the ones used last are kept.
- A table that can't be opened has its error, and costs the others nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from siltstone.api import open_table
from siltstone.commit.connect import open_registry
from siltstone.console.finding import Found, find_tables
from siltstone.console.readonly import ReadOnlyStore
from siltstone.errors import ClosedError, NotFoundError, SiltstoneError
from siltstone.locks import ForkLock
from siltstone.shard.wal_store import is_alike
from siltstone.store.connect import open_store
from siltstone.store.scoped import ScopedStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from siltstone.api import Table
    from siltstone.commit.registry import Registry
    from siltstone.log import Log
    from siltstone.table.state import State

HANDLES_MAX = 256
STATE_KEPT_S = 0.25  # several requests of one page see one look
ERROR_KEPT_S = 2.0
LOOK_KEPT_S = 3.0
LOOK_SHARE = 20  # a look that took a second counts for twenty


@dataclass(frozen=True)
class Given:
    """What a command line gave to reach tables with."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    commits: str | None = field(default=None, repr=False)
    wal: str | None = None
    wal_options: Mapping[str, str] | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # what no answer may repeat


class Held:
    """One table of the root: its handle, and the version that was seen last. Threads may share it."""

    def __init__(self, path: str, table: Table) -> None:
        self.path = path
        self.table = table
        self.leases = 0
        self.described: dict[int, object] = {}  # what was made of versions, which stay as they are
        self._lock = ForkLock()
        self._seen: tuple[float, State] | None = None

    @property
    def log(self) -> Log:
        """The log of its versions."""
        return self.table._log  # noqa: SLF001 - a handle shows nothing of what decides its versions

    def state(self, *, kept_s: float = STATE_KEPT_S) -> State:
        """The newest version, as it was a moment ago."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] >= kept_s:
                state = self.table._now()  # noqa: SLF001 - as the verbs of the command line do
                self._seen = time.monotonic(), state
            return self._seen[1]


class Root:
    """What the console looks at."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.store = ReadOnlyStore(open_store(given.uri, given.storage_options))
        self.registry: Registry | None = open_registry(given.commits) if given.commits else None
        self._wal = self._open_wal()
        self._lock = ForkLock()
        self._looking = ForkLock()
        self._opening: dict[str, ForkLock] = {}
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._failed: dict[str, tuple[float, SiltstoneError]] = {}
        self._found: Found | None = None
        self._look_again_at = 0.0
        self._closed = False

    def _open_wal(self) -> ReadOnlyStore | None:
        given = self.given
        if given.wal is None:
            return None
        options = given.wal_options
        if options is None and is_alike(given.wal, self.store):
            options = given.storage_options
        return ReadOnlyStore(open_store(given.wal, options))

    # -- which there are ---------------------------------------------------------------------------

    def tables(self) -> Found:
        """The tables, looked for anew now and then. Raises where the store can't be listed."""
        found = self._found
        if found is not None and (time.monotonic() < self._look_again_at or not self._looking.acquire(blocking=False)):
            return found
        if found is None:
            self._looking.acquire()
        try:
            if self._found is not None and time.monotonic() < self._look_again_at:
                return self._found  # another thread has just looked
            return self._look(found)
        finally:
            self._looking.release()

    def _look(self, known: Found | None) -> Found:
        started = time.monotonic()
        try:
            found = find_tables(self.store)
        except SiltstoneError as error:
            if known is None:
                raise
            # What was found before may be reached all the same.
            found = replace(known, refused=(error,))
        took = time.monotonic() - started
        self._found = found
        self._look_again_at = time.monotonic() + max(LOOK_KEPT_S, LOOK_SHARE * took)
        return found

    # -- handles -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def lease(self, path: str) -> Iterator[Held]:
        """A table, kept open while it is used. Raises NotFoundError for a path without one, and what opening raises."""
        held = self._lent(path)
        try:
            yield held
        except NotFoundError:
            if not _is_there(held):
                self._forget(held)  # another one may have been made there
            raise
        finally:
            with self._lock:
                held.leases -= 1
                left = not held.leases and self._held.get(path) is not held
            if left:
                _close(held)
            self._shrink()

    def _lent(self, path: str) -> Held:
        if path not in self.tables().paths:
            raise NotFoundError("there is no such table below this root", hint="reload the list of tables")
        with self._lock:
            opening = self._opening.setdefault(path, ForkLock())
        with opening:
            with self._lock:
                if self._closed:
                    raise ClosedError("the console was ended", hint="start it again")
                held = self._held.get(path)
                if held is not None:
                    self._held.move_to_end(path)
                    held.leases += 1
                    return held
            return self._opened(path)

    def _opened(self, path: str) -> Held:
        failed = self._failed.get(path)
        if failed is not None and time.monotonic() - failed[0] < ERROR_KEPT_S:
            raise failed[1]
        try:
            held = Held(path, self._open(path))
        except SiltstoneError as error:
            self._failed[path] = time.monotonic(), error
            raise
        with self._lock:
            self._failed.pop(path, None)
            self._held[path] = held
            held.leases += 1
        return held

    def _open(self, path: str) -> Table:
        store = ScopedStore(self.store, f"{path}/") if path else self.store
        return open_table(store, storage_options=self.given.storage_options, wal=self._wal)

    def _shrink(self) -> None:
        with self._lock:
            over = len(self._held) - HANDLES_MAX
            idle = [held for held in self._held.values() if not held.leases][: max(0, over)]
            for held in idle:
                del self._held[held.path]
        for held in idle:
            _close(held)

    def _forget(self, held: Held) -> None:
        with self._lock:
            if self._held.get(held.path) is held:
                del self._held[held.path]

    def close(self) -> None:
        """End all handles; closing twice is fine."""
        with self._lock:
            self._closed = True
            every, self._held = list(self._held.values()), OrderedDict()
        for held in every:
            _close(held)
        if self.registry is not None:
            self.registry.close()
        if self._wal is not None:
            self._wal.close()
        self.store.close()


def _is_there(held: Held) -> bool:
    try:
        held.state()
    except SiltstoneError:
        return False
    return True


def _close(held: Held) -> None:
    with contextlib.suppress(SiltstoneError):  # nothing was written, so nothing can be lost
        held.table.close()
