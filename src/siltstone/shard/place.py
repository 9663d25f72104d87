"""Where a shard is: its logs and its store, opened when they are asked for.

What must hold: whoever only reads makes nothing; a shard that nobody wrote to has no objects, and reads as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.errors import MissingObjectError, NotFoundError
from siltstone.locks import ForkLock
from siltstone.log import open_beside
from siltstone.shard.manifest import Manifest
from siltstone.store.scoped import ScopedStore

if TYPE_CHECKING:
    from siltstone.log import Log
    from siltstone.store.base import Store


class Logs(NamedTuple):
    """The two logs of a shard."""

    manifest: Manifest
    wal: Log


@dataclass(frozen=True)
class Route:
    """Which rows belong to a shard: those whose key's hash is ``number`` modulo ``count``."""

    number: int
    count: int


@dataclass(eq=False)
class ShardPlace:
    """One shard of a table. ``log`` is the table's own; ``route`` is None where the table has no key."""

    log: Log
    name: str
    route: Route | None

    def __post_init__(self) -> None:
        self._lock = ForkLock()
        self._logs: Logs | None = None
        self.store: Store = ScopedStore(self.log.store, paths.shard(self.name))

    def read(self) -> Logs | None:
        """The logs; None where the shard was never written to."""
        with self._lock:
            if self._logs is None:
                try:
                    self._logs = self._open(create=False, writer="")
                except NotFoundError:
                    return None
            return self._logs

    def write(self, writer: str) -> Logs:
        """Logs of a writer's own, made where there are none."""
        return self._open(create=True, writer=writer)

    def _open(self, *, create: bool, writer: str) -> Logs:
        root = paths.shard(self.name) + paths.MANIFEST
        manifest = Manifest(open_beside(self.log, root, create=create, writer=writer), shard=self.name)
        try:
            return Logs(manifest, self._open_wal(manifest, create=create, writer=writer))
        except BaseException:
            manifest.log.close()
            raise

    def _open_wal(self, manifest: Manifest, *, create: bool, writer: str) -> Log:
        root = paths.shard(self.name) + paths.WAL
        try:
            return open_beside(self.log, root, writer=writer)
        except NotFoundError:
            claimed = bool(manifest.read().epoch)
            if not claimed and not create:
                raise
        try:  # whoever claims a shard has made both logs before, perhaps since it was not there
            return open_beside(self.log, root, create=not claimed, writer=writer)
        except NotFoundError:
            raise self.lost(f"{root}{paths.IDENTITY}") from None

    def lost(self, key: str) -> MissingObjectError:
        """The error for a shard that was written to and whose objects are gone."""
        return MissingObjectError(
            f"shard {self.name} was written to, and {key} is gone: rows that were acknowledged may be lost",
            hint="put the objects of the shard back; `siltstone verify` says what else is missing",
            object=key,
        )
