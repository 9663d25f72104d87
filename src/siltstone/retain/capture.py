"""What a checkpoint of scope ``durable`` keeps of shards: captured, read again, and let go.

What must hold:
- The entry of a shard's manifest that puts the pin is the capture; the end of the WAL is read behind it. So every row
  that was acknowledged before is in it, or in the table as it is afterwards.
- Nobody who writes a shard is disturbed: nothing is claimed, fenced or flushed.
- What was captured is read strictly. An entry that is not there is an error, never a smaller checkpoint.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import MissingObjectError, NotFoundError, SiltstoneError
from siltstone.format.shard import ShardState
from siltstone.format.table import KeptShard
from siltstone.log import Mark
from siltstone.shard.flush import truncate_wal
from siltstone.shard.manifest import ended, later, to_cursor, to_mark
from siltstone.shard.merge import remove_dropped
from siltstone.shard.pins import add_pin, remove_pins
from siltstone.shard.snapshot import Snapshot
from siltstone.shard.together import together
from siltstone.shard.wal import WalTailer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from siltstone.format.table import Checkpoint, Cursor, Schema
    from siltstone.log import Log
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.place import ShardPlace
    from siltstone.shard.shards import Shards
    from siltstone.shard.snapshot import ShardReader
    from siltstone.table.state import State


def capture(readers: Sequence[ShardReader], pin: str, shards: Mapping[str, Cursor]) -> dict[str, KeptShard]:
    """Pin shards, and say what they hold; those that nobody wrote to are left out."""
    if not readers:
        return {}

    def take(reader: ShardReader) -> KeptShard | None:
        return _captured(reader.place, pin, merged=shards[reader.place.name])

    kept = together(take, readers, readers[0].place.log.store)
    return {reader.place.name: one for reader, one in zip(readers, kept, strict=True) if one is not None}


def _captured(place: ShardPlace, pin: str, *, merged: Cursor) -> KeptShard | None:
    manifest = place.manifest()
    if manifest is None:
        if merged.position:
            raise place.lost(paths.shard(place.name) + paths.MANIFEST + paths.IDENTITY)
        return None
    if not manifest.read().epoch:  # its first writer is about to claim it
        return None
    state = add_pin(manifest, pin)
    until = ended(state)
    if until is None:
        wal = _captured_wal(place, state)
        until = to_cursor(wal.tip(to_mark(state.replay_from, wal)))
    return KeptShard(replay_from=state.replay_from, until=until, fragments=state.fragments, wal=state.wal)


def _captured_wal(place: ShardPlace, state: ShardState) -> Log:
    """The WAL that the captured state names; the shard may have another one by now."""
    logs = place.read()
    if logs is not None and logs.where == state.wal:
        return logs.wal
    try:
        return place.open_wal(state.wal)
    except NotFoundError as error:
        raise place.lost(paths.wal(place.name, state.wal.begins)) from error


# -- reading ---------------------------------------------------------------------------------------


def kept_snapshots(shards: Shards, state: State, checkpoint: Checkpoint) -> list[Snapshot]:
    """What shards hold beyond the version ``state`` of a checkpoint, to be laid over it as a fresh read does.

    Raises:
        MissingObjectError: an entry of a WAL that belongs to it is gone.
    """
    places = [shards.reader(name, state).place for name in checkpoint.shards if name in state.shards]

    def read(place: ShardPlace) -> Snapshot:
        return kept_snapshot(place, checkpoint.shards[place.name], state.schema, state.shards[place.name])

    return together(read, places, places[0].log.store) if places else []


def kept_snapshot(place: ShardPlace, kept: KeptShard, schema: Schema, merged: Cursor) -> Snapshot:
    """One shard as it was captured; rows before ``merged``, which are in the table, may be left out."""
    start, end = later(kept.replay_from, merged), kept.until
    state = ShardState(replay_from=kept.replay_from, fragments=kept.fragments, wal=kept.wal)
    until = Mark(end.position, end.epoch, end.digest) if end.position else None
    chunks: tuple[Chunk, ...] = ()
    if until is not None and start.position < until.position:
        chunks = _kept_rows(place, kept, schema, start=start, until=until)
    return Snapshot(place.name, state, place.store, chunks, until)


def _kept_rows(place: ShardPlace, kept: KeptShard, schema: Schema, *, start: Cursor, until: Mark) -> tuple[Chunk, ...]:
    try:
        tailer = WalTailer(place.open_wal(kept.wal), after=start)
        chunks = tuple(one.chunk for one in tailer.read(schema, until))
    except NotFoundError as error:  # the WAL, or its beginning
        raise _gone(place, kept, error.message) from error
    if tailer.end != until:
        raise _gone(place, kept, f"it was read up to entry {tailer.end.position - 1}")
    return chunks


def _gone(place: ShardPlace, kept: KeptShard, why: str) -> MissingObjectError:
    last = kept.until.position - 1
    return MissingObjectError(
        f"the checkpoint has entries {kept.replay_from.position} to {last} of the WAL of shard {place.name}, and not "
        f"all of them are there: {why}",
        hint="a checkpoint that was deleted while it was read is gone; else put the objects of the WAL back",
        shard=place.name,
    )


# -- letting go ------------------------------------------------------------------------------------


def release(shards: Shards, now: Callable[[], State], also: Iterable[str] = ()) -> int:
    """Let shards go of what no checkpoint needs any more; how many pins went.

    ``now`` gives the newest version of the table; it is asked when all manifests were read. Shards from before a split
    count too, and those that ``also`` names. Best effort: what stays, the next call removes.
    """
    state = now()
    names = dict.fromkeys((*state.shards, *also))
    with contextlib.suppress(SiltstoneError):
        names |= dict.fromkeys(shards.left_behind(state))
    places = [shards.reader(name, state).place for name in names]
    if not places:
        return 0
    each = together(_pins, places, places[0].log.store)
    pinned = [(place, pins) for place, pins in zip(places, each, strict=True) if pins]
    if not pinned:
        return 0
    live = {one.pin for one in now().checkpoints.values()}
    doomed = [(place, gone) for place, pins in pinned if (gone := pins - live)]
    return sum(together(_let_go, doomed, doomed[0][0].log.store)) if doomed else 0


def _pins(place: ShardPlace) -> frozenset[str]:
    with contextlib.suppress(SiltstoneError):
        manifest = place.manifest()
        return frozenset() if manifest is None else frozenset(manifest.read().pins)
    return frozenset()


def _let_go(one: tuple[ShardPlace, frozenset[str]]) -> int:
    place, gone = one
    with contextlib.suppress(SiltstoneError):
        manifest = place.manifest()
        if manifest is not None:
            truncate_wal(place, remove_pins(manifest, gone))
            remove_dropped(place, manifest)
            return len(gone)
    return 0
