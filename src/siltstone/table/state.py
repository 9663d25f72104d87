"""The state of a table at one version, and what a change makes of it.

What must hold:
- A state is a value. ``apply`` checks what a change says against the state before it: a change that does not fit
  is corruption, never half applied.
- The cursor of a shard never goes back: what is in the table once is not taken out of the shard again.
- A state is reached by applying the changes of its log in order, or rollups and then changes: the result is equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import CorruptionError
from siltstone.format.rollup import VERSION_COLUMNS, Rollup, Summary, encode_rollup, from_columns
from siltstone.format.table import BLOCK, SHARD_NAME, Change, Schema
from siltstone.format.version import spelled_out
from siltstone.log.marks import Mark
from siltstone.table.fragments import Fragments
from siltstone.table.schema import check_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from siltstone.format.table import Checkpoint, CloneOf, Cursor, Origin, Sharding, Vector, WalStore
    from siltstone.format.text import TextIndex

EMPTY = Schema(fields=(), next_id=1)
RECENT_MAX = 64

_SHARD_NAME = re.compile(SHARD_NAME)

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One entry of the log as a table sees it. ``said`` is None where the entry holds no change.

    Fragments that the entry has as columns are in ``columns`` alone; ``change`` names them too.
    """

    position: int
    op: str
    time_ms: int
    digest: str
    epoch: int
    said: Change | None
    raw: bytes  # the JSON of what was said
    columns: pa.Table | None = None

    @cached_property
    def change(self) -> Change | None:
        """All of the change as one record, which takes a while where there are many fragments."""
        return None if self.said is None else spelled_out(self.said, self.columns)

    @property
    def end(self) -> Mark:
        """The mark behind it."""
        return Mark(self.position + 1, self.epoch, self.digest)

    def acknowledged(self, digest: str) -> Step:
        """The step, now that its entry is in the log."""
        return replace(self, digest=digest)


@dataclass(frozen=True)
class State:
    """Everything a version says: columns, fragments, tags, settings, what was applied, where shards are merged to."""

    mark: Mark
    block: Mark  # where the block that the next entry belongs to begins
    schema: Schema = EMPTY
    fragments: Fragments = field(default_factory=Fragments)
    tags: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    once: Mapping[str, int] = field(default_factory=dict)  # version by id
    batches: Mapping[str, int] = field(default_factory=dict)  # the last batch by stream
    shards: Mapping[str, Cursor] = field(default_factory=dict)  # what lies before is in this version
    sharding: Sharding | None = None  # how keys are spread over shards; None: they are not
    floor: int = 0  # versions below it are gone, but for those that are kept
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)  # tables whose objects this one names, by number
    clone: CloneOf | None = None  # what it was cloned from
    wal: WalStore | None = None  # where the WALs of its shards are, if not in its own store
    indexes: Mapping[str, TextIndex] = field(default_factory=dict)  # by name
    dropped: bool = False
    born: int = 0  # no version before it is of this table: another one was dropped here
    versions: pa.Table = field(default_factory=VERSION_COLUMNS.empty_table)  # of rollups; one row each from 0 on
    recent: tuple[Step, ...] = ()  # the steps behind those

    @property
    def version(self) -> int:
        """The number of this version; -1 before the first."""
        return self.mark.position - 1

    @property
    def exists(self) -> bool:
        """Whether the table was created."""
        return bool(self.schema.fields)

    @property
    def kept(self) -> frozenset[int]:
        """Versions that tags and checkpoints keep."""
        return frozenset((*self.tags.values(), *(one.version for one in self.checkpoints.values())))

    @property
    def oldest(self) -> int:
        """No version before it can be counted on, nor come to be."""
        return min((self.floor, *self.kept))

    def keeps(self, version: int) -> bool:
        """Whether a version can be counted on."""
        return version >= self.floor or version in self.kept

    def step(self, step: Step) -> State:
        """The state after an entry of the log."""
        if step.position != self.mark.position:
            raise CorruptionError(f"entry {step.position} was read where entry {self.mark.position} was expected")
        after = self if step.said is None else self.apply(step.said, version=step.position, columns=step.columns)
        return after.recorded(step)

    def apply(self, change: Change, *, version: int, columns: pa.Table | None = None) -> State:
        """The state after a change, with the fragments that it has as columns; the mark stays."""
        name = f"version {version}"
        if change.schema is not None:
            check_schema(change.schema, name=name)
        elif not (self.exists or change.clone or change.dropped):
            raise CorruptionError(f"{name} comes before the table was created")
        if change.dropped:
            return self._emptied(version)
        schema = change.schema or self.schema
        return replace(
            self,
            schema=schema,
            fragments=self.fragments.apply(change, name=name, columns=columns),
            tags=_updated(self.tags, change.tags),
            settings=_updated(self.settings, change.settings),
            once={**self.once, **dict.fromkeys(change.once, version)} if change.once else self.once,
            batches={**self.batches, **change.batches} if change.batches else self.batches,
            shards=_moved(self.shards, change.shards, name=name),
            sharding=self._spread(change.sharding, schema, name=name),
            floor=self._raised(change.floor, version),
            checkpoints=_updated(self.checkpoints, change.checkpoints),
            origins=_updated(self.origins, change.origins),
            clone=change.clone or self.clone,
            wal=change.wal or self.wal,
            indexes=_indexed(_updated(self.indexes, change.indexes), schema),
            dropped=False,
        )

    def _spread(self, sharding: Sharding | None, schema: Schema, *, name: str) -> Sharding | None:
        if sharding is None and self.dropped:  # what was kept of the one before is how its shards were called
            return None
        return _spread(self.sharding, sharding, schema, name=name)

    def _raised(self, floor: int | None, version: int) -> int:
        if floor is None:
            return self.floor
        if not self.floor <= floor <= version:
            raise CorruptionError(f"version {version} moves the floor of versions from {self.floor} to {floor}")
        return floor

    def _emptied(self, version: int) -> State:
        """What is left of a table that is dropped: nothing that can be read, and shards that can't come again."""
        return replace(
            self,
            schema=EMPTY,
            fragments=Fragments(),
            tags={},
            settings={},
            once={},
            batches={},
            shards={},
            floor=version + 1,
            checkpoints={},
            origins={},
            clone=None,
            wal=None,
            indexes={},
            dropped=True,
            born=version,
        )

    def recorded(self, step: Step) -> State:
        """The state as it is, with one more step behind it."""
        steps, versions = (*self.recent, step), self.versions
        if len(steps) > RECENT_MAX:
            versions = pa.concat_tables([versions, _as_table(steps[:-BLOCK])])
            steps = steps[-BLOCK:]
        block = self.block if step.end.position % BLOCK else step.end
        return replace(self, mark=step.end, block=block, recent=steps, versions=versions)

    def steps_since(self, earlier: State) -> tuple[Step, ...] | None:
        """The steps from an earlier state to this one; None where they are not held any more."""
        count = self.version - earlier.version
        return (self.recent[-count:] if count else ()) if count <= len(self.recent) else None

    # -- rollups -----------------------------------------------------------------------------------

    def join(self, rollup: Rollup, *, name: str) -> State:
        """The state that a rollup on top of this one gives."""
        header, summary = rollup.header, rollup.summary
        if header.since != self.mark.position or rollup.versions.num_rows != header.position - header.since:
            raise CorruptionError(f"{name} does not fit the state at {self.mark.position}", object=name)
        if pc.count_distinct(rollup.fragments.column("name")).as_py() != rollup.fragments.num_rows:
            raise CorruptionError(f"{name} names a fragment twice", object=name)
        change = Change(
            operation="transaction",
            dropped=summary.dropped,
            remove=summary.remove,
            mask=summary.mask,
            unmask=summary.unmask,
            schema=summary.schema if summary.schema.fields else None,
            tags=summary.tags,
            settings=summary.settings,
            batches=summary.batches,
            sharding=summary.sharding,
            floor=max(summary.floor, self.floor),
            checkpoints=summary.checkpoints,
            origins=summary.origins,
            clone=summary.clone,
            wal=summary.wal,
            indexes=summary.indexes,
        )
        after = self.apply(change, version=header.position - 1)
        versions = [self.all_versions(), rollup.versions.select(VERSION_COLUMNS.names)]
        mark = Mark(header.position, header.epoch, header.digest)
        return replace(
            after,
            mark=mark,
            block=mark,
            fragments=after.fragments.join(rollup.fragments),
            once={**self.once, **summary.once},
            shards=_moved(self.shards, summary.shards, name=name, anew=True),
            versions=pa.concat_tables(versions).combine_chunks(),
            recent=(),
            sharding=summary.sharding or self.sharding,
            floor=max(summary.floor, self.floor),
            born=summary.born,
        )

    def rollup(self, since: State, *, log: str) -> bytes:
        """The bytes of the rollup that leads from ``since`` to this state."""
        summary, fragments = _difference(since, self)
        return encode_rollup(
            summary,
            fragments,
            self.all_versions().slice(since.mark.position),
            log=log,
            since=since.mark.position,
            position=self.mark.position,
            epoch=self.mark.epoch,
            digest=self.mark.digest,
        )

    def all_versions(self) -> pa.Table:
        """Op ids and times of every version."""
        return pa.concat_tables([self.versions, _as_table(self.recent)])

    def version_of(self, op: str) -> int | None:
        """The version that an operation made."""
        for step in reversed(self.recent):
            if step.op == op:
                return step.position
        found = pc.index(self.versions.column("op"), pa.scalar(bytes.fromhex(op), pa.binary(16))).as_py()
        return int(found) if found >= 0 else None


def _as_table(steps: Sequence[Step]) -> pa.Table:
    ops = pa.array([bytes.fromhex(step.op) for step in steps], pa.binary(16))
    return pa.table({"op": ops, "time_ms": [step.time_ms for step in steps]}, schema=VERSION_COLUMNS)


def _updated(old: Mapping[str, T], news: Mapping[str, T | None]) -> Mapping[str, T]:
    if not news:
        return old
    return {key: value for key, value in {**old, **news}.items() if value is not None}


def _indexed(indexes: Mapping[str, TextIndex], schema: Schema) -> Mapping[str, TextIndex]:
    """Indexes whose columns are there: one goes with its column."""
    if not indexes:
        return indexes
    fields = {one.id for one in schema.fields}
    return {name: index for name, index in indexes.items() if index.field in fields}


def differences(old: Mapping[str, T], new: Mapping[str, T]) -> dict[str, T | None]:
    """What makes ``new`` of ``old``; None where something goes."""
    if new is old:  # most versions leave many things as they are
        return {}
    changes = {key: value for key, value in new.items() if old.get(key) != value}
    return {**dict.fromkeys(old.keys() - new.keys()), **changes}


def _moved(
    had: Mapping[str, Cursor], moves: Mapping[str, Cursor | None], *, name: str, anew: bool = False
) -> Mapping[str, Cursor]:
    """Cursors after some moves; ``anew``: shards may have gone and come again in between."""
    for shard, to in moves.items():
        if _SHARD_NAME.match(shard) is None:
            raise CorruptionError(f"{name} has a shard that is called {shard[:100]!a}")
        at = had.get(shard)
        if to is None:
            if at is None:
                raise CorruptionError(f"{name} removes shard {shard}, which is not there")
        elif (to.position == 0) != (to.digest == ""):
            raise CorruptionError(
                f"{name} has a cursor of shard {shard} at {to.position} with the digest {to.digest!a}"
            )
        elif at is not None and not anew and _is_behind(to, at):
            raise CorruptionError(f"{name} moves shard {shard} from {_shown(at)} back to {_shown(to)}")
    return _updated(had, moves)


def _is_behind(cursor: Cursor, other: Cursor) -> bool:
    """Whether a cursor stands before another, or at the same position of another history."""
    same = cursor.position == other.position
    return cursor.position < other.position or (same and cursor.digest != other.digest)


def _shown(cursor: Cursor) -> str:
    return f"{cursor.position} ({cursor.digest[:12] or 'the start'})"


def _spread(old: Sharding | None, new: Sharding | None, schema: Schema, *, name: str) -> Sharding | None:
    """How keys are spread after a change."""
    if new is None or new == old:
        return old
    if not schema.key:
        raise CorruptionError(f"{name} spreads keys over {new.count} shards, and the table has no key")
    if old is not None and new.map <= old.map:
        raise CorruptionError(f"{name} goes from shard map {old.map} to {new.map} ({old.count} and {new.count} shards)")
    return new


def _difference(old: State, new: State) -> tuple[Summary, pa.Table]:
    """What leads from one state to a later one: the added fragments as columns, and all else."""
    before, after = old.fragments.folded().base.table, new.fragments.folded().base.table
    was, now = before.column("name"), after.column("name")
    stayed = pc.is_in(now, value_set=was.combine_chunks())
    still = pc.is_in(was, value_set=now.combine_chunks())
    mask, unmask = _masks(before.filter(still).sort_by("name"), after.filter(stayed).sort_by("name"))
    summary = Summary(
        schema=new.schema,
        remove=tuple(was.filter(pc.invert(still)).to_pylist()),
        mask=mask,
        unmask=unmask,
        tags=differences(old.tags, new.tags),
        settings=differences(old.settings, new.settings),
        once={name: version for name, version in new.once.items() if old.once.get(name) != version},
        batches={name: last for name, last in new.batches.items() if old.batches.get(name) != last},
        shards=differences(old.shards, new.shards),
        sharding=new.sharding if new.sharding != old.sharding else None,
        floor=new.floor,
        checkpoints=differences(old.checkpoints, new.checkpoints),
        origins=differences(old.origins, new.origins),
        clone=new.clone,
        wal=new.wal,
        indexes=differences(old.indexes, new.indexes),
        dropped=new.dropped,
        born=new.born,
    )
    return summary, after.filter(pc.invert(stayed))


def _masks(before: pa.Table, after: pa.Table) -> tuple[dict[str, Vector], tuple[str, ...]]:
    """The vectors that differ between two tables of the same fragments."""
    differs = pc.or_(
        *(
            pc.not_equal(pc.fill_null(before.column(name), empty), pc.fill_null(after.column(name), empty))
            for name, empty in (("vector", ""), ("vector_offset", -1))
        )
    )
    lives = from_columns(after.filter(differs))
    mask = {live.fragment.name: live.vector for live in lives if live.vector is not None}
    return mask, tuple(live.fragment.name for live in lives if live.vector is None)
