"""How the store and the commit store of a table are: reachable, how fast, and who decides.

What must hold: nothing is written to find out. A read is timed; whether a store keeps its word when several writers
race is for ``siltstone check-store`` to find out.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from siltstone import paths
from siltstone.errors import NotFoundError, SiltstoneError
from siltstone.format.frame import digest
from siltstone.store.meter import MeteredStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.commit.registry import Registry
    from siltstone.console.root import Held, Root

    Tell = Callable[[SiltstoneError], Any]

GUARDS = {
    "receipt": "receipts: a writer checks its last entry when it closes",
    "witness": "witnesses: a second copy of each entry, so that a store that changes its mind is found out at once",
}
PUBLISHES = {
    "create": "by creating an object that is not there yet",
    "fork": "under names taken from the bytes, since the store may not create an object only once",
}


def check_health(root: Root, held: Held, tell: Tell) -> dict[str, Any]:
    """What is known of a table's store and of what decides its versions."""
    identity = held.log.identity
    return {
        "store": _store(held, tell),
        "decides": identity.commits or "the object store",
        "commits_uri": identity.commits_uri,
        "guard": identity.guard,
        "guard_says": GUARDS.get(identity.guard, ""),
        "publish": identity.publish,
        "publish_says": PUBLISHES.get(identity.publish, ""),
        "trust_ms": identity.trust_ms,
        "commits": _commits(root, held, tell),
    }


def _timed(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return round((time.monotonic() - started) * 1000, 2)


def _store(held: Held, tell: Tell) -> dict[str, Any]:
    store = held.log.store
    document: dict[str, Any] = {
        "uri": store.uri,
        "kind": store.traits.kind,
        "known_good": store.traits.known_good,
        "requests": dict(sorted(store.usage().requests.items())) if isinstance(store, MeteredStore) else {},
        "bytes_in": store.usage().bytes_in if isinstance(store, MeteredStore) else 0,
    }
    try:
        newest = held.log.published(held.state().version)
        if newest is None:
            raise held.log.lost(held.state().version, "it is the newest version")
        took = _timed(lambda: held.log.published(held.state().version))
        listed = _timed(lambda: next(iter(store.list(paths.LOG + paths.ENTRIES)), None))
    except SiltstoneError as error:
        return document | {"ok": False, "error": tell(error)}
    return document | {"ok": True, "read_ms": took, "list_ms": listed}


def _commits(root: Root, held: Held, tell: Tell) -> dict[str, Any] | None:
    identity, registry = held.log.identity, root.registry
    if not identity.commits:
        return None
    if registry is None:
        return {"ok": None, "says": "not looked at: give --commits with its URI"}
    document: dict[str, Any] = {"uri": registry.uri, "kind": registry.kind}
    if registry.kind != identity.commits:
        return document | {"ok": False, "says": f"this table is decided by {identity.commits}, not by {registry.kind}"}
    try:
        _check_there(registry)
        took = _timed(lambda: registry.lookup(held.log.scope, 0))
        return document | {"read_ms": took} | _compared(registry, held)
    except SiltstoneError as error:
        return document | {"ok": False, "error": tell(error)}


def _check_there(registry: Registry) -> None:
    """Opening a SQLite file that is not there would make it."""
    path = Path(unquote(urlsplit(registry.uri).path))
    if registry.kind == "sqlite" and not path.is_file():
        raise NotFoundError(f"the file of {registry.uri} is not there", hint="check --commits")


def _compared(registry: Registry, held: Held) -> dict[str, Any]:
    """Whether the commit store knows the newest version as it is published."""
    version = held.state().version
    claim = registry.lookup(held.log.scope, version)
    data = held.log.published(version)
    if claim is None:
        said = (
            f"it does not know version {version}: it was emptied, restored, or is another one; run `siltstone verify`"
        )
        return {"ok": False, "says": said}
    if data is None or claim.digest != digest(data):
        return {
            "ok": False,
            "says": f"it knows version {version} otherwise than it is published; run `siltstone verify`",
        }
    return {"ok": True, "says": f"it knows version {version} as it is published"}
