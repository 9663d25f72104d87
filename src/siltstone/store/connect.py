"""From a URI to a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.store.base import Store
from siltstone.store.local import LocalStore
from siltstone.store.memory import MemoryStore
from siltstone.store.meter import MeteredStore
from siltstone.store.options import parse_uri, resolve_options
from siltstone.store.remote import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def open_store(
    uri: str | Path | Store, storage_options: Mapping[str, str] | None = None, *, sync: bool = True
) -> MeteredStore:
    """A store for a URI or path; no request is made yet.

    Credentials come from ``storage_options`` (values may be references, ``env:NAME``) or from the
    environment variables that the provider's own tools read. ``sync=False`` leaves out fsync on a
    local directory. Raises InvalidInputError where the URI or an option is wrong.
    """
    if isinstance(uri, Store):
        return uri if isinstance(uri, MeteredStore) else MeteredStore(uri)
    place = parse_uri(uri)
    if place.scheme in {"file", "memory"}:
        if storage_options is not None:
            resolve_options(storage_options, frozenset({"sync"}))
            sync = sync and resolve_options(storage_options, frozenset()).get("sync", "true") != "false"
        if place.scheme == "file":
            return MeteredStore(LocalStore(place.path, sync=sync))
        if not place.bucket:
            raise InvalidInputError("memory:// needs a name", hint="write memory://anything")
        return MeteredStore(MemoryStore("/".join(filter(None, (place.bucket, place.path)))))
    return MeteredStore(RemoteStore(str(uri), storage_options))
