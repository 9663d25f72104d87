"""WALs that a shard has moved away from: what of them is still kept, and how the rest goes.

What must hold:
- Positions go on from one WAL of a shard to the next. So what lies before the manifest's ``replay_from``, and before
  all pins, may go, whichever WAL it is in, whoever moves one at this moment.
- Identity and floor stay: whoever comes late with an old WAL is told that its place is gone.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import SiltstoneError
from siltstone.log import open_beside
from siltstone.shard.manifest import to_mark
from siltstone.shard.pins import keep_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.format.shard import ShardState
    from siltstone.log import Log
    from siltstone.shard.place import ShardPlace
    from siltstone.store.base import Store


def shorten_old_wals(place: ShardPlace, state: ShardState) -> None:
    """Remove what nobody needs of WALs that the manifest does not name. Best effort: the next call goes on."""
    if not state.wal.begins:  # it is the first one
        return
    for store, root in old_wals(place, state):
        with contextlib.suppress(SiltstoneError):
            _shorten(open_beside(place.log, root, store=store), state)


def old_wals(place: ShardPlace, state: ShardState) -> Iterator[tuple[Store, str]]:
    """The stores and roots of a shard's WALs but the one that its manifest names, in the stores that were given."""
    now = paths.wal(place.name, state.wal.begins)
    stores = [(place.log.store, state.wal.store is None)]
    if place.other is not None:
        found = place.other.record(place.log)
        there = found is not None and state.wal.store is not None and found.id == state.wal.store.id
        stores.append((place.other.store, there))
    for store, named in stores:
        for root in _roots(store, place.name):
            if not (named and root == now):
                yield store, root


def _roots(store: Store, shard: str) -> list[str]:
    """Where WALs of a shard are in a store."""
    start = paths.shard(shard)
    found: dict[str, None] = {}
    for folder in _folders(store, start):
        root = f"{start}{folder}/"
        if paths.is_of_shard(root) and folder.startswith(paths.WAL[:-1]):
            found[root] = None
    return list(found)


def _folders(store: Store, start: str) -> Iterator[str]:
    """The folders of a shard, one listing each: what is in them may be long."""
    after = ""
    while True:
        info = next(iter(store.list(start.removesuffix("/"), after=after)), None)
        if info is None:
            return
        folder = info.key.removeprefix(start).partition("/")[0]
        yield folder
        after = f"{start}{folder}0"  # comes right behind all that is in the folder


def _shorten(log: Log, state: ShardState) -> None:
    with log:
        tip, start = log.tip(), keep_from(state)
        until = tip if tip.position <= start.position else to_mark(start, log)
        if until.position:
            log.truncate(until)
