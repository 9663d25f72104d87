"""A store that can be read alone.

What must hold: no call that would make, replace or remove an object gets through, whoever makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from siltstone.errors import PermissionDeniedError
from siltstone.store.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from siltstone.store.base import ObjectInfo


class ReadOnlyStore(StoreWrapper):
    """Hands reads on to ``inner`` and refuses all else."""

    def create(self, key: str, data: bytes) -> None:
        self._refuse("create", key)

    def put(self, key: str, data: bytes) -> None:
        self._refuse("put", key)

    def copy(self, source: str, target: str) -> None:
        self._refuse("copy", target)

    def delete(self, keys: Iterable[str]) -> None:
        self._refuse("delete", next(iter(keys), ""))

    def sweep(self, *, before_ms: int, remove: bool) -> Sequence[ObjectInfo]:
        if remove:
            self._refuse("sweep", "")
        return self.inner.sweep(before_ms=before_ms, remove=False)

    def _refuse(self, verb: str, key: str) -> NoReturn:
        raise PermissionDeniedError(
            f"{verb} {self.uri}/{key}: this handle only reads",
            hint="the console changes nothing",
            object=key,
            verb=verb,
        )
