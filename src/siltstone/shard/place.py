"""Where a shard is: its logs and its stores, opened when they are asked for.

What must hold:
- Whoever only reads makes nothing; a shard that nobody wrote to has no objects, and reads as empty.
- The WAL is where the manifest says, in the store with the recorded id. Where that store is not given, or is another
  one, nobody goes on without it, unless the manifest proves that nothing of it is needed.
- Positions go on where a WAL moves to another store: the new one begins where the old one ended.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.errors import MissingObjectError, NotFoundError, WrongWalStoreError
from siltstone.format.table import Cursor, WalPlace
from siltstone.locks import ForkLock
from siltstone.log import open_beside
from siltstone.shard.manifest import Manifest, let_go, to_mark
from siltstone.shard.wal_store import is_same
from siltstone.store.scoped import ScopedStore

if TYPE_CHECKING:
    from siltstone.format.shard import ShardState
    from siltstone.format.table import WalStore
    from siltstone.log import Log, Mark
    from siltstone.shard.wal_store import OtherWal
    from siltstone.store.base import Store


class Logs(NamedTuple):
    """The two logs of a shard, and where the second one is."""

    manifest: Manifest
    wal: Log
    where: WalPlace = WalPlace()


@dataclass(frozen=True)
class Route:
    """Which rows belong to a shard: those whose key's hash is ``number`` modulo ``count``."""

    number: int
    count: int


@dataclass(eq=False)
class ShardPlace:
    """One shard of a table. ``log`` is the table's own; ``route`` is None where the table has no key.

    ``other`` is the WAL store that was given for the table.
    """

    log: Log
    name: str
    route: Route | None
    other: OtherWal | None = None

    def __post_init__(self) -> None:
        self._lock = ForkLock()
        self._manifest: Manifest | None = None
        self._logs: Logs | None = None
        self.store: Store = ScopedStore(self.log.store, paths.shard(self.name))

    # -- reading -----------------------------------------------------------------------------------

    def manifest(self) -> Manifest | None:
        """The manifest; None where the shard was never written to."""
        with self._lock:
            return self._read_manifest()

    def read(self, *, now: bool = False) -> Logs | None:
        """The logs, as the manifest had them when it was read last; None where the shard was never written to.

        With ``now`` the manifest is read first: the WAL may have been moved since.

        Raises:
            WrongWalStoreError: the WAL is in a store that was not given.
        """
        with self._lock:
            manifest = self._read_manifest()
            if manifest is None:
                return None
            where = (manifest.read() if now else manifest.known).wal
            if self._logs is None or self._logs.where != where:
                state = manifest.read()
                if not state.epoch:  # its first writer is about to make it, or died before
                    return None
                self._logs = Logs(manifest, self._needed(state), state.wal)
            return self._logs

    def _read_manifest(self) -> Manifest | None:
        if self._manifest is None:
            try:
                self._manifest = self._open_manifest(create=False, writer="")
            except NotFoundError:
                return None
        return self._manifest

    def _open_manifest(self, *, create: bool, writer: str) -> Manifest:
        root = paths.shard(self.name) + paths.MANIFEST
        return Manifest(open_beside(self.log, root, create=create, writer=writer), shard=self.name)

    def _needed(self, state: ShardState, writer: str = "") -> Log:
        """The WAL of a shard that was claimed: whoever did has made it before."""
        root = paths.wal(self.name, state.wal.begins)
        try:
            wal = self.open_wal(state.wal, writer=writer)
        except NotFoundError:
            raise self.lost(f"{root}{paths.IDENTITY}") from None
        # Nothing would follow entries that are gone from the end, and tell that they are.
        end = Cursor() if state.closed is None else state.closed
        if end.position > state.replay_from.position and wal.tip().position < end.position:
            raise self.lost(paths.entry(root, end.position - 1))
        return wal

    # -- WALs --------------------------------------------------------------------------------------

    def open_wal(self, where: WalPlace, *, create: bool = False, begins: Mark | None = None, writer: str = "") -> Log:
        """The WAL at a place that a manifest names, or is to name.

        Raises:
            NotFoundError: there is none.
            WrongWalStoreError: it is in a store that was not given.
        """
        root = paths.wal(self.name, where.begins)
        store = None if where.store is None else self._other(where.store)
        return open_beside(self.log, root, create=create, writer=writer, store=store, begins=begins)

    def _other(self, wanted: WalStore) -> Store:
        if self.other is None:
            raise WrongWalStoreError(
                f"the WAL of shard {self.name} is in another store, at {wanted.uri}, and none was given",
                hint="give wal= (on the command line --wal) with the URI of that store",
            )
        found = self.other.record(self.log)
        if found is None or found.id != wanted.id:
            what = "was emptied, or never was a WAL store" if found is None else f"has the id {found.id}"
            raise WrongWalStoreError(
                f"the WAL of shard {self.name} is in the store with the id {wanted.id}, which was at {wanted.uri}; "
                f"{self.other.uri} {what}",
                hint="give the right wal=, or put its objects back: rows that were acknowledged may be in it alone",
            )
        return self.other.store

    def check_wal(self) -> None:
        """Look, before anything is taken over, whether a writer could go on from the WAL that there is.

        Raises:
            WrongWalStoreError: it is needed, and in a store that was not given.
        """
        manifest = self.manifest()
        state = None if manifest is None else manifest.read()
        if state is not None and state.epoch and state.wal.store is not None and let_go(state) is None:
            self._other(state.wal.store)

    def target(self) -> WalStore | None:
        """Where a writer is to have its WAL: the store that was given, or None for the table's own."""
        return None if self.other is None else self.other.make(self.log)

    # -- writing -----------------------------------------------------------------------------------

    def write(self, writer: str) -> Logs:
        """Logs of a writer's own, made where there are none.

        The WAL is the one that the manifest names; or another one, which begins where that one ended, where nothing
        of it is needed and it is gone, or in another store than the writer's.
        """
        manifest = self._open_manifest(create=True, writer=writer)
        try:
            return self._writers(manifest, writer)
        except BaseException:
            manifest.log.close()
            raise

    def _writers(self, manifest: Manifest, writer: str) -> Logs:
        state = manifest.read()
        end = let_go(state)
        if state.epoch and end is None:
            return Logs(manifest, self._needed(state, writer), state.wal)
        target = self.target()
        if end is None:
            where = WalPlace(store=target)
            return Logs(manifest, self.open_wal(where, create=True, writer=writer), where)
        if is_same(state.wal.store, target):
            with contextlib.suppress(NotFoundError):
                return Logs(manifest, self.open_wal(state.wal, writer=writer), state.wal)
        where = WalPlace(begins=end.position, store=target)
        begins = to_mark(end, manifest.log)
        return Logs(manifest, self.open_wal(where, create=True, begins=begins, writer=writer), where)

    def lost(self, key: str) -> MissingObjectError:
        """The error for a shard that was written to and whose objects are gone."""
        return MissingObjectError(
            f"shard {self.name} was written to, and {key} is gone: rows that were acknowledged may be lost",
            hint="put the objects of the shard back; `siltstone verify` says what else is missing",
            object=key,
        )
