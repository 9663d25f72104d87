"""Counting requests and bytes per verb, so that a cost can be stated and tested."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from siltstone.locks import ForkLock
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store
from siltstone.store.observed import observed
from siltstone.store.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LIST_PAGE = 1000  # names that one listing request returns on S3, GCS and Azure (at least)


class Usage(NamedTuple):
    """What was asked of a store so far."""

    requests: dict[str, int]
    bytes_in: int
    bytes_out: int

    @property
    def total(self) -> int:
        """Requests of all verbs."""
        return sum(self.requests.values())


class MeteredStore(StoreWrapper):
    """Counts what passes. Listings count one request per page of 1,000 names."""

    def __init__(self, inner: Store) -> None:
        super().__init__(observed(inner))
        self._lock = ForkLock()
        self.reset()

    def reset(self) -> None:
        """Start counting anew."""
        with self._lock:
            self._requests: Counter[str] = Counter()
            self._bytes_in = 0
            self._bytes_out = 0

    def usage(self) -> Usage:
        """The counts so far."""
        with self._lock:
            return Usage(dict(self._requests), self._bytes_in, self._bytes_out)

    def _count(self, verb: str, *, requests: int = 1, received: int = 0, sent: int = 0) -> None:
        with self._lock:
            self._requests[verb] += requests
            self._bytes_in += received
            self._bytes_out += sent

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        self._count("get")
        data = self.inner.get(key, limit=limit)
        self._count("get", requests=0, received=len(data))
        return data

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._count("get", requests=len(ranges))
        parts = self.inner.get_ranges(key, ranges)
        self._count("get", requests=0, received=sum(map(len, parts)))
        return parts

    def read_into(self, key: str, start: int, into: memoryview) -> int:
        self._count("get")
        count = self.inner.read_into(key, start, into)
        self._count("get", requests=0, received=count)
        return count

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        for data in self.inner.get_many(keys, limit=limit):
            self._count("get", received=len(data or b""))
            yield data

    def head(self, key: str) -> ObjectInfo | None:
        self._count("head")
        return self.inner.head(key)

    def create(self, key: str, data: bytes) -> None:
        self._count("create", sent=len(data))
        self.inner.create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._count("put", sent=len(data))
        self.inner.put(key, data)

    def copy(self, source: str, target: str) -> None:
        self._count("copy")
        self.inner.copy(source, target)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        self._count("list")
        for number, info in enumerate(self.inner.list(prefix, after=after)):
            if number and number % LIST_PAGE == 0:
                self._count("list")
            yield info

    def delete(self, keys: Iterable[str]) -> None:
        names = list(keys)
        self._count("delete", requests=-(-len(names) // LIST_PAGE))
        self.inner.delete(names)

    def __getstate__(self) -> Store:
        return self.inner

    def __setstate__(self, inner: Store) -> None:
        self.__init__(inner)  # type: ignore[misc]

    def __repr__(self) -> str:
        return repr(self.inner)
