"""A store around another one: the base of metering, faults and simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class StoreWrapper(Store):
    """Hands every call on to ``inner``; subclasses change the ones they care about."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.uri = inner.uri
        self.traits = inner.traits

    @property
    def location(self) -> str:
        return self.inner.location

    @property
    def domain(self) -> str:
        return self.inner.domain

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        return self.inner.get(key, limit=limit)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self.inner.get_ranges(key, ranges)

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        return self.inner.get_many(keys, limit=limit)

    def head(self, key: str) -> ObjectInfo | None:
        return self.inner.head(key)

    def create(self, key: str, data: bytes) -> None:
        self.inner.create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self.inner.put(key, data)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, after=after)

    def delete(self, keys: Iterable[str]) -> None:
        self.inner.delete(keys)

    def sweep(self, *, before_ms: int, remove: bool) -> Sequence[ObjectInfo]:
        return self.inner.sweep(before_ms=before_ms, remove=remove)

    def close(self) -> None:
        self.inner.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"
