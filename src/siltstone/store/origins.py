"""The store of a table that names objects of other tables: those it was cloned from.

What must hold: objects of other tables are read, never written, listed or deleted from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import InternalError, MissingObjectError
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store
from siltstone.store.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class OriginsStore(StoreWrapper):
    """Hands keys below ``origins/<k>/`` on to the k-th of ``others``, all else to ``inner``."""

    def __init__(self, inner: Store, others: Mapping[int, Store]) -> None:
        super().__init__(inner)
        self.others = dict(others)

    def holder(self, key: str) -> tuple[Store, str]:
        """The store that an object is in, and its key there."""
        found = paths.parse_origin(key)
        if found is None:
            return self.inner, key
        number, there = found
        if number not in self.others:
            raise MissingObjectError(
                f"{there} is in a table that this one does not know any more (origin {number})",
                hint="run `siltstone verify`",
                object=key,
            )
        return self.others[number], there

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        store, there = self.holder(key)
        return store.get(there, limit=limit)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        store, there = self.holder(key)
        return store.get_ranges(there, ranges)

    def read_into(self, key: str, start: int, into: memoryview) -> int:
        store, there = self.holder(key)
        return store.read_into(there, start, into)

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        wanted = list(keys)
        if not any(paths.parse_origin(key) for key in wanted):
            yield from self.inner.get_many(wanted, limit=limit)
            return
        yield from super(StoreWrapper, self).get_many(wanted, limit=limit)

    def head(self, key: str) -> ObjectInfo | None:
        store, there = self.holder(key)
        found = store.head(there)
        return None if found is None else found._replace(key=key)

    def create(self, key: str, data: bytes) -> None:
        self.inner.create(_own(key), data)

    def put(self, key: str, data: bytes) -> None:
        self.inner.put(_own(key), data)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(_own(source), _own(target))

    def delete(self, keys: Iterable[str]) -> None:
        self.inner.delete(map(_own, keys))

    def close(self) -> None:
        for store in self.others.values():
            store.close()
        self.inner.close()


def resolve(store: Store, key: str) -> tuple[Store, str]:
    """The store that an object is really in, and its key there."""
    return store.holder(key) if isinstance(store, OriginsStore) else (store, key)


def _own(key: str) -> str:
    if paths.parse_origin(key) is not None:
        raise InternalError(f"{key} belongs to another table, and was about to be written or deleted")
    return key
