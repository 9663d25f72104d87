"""What shards let go of: fragments that are merged, the beginning of their WALs, and what flushes left behind.

What must hold:
- A fragment's object goes only where the shard's manifest, read after the object was seen, has gone past its
  generation and names it nowhere: not among its fragments, not among those that were dropped a while ago, not in a pin.
  A flush that is under way writes for the manifest's own generation or a later one, and one of a fenced writer is
  refused.
- Pins go where their checkpoint is gone: the manifest is read first, the table then.
- Best effort, shard by shard: what fails is left to the next collection.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import SiltstoneError
from siltstone.retain.capture import release
from siltstone.retain.leftovers import delete
from siltstone.retain.plan import SHARD_FRAGMENT, Doomed
from siltstone.shard.flush import truncate_wal
from siltstone.shard.merge import KEEP_DROPPED_MS, StoreTime, remove_dropped, tidy
from siltstone.shard.old_wals import shorten_old_wals
from siltstone.shard.pins import pinned_names
from siltstone.shard.together import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from siltstone.format.shard import ShardState
    from siltstone.shard.manifest import Manifest
    from siltstone.shard.place import ShardPlace
    from siltstone.shard.shards import Shards
    from siltstone.shard.snapshot import ShardReader
    from siltstone.store.base import ObjectInfo
    from siltstone.table.state import State


def old_shard_objects(shards: Shards, state: State, *, now_ms: int) -> Iterator[Doomed]:
    """Objects of the shards of a version that nobody needs any more; nothing is changed."""
    for reader in shards.readers(state):
        found: list[Doomed] = []
        with contextlib.suppress(SiltstoneError):
            listed = _data(reader.place)
            manifest = reader.place.manifest() if listed else None
            if manifest is not None:
                found = list(_doomed(reader.place, manifest.read(), listed, now_ms=now_ms))
        yield from found


def collect_shards(shards: Shards, now: Callable[[], State], failed: Callable[[str], None]) -> list[Doomed]:
    """Let shards go of what they can; what was deleted of their fragments. ``failed`` is told what can't be done."""
    gone: list[Doomed] = []
    try:
        release(shards, now)
    except SiltstoneError as error:
        failed(f"what checkpoints held of shards can't be released: {error.message}")
    state = now()

    def clean(reader: ShardReader) -> list[Doomed]:
        try:
            return _collect(reader.place, state)
        except SiltstoneError as error:
            failed(f"shard {reader.place.name} can't be tidied: {error.message}")
            return []

    if readers := shards.readers(state):
        for found in together(clean, readers, readers[0].place.log.store):
            gone += found
    shards.clear(state)
    return gone


def _collect(place: ShardPlace, state: State) -> list[Doomed]:
    manifest = place.manifest()
    merged = state.shards.get(place.name)
    if manifest is None or merged is None:
        return []
    time = StoreTime(manifest)
    listed = _data(place)
    if merged.position:
        tidy(place, manifest, merged, time=time)
    else:
        truncate_wal(place, manifest.read())
    doomed = list(_doomed(place, manifest.read(), listed, now_ms=time.now_ms)) if listed else []
    delete(place.log.store, [one.key for one in doomed])
    remove_dropped(place, manifest, time=time)
    shorten_old_wals(place, manifest.read())
    _shorten_manifest(manifest)
    return doomed


def _data(place: ShardPlace) -> list[ObjectInfo]:
    return list(place.store.list(paths.DATA))


def _doomed(place: ShardPlace, state: ShardState, listed: Sequence[ObjectInfo], *, now_ms: int) -> Iterator[Doomed]:
    """Which of the objects that were listed before the manifest was read may go."""
    pinned = pinned_names(state)
    held = pinned | {one.fragment.name for one in state.fragments}
    dropped = {one.name: one.dropped_ms for one in state.dropped}
    for info in listed:
        name = paths.parse_data(info.key)
        found = None if name is None else paths.parse_name(name)
        if name is None or found is None or found[0] >= state.generation or name in held:
            continue
        if name in dropped:
            if dropped[name] > now_ms - KEEP_DROPPED_MS:
                continue
            why = f"its rows are in the table, and shard {place.name} let it go a while ago"
        else:
            why = f"shard {place.name} does not name it: the flush that wrote it was cut off, or its writer was fenced"
        yield Doomed(paths.shard(place.name) + info.key, SHARD_FRAGMENT, why, info.size, found[0])


def _shorten_manifest(manifest: Manifest) -> None:
    """Each entry of a manifest is whole: the newest one is enough."""
    log = manifest.log
    tip, first = log.tip(), log.first()
    data = log.published(tip.position - 2) if tip.position - first.position > 1 else None
    last = log.published(tip.position - 1) if data is not None else None
    if data is not None and last is not None and log.read(last, tip.position - 1).kind == "data":
        log.truncate(log.read(data, tip.position - 2).end)
    elif first.position:  # what the floor passed a while ago may still be there
        log.truncate(first)
