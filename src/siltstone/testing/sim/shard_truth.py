"""What the WALs of shards and the log of their table say, taken down when it was written.

It is what someone would know who watches the bucket and forgets nothing: entries stay here when they are truncated, and
an object that lands in a place that was taken before, however late, changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.format.records import decode_entry
from siltstone.format.version import whole_change
from siltstone.shard.rows import decode_body
from siltstone.testing.sim.store import SimBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.format.table import Schema

KEY, LABEL = "id", "op"  # the columns of the table


class Row(NamedTuple):
    """A row of an entry: its key, and the name of the operation that put it; none where the key is deleted."""

    key: int
    label: str | None


class Written(NamedTuple):
    """An entry of a WAL. ``rows`` is empty where it counts for nothing: a fence, or what a fenced writer put."""

    shard: str
    position: int
    epoch: int
    rows: tuple[Row, ...] = ()
    once: tuple[str, ...] = ()


class Seen(NamedTuple):
    """A version of the table: up to where each shard is merged in it, and what was done at the table itself."""

    cursors: dict[str, int]
    shards: int = 0  # how many the keys are spread over; 0 where shards have names of their own
    map: int = 0
    labels: tuple[str, ...] = ()


class Truth:
    """Everything that was decided, in its order. ``hole`` is told of an entry that came before the one before it."""

    def __init__(self, *, hole: Callable[[str], None]) -> None:
        self.wals: dict[str, list[Written]] = {}
        self.versions: list[Seen] = []
        self._schema: Schema | None = None
        self._hole = hole

    def note(self, key: str, data: bytes) -> Written | Seen | None:
        """Take an object down that was written; None where it is no entry, or comes too late to be one."""
        top, _, below = key.partition("/")
        if top == paths.SHARDS:
            shard = below.partition("/")[0]
            wal = self.wals.setdefault(shard, [])
            if not self._is_next(f"{paths.shard(shard)}{paths.WAL}", key, len(wal)):
                return None
            wal.append(self._entry(shard, wal, key, data))
            return wal[-1]
        if not self._is_next(paths.LOG, key, len(self.versions)):
            return None
        self.versions.append(self._version(key, data))
        return self.versions[-1]

    def _is_next(self, root: str, key: str, expected: int) -> bool:
        parsed = paths.parse_entry(root, key)
        if parsed is not None and parsed[0] > expected:
            self._hole(f"{key} was written, and entry {expected} is not there")
        return parsed is not None and parsed[0] == expected

    def _entry(self, shard: str, before: list[Written], key: str, data: bytes) -> Written:
        header, body = decode_entry(data, name=key)
        entry = Written(shard, header.position, header.epoch)
        highest = max((one.epoch for one in before), default=0)
        if header.kind != "data" or header.epoch < highest or self._schema is None:
            return entry
        found = decode_body(body, self._schema, header.position, name=key)
        gone = found.chunk.deleted
        rows = tuple(
            Row(row[KEY], None if gone is not None and gone[number] else row[LABEL])
            for number, row in enumerate(found.chunk.rows.to_pylist())
        )
        return entry._replace(rows=rows, once=found.header.once)

    def _version(self, key: str, data: bytes) -> Seen:
        header, body = decode_entry(data, name=key)
        before = self.versions[-1] if self.versions else Seen({})
        if header.kind != "data":
            return before._replace(labels=())
        change = whole_change(body, name=key)
        self._schema = change.schema or self._schema
        cursors = dict(before.cursors)
        for shard, cursor in change.shards.items():
            cursors.pop(shard, None)
            if cursor is not None:
                cursors[shard] = cursor.position
        spread = change.sharding
        shards, map_ = (before.shards, before.map) if spread is None else (spread.count, spread.map)
        return Seen(cursors, shards, map_, change.once)


class WatchedBucket(SimBucket):
    """A bucket that shows someone what is written to it."""

    watch: Callable[[str, bytes], object] | None = None

    def write(self, key: str, data: bytes, *, replace: bool) -> bool:
        """Whether the object was written."""
        done = super().write(key, data, replace=replace)
        if done and self.watch is not None:
            self.watch(key, data)
        return done
