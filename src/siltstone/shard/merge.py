"""Merging shards into their table: rows of the WAL and of shard fragments become fragments of the table.

What must hold:
- A version takes the rows of a shard's positions from ``merged_until`` up to some mark, each key's newest one, and
  moves ``merged_until`` there. So no row is taken twice, and none is passed over, whoever merges and however often.
- What is merged is newer than what the table had: rows with the same keys are masked, deleted keys too.
- A change of rows that is made at the table comes behind all that was durable in shards when it was asked for.
- A shard lets go of fragments and of entries of its WAL only when a version that has their rows is committed. Their
  objects stay for those who read them, for a time that the store's own clock measures, whoever merges.
- Whatever else is committed in between, the merge is prepared anew from where the cursor is then.
"""

from __future__ import annotations

import contextlib
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from siltstone import paths
from siltstone.errors import (
    ConflictError,
    CorruptionError,
    MissingObjectError,
    SiltstoneError,
    TruncatedError,
    UnavailableError,
)
from siltstone.format.shard import Dropped
from siltstone.log.truncate import store_now_ms
from siltstone.shard.chunks import DELETED, POSITION, newest, shard_schema
from siltstone.shard.flush import fold, truncate_wal
from siltstone.shard.fresh_keys import HIDDEN
from siltstone.shard.manifest import later, to_cursor, to_mark
from siltstone.shard.pins import pinned_names
from siltstone.shard.rows import header_of, ids_of
from siltstone.shard.together import together
from siltstone.shard.wal import WalTailer
from siltstone.table.inserts import write_rows
from siltstone.table.keys import key_array, last_of_each
from siltstone.table.lookup import candidates, match_keys
from siltstone.table.operations import Append, Upsert, Work
from siltstone.table.schema import key_fields
from siltstone.table.tools import make_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from siltstone.format.shard import ShardState
    from siltstone.format.table import Cursor, Field, Schema, ShardFragment
    from siltstone.log import Mark
    from siltstone.shard.manifest import Manifest
    from siltstone.shard.place import Logs, ShardPlace
    from siltstone.shard.snapshot import ShardReader, Snapshot
    from siltstone.table.draft import Draft
    from siltstone.table.once import Once
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

RUN_AGAIN = "run_again"  # a fact of errors: all there is to do about them
KEEP_DROPPED_MS = 600_000  # fragments of a shard stay for those who read them


class Taken(NamedTuple):
    """What a merge takes of one shard, written already."""

    until: Cursor
    rows: Append | Upsert | None
    gone: pa.Table | None  # keys whose rows are to go
    found: Mapping[str, NDArray[np.int64]] | None = None  # rows with these keys by fragment, where someone looked


class Settle(Work):
    """Takes what is durable in shards into the version that is being made, before anything else in it.

    ``readers`` gives those of the shards that are to be read, of a version; ``now`` the newest one, where something
    can't be read with the columns of the version that is under way. With ``accompanies`` it is done for the
    sake of other operations, and with ``drops`` they leave none of its rows: then no row is written. With ``taken``,
    what others prepared is put, and nothing else: a shard whose cursor or columns are others by then is left as it is.
    """

    operation = "merge"

    def __init__(
        self,
        readers: Callable[[State], Sequence[ShardReader]],
        *,
        now: Callable[[], State] | None = None,
        accompanies: bool = False,
        drops: bool = False,
        taken: Mapping[tuple[str, int, Schema], Taken] | None = None,
    ) -> None:
        self._readers = readers
        self._now = now
        self.accompanies = accompanies
        self._take = _take_none if drops else _take
        # What is before a mark of a WAL never changes: what was taken from one cursor on can be put again.
        self._taken: dict[tuple[str, int, Schema], Taken] = dict(taken or {})
        self._prepared = taken is not None

    def run(self, draft: Draft) -> None:
        """Reads shards from where the version's cursors are, and writes fragments; those it wrote before are reused."""
        readers = [one for one in self._readers(draft.state) if self._is_put(draft, one)]
        draft.depends(shards=frozenset(one.place.name for one in readers))
        counts = draft.counts
        state, schema = draft.state, draft.schema

        def take(reader: ShardReader) -> Taken:
            merged = state.shards[reader.place.name]
            place = (reader.place.name, merged.position, schema)
            if place not in self._taken:
                self._taken[place] = self._read(draft, reader, merged)
            return self._taken[place]

        written: set[str] = set()
        for reader, taken in zip(readers, together(take, readers, draft.tools.store), strict=True):
            self._put(draft, reader.place.name, state.shards[reader.place.name], taken, written)
        if self.accompanies:
            draft.counts = counts  # people are told what became of what they asked for

    def _read(self, draft: Draft, reader: ShardReader, merged: Cursor) -> Taken:
        try:
            return self._take(draft, reader, merged)
        except CorruptionError as error:
            if self._now is None or self._now().schema == draft.schema:
                raise
            # Rows of the columns of now can't be read with those of before.
            raise ConflictError(
                f"columns were changed while shard {reader.place.name} was read",
                hint="nothing was changed; run it again",
                **{RUN_AGAIN: True},
            ) from error

    def _is_put(self, draft: Draft, reader: ShardReader) -> bool:
        name = reader.place.name
        return not self._prepared or (name, draft.state.shards[name].position, draft.schema) in self._taken

    @staticmethod
    def _put(draft: Draft, shard: str, merged: Cursor, taken: Taken, written: set[str]) -> None:
        """Put what was taken of a shard; ``written`` are fragments of others, which have none of its keys."""
        if taken.until.position <= merged.position:
            return
        put_rows(draft, taken, written)
        draft.set_shards({shard: taken.until})


def put_rows(draft: Draft, taken: Taken, written: set[str]) -> None:
    """Put the rows that were taken of a shard, and let those go whose keys it deleted; adds to ``written``."""
    if taken.rows is not None or taken.gone is not None:
        draft.depends(rows=True, columns=True)
    if taken.gone is not None:
        gone = 0
        for live in candidates(draft.state, taken.gone):
            if live.fragment.name in written:
                continue
            rows = None if taken.found is None else taken.found.get(live.fragment.name)
            if rows is None:
                rows, _ = match_keys(draft.tools, live, taken.gone, draft.schema)
            gone += draft.delete(live, draft.left(live, rows))
        draft.count(deleted=gone)
    if taken.rows is not None:
        taken.rows.apart = frozenset(written)
        taken.rows.run(draft)
        written |= {one.name for one in taken.rows.inserted.fragments}


def _take_none(draft: Draft, reader: ShardReader, merged: Cursor) -> Taken:
    del draft
    end = reader.end(merged)
    return Taken(merged if end is None else to_cursor(end), None, None)


def _take(draft: Draft, reader: ShardReader, merged: Cursor) -> Taken:
    snapshot = reader.snapshot(draft.schema, merged)
    if snapshot.until is None or snapshot.until.position <= merged.position:
        return Taken(merged, None, None)
    try:
        return write_taken(draft, snapshot, snapshot.until, merged)
    except MissingObjectError as error:
        if reader.names(snapshot.state.fragments):
            raise
        raise ConflictError(
            f"shard {snapshot.shard} was merged by another, and let go of what was being read",
            hint="nothing was changed; run it again",
            **{RUN_AGAIN: True},
        ) from error


def write_taken(draft: Draft, snapshot: Snapshot, until: Mark, merged: Cursor) -> Taken:
    """Write the rows of a shard from ``merged`` on as fragments of the table."""
    gone: list[pa.Table] = []
    rows = unmerged_rows(draft.tools, snapshot, draft.schema, merged.position, gone)
    inserted = write_rows(draft.tools, draft.schema, rows, base=draft.begun.version, twice="refuse")
    work: Append | Upsert | None = None
    if inserted.fragments:
        work = Upsert(inserted) if draft.schema.key else Append(inserted)
    return Taken(to_cursor(until), work, pa.concat_tables(gone) if gone else None)


def unmerged_rows(
    tools: Tools, snapshot: Snapshot, schema: Schema, merged: int, gone: list[pa.Table]
) -> Iterator[pa.Table]:
    """The newest row of each key, source by source; the keys of tombstones go to ``gone``."""
    values = shard_schema(schema).fields[: -len(HIDDEN)]
    sources = _sources(tools, snapshot, schema, merged)
    # First the keys of all of them, which say which rows of each one count; then those rows.
    heads = [read((*key_fields(schema), *HIDDEN)) for read in sources]
    for read, head, counts in zip(sources, heads, _counting(heads, schema, merged), strict=True):
        dead = head.column(DELETED).to_numpy() & counts
        if dead.any():
            gone.append(head.filter(pa.array(dead)).drop_columns([POSITION, DELETED]))
        live = counts & ~dead
        if live.any():
            rows = read(values)
            yield rows if live.all() else rows.filter(pa.array(live))


def _counting(heads: Sequence[pa.Table], schema: Schema, merged: int) -> list[NDArray[np.bool_]]:
    """Which rows of each source are not merged and have no newer one of their key, tombstones too."""
    counts = [head.column(POSITION).to_numpy() >= merged for head in heads]
    if not schema.key or len(heads) < 2:
        return counts
    names = [one.name for one in key_fields(schema)]
    keys = pa.concat_tables([head.select(names) for head in heads], promote_options="default")
    newest_ones = np.zeros(keys.num_rows, np.bool_)
    newest_ones[last_of_each(key_array(keys, names))] = True
    ends = np.cumsum([head.num_rows for head in heads])
    return [one & some for one, some in zip(counts, np.split(newest_ones, ends[:-1]), strict=True)]


def _sources(
    tools: Tools, snapshot: Snapshot, schema: Schema, merged: int
) -> list[Callable[[Sequence[Field]], pa.Table]]:
    """What reads some columns of a shard's fragments and of its WAL's rows, the oldest first; none has a key twice."""
    own = make_tools(snapshot.store, tools.env)

    def fragment(one: ShardFragment, fields: Sequence[Field]) -> pa.Table:
        file = own.files.open(one.fragment)
        return pa.concat_tables([file.read(group, fields) for group in range(len(file.groups))])

    def tail(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
        return rows.select([field.name for field in fields])

    found = [partial(fragment, one) for one in snapshot.state.fragments if one.until > merged]
    if not snapshot.tail:
        return [*found]
    return [*found, partial(tail, newest(snapshot.tail, [one.name for one in key_fields(schema)]))]


# -- afterwards ------------------------------------------------------------------------------------


class StoreTime:
    """The time by the store's clock, asked for when it is first needed: those of two who merge may differ by hours."""

    def __init__(self, manifest: Manifest) -> None:
        self._log = manifest.log

    @cached_property
    def now_ms(self) -> int:
        """As of the first look, so that what seems young may be older; never the other way round."""
        return store_now_ms(self._log)


def tidy(
    place: ShardPlace,
    manifest: Manifest,
    merged: Cursor,
    *,
    time: StoreTime | None = None,
    reader: ShardReader | None = None,
) -> ShardState:
    """Let a shard drop what is merged, and its WAL begin behind it. May be run by anyone, at any time, again.

    A ``reader`` of the shard that has read its WAL just now saves reading it again.
    """
    time = time or StoreTime(manifest)
    applied = _applied(place, manifest, merged, reader)

    def edit(state: ShardState) -> ShardState | None:
        kept = tuple(one for one in state.fragments if one.until > merged.position)
        dropped = [
            Dropped(name=one.fragment.name, dropped_ms=time.now_ms)
            for one in state.fragments
            if one.until <= merged.position
        ]
        new = fold(state, applied) if merged.position > state.replay_from.position else state
        new = msgspec.structs.replace(
            new,
            fragments=kept,
            dropped=(*state.dropped, *dropped),
            replay_from=later(state.replay_from, merged),
        )
        return None if new == state else new

    state = manifest.change(edit)
    truncate_wal(place, state)
    return state


def _applied(place: ShardPlace, manifest: Manifest, merged: Cursor, reader: ShardReader | None) -> list[Once]:
    """Ids of puts in entries that are merged, and that the manifest does not know yet."""
    for _ in place.log.env.tries():
        state = manifest.read()
        if merged.position <= state.replay_from.position:
            return []
        logs = place.read(now=True)  # the WAL is needed, and it may have been moved
        if logs is None:
            raise place.lost(paths.shard(place.name) + paths.MANIFEST)
        known = None if reader is None else reader.ids(logs.wal, state.replay_from, merged)
        if known is not None:
            return known
        try:
            return _ids(logs, state, merged)
        except TruncatedError:  # flushed or merged further since, and noted in the manifest before
            continue
    raise UnavailableError(
        f"the WAL of shard {place.name} was truncated all the time while it was read", hint="try again"
    )


def _ids(logs: Logs, state: ShardState, merged: Cursor) -> list[Once]:
    found: list[Once] = []
    for entry in WalTailer(logs.wal, after=state.replay_from).entries(to_mark(merged, logs.wal)):
        if entry.kind == "data" and not entry.dead:
            found += ids_of(header_of(entry.body, name=f"{logs.wal.root}entry {entry.position}"))
    return found


def remove_dropped(
    place: ShardPlace, manifest: Manifest, *, keep_ms: int = KEEP_DROPPED_MS, time: StoreTime | None = None
) -> int:
    """Delete objects of fragments that were dropped long enough ago, and that nobody pinned; how many."""
    time = time or StoreTime(manifest)
    state = manifest.read()
    pinned = pinned_names(state)
    doomed = [one for one in state.dropped if one.dropped_ms <= time.now_ms - keep_ms and one.name not in pinned]
    if not doomed:
        return 0
    place.store.delete(paths.data(one.name) for one in doomed)
    names = {one.name for one in doomed}

    def edit(state: ShardState) -> ShardState | None:
        kept = tuple(one for one in state.dropped if one.name not in names)
        return None if kept == state.dropped else msgspec.structs.replace(state, dropped=kept)

    manifest.change(edit)
    return len(doomed)


def tidy_all(readers: Sequence[ShardReader], shards: Mapping[str, Cursor], *, keep_ms: int = KEEP_DROPPED_MS) -> None:
    """Tidy several shards. Best effort: the next merge goes on."""

    def clean(reader: ShardReader) -> None:
        merged = shards.get(reader.place.name)
        with contextlib.suppress(SiltstoneError):
            manifest = reader.place.manifest()
            if manifest is not None and merged is not None and merged.position:
                time = StoreTime(manifest)
                tidy(reader.place, manifest, merged, time=time, reader=reader)
                remove_dropped(reader.place, manifest, keep_ms=keep_ms, time=time)

    if readers:
        together(clean, readers, readers[0].place.log.store)
