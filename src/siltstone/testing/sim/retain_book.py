"""What must hold of tables that keep and collect versions, looked at with every object that is written or removed.

- A version names only objects that are there, when it is committed and for as long as it is kept: by a floor below it,
  a tag, a checkpoint, or a clone.
- Only versions that are kept can be named, and the log keeps the entries of all of them.
- A checkpoint goes when it is deleted or its time is over, and the floor passes a version when its time is over: by the
  clock of the store.
- A clone has the rows that its pin keeps, and holds pins for as long as it names objects of others.
- An edit that was acknowledged is in a version. One that failed for certain is in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import MissingObjectError
from siltstone.format.records import decode_entry
from siltstone.format.shard import decode_state
from siltstone.format.text import decode_marker
from siltstone.ids import is_id
from siltstone.retain.expiry import PENDING_MS
from siltstone.testing.sim.retain_truth import Kept, Place, TableTruth
from siltstone.testing.sim.shard_book import Book, Edit, Edits
from siltstone.testing.sim.shard_truth import WatchedBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from siltstone.errors import SiltstoneError
    from siltstone.format.table import Change, Checkpoint
    from siltstone.testing.sim.shard_truth import Written
    from siltstone.testing.sim.world import World


class KeptBucket(WatchedBucket):
    """A bucket that also shows what is removed."""

    gone: Callable[[str], object] | None = None

    def remove(self, key: str) -> None:
        """The object goes, if it is there."""
        there = self.objects.read(key) is not None
        super().remove(key)
        if there and self.gone is not None:
            self.gone(key)


class Retention:
    """All tables of a world, and what must be there of them. ``keep_ms`` is what every collection keeps at least."""

    def __init__(
        self,
        *,
        edit: Callable[[str], Edit],
        violation: Callable[[str], None],
        wal: Callable[[str], list[Written]] = lambda _shard: [],
    ) -> None:
        self.tables: dict[str, TableTruth] = {}
        self.stands: dict[str, list[tuple[str, int]]] = {}  # by operation: tables and versions
        self.removed: set[str] = set()  # names of objects that nobody needed
        self.keep_ms = 0
        self._manifests: dict[str, tuple[int, frozenset[str]]] = {}  # by root: the next entry, and the pins
        self._buckets: dict[str, KeptBucket] = {}
        self._edit = edit
        self._wal = wal
        self._violation = violation

    def watch(self, uri: str, bucket: KeptBucket, *, also: Callable[[str, bytes], object] | None = None) -> None:
        """Look at all that is written to a table's bucket, and removed from it."""
        self._buckets[uri] = bucket
        self.tables[uri] = TableTruth(
            uri,
            edit=self._edit,
            wal=self._wal,
            other=self.tables.__getitem__,
            built=self._built,
            violation=self._violation,
        )

        def wrote(key: str, data: bytes) -> None:
            if also is not None:
                also(key, data)
            self._wrote(uri, key, data)

        bucket.watch = wrote
        bucket.gone = lambda key: self._gone(uri, key)

    def has(self, place: Place) -> bool:
        """Whether an object is there; of an entry, under whichever name it is published."""
        objects = self._buckets[place.uri].objects
        return objects.read(place.key) is not None or bool(objects.scan(f"{place.key}/", ""))

    def _built(self, uri: str, build: str) -> Iterator[Place]:
        """The marker of a build, and the parts that it names."""
        key = paths.index(build, paths.MARKER)
        yield Place(uri, key)
        there = self._buckets[uri].objects.read(key)
        if there is not None:
            for part in decode_marker(there[0], name=key).parts:
                yield Place(uri, paths.index(build, part.name))

    def now_ms(self, uri: str) -> int:
        """The time by the clock of a table's store."""
        return self._buckets[uri].now_ms()

    def keys(self, uri: str) -> list[str]:
        """All objects of a table."""
        return list(self._buckets[uri].objects.keys)

    # -- versions --------------------------------------------------------------------------------

    def _wrote(self, uri: str, key: str, data: bytes) -> None:
        if key.startswith(f"{paths.SHARDS}/"):
            self._check_manifest(uri, key, data)
            return
        table, now_ms = self.tables[uri], self._buckets[uri].now_ms()
        before = table.newest
        landed = table.land(key, data, now_ms=now_ms)
        if landed is None or landed[0] is None:
            return
        change, after = landed[0], landed[1]
        for place in sorted(after.names - before.names):
            if not self.has(place):
                self._violation(f"version {after.version} of {uri} names {place.key}, which is not there")
        self._check_named(table, before, after)
        self._check_floor(table, before, after, now_ms)
        for name in change.checkpoints:
            if name in before.checkpoints and name not in after.checkpoints:
                self._check_over(table, name, before.checkpoints[name], after, now_ms)
        if change.dropped:
            self._check_dropped(uri, before)
        elif change.operation == "clone" and after.exists:
            self._check_pins(table, after)
        elif change.operation != "clone":
            self._note_edits(uri, change, after)

    def _note_edits(self, uri: str, change: Change, after: Kept) -> None:
        for label in change.once:
            places = self.stands.setdefault(label, [])
            places.append((uri, after.version))
            if len(places) > 1:
                self._violation(f"{label} stands twice: {places}")

    def _check_named(self, table: TableTruth, before: Kept, after: Kept) -> None:
        """What is named now must have been kept until now, with all that it names."""
        news = {f"tag {name}": at for name, at in after.tags.items() if before.tags.get(name) != at}
        for name, one in after.checkpoints.items():
            if before.checkpoints.get(name) != one:
                news[f"checkpoint {name}"] = one.version
                self._check_announced(table.uri, name, before.checkpoints.get(name), one)
                self._check_shards(table, name, one)
        for name, version in news.items():
            if version != after.version and not before.keeps(version):
                self._violation(f"{name} of {table.uri} is of version {version}, which was collected")
            lost = [place.key for place in sorted(table.versions[version].names) if not self.has(place)]
            if lost:
                self._violation(f"{name} of {table.uri} is of version {version}, and {lost[0]} is not there")

    def _check_announced(self, uri: str, name: str, had: Checkpoint | None, one: Checkpoint) -> None:
        if one.scope == "durable" and one.holder is None and not one.pending and (had is None or had.pin != one.pin):
            self._violation(f"checkpoint {name} of {uri} was completed, and had not been announced, or was deleted")

    def _check_manifest(self, uri: str, key: str, data: bytes) -> None:
        """A pin goes only where its checkpoint is gone."""
        root = paths.shard(key.split("/")[1]) + paths.MANIFEST
        parsed = paths.parse_entry(root, key)
        if parsed is None or parsed[0] != self._manifests.get(root, (0, frozenset()))[0]:
            return
        header, body = decode_entry(data, name=key)
        had = self._manifests.get(root, (0, frozenset()))[1]
        has = frozenset(decode_state(body, name=key).pins) if header.kind == "data" else had
        self._manifests[root] = (parsed[0] + 1, has)
        for name, one in self.tables[uri].newest.checkpoints.items():
            if one.pin in had - has:
                self._violation(f"{root} let go of checkpoint {name}, which is there")

    def _check_shards(self, table: TableTruth, name: str, one: Checkpoint) -> None:
        for place in self.needed(table, one):
            if not self.has(place):
                self._violation(f"checkpoint {name} of {table.uri} needs {place.key}, which is not there")

    def needed(self, table: TableTruth, checkpoint: Checkpoint) -> Iterator[Place]:
        """Objects of shards that a checkpoint has rows in."""
        cursors = table.versions[checkpoint.version].cursors
        for shard, kept in checkpoint.shards.items():
            if checkpoint.pending or shard not in cursors:
                continue
            start = max(kept.replay_from.position, cursors[shard])
            wal = table.uri if kept.wal.store is None else kept.wal.store.uri
            for position in range(start, kept.until.position):
                yield Place(wal, paths.entry(paths.wal(shard, kept.wal.begins), position))
            for one in kept.fragments:
                if one.until > cursors[shard]:
                    yield Place(table.uri, paths.shard(shard) + paths.data(one.fragment.name))

    def _check_floor(self, table: TableTruth, before: Kept, after: Kept, now_ms: int) -> None:
        if after.operation == "collect" and after.floor > before.floor:
            age_ms = now_ms - table.versions[after.floor].made_ms
            if age_ms < self.keep_ms:
                self._violation(
                    f"version {after.version} of {table.uri} raises the floor to {after.floor}, which is {age_ms} ms "
                    f"old, and all are kept for {self.keep_ms} ms"
                )

    def _check_over(self, table: TableTruth, name: str, one: Checkpoint, after: Kept, now_ms: int) -> None:
        """Why a checkpoint went: nobody may take away what is still promised."""
        if one.holder is not None:
            clone = self.tables[one.holder.uri]
            if clone.pin_in(table, born=clone.newest.born) is None and self._names_of(clone, table.uri):
                self._violation(f"{one.holder.uri} let go of {table.uri}, and names objects of it")
        elif after.operation == "collect":
            until = one.created_ms + PENDING_MS if one.pending else one.expires_ms
            if until is None or until > now_ms:
                self._violation(f"checkpoint {name} of {table.uri} was collected before it was over, at {until}")

    def _names_of(self, table: TableTruth, uri: str) -> bool:
        return any(place.uri == uri for version in table.retained() for place in version.names)

    def _check_dropped(self, uri: str, before: Kept) -> None:
        held = [one.holder.uri for one in before.checkpoints.values() if one.holder is not None]
        if held:
            self._violation(f"{uri} was dropped while {held[0]} holds it")

    def _check_pins(self, clone: TableTruth, after: Kept) -> None:
        for origin in after.origins.values():
            table = self.tables[origin.uri]
            pin = clone.pin_in(table, born=after.born)
            named = {place for place in after.names if place.uri == origin.uri}
            if pin is None or not named <= table.versions[pin.version].names:
                self._violation(f"the clone at {clone.uri} names objects of {origin.uri} that it does not hold")

    # -- objects ---------------------------------------------------------------------------------

    def _gone(self, uri: str, key: str) -> None:
        """An object was removed: nothing that is kept may need it."""
        top, now = key.partition("/")[0], self.tables[uri].newest
        place = Place(uri, key)
        needs = ""
        if top in {paths.DATA, paths.VECTORS, paths.INDEXES}:
            self.removed.add(key)
            found = (
                (one.uri, it.version) for one in self.tables.values() for it in one.retained() if place in it.names
            )
            needs = next((f"version {version} of {other}" for other, version in found), "")
        elif top == paths.SHARDS:
            self.removed.add(key)
            entry = Place(uri, without_nonce(key))
            names = (
                name
                for table in self.tables.values()
                for name, one in table.newest.checkpoints.items()
                if entry in set(self.needed(table, one))
            )
            needs = next((f"checkpoint {name}" for name in names), "")
        elif (parsed := paths.parse_entry(paths.LOG, key)) is None or (now.exists and 0 < now.born == parsed[0]):
            pass  # the mark of a drop may go once another table is there
        elif parsed[0] >= now.oldest:
            needs = f"the log, since version {now.oldest} is kept,"
        if needs:
            self._violation(f"{key} of {uri} was removed, and {needs} needs it")

    def is_excused(self, error: SiltstoneError) -> bool:
        """Whether someone reads a version that is not kept any more."""
        key = str(error.facts.get("object", ""))
        there = paths.parse_origin(key)
        return isinstance(error, MissingObjectError) and (key if there is None else there[1]) in self.removed


def without_nonce(key: str) -> str:
    """Where an entry is published, or would be where the store decides."""
    head, _, last = key.rpartition("/")
    return head if is_id(last) and paths.ENTRIES in head.split("/") else key


class RetainBook(Edits):
    """All that was said in a world of tables without shards."""

    def __init__(self, world: World) -> None:
        super().__init__(world, honest=True)
        self.retention = Retention(edit=self._edit, violation=self.violation)

    def done(self, edit: Edit) -> None:
        """Its user was told that an edit is there to stay."""
        edit.trying = False
        self.world.note(f"user: {edit.op} acknowledged")
        self.world.counters["acknowledged"] += 1
        edit.acks += ((at, 0) for _, at in self.retention.stands.get(edit.op, ()))
        if not edit.acks:
            self.violation(f"{edit.op} was acknowledged and stands nowhere")

    def alarm(self, error: SiltstoneError) -> None:
        """Somebody was told loudly that something is wrong."""
        if not self.retention.is_excused(error):
            super().alarm(error)

    def close(self) -> None:
        """Compare what was said with what is written."""
        close(self, self.operations.values())


class RetainShardBook(Book):
    """All that was said in a world of a table with shards."""

    def __init__(self, world: World, *, number_of: Callable[[int, int], int]) -> None:
        super().__init__(world, honest=True, number_of=number_of)
        self.retention = Retention(
            edit=self._edit, violation=self.violation, wal=lambda shard: self.truth.wals.get(shard, [])
        )

    def alarm(self, error: SiltstoneError) -> None:
        """Somebody was told loudly that something is wrong."""
        if not self.retention.is_excused(error):
            super().alarm(error)


def close(book: RetainBook, edits: Iterable[object]) -> None:
    """Say of all edits that failed for certain and stand nevertheless."""
    for edit in edits:
        if isinstance(edit, Edit) and edit.failed and not edit.trying and edit.op in book.retention.stands:
            book.violation(f"{edit.op} was reported failed and stands: {book.retention.stands[edit.op]}")
