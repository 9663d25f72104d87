"""Spreading the keys of a table over another number of shards.

What must hold:
- The old shards are sealed and fenced first: no writer has them or can get them. What is durable then is merged in the
  very version that names the new shards, so no row is lost and none is in two of them.
- A split that was cut off is ended by another one; until then the old shards can be read, and not written.
- The old shards stay sealed for ever: their identities, manifests and floors are kept, so that whoever comes late is
  told. Their rows go when the version that has them is committed.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from siltstone import paths
from siltstone.errors import (
    ConflictError,
    FencedError,
    InvalidInputError,
    LimitExceededError,
    SiltstoneError,
    UnavailableError,
)
from siltstone.format.table import SHARDS_MAX, Cursor, Sharding
from siltstone.paths import shard_name
from siltstone.shard.manifest import ended, to_cursor
from siltstone.shard.merge import KEEP_DROPPED_MS, StoreTime, remove_dropped, tidy
from siltstone.shard.old_wals import shorten_old_wals
from siltstone.shard.pins import pinned_names
from siltstone.shard.place import ShardPlace
from siltstone.shard.together import together
from siltstone.table.operations import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.shard import ShardState
    from siltstone.format.table import WalPlace
    from siltstone.log import Log
    from siltstone.shard.snapshot import ShardReader
    from siltstone.shard.wal_store import OtherWal
    from siltstone.store.base import Store
    from siltstone.table.draft import Draft
    from siltstone.table.state import State


SPLIT = "split"  # what a shard's writer is called that sealed it

MAPS_MAX = 9999  # as the records of a table have it


class Reshard(Work):
    """Names the new shards; comes behind a merge of the old ones."""

    operation = "split"

    def __init__(self, count: int, old: Sharding | None, *, first: int = 0) -> None:
        self._count = count
        self._old = old
        self._first = first  # the map where there was none: a table that was dropped there may have used some

    def run(self, draft: Draft) -> None:
        """Nothing where another split came first with the same number."""
        now = draft.state.sharding
        if now != self._old:
            if now is not None and now.count == self._count:
                return
            raise ConflictError(
                f"the table was split into {now.count if now else 0} shards by another meanwhile",
                hint="nothing was changed; run it again if that is not as it should be",
            )
        map_ = self._first if now is None else now.map + 1
        cursors: dict[str, Cursor | None] = dict.fromkeys(draft.state.shards)
        cursors |= {shard_name(map_, number): Cursor() for number in range(self._count)}
        draft.depends(rows=True)
        draft.set_shards(cursors, Sharding(count=self._count, map=map_))


def check_count(count: object, old: Sharding | None) -> int:
    """A number of shards that there can be after those of another map."""
    if type(count) is not int or not 1 <= count <= SHARDS_MAX:
        raise InvalidInputError(f"the number of shards must be from 1 to {SHARDS_MAX}, got {count!a}")
    if old is not None and old.map >= MAPS_MAX:
        raise LimitExceededError(
            f"the table was split {MAPS_MAX} times, and shards have no names left", hint="copy it to a new table"
        )
    return count


def seal(readers: Sequence[ShardReader]) -> None:
    """Let no writer have these shards any more."""
    if readers:
        together(lambda one: seal_shard(one.place, SPLIT), readers, readers[0].place.log.store)


def seal_shard(place: ShardPlace, who: str) -> None:
    """Let no writer have a shard any more; ``who`` says what for.

    Raises:
        WrongWalStoreError: a writer may be at work, and its WAL is in a store that was not given.
    """
    for _ in place.log.env.tries():
        manifest = place.manifest()
        if manifest is not None and ended(manifest.read()) is not None:  # it was closed: nobody is to be fenced
            state = manifest.change(partial(_sealed, who, None))
            if state.sealed and ended(state) is not None:
                return
            continue
        logs = place.write(who)
        try:
            state = logs.manifest.change(partial(_sealed, who, logs.where))
            if not state.sealed or logs.where != state.wal:  # it was moved meanwhile
                continue
            try:
                logs.wal.fence(state.epoch)
            except FencedError:  # another one who splits was first
                if logs.wal.tip().epoch < state.epoch:
                    raise
            return
        finally:
            logs.wal.close()
            logs.manifest.log.close()
    raise UnavailableError(f"shard {place.name} was claimed and closed all the time while it was sealed")


def seal_lost(place: ShardPlace, who: str) -> None:
    """Let no writer have a shard any more whose WAL is gone with its store: there is nothing to fence, or to keep."""
    manifest = place.manifest()
    if manifest is not None:
        manifest.change(
            lambda state: (
                None
                if state.sealed
                else msgspec.structs.replace(
                    state, sealed=True, epoch=state.epoch + 1, writer=who, closed=state.replay_from
                )
            )
        )


def clear(log: Log, state: State, other: OtherWal | None = None, *, keep_ms: int = KEEP_DROPPED_MS) -> None:
    """Let shards from before a split go of their rows, which are in the table. Best effort: the next call goes on."""

    def clean(name: str) -> None:
        with contextlib.suppress(SiltstoneError):
            clear_shard(ShardPlace(log, name, None, other), keep_ms=keep_ms)

    with contextlib.suppress(SiltstoneError):
        together(clean, left_behind(log, state.sharding, other), log.store)


def left_behind(log: Log, sharding: Sharding | None, other: OtherWal | None = None) -> list[str]:
    """Shards of earlier maps that have rows left, in any of the stores."""
    if sharding is None or not sharding.map:
        return []
    names = _with_rows(log.store, sharding)
    if other is not None:
        names |= _with_rows(other.store, sharding)
    return list(names)


def _with_rows(store: Store, sharding: Sharding) -> dict[str, None]:
    names: dict[str, None] = {}
    for info in store.list(paths.SHARDS):
        name, _, rest = info.key.removeprefix(f"{paths.SHARDS}/").partition("/")
        if name >= shard_name(sharding.map, 0):  # names come in the order of their maps
            break
        folder, _, inside = rest.partition("/")
        wal = folder.partition("-")[0] == paths.WAL[:-1] and inside.startswith(f"{paths.ENTRIES}/")
        if folder == paths.DATA or wal:
            names[name] = None
    return names


def clear_shard(place: ShardPlace, *, keep_ms: int) -> None:
    """Let a sealed shard go of its rows."""
    manifest = place.manifest()
    state = None if manifest is None else manifest.read()
    if manifest is None or state is None or not state.sealed:
        return
    time = StoreTime(manifest)
    tidy(place, manifest, ended(state) or _end(place), time=time)
    remove_dropped(place, manifest, keep_ms=keep_ms, time=time)
    state = manifest.read()
    shorten_old_wals(place, state)
    named = {paths.data(name) for name in (*(one.name for one in state.dropped), *pinned_names(state))}
    keys = (info.key for info in place.store.list(paths.DATA))
    place.store.delete(key for key in keys if key not in named and paths.parse_data(key) is not None)


def _end(place: ShardPlace) -> Cursor:
    logs = place.read(now=True)
    return Cursor() if logs is None else to_cursor(logs.wal.tip())


def _sealed(who: str, where: WalPlace | None, state: ShardState) -> ShardState | None:
    """The shard sealed, if its WAL is the one that is to be fenced, or none is needed and so it was closed."""
    if state.sealed:
        return None
    if not state.epoch and where is not None:  # nobody wrote to it: it has this one, and nothing is in it
        state = msgspec.structs.replace(state, wal=where, closed=None if where.store is None else Cursor())
    elif ended(state) is None if where is None else state.wal != where:
        return None
    return msgspec.structs.replace(state, sealed=True, epoch=state.epoch + 1, writer=who)
