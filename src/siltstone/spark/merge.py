"""Merging shards in tasks: they read what is durable, write fragments and look for older rows; the driver commits.

What must hold:
- What a task read of a shard goes into a version that begins where the task began, and into no other: where another
  merged meanwhile, or columns were changed, the work is thrown away and done again.
- A task holds a bounded part of a WAL; what lies behind it is for the next version.
- A shard lets go of its rows when the version that has them is committed.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from siltstone.api.staging import Staging
from siltstone.errors import ConflictError, MissingObjectError, TruncatedError, UnavailableError
from siltstone.format.shard import ShardState
from siltstone.shard.manifest import ended, later, to_cursor
from siltstone.shard.merge import Settle, Taken, tidy_all, unmerged_rows
from siltstone.shard.snapshot import ShardReader, Snapshot
from siltstone.shard.wal import WalTailer
from siltstone.spark.arguments import as_table, check_session, session_first
from siltstone.spark.workers import run_tasks
from siltstone.table.inserts import Inserted
from siltstone.table.lookup import candidates, match_keys
from siltstone.table.near import near_fragments
from siltstone.table.operations import Append, Upsert
from siltstone.table.staged import Met, Staged, StoredKeys, as_matched, meet, stage_rows
from siltstone.telemetry import metrics, seams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.format.rollup import Live
    from siltstone.format.table import Cursor, Fragment, Schema
    from siltstone.shard.chunks import Chunk
    from siltstone.shard.place import Logs, ShardPlace
    from siltstone.table.operations import Matched
    from siltstone.table.staged import Site
    from siltstone.table.versions import Version

TAIL_BYTES_MAX = 128 * 1024 * 1024  # rows of a WAL that a task takes, but for a single entry that has more
ROUNDS_MAX = 1_000


class _From(NamedTuple):
    """A shard, and where a merge of it begins."""

    name: str
    merged: Cursor


class _Read(NamedTuple):
    """What a task took of a shard, written already."""

    begin: _From
    until: Cursor
    staged: Staged
    gone: pa.Table | None
    more: bool  # whether the WAL goes on behind it


class _Meeting(NamedTuple):
    """A fragment of the table, and what may have keys of it."""

    live: Live
    written: dict[int, Fragment]
    shards: list[int]  # whose deleted keys may be there


class _Found(NamedTuple):
    met: Met
    gone: dict[int, np.ndarray]  # rows of the fragment, by the number of the shard


@seams.traced(
    "siltstone.merge",
    about=lambda _, table: {"table": table.uri},  # a URI is given as it is, and not told
    count=metrics.MERGES,
    seconds=metrics.MERGE_SECONDS,
)
@session_first
def merge_shards(spark: SparkSession, table: Table | str) -> Version:
    """Take all that is durable in the shards into the table, and let the shards drop it; the last version made of it.

    That is one version, or several where the shards hold much. Writers go on meanwhile.
    """
    check_session(spark)
    table = as_table(table)
    done: Version | None = None
    for _ in range(ROUNDS_MAX):
        staging = Staging(table)
        version, more = _merge(spark, table, staging)
        done = version if done is None or version.operation != "none" else done
        if not more:
            return done
    raise ConflictError(
        f"shards or columns were changed by others {ROUNDS_MAX} times while they were merged", hint="try again"
    )


def _merge(spark: SparkSession, table: Table, staging: Staging) -> tuple[Version, bool]:
    """One version, and whether there is more to merge."""
    state = staging.state
    places = [_From(name, merged) for name, merged in state.shards.items()]
    handle = pickle.dumps(table)
    told = run_tasks(spark, places, partial(_read, handle, staging.site, TAIL_BYTES_MAX))
    read = [one for one in told if one.until.position > one.begin.merged.position]
    taken = _taken(staging, read, _look(spark, staging, read))
    version = staging.commit([Settle(table._shards.readers, taken=taken)])  # noqa: SLF001 - as its own merge does
    now = Staging(table).state.shards
    ends = [_From(name, cursor) for name, cursor in now.items() if cursor.position]
    run_tasks(spark, ends, partial(_tidy, handle))
    behind = any(one.begin.name in now and now[one.begin.name].position < one.until.position for one in read)
    return version, behind or any(one.more for one in told)


def _look(spark: SparkSession, staging: Staging, read: Sequence[_Read]) -> list[_Found]:
    """Look for the keys that were read in the table, with a task for each fragment that may hold some."""
    state = staging.state
    if not state.schema.key:
        return []
    meetings: dict[str, _Meeting] = {}

    def meeting(live: Live) -> _Meeting:
        return meetings.setdefault(live.fragment.name, _Meeting(live, {}, []))

    written = [fragment for one in read for fragment in one.staged.fragments]
    for number, fragment in enumerate(written):
        for live in near_fragments(state, fragment):
            meeting(live).written[number] = fragment
    gone = {number: one.gone for number, one in enumerate(read) if one.gone is not None}
    for number, keys in gone.items():
        for live in candidates(state, keys):
            meeting(live).shards.append(number)
    return run_tasks(spark, list(meetings.values()), partial(_meet, staging.site, gone))


def _taken(staging: Staging, read: Sequence[_Read], found: Sequence[_Found]) -> dict[tuple[str, int, Schema], Taken]:
    """What was read, as the operation that commits it looks for it."""
    schema = staging.state.schema
    matched = as_matched([one.met for one in found], sum(len(one.staged.fragments) for one in read))
    taken: dict[tuple[str, int, Schema], Taken] = {}
    first = 0
    for number, one in enumerate(read):
        fragments = one.staged.fragments
        work: Append | Upsert | None = None
        if fragments and schema.key:
            keys = StoredKeys(staging.tools, schema, fragments)
            mine = _renumbered(matched, first, len(fragments))
            work = Upsert(Inserted(schema, fragments, keys), matched=mine)
        elif fragments:
            work = Append(Inserted(schema, fragments))
        first += len(fragments)
        rows = {each.met.name: each.gone[number] for each in found if number in each.gone}
        begin = one.begin
        taken[begin.name, begin.merged.position, schema] = Taken(one.until, work, one.gone, rows)
    return taken


def _renumbered(matched: Mapping[tuple[str, int], Matched], first: int, count: int) -> dict[tuple[str, int], Matched]:
    """What was found for some of all fragments, numbered from 0 on."""
    return {(name, number - first): rows for (name, number), rows in matched.items() if first <= number < first + count}


# -- in a task -------------------------------------------------------------------------------------


def _read(handle: bytes, site: Site, bytes_max: int, begin: _From) -> _Read:
    """Read what a shard has behind its cursor, and write the newest row of each key."""
    with pickle.loads(handle) as table:  # noqa: S301 - made by the driver of the same job
        reader = _reader(table, begin.name)
        snapshot, more = _prefix(reader, site, begin.merged, bytes_max)
        if snapshot.until is None or snapshot.until.position <= begin.merged.position:
            return _Read(begin, begin.merged, Staged(), None, more=False)
        gone: list[pa.Table] = []
        rows = unmerged_rows(site.tools(), snapshot, site.schema, begin.merged.position, gone)
        try:
            staged = stage_rows(site, rows, twice="refuse")
        except MissingObjectError:
            if reader.names(snapshot.state.fragments):
                raise
            # Another merged them, and the shard let go of them: the next round begins where that one ended.
            return _Read(begin, begin.merged, Staged(), None, more=True)
        return _Read(begin, to_cursor(snapshot.until), staged, pa.concat_tables(gone) if gone else None, more)


def _reader(table: Table, name: str) -> ShardReader:
    return ShardReader(table._shards.a_place(name))  # noqa: SLF001 - the handle's own


def _prefix(reader: ShardReader, site: Site, merged: Cursor, bytes_max: int) -> tuple[Snapshot, bool]:
    """The fragments of a shard and as much of its WAL behind them as a task may hold; whether there is more."""
    place = reader.place
    for _ in place.log.env.tries():
        manifest = place.manifest()
        state = None if manifest is None else manifest.read()
        if state is not None and ended(state) is not None:  # its WAL is not needed, and its store may be none of ours
            return reader.snapshot(site.schema, merged), False
        logs = place.read()
        if state is None or logs is None:
            return Snapshot(place.name, ShardState(), place.store, (), None), False
        try:
            return _follow(place, logs, state, site.schema, merged=merged, bytes_max=bytes_max)
        except TruncatedError:  # flushed or merged since: the manifest says so by now
            continue
    raise UnavailableError(f"shard {place.name} was flushed all the time while it was read", hint="try again")


def _follow(
    place: ShardPlace, logs: Logs, state: ShardState, schema: Schema, *, merged: Cursor, bytes_max: int
) -> tuple[Snapshot, bool]:
    tailer = WalTailer(logs.wal, after=later(state.replay_from, merged))
    tail: list[Chunk] = []
    size = 0
    for entry in tailer.read(schema):
        tail.append(entry.chunk)
        size += entry.chunk.nbytes
        if size >= bytes_max:
            return Snapshot(place.name, state, place.store, tuple(tail), entry.end), True
    return Snapshot(place.name, state, place.store, tuple(tail), tailer.end), False


def _meet(site: Site, gone: Mapping[int, pa.Table], meeting: _Meeting) -> _Found:
    """The rows of a fragment, deleted ones too, that have keys of what was read."""
    live, written = meeting.live, meeting.written
    met = meet(site, live, written) if written else Met(live.fragment.name, {})
    tools = site.tools()
    return _Found(met, {one: match_keys(tools, live, gone[one], site.schema)[0] for one in meeting.shards})


def _tidy(handle: bytes, end: _From) -> None:
    with pickle.loads(handle) as table:  # noqa: S301 - made by the driver of the same job
        tidy_all([_reader(table, end.name)], {end.name: end.merged})
