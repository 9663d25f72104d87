"""What the logs of tables say is kept, taken down when it was written.

It is what someone would know who watches all buckets: of each version the objects that it names and the rows that it
has, of the newest one which versions are kept. Rows follow from the edits whose ids a version has, from the entries of
WALs that it merged, and of a clone from what its pin keeps in the parent; no fragment is read for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.format.records import decode_entry
from siltstone.format.version import whole_change
from siltstone.retain.checkpoint import CLONES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from siltstone.format.table import Change, Checkpoint, CloneOf, Origin
    from siltstone.format.text import TextIndex
    from siltstone.testing.sim.shard_book import Edit
    from siltstone.testing.sim.shard_truth import Written

Rows = dict[int, str]  # by key: the operation that put the row


class Place(NamedTuple):
    """Where an object is."""

    uri: str
    key: str


@dataclass(frozen=True)
class Kept:
    """A version: what it names, and what its log says of those that are kept."""

    version: int = -1
    made_ms: int = 0  # by the store's clock
    operation: str = ""
    rows: Rows = field(default_factory=dict)
    live: dict[str, str | None] = field(default_factory=dict)  # fragments and their vectors, as the version names them
    names: frozenset[Place] = frozenset()
    indexes: dict[str, TextIndex] = field(default_factory=dict)
    floor: int = 0
    tags: dict[str, int] = field(default_factory=dict)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    clone: CloneOf | None = None
    exists: bool = False
    dropped: bool = False
    born: int = 0

    @property
    def kept(self) -> set[int]:
        """Versions that are kept by name."""
        return {*self.tags.values(), *(one.version for one in self.checkpoints.values())}

    @property
    def oldest(self) -> int:
        """The first version that is kept."""
        return min((self.floor, *self.kept))

    def keeps(self, version: int) -> bool:
        """Whether a version can be read."""
        return version >= self.floor or version in self.kept


class TableTruth:
    """All versions of the table at a URI.

    ``wal`` gives the entries of a shard's WAL, ``edit`` an edit by its id, ``built`` the objects that a build of an
    index is read from.
    """

    def __init__(
        self,
        uri: str,
        *,
        edit: Callable[[str], Edit],
        wal: Callable[[str], list[Written]],
        other: Callable[[str], TableTruth],
        built: Callable[[str, str], Iterable[Place]],
        violation: Callable[[str], None],
    ) -> None:
        self.uri = uri
        self.versions: list[Kept] = []
        self._edit = edit
        self._wal = wal
        self._other = other
        self._built = built
        self._violation = violation

    @property
    def newest(self) -> Kept:
        """The newest version."""
        return self.versions[-1] if self.versions else Kept()

    def retained(self) -> list[Kept]:
        """Versions that can be read."""
        now = self.newest
        wanted = {*range(now.floor, now.version + 1), *now.kept}
        return [self.versions[one] for one in sorted(wanted)]

    def land(self, key: str, data: bytes, *, now_ms: int) -> tuple[Change | None, Kept] | None:
        """Take an entry down; None where it is none, or comes too late to be one."""
        parsed = paths.parse_entry(paths.LOG, key)
        if parsed is None or parsed[0] < len(self.versions):
            return None
        if parsed[0] > len(self.versions):
            self._violation(f"{key} of {self.uri} was written, and entry {len(self.versions)} is not there")
            return None
        header, body = decode_entry(data, name=key)
        before = replace(self.newest, version=parsed[0], made_ms=now_ms, operation="")
        if header.kind != "data":
            self.versions.append(before)
            return None, before
        change = whole_change(body, name=key)
        after = self._dropped(before) if change.dropped else self._after(before, change)
        self.versions.append(after)
        return change, after

    def _dropped(self, before: Kept) -> Kept:
        at = before.version
        return Kept(version=at, made_ms=before.made_ms, operation="drop", floor=at, dropped=True, born=at)

    def _after(self, before: Kept, change: Change) -> Kept:
        origins = _changed(before.origins, change.origins)
        live = {name: vector for name, vector in before.live.items() if name not in change.remove}
        live |= {one.name: None for one in change.add}
        live |= {name: vector.name for name, vector in change.mask.items()}
        live |= dict.fromkeys(change.unmask)
        moved = {name: None if one is None else one.position for name, one in change.shards.items()}
        indexes = _changed(before.indexes, change.indexes)
        after = replace(
            before,
            operation=change.operation,
            live=live,
            names=frozenset((*self._places(live, origins), *self._indexed(indexes, origins))),
            indexes=indexes,
            floor=before.floor if change.floor is None else change.floor,
            tags=_changed(before.tags, change.tags),
            checkpoints=_changed(before.checkpoints, change.checkpoints),
            origins=origins,
            cursors=_changed(before.cursors, moved),
            clone=change.clone or before.clone,
            exists=before.exists or change.schema is not None,
            dropped=False,
        )
        return replace(after, rows=self._rows(before, after, change))

    def _places(self, live: Mapping[str, str | None], origins: Mapping[str, Origin]) -> Iterable[Place]:
        for fragment, vector in live.items():
            keys = [(fragment, paths.data), (vector, paths.vectors)]
            for name, key_of in keys:
                if name is not None:
                    number = paths.origin_of(name)
                    uri = origins[str(number)].uri if number else self.uri
                    yield Place(uri, key_of(paths.bare(name)))

    def _indexed(self, indexes: Mapping[str, TextIndex], origins: Mapping[str, Origin]) -> Iterable[Place]:
        for build in (one.build for index in indexes.values() for one in index.segments):
            number = paths.origin_of(build)
            yield from self._built(origins[str(number)].uri if number else self.uri, paths.bare(build))

    # -- rows ------------------------------------------------------------------------------------

    def _rows(self, before: Kept, after: Kept, change: Change) -> Rows:
        if change.operation == "clone":
            return self._cloned(after) if change.schema is not None else {}
        if change.operation == "restore":
            return self._restored(after)
        rows = dict(before.rows)
        for shard, cursor in change.shards.items():
            start = before.cursors.get(shard, 0)
            # A shard that goes was sealed: it is merged to its end.
            until = len(self._wal(shard)) if cursor is None else cursor.position
            self._replay(rows, shard, start, until)
        for label in change.once:
            edit = self._edit(label)
            if edit.overwrites:
                rows.clear()
            for key in edit.keys:
                rows.pop(key, None)
                if not edit.deleted:
                    rows[key] = edit.op
        return rows

    def _replay(self, rows: Rows, shard: str, start: int, until: int) -> None:
        for entry in self._wal(shard)[start:until]:
            for row in entry.rows:
                rows.pop(row.key, None)
                if row.label is not None:
                    rows[row.key] = row.label

    def _restored(self, after: Kept) -> Rows:
        """The rows of the version that names the same: nothing is copied."""
        found = next((one for one in reversed(self.versions) if one.live == after.live and one.exists), None)
        if found is None:
            self._violation(f"version {after.version} of {self.uri} restores what no version before it was")
            return {}
        return found.rows

    def _cloned(self, after: Kept) -> Rows:
        wanted = after.clone
        parent = self._other(wanted.uri) if wanted is not None else self
        pin = self.pin_in(parent, born=after.born)
        if wanted is None or pin is None:
            self._violation(f"the clone at {self.uri} was made, and holds no pin in its parent")
            return {}
        if after.origins["1"].version != pin.version:
            self._violation(
                f"the clone at {self.uri} is of version {after.origins['1'].version}, and holds {pin.version}"
            )
        limit = int(wanted.where.rpartition(" ")[2]) if wanted.where else None
        return {key: op for key, op in parent.rows_of(pin).items() if limit is None or key < limit}

    def pin_in(self, parent: TableTruth, *, born: int) -> Checkpoint | None:
        """What the clone that was born here holds in another table."""
        for name, one in parent.newest.checkpoints.items():
            if one.holder is not None and one.holder.uri == self.uri:
                ending = name.removeprefix(CLONES).partition(" ")[2]
                if ending == (str(born) if born else ""):
                    return one
        return None

    def rows_of(self, checkpoint: Checkpoint) -> Rows:
        """The rows that a checkpoint keeps: those of its version, and of shards what is not in it yet."""
        version = self.versions[checkpoint.version]
        rows = dict(version.rows)
        for shard, kept in checkpoint.shards.items():
            if shard in version.cursors:
                self._replay(rows, shard, version.cursors[shard], kept.until.position)
        return rows


def _changed(old: Mapping[str, object], news: Mapping[str, object]) -> dict:  # type: ignore[type-arg] # of any kind
    return {name: one for name, one in {**old, **news}.items() if one is not None}
