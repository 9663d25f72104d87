"""The few things siltstone asks of an object store.

What must hold for every store:
- ``create`` makes an object whole or not at all, and only where none is. It may raise after it took
  effect (a lost answer), so a caller that must know reads back and compares.
- ``get`` and ``list`` see every finished ``create``, ``put`` and ``delete``.
- ``list`` is in key order and starts after a key; prefixes are whole path segments.
- Keys pass ``paths.check_key`` before any request; none can leave the store's root.
- Errors are siltstone's, without credentials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Self

from siltstone.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OBJECT_BYTES_MAX = 64 * 1024 * 1024
# What services that know no conditions answer to a conditional put, and what makes them useful all the same.
REFUSED = frozenset({"400", "501"})
REFUSING_REMEDY = (
    "pass commits=, and conditional_create 'false' in storage_options; see docs/how-to/commit-stores-by-provider.md"
)


class ObjectInfo(NamedTuple):
    """What a store says of an object without reading it."""

    key: str
    size: int
    modified_ms: int  # by the store's own clock


class Traits(NamedTuple):
    """What siltstone may rely on."""

    kind: str  # file, memory, s3, gs, az
    known_good: bool  # its provider documents an atomic create-if-absent, and keeps it
    cheap_probes: bool  # single look-ups cost less than a listing
    threads: bool = True  # requests may come from several threads at once
    conditional: bool = True  # knows create-if-absent at all; without it, creating is a look and then a put

    @property
    def overlaps(self) -> bool:
        """Whether several requests under way at once take less time than one after the other."""
        return self.threads and not self.cheap_probes


class Store(ABC):
    """Objects under one root URI. Handles are safe to share between threads."""

    uri: str
    traits: Traits

    @property
    def location(self) -> str:
        """What tells this root from every other one, without credentials."""
        return self.uri

    @property
    def domain(self) -> str:
        """What behaves alike: the bucket and the service behind this root."""
        return self.location

    @abstractmethod
    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        """The whole object. Raises NotFoundError, or CorruptionError where it is over ``limit``."""

    @abstractmethod
    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Byte ranges ``(start, end)`` of one object, fetched together."""

    def read_into(self, key: str, start: int, into: memoryview) -> int:
        """Fill memory with the bytes of one object from ``start`` on. Returns how many there were."""
        data = self.get_ranges(key, [(start, start + len(into))])[0]
        into[: len(data)] = data
        return len(data)

    @abstractmethod
    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object; None where there is none."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> None:
        """Make the object unless one is there. Raises AlreadyExistsError."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Make or replace the object."""

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy one object to another key, replacing what is there."""

    @abstractmethod
    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Objects below a prefix of whole segments, in key order, after a key."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; one that is not there is no error."""

    @abstractmethod
    def __repr__(self) -> str:
        """One line, without credentials."""

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        """Objects in the order asked for, None where one is missing. Stores overlap the reads."""
        for key in keys:
            try:
                yield self.get(key, limit=limit)
            except NotFoundError:
                yield None

    def sweep(self, *, before_ms: int, remove: bool) -> Sequence[ObjectInfo]:
        """What writes that were cut off before a time left where no listing shows it; with ``remove`` it goes."""
        del before_ms, remove
        return []

    def close(self) -> None:  # noqa: B027 - most stores hold nothing
        """Release what the handle holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
