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
from typing import TYPE_CHECKING

import msgspec

from siltstone import paths
from siltstone.errors import ConflictError, FencedError, InvalidInputError, LimitExceededError, SiltstoneError
from siltstone.format.table import SHARDS_MAX, Cursor, Sharding
from siltstone.paths import shard_name
from siltstone.shard.manifest import to_cursor
from siltstone.shard.merge import KEEP_DROPPED_MS, remove_dropped, tidy
from siltstone.shard.place import ShardPlace
from siltstone.shard.together import together
from siltstone.table.operations import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.shard import ShardState
    from siltstone.log import Log
    from siltstone.shard.snapshot import ShardReader
    from siltstone.table.draft import Draft
    from siltstone.table.state import State


MAPS_MAX = 9999  # as the records of a table have it


class Reshard(Work):
    """Names the new shards; comes behind a merge of the old ones."""

    operation = "split"

    def __init__(self, count: int, old: Sharding | None) -> None:
        self._count = count
        self._old = old

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
        map_ = 0 if now is None else now.map + 1
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
        together(_seal, readers, readers[0].place.log.store)


def _seal(reader: ShardReader) -> None:
    logs = reader.place.write("split")
    try:
        state = logs.manifest.change(_sealed)
        try:
            logs.wal.fence(state.epoch)
        except FencedError:  # another one who splits was first
            if logs.wal.tip().epoch < state.epoch:
                raise
    finally:
        logs.wal.close()
        logs.manifest.log.close()


def clear(log: Log, state: State, *, keep_ms: int = KEEP_DROPPED_MS) -> None:
    """Let shards from before a split go of their rows, which are in the table. Best effort: the next call goes on."""
    if state.sharding is None or not state.sharding.map:
        return

    def clean(name: str) -> None:
        with contextlib.suppress(SiltstoneError):
            _clear(ShardPlace(log, name, None), keep_ms=keep_ms)

    with contextlib.suppress(SiltstoneError):
        together(clean, _left(log, state.sharding), log.store)


def _left(log: Log, sharding: Sharding) -> list[str]:
    """Shards of earlier maps that have rows left. Names come in the order of their maps."""
    names: dict[str, None] = {}
    for info in log.store.list(paths.SHARDS):
        name, _, rest = info.key.removeprefix(f"{paths.SHARDS}/").partition("/")
        if name >= shard_name(sharding.map, 0):
            break
        if rest.startswith((f"{paths.DATA}/", f"{paths.WAL}{paths.ENTRIES}/")):
            names[name] = None
    return list(names)


def _clear(place: ShardPlace, *, keep_ms: int) -> None:
    logs = place.read()
    if logs is None or not logs.manifest.read().sealed:
        return
    tidy(logs, to_cursor(logs.wal.tip()))
    remove_dropped(logs, place, keep_ms=keep_ms)
    named = {paths.data(one.name) for one in logs.manifest.read().dropped}
    place.store.delete(info.key for info in place.store.list(paths.DATA) if info.key not in named)


def _sealed(state: ShardState) -> ShardState | None:
    if state.sealed:
        return None
    return msgspec.structs.replace(state, sealed=True, epoch=state.epoch + 1, writer="split")
