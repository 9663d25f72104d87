"""From a memtable to a fragment of the shard.

What must hold:
- The fragment is at its place before the manifest names it; one that never gets named is garbage.
- The manifest's entry adds it and moves ``replay_from`` in one step, and only for the writer with the highest epoch.
- Each key is in it once: the row that was put last, or the mark that it was deleted. What is merged is left out.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import SiltstoneError
from siltstone.format.table import ShardFragment
from siltstone.shard.chunks import POSITION, shard_schema
from siltstone.shard.manifest import later, to_mark
from siltstone.shard.pins import keep_from
from siltstone.table.fragment import FragmentWriter
from siltstone.telemetry import metrics, seams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from siltstone.format.shard import ShardState
    from siltstone.format.table import Cursor
    from siltstone.shard.memtable import MemTable
    from siltstone.shard.place import Logs, ShardPlace
    from siltstone.table.once import Once


def _into_fragment(place: ShardPlace, *_: object, **__: object) -> Mapping[str, str]:
    return {"table": place.log.store.uri, "into": "fragment"}


@seams.traced(
    "siltstone.memtable.flush", about=_into_fragment, count=metrics.SHARD_FLUSHES, seconds=metrics.SHARD_FLUSH_SECONDS
)
def flush_memtable(
    place: ShardPlace,
    logs: Logs,
    table: MemTable,
    *,
    epoch: int,
    end: Cursor,
    merged: int,
    applied: Sequence[Once],
) -> ShardState:
    """Flush a memtable whose rows are all in the WAL before ``end``; the shard's state then.

    Raises:
        FencedError: another writer claimed the shard.
    """
    first = table.first_position
    added = _write(place, table, first=first, until=end.position, merged=merged)

    def edit(state: ShardState) -> ShardState | None:
        logs.manifest.check_mine(state, epoch)
        if state.generation > table.generation:
            return None  # an earlier try was recorded, and its answer was lost
        return msgspec.structs.replace(
            fold(state, applied),
            generation=table.generation + 1,
            fragments=(*state.fragments, *added),
            replay_from=later(end, state.replay_from),
        )

    state = logs.manifest.change(edit)
    truncate_wal(place, state)  # by a handle of its own, so that puts don't wait for it
    return state


def fold(state: ShardState, applied: Sequence[Once]) -> ShardState:
    """A state that knows what was applied by entries that need not be there any more."""
    ids = dict.fromkeys((*state.once, *(one.id for one in applied if one.id)))
    batches = dict(state.batches)
    for one in applied:
        if one.stream:
            batches[one.stream] = max(one.batch, batches.get(one.stream, -1))
    return msgspec.structs.replace(state, once=tuple(ids), batches=batches)


def truncate_wal(place: ShardPlace, state: ShardState) -> None:
    """Remove what the WAL has before ``replay_from``, unless it is pinned. Best effort: whoever comes next goes on."""
    start = keep_from(state)
    if not start.position:
        return
    with contextlib.suppress(SiltstoneError):  # also where it is in a store that was not given
        logs = place.read()
        if logs is not None and logs.where != state.wal:  # it was moved since this handle looked
            logs = place.read(now=True)
        if logs is not None:
            logs.wal.truncate(to_mark(start, logs.wal))


def _write(place: ShardPlace, table: MemTable, *, first: int, until: int, merged: int) -> list[ShardFragment]:
    rows = table.newest()
    if merged > first:
        rows = rows.filter(pc.greater_equal(rows.column(POSITION), pa.scalar(merged, pa.int64())))
    if not rows.num_rows:
        return []
    env = place.log.env
    with FragmentWriter(place.store, shard_schema(table.schema), base=table.generation, env=env, threads=1) as writer:
        writer.write(rows)
        written = writer.finish()
    return [
        ShardFragment(fragment=one.fragment, generation=table.generation, first=max(first, merged), until=until)
        for one in written
    ]
