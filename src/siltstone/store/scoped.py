"""A part of a store: the objects below a prefix, as a store of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class ScopedStore(Store):
    """Objects of ``inner`` below ``prefix``, by what comes behind it. ``inner`` is closed by whoever opened it."""

    def __init__(self, inner: Store, prefix: str) -> None:
        self.inner = inner
        self.prefix = paths.check_root(prefix)
        self.uri = f"{inner.uri.rstrip('/')}/{self.prefix.rstrip('/')}"
        self.traits = inner.traits

    @property
    def location(self) -> str:
        return self.uri + self.inner.location.removeprefix(self.inner.uri)

    @property
    def domain(self) -> str:
        return self.inner.domain

    def _key(self, key: str) -> str:
        return self.prefix + paths.check_key(key)

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        return self.inner.get(self._key(key), limit=limit)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self.inner.get_ranges(self._key(key), ranges)

    def read_into(self, key: str, start: int, into: memoryview) -> int:
        return self.inner.read_into(self._key(key), start, into)

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        return self.inner.get_many(map(self._key, keys), limit=limit)

    def head(self, key: str) -> ObjectInfo | None:
        found = self.inner.head(self._key(key))
        return None if found is None else self._inside(found)

    def create(self, key: str, data: bytes) -> None:
        self.inner.create(self._key(key), data)

    def put(self, key: str, data: bytes) -> None:
        self.inner.put(self._key(key), data)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(self._key(source), self._key(target))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        listed = self.inner.list(self.prefix + paths.check_prefix(prefix), after=self._key(after) if after else "")
        return map(self._inside, listed)

    def delete(self, keys: Iterable[str]) -> None:
        self.inner.delete(map(self._key, keys))

    def _inside(self, info: ObjectInfo) -> ObjectInfo:
        return info._replace(key=info.key.removeprefix(self.prefix))

    def __repr__(self) -> str:
        return f"ScopedStore({self.inner!r}, {self.prefix!r})"
