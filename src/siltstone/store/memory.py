"""Objects in this process's memory, for tests and trials: ``memory://name``."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, ClassVar

from siltstone import paths
from siltstone.clock import Clock, SystemClock
from siltstone.errors import AlreadyExistsError, CorruptionError, NotFoundError
from siltstone.locks import ForkLock
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store, Traits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class MemoryBucket:
    """Keys and bytes under one lock; every method is atomic."""

    _numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self) -> None:
        self.number = next(self._numbers)
        self.lock = ForkLock()
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.keys: list[str] = []

    def write(self, key: str, data: bytes, *, now_ms: int, replace: bool) -> bool:
        """Whether the object was written."""
        with self.lock:
            if key in self.objects:
                if not replace:
                    return False
            else:
                bisect.insort(self.keys, key)
            self.objects[key] = (bytes(data), now_ms)
            return True

    def read(self, key: str) -> tuple[bytes, int] | None:
        """Bytes and time of an object."""
        return self.objects.get(key)

    def remove(self, key: str) -> None:
        """Remove an object, if it is there."""
        with self.lock:
            if self.objects.pop(key, None) is not None:
                del self.keys[bisect.bisect_left(self.keys, key)]

    def scan(self, start: str, after: str) -> list[ObjectInfo]:
        """Objects whose key begins with ``start`` and comes after ``after``."""
        with self.lock:
            place = max(bisect.bisect_left(self.keys, start), bisect.bisect_right(self.keys, after))
            found = []
            for key in self.keys[place:]:
                if not key.startswith(start):
                    break
                data, modified = self.objects[key]
                found.append(ObjectInfo(key, len(data), modified))
            return found


class MemoryStore(Store):
    """A bucket in memory. Handles of one name in one process share their objects."""

    traits = Traits(kind="memory", known_good=True, cheap_probes=True)
    _buckets: ClassVar[dict[str, MemoryBucket]] = {}

    def __init__(self, name: str = "", *, bucket: MemoryBucket | None = None, clock: Clock | None = None) -> None:
        self.uri = f"memory://{name}"
        self._name = name
        self._clock = clock or SystemClock()
        self.bucket = bucket or (self._buckets.setdefault(name, MemoryBucket()) if name else MemoryBucket())

    @property
    def domain(self) -> str:
        return f"{self.uri} number {self.bucket.number}"  # buckets without a name are told apart, too

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        found = self.bucket.read(paths.check_key(key))
        if found is None:
            raise NotFoundError(f"{self.uri} has no object {key}", object=key)
        if len(found[0]) > limit:
            raise CorruptionError(f"object {key} has {len(found[0])} bytes, over the limit of {limit}", object=key)
        return found[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = self.get(key)
        return [data[start:end] for start, end in ranges]

    def head(self, key: str) -> ObjectInfo | None:
        found = self.bucket.read(paths.check_key(key))
        return None if found is None else ObjectInfo(key, len(found[0]), found[1])

    def create(self, key: str, data: bytes) -> None:
        if not self.bucket.write(paths.check_key(key), data, now_ms=self._clock.wall_ms(), replace=False):
            raise AlreadyExistsError(f"{self.uri} already has an object {key}", object=key)

    def put(self, key: str, data: bytes) -> None:
        self.bucket.write(paths.check_key(key), data, now_ms=self._clock.wall_ms(), replace=True)

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.get(source))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        start = paths.check_prefix(prefix)
        yield from self.bucket.scan(f"{start}/" if start else "", after)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.bucket.remove(paths.check_key(key))

    def __reduce__(self) -> tuple[object, ...]:
        return (MemoryStore, (self._name,))

    def __repr__(self) -> str:
        return f"MemoryStore({self.uri})"
