"""Where the WAL of a shard is, and what still needs it.

What must hold: nothing is written, and a store that was not given, or that is not there, is no error here: what the
manifest says is told all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import SiltstoneError
from siltstone.format.shard import ShardState
from siltstone.shard.manifest import ended

if TYPE_CHECKING:
    from siltstone.shard.place import ShardPlace
    from siltstone.shard.snapshot import ShardReader
    from siltstone.table.state import State


@dataclass(frozen=True)
class WalStatus:
    """One shard's WAL."""

    shard: str
    uri: str  # the store that it is in
    store: str | None  # the id of that store; None for the table's own
    path: str  # where it is in there
    first: int | None  # the position of its first entry; None where it could not be looked at
    next: int | None  # that of the next one
    replay_from: int  # entries before it are in fragments, or in the table
    merged_until: int  # those before it are in the table
    epoch: int
    writer: str
    needs: tuple[str, ...]  # what still needs it; empty where nothing does
    problem: str  # why it could not be looked at


def wal_status(reader: ShardReader, table: State) -> WalStatus:
    """What there is to be said of one shard's WAL."""
    place, merged = reader.place, table.shards[reader.place.name].position
    manifest = place.manifest()
    state = ShardState() if manifest is None else manifest.read()
    where = state.wal.store if state.epoch else table.wal
    first, end, problem = _looked(place, state)
    return WalStatus(
        shard=place.name,
        uri=place.log.store.uri if where is None else where.uri,
        store=None if where is None else where.id,
        path=paths.wal(place.name, state.wal.begins),
        first=first,
        next=end,
        replay_from=state.replay_from.position,
        merged_until=merged,
        epoch=state.epoch,
        writer=state.writer,
        needs=tuple(_needs(state, table, merged=merged, end=end)),
        problem=problem,
    )


def _looked(place: ShardPlace, state: ShardState) -> tuple[int | None, int | None, str]:
    """Where the WAL begins and ends, or why that is not known."""
    if not state.epoch:
        return 0, 0, ""
    try:
        logs = place.read()
        if logs is None:
            return 0, 0, ""
        return logs.wal.first().position, logs.wal.tip().position, ""
    except SiltstoneError as error:
        return None, None, error.message


def _needs(state: ShardState, table: State, *, merged: int, end: int | None) -> list[str]:
    found: list[str] = []
    start = max(state.replay_from.position, merged)
    if ended(state) is None and state.epoch:
        if end is None:
            found.append(f"rows from position {start} on, if there are any")
        elif end > start:
            count = end - start
            found.append(f"{count} {'entry' if count == 1 else 'entries'} from position {start} on: not flushed")
        if merged > state.replay_from.position:
            found.append(f"entries before {merged}: merged, which the shard has not noted yet")
        if state.closed is None and not state.sealed:
            found.append(f"the writer of epoch {state.epoch}{_called(state)}: it was not closed")
    names = {one.pin: name for name, one in table.checkpoints.items()}
    last = state.replay_from.position if end is None else end
    for pin, one in state.pins.items():
        if state.wal.begins <= one.replay_from.position < last:
            name = names.get(pin)
            who = f"checkpoint {name}" if name else "a checkpoint that is gone, until the next collection"
            found.append(f"{who}: entries from position {one.replay_from.position} on")
    return found


def _called(state: ShardState) -> str:
    return f" ({state.writer})" if state.writer else ""
