"""What must hold of tables when everyone has gone home: all that is kept can be read, and nothing else is there.

A newcomer reads every version that is kept, writes, collects all there is to collect, and reads again. Then each object
of each table is one that a version, a manifest or the log needs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import SiltstoneError
from siltstone.format.records import decode_entry
from siltstone.format.shard import ShardState, decode_state
from siltstone.testing.sim.retain_agents import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.api.table import Table
    from siltstone.testing.sim.retain_book import KeptBucket, RetainBook, RetainShardBook
    from siltstone.testing.sim.retain_truth import Rows, TableTruth

DAYS_S = 2 * 86_400.0  # longer than anything is trusted or kept without a name
SEEN_MAX = 8  # of the versions that only the floor keeps, as many are read
LOG_FILES = (paths.IDENTITY, paths.HINT, paths.CLOCK)


def read_all(book: RetainBook | RetainShardBook, table: Table) -> None:
    """Read what is kept, in full."""
    truth = book.retention.tables[table.uri]
    now = truth.newest
    checkpoints = [one for one in table.checkpoints() if not one.pending]
    if {one.name for one in checkpoints} != {name for name, one in now.checkpoints.items() if not one.pending}:
        book.violation(f"{table.uri} shows other checkpoints than its log has")
    for one in checkpoints:
        rows = truth.rows_of(now.checkpoints[one.name])
        _read(book, f"checkpoint {one.name} of {table.uri}", partial(table.at, checkpoint=one), rows)
    near = [one for one in range(now.floor, now.version + 1) if truth.versions[one].exists]
    for version in sorted({*now.tags.values(), *near[: SEEN_MAX // 2], *near[-SEEN_MAX // 2 :]}):
        rows = truth.versions[version].rows
        _read(book, f"version {version} of {table.uri}", partial(table.at, version=version), rows)


def _read(book: RetainBook | RetainShardBook, what: str, held: Callable[[], Table], rows: Rows) -> None:
    try:
        compare(book, what, held(), rows)
    except SiltstoneError as error:
        book.violation(f"{what} can't be read in the end: {error.kind}: {error.message}")


# -- garbage -------------------------------------------------------------------------------------


def strays(truth: TableTruth, bucket: KeptBucket) -> Iterator[str]:
    """Objects that nobody needs, once all was collected, and holds that nobody has a use for."""
    named = {place.key for version in truth.retained() for place in version.names if place.uri == truth.uri}
    keys = list(bucket.objects.keys)
    shards = {key.split("/")[1] for key in keys if key.startswith(f"{paths.SHARDS}/")}
    states = {shard: _manifest(bucket, keys, shard) for shard in shards}
    pins = {one.pin for one in truth.newest.checkpoints.values()}
    for shard, state in sorted(states.items()):
        # A shard from before a split that has no rows left is not looked at any more.
        if not state.sealed and (left := state.pins.keys() - pins):
            yield f"a pin {min(left)} of shard {shard}"
    for key in keys:
        top, _, rest = key.partition("/")
        if top in {paths.DATA, paths.VECTORS}:
            needed = key in named or _may_be_named(key, truth.newest.version)
        elif top == paths.INDEXES:
            needed = _is_of_build(key, named)
        elif top == paths.ROLLUPS:
            position = paths.parse_rollup(key)
            needed = position is not None and position > truth.newest.oldest
        elif top == paths.SHARDS:
            shard, _, rest = rest.partition("/")
            needed = _is_of_shard(states[shard], rest)
        elif (staged := paths.parse_staged(paths.LOG, key)) is not None:
            # For a place that is not decided; or for the mark of a drop, which nobody collects behind.
            needed = staged[0] > truth.newest.version - truth.newest.dropped
        else:
            needed = top == paths.LOG[:-1] and _is_of_log(rest, from_=truth.newest.oldest)
        if not needed:
            yield key


def _may_be_named(key: str, newest: int) -> bool:
    """Whether an object was written on top of the newest version, behind which nothing was committed."""
    name = paths.parse_data(key) or paths.parse_vectors(key) or ""
    found = paths.parse_name(name)
    return found is not None and found[0] == newest


def _is_of_build(key: str, named: set[str]) -> bool:
    """Whether an object is of a build that is named, and not only of what was staged for it."""
    build, rest = paths.parse_index(key) or ("", "")
    if not build or paths.index(build, paths.MARKER) not in named or rest.startswith(f"{paths.STAGING}/"):
        return False
    return key in named or rest.startswith(paths.LOG)


def _is_of_log(key: str, *, from_: int) -> bool:
    for parse in (paths.parse_entry, paths.parse_witness):
        if (parsed := parse("", key)) is not None:
            return parsed[0] >= from_
    return key in LOG_FILES or paths.parse_identity(key) == "" or paths.parse_floor("", key) is not None


def _is_of_shard(state: ShardState, key: str) -> bool:
    folder, _, rest = key.partition("/")
    if folder == paths.DATA:
        pinned = {name for pin in state.pins.values() for name in pin.fragments}
        named = pinned | {one.fragment.name for one in state.fragments}
        name = paths.parse_data(key) or ""
        generation = (paths.parse_name(name) or (0, ""))[0]
        return name in named or generation >= state.generation  # one that is not named may be a flush under way
    if rest.startswith(f"{paths.STAGED}/"):
        return True  # of a proposal that was cut off: it goes when the log is truncated behind its place
    if paths.is_of_shard(f"{paths.shard('any')}{folder}") and folder != paths.MANIFEST[:-1]:  # its WAL, or an older one
        starts = (state.replay_from, *(pin.replay_from for pin in state.pins.values()))
        return _is_of_log(rest, from_=min(one.position for one in starts))
    return folder == paths.MANIFEST[:-1] and _is_of_log(rest, from_=0)


def _manifest(bucket: KeptBucket, keys: list[str], shard: str) -> ShardState:
    root = paths.shard(shard) + paths.MANIFEST
    entries = [key for key in keys if paths.parse_entry(root, key) is not None]
    for key in reversed(entries):
        header, body = decode_entry(bucket.objects.objects[key][0], name=key)
        if header.kind == "data":
            return decode_state(body, name=key)
    return ShardState()
