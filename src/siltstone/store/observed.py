"""A store whose requests are told to telemetry. It is put around a store only where telemetry is on.

What must hold: it changes no answer and makes no request of its own. It counts requests as ``MeteredStore`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import AlreadyExistsError, NotFoundError
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store
from siltstone.store.wrapper import StoreWrapper
from siltstone.telemetry import metrics, seams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LIST_PAGE = 1000  # names that one listing request returns on S3, GCS and Azure (at least)
NOT_FOUND = "not-found"


def observed(store: Store) -> Store:
    """The store, or one that tells of it, where somebody hears."""
    return store if seams.sink() is None or _is_observed(store) else ObservedStore(store)


def _is_observed(store: Store) -> bool:
    while isinstance(store, StoreWrapper):
        if isinstance(store, ObservedStore):
            return True
        store = store.inner
    return False


class ObservedStore(StoreWrapper):
    """Counts and times what passes. Of reads of many objects and of long listings, not all is timed."""

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        with self._request("get"):
            data = self.inner.get(key, limit=limit)
        self._moved("read", len(data))
        return data

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._request("get"):
            parts = self.inner.get_ranges(key, ranges)
        metrics.STORE_REQUESTS.add(len(ranges) - 1, store=self.traits.kind, verb="get", outcome=seams.OK)
        self._moved("read", sum(map(len, parts)))
        return parts

    def read_into(self, key: str, start: int, into: memoryview) -> int:
        with self._request("get"):
            count = self.inner.read_into(key, start, into)
        self._moved("read", count)
        return count

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        try:
            for data in self.inner.get_many(keys, limit=limit):
                self._count("get", NOT_FOUND if data is None else seams.OK)
                self._moved("read", len(data or b""))
                yield data
        except Exception as error:
            self._count("get", seams.outcome_of(error))
            raise

    def head(self, key: str) -> ObjectInfo | None:
        with self._request("head") as told:
            info = self.inner.head(key)
            if info is None:
                told.attributes["outcome"] = NOT_FOUND
        return info

    def create(self, key: str, data: bytes) -> None:
        with self._request("create"):
            self.inner.create(key, data)
        self._moved("written", len(data))

    def put(self, key: str, data: bytes) -> None:
        with self._request("put"):
            self.inner.put(key, data)
        self._moved("written", len(data))

    def copy(self, source: str, target: str) -> None:
        with self._request("copy"):
            self.inner.copy(source, target)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        with self._request("list"):
            found = iter(self.inner.list(prefix, after=after))
            first = next(found, None)
        if first is None:
            return
        yield first
        try:
            for number, info in enumerate(found, 1):
                if number % LIST_PAGE == 0:
                    self._count("list", seams.OK)
                yield info
        except Exception as error:
            self._count("list", seams.outcome_of(error))
            raise

    def delete(self, keys: Iterable[str]) -> None:
        names = list(keys)
        if not names:
            self.inner.delete(names)
            return
        with self._request("delete"):
            self.inner.delete(names)
        more = (len(names) - 1) // LIST_PAGE
        metrics.STORE_REQUESTS.add(more, store=self.traits.kind, verb="delete", outcome=seams.OK)

    def _request(self, verb: str) -> seams.Timed:
        hears = seams.sink()
        return seams.Timed(
            f"siltstone.store.{verb}",
            {"store": self.traits.kind, "verb": verb},
            count=metrics.STORE_REQUESTS,
            seconds=metrics.STORE_SECONDS,
            span=hears is not None and hears.requests,
            answers=(NotFoundError, AlreadyExistsError),
        )

    def _count(self, verb: str, outcome: str) -> None:
        metrics.STORE_REQUESTS.add(store=self.traits.kind, verb=verb, outcome=outcome)

    def _moved(self, direction: str, nbytes: int) -> None:
        metrics.STORE_BYTES.add(nbytes, store=self.traits.kind, direction=direction)

    def __reduce__(self) -> tuple[object, ...]:
        """Another process tells of it where telemetry is on there."""
        return (observed, (self.inner,))

    def __repr__(self) -> str:
        return repr(self.inner)
