"""The shards of a table, as far as a reader can know them.

What must hold: a shard that can't be read has its error in its own line; no more of a WAL is read than is bounded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from siltstone.console.cells import cut, time_text
from siltstone.errors import SiltstoneError
from siltstone.shard.fresh import unmerged
from siltstone.shard.manifest import later
from siltstone.shard.together import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.console.root import Held
    from siltstone.format.shard import ShardState
    from siltstone.shard.snapshot import ShardReader
    from siltstone.table.state import State

GENERATIONS_MAX = 50
LOOKS_MAX = 5
TAIL_ENTRIES_MAX = 2000  # of a WAL whose rows are counted; of a longer one only entries are


def list_shards(held: Held, *, offset: int, limit: int, tell: Callable[[SiltstoneError], Any]) -> dict[str, Any]:
    """Some of the shards; ``tell`` makes a document of an error."""
    state = held.state(kept_s=0)
    for _ in range(LOOKS_MAX):
        names = sorted(state.shards)[offset : offset + limit]
        readers = [held.table._shards.reader(name, state) for name in names]  # noqa: SLF001 - a reader's view
        found = together(partial(_shard, state, tell), readers, held.log.store)
        before, state = state, held.state(kept_s=0)
        if state.shards == before.shards:  # else rows were merged meanwhile, and would be seen nowhere
            break
    return {
        "version": state.version,
        "total": len(state.shards),
        "keyed": state.sharding is not None,
        "shards": found,
        "waiting_entries": sum(one.get("lag", 0) for one in found),
        "waiting_rows": sum(one.get("unmerged_rows", 0) for one in found),
    }


def _shard(state: State, tell: Callable[[SiltstoneError], Any], reader: ShardReader) -> dict[str, Any]:
    name = reader.place.name
    merged = state.shards[name]
    document: dict[str, Any] = {"name": name, "merged_until": merged.position}
    try:
        manifest = reader.place.manifest()
        if manifest is None:
            return document | {"state": "never written", "epoch": 0}
        found = manifest.read()
        document |= _manifest(found)
        end = reader.end(merged)
        start = later(found.replay_from, merged).position
        lag = 0 if end is None else max(0, end.position - start)
        document |= {"wal_end": 0 if end is None else end.position, "lag": lag}
        return document | _waiting(reader, state, lag)
    except SiltstoneError as error:
        return document | {"state": "unreadable", "error": tell(error)}


def _manifest(state: ShardState) -> dict[str, Any]:
    said = "sealed" if state.sealed else "closed" if state.closed is not None else "claimed"
    return {
        "state": said if state.epoch else "never written",
        "epoch": state.epoch,
        "writer": cut(state.writer, 100),
        "claimed": time_text(state.claimed_ms) if state.claimed_ms else None,
        "replay_from": state.replay_from.position,
        "generation": state.generation,
        "last_error": cut(state.error),
        "pins": len(state.pins),
        "wal": None if state.wal.store is None else state.wal.store.uri,
    }


def _waiting(reader: ShardReader, state: State, lag: int) -> dict[str, Any]:
    """What is not in the table yet: flushed generations, and rows that are in the WAL alone."""
    merged = state.shards[reader.place.name]
    if lag > TAIL_ENTRIES_MAX:
        manifest = reader.place.manifest()
        files = [] if manifest is None else [one for one in manifest.read().fragments if one.until > merged.position]
        tail = None
    else:
        snapshot = reader.snapshot(state.schema, merged)
        files = unmerged(snapshot, merged.position)
        tail = snapshot.tail
    flushed = sum(one.fragment.rows for one in files)
    tail_rows = None if tail is None else sum(one.rows.num_rows for one in tail)
    return {
        "generations": [
            {
                "generation": one.generation,
                "rows": one.fragment.rows,
                "bytes": one.fragment.bytes,
                "first": one.first,
                "until": one.until,
            }
            for one in files[:GENERATIONS_MAX]
        ],
        "flushed_files": len(files),
        "flushed_rows": flushed,
        "flushed_bytes": sum(one.fragment.bytes for one in files),
        "tail_rows": tail_rows,
        "tail_bytes": None if tail is None else sum(one.nbytes for one in tail),
        "unmerged_rows": flushed + (tail_rows or 0),
    }
