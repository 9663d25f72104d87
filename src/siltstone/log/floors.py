"""Where a log begins: its places, and its floor.

What must hold: the floor is the highest floor object. Floor objects only add up, so it never falls, and an older
look never lowers what a later one found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.commit.base import CommitStore, Place
from siltstone.errors import CorruptionError, NotFoundError
from siltstone.format.frame import digest
from siltstone.format.records import Floor, Identity, decode_floor
from siltstone.locks import ForkLock
from siltstone.log.marks import Entry, Mark, check_follows, read_entry

if TYPE_CHECKING:
    from siltstone.env import Env
    from siltstone.store.base import Store


class FloorObject(NamedTuple):
    """A floor and when the store says it was raised."""

    position: int
    modified_ms: int


def home_of(store: Store, root: str) -> str:
    """What tells the location of a log from every other one, whichever directory above it the store was opened at."""
    place, service = store.location, ""
    if place.startswith(store.uri):
        place, service = store.uri, place.removeprefix(store.uri)
    return digest(f"{place.rstrip('/')}/{root}{service}".encode("utf-8", "surrogateescape"))


def scope_of(identity: Identity, store: Store, root: str) -> str:
    """What a commit store knows the log by.

    A copy elsewhere has decisions of its own: it must not take the places of the one that it was copied from.
    """
    here = home_of(store, root) if identity.home else ""
    return identity.log if here == identity.home else f"{identity.log}:{here}"


class FloorReader:
    """The places of a log and where it begins."""

    def __init__(
        self, store: Store, root: str, identity: Identity, genesis: str, commits: CommitStore, *, env: Env
    ) -> None:
        self.store = store
        self.root = root
        self.identity = identity
        self.commits = commits
        self.start = Mark(0, 0, genesis)
        self.scope = scope_of(identity, store, root)
        self._env = env
        self._floor = 0
        self._floor_read_at: float | None = None
        self._floor_lock = ForkLock()
        self._read_until: Mark | None = None  # a mark of this log, read from it

    # -- places ----------------------------------------------------------------------------------

    def place(self, after: Mark) -> Place:
        """The place right behind a mark."""
        return Place(
            key=paths.entry(self.root, after.position),
            scope=self.scope,
            position=after.position,
            prev=after.digest,
            root=self.root,
            log=self.identity.log,
            epoch=after.epoch,
        )

    def read(self, data: bytes, position: int) -> Entry:
        """Entry from its bytes."""
        return read_entry(data, log=self.identity.log, position=position, name=paths.entry(self.root, position))

    def check_follows(self, entry: Entry, after: Mark) -> None:
        """The chain, checked between two neighbours."""
        check_follows(entry, after, name=paths.entry(self.root, entry.position))

    # -- floor -----------------------------------------------------------------------------------

    def floors(self) -> list[FloorObject]:
        """Every floor object, lowest first."""
        started = self._env.clock.monotonic()  # before the request: trust runs from when it can have been true
        found = []
        for info in self.store.list(f"{self.root}{paths.FLOOR}"):
            position = paths.parse_floor(self.root, info.key)
            if position is not None:
                found.append(FloorObject(position, info.modified_ms))
        with self._floor_lock:  # an older listing that ends later must not lower what is known
            self._floor = max(self._floor, found[-1].position if found else 0)
            self._floor_read_at = max(started, self._floor_read_at or started)
        return found

    def floor_now(self, *, trust_ms: int) -> int:
        """The floor, as it was at most ``trust_ms`` ago."""
        read_at = self._floor_read_at
        if read_at is None or self._env.clock.monotonic() - read_at >= trust_ms / 1000:
            self.floors()
        return self._floor

    def floor_mark(self, position: int) -> Mark:
        """The mark at a floor: what its object says of the entry before it."""
        if position == 0:
            return self.start
        floor = self.read_floor(position)
        return Mark(floor.position, floor.epoch, floor.digest)

    def read_floor(self, position: int) -> Floor:
        """The floor object of a position."""
        key = paths.floor(self.root, position)
        floor = decode_floor(self.store.get(key), name=key)
        if floor.log != self.identity.log or floor.position != position:
            raise CorruptionError(f"{key} is the floor {floor.position} of log {floor.log}", object=key)
        return floor

    def first(self) -> Mark:
        """The mark of the present floor."""
        while True:
            floors = self.floors()
            if not floors:
                return self.start
            try:
                return self.floor_mark(floors[-1].position)
            except NotFoundError:  # a higher floor replaced it while we looked
                continue
