"""Collection against everyone who still needs objects, and checkpoints that keep part of a WAL.

``Collect``: version v owns the file ("v", v), which version v + 1 no longer names. A slow writer writes a file on top
of the version it began with and commits it later; a keeper reads a version and later names it (a tag, a checkpoint,
the pin of a clone); a restorer reads one and later brings its file back; a second keeper names a version that is kept
already, as a clone of a clone does. The collector looks, raises the floor of versions by an entry of the same log, and
then deletes file by file; it may stop and stall anywhere. Every entry is decided behind what its maker looked at, or
its maker looks again: that is what the commit does with ``depends(kept=True)``.

Knobs: ``floor`` raised before deleting, or deletion by what was seen at some time; ``base`` of a slow commit compared
with the floor; ``kept`` whether naming a version looks at the floor; ``rebased`` whether the collector's entry is made
anew where a version was named since it looked.

``Durable``: a shard's WAL has entries 0 to N - 1, some flushed. A checkpoint that rewrites nothing announces itself in
the table's log, takes hold of the WAL in the shard's manifest, and is completed in the table's log. The writer flushes
and truncates what no hold keeps; a merge moves the table's cursor; a collector removes holds whose checkpoint is gone;
anyone may delete the checkpoint, also before it is complete.

Knobs: ``announce`` whether there is an entry before the hold; ``hold`` whether truncation looks at holds;
``manifest_first`` whether the collector reads the manifest before the table; ``recheck`` whether completing needs the
announcement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

File = tuple[str, int]


class Head(NamedTuple):
    """What the log says."""

    seq: int = 0  # counts the entries that say which versions are kept
    latest: int = 1
    floor: int = 0  # versions below it are gone, but for kept ones
    kept: frozenset[int] = frozenset()
    named: frozenset[File] = frozenset()  # by the newest version, beside its own


class Actor(NamedTuple):
    """Where someone is, and what it remembers."""

    at: str = "idle"
    version: int = 0
    seq: int = 0
    plan: frozenset[File] = frozenset()


class World(NamedTuple):
    """The log, the files, and who is doing what."""

    head: Head = Head()
    files: frozenset[File] = frozenset({("v", 1)})
    keeper: Actor = Actor()
    second: Actor = Actor()
    writer: Actor = Actor()
    restorer: Actor = Actor()
    collector: Actor = Actor()


class Collect:
    """The model, with its knobs."""

    def __init__(
        self, *, versions: int = 3, floor: bool = True, base: bool = True, kept: bool = True, rebased: bool = True
    ) -> None:
        self.versions, self.floor, self.base, self.kept, self.rebased = versions, floor, base, kept, rebased

    def init(self) -> World:
        return World()

    def needed(self, head: Head) -> frozenset[File]:
        """What someone may read: the versions from the floor on, and those that are kept."""
        whole = frozenset(range(max(head.floor, 1), head.latest + 1)) | head.kept
        return frozenset(("v", one) for one in whole) | head.named

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        head = w.head
        if head.latest < self.versions:
            after = head._replace(latest=head.latest + 1)
            yield f"version {after.latest} is committed", w._replace(head=after, files=w.files | {("v", after.latest)})
        yield from self._keeper(w)
        yield from self._second(w)
        yield from self._writer(w)
        yield from self._restorer(w)
        yield from self._collector(w)

    def _may_name(self, head: Head, version: int) -> bool:
        return not self.kept or version >= head.floor or version in head.kept

    def _keeper(self, w: World) -> Iterator[tuple[str, World]]:
        head, me = w.head, w.keeper
        if me.at == "idle":
            yield f"the keeper reads version {head.latest}", w._replace(keeper=Actor("read", head.latest))
        elif me.at == "read":
            if self._may_name(head, me.version):
                named = head._replace(seq=head.seq + 1, kept=head.kept | {me.version})
                yield f"version {me.version} is kept", w._replace(head=named, keeper=Actor("kept", me.version))
            else:
                yield "the keeper is refused", w._replace(keeper=Actor("refused"))
        elif me.at == "kept":
            gone = head._replace(seq=head.seq + 1, kept=head.kept - {me.version})
            if w.second.at != "kept" or w.second.version != me.version:
                yield f"version {me.version} is not kept any more", w._replace(head=gone, keeper=Actor("over"))
            else:  # another hold of its own keeps it
                yield "the keeper lets go, the second one holds on", w._replace(keeper=Actor("over"))

    def _second(self, w: World) -> Iterator[tuple[str, World]]:
        head, me = w.head, w.second
        if me.at == "idle" and head.kept:
            version = min(head.kept)
            yield f"a second keeper sees that {version} is kept", w._replace(second=Actor("read", version))
        elif me.at == "read":
            if self._may_name(head, me.version):
                named = head._replace(seq=head.seq + 1, kept=head.kept | {me.version})
                yield f"version {me.version} is kept twice", w._replace(head=named, second=Actor("kept", me.version))
            else:
                yield "the second keeper is refused", w._replace(second=Actor("refused"))

    def _writer(self, w: World) -> Iterator[tuple[str, World]]:
        head, me = w.head, w.writer
        if me.at == "idle":
            file = ("u", head.latest)
            yield (
                f"a slow writer writes a file on top of {head.latest}",
                w._replace(files=w.files | {file}, writer=Actor("written", head.latest)),
            )
        elif me.at == "written":
            if self.base and me.version < head.floor:
                yield "the slow writer is refused", w._replace(writer=Actor("refused"))
            else:
                named = head._replace(named=head.named | {("u", me.version)})
                yield "the slow writer commits", w._replace(head=named, writer=Actor("over"))

    def _restorer(self, w: World) -> Iterator[tuple[str, World]]:
        head, me = w.head, w.restorer
        if me.at == "idle":
            for version in sorted(head.kept | {max(head.floor, 1)}):
                yield f"a restorer reads version {version}", w._replace(restorer=Actor("read", version))
        elif me.at == "read":
            if self._may_name(head, me.version):
                named = head._replace(named=head.named | {("v", me.version)})
                yield f"version {me.version} is restored", w._replace(head=named, restorer=Actor("over"))
            else:
                yield "the restorer is refused", w._replace(restorer=Actor("refused"))

    def _collector(self, w: World) -> Iterator[tuple[str, World]]:
        head, me = w.head, w.collector
        if me.at == "idle" and not self.floor:
            plan = frozenset(w.files - self.needed(head._replace(floor=head.latest)))
            if plan:
                yield "the collector decides by what it sees", w._replace(collector=Actor("deletes", plan=plan))
        elif me.at == "idle" and head.floor < head.latest:
            yield (
                "the collector looks",
                w._replace(
                    collector=Actor(
                        "looked", head.latest, head.seq, self._doomed(head._replace(floor=head.latest), w.files)
                    )
                ),
            )
        elif me.at == "looked":
            if self.rebased and me.seq != head.seq:
                yield "which versions are kept changed: it looks again", w._replace(collector=Actor())
            else:
                after = head._replace(seq=head.seq + 1, floor=max(me.version, head.floor))
                # What was committed since it looked is retained too.
                plan = self._doomed(after, w.files) if self.rebased else me.plan
                at = "deletes" if plan else "idle"
                yield f"the floor is raised to {after.floor}", w._replace(head=after, collector=Actor(at, plan=plan))
        elif me.at == "deletes":
            for file in sorted(me.plan):
                rest = me.plan - {file}
                at = "deletes" if rest else "idle"
                yield f"{file} is deleted", w._replace(files=w.files - {file}, collector=Actor(at, plan=rest))

    def _doomed(self, head: Head, files: frozenset[File]) -> frozenset[File]:
        return frozenset(file for file in files - self.needed(head) if file[1] < head.floor)

    def wrong(self, w: World) -> str:
        lost = self.needed(w.head) - w.files
        return f"{sorted(lost)} is needed and gone" if lost else ""


class Shard(NamedTuple):
    """A shard's manifest and WAL, the table's cursor, and who is doing what."""

    wal: int = 0  # entries
    floor: int = 0  # of the WAL: those below are deleted
    flushed: int = 0  # replay_from
    merged: int = 0  # the table's cursor
    dropped: int = 0  # fragments of positions below are deleted
    announced: bool = False
    hold: int = -1  # in the manifest: from here on the WAL stays, with the fragments from ``held`` on
    held: int = -1
    complete: bool = False
    version: int = -1  # the merged cursor of the checkpoint's version
    maker: str = "idle"
    saw: tuple[int, int] = (-1, -1)  # what the maker captured: replay_from and the end
    collector: str = "idle"


class Durable:
    """The model, with its knobs."""

    def __init__(
        self,
        *,
        entries: int = 3,
        announce: bool = True,
        hold: bool = True,
        manifest_first: bool = True,
        recheck: bool = True,
    ) -> None:
        self.entries, self.announce, self.hold = entries, announce, hold
        self.manifest_first, self.recheck = manifest_first, recheck

    def init(self) -> Shard:
        return Shard()

    def steps(self, s: Shard) -> Iterator[tuple[str, Shard]]:
        yield from self._others(s)
        yield from self._maker(s)
        yield from self._collector(s)

    def _others(self, s: Shard) -> Iterator[tuple[str, Shard]]:
        if s.wal < self.entries:
            yield "an entry is put", s._replace(wal=s.wal + 1)
        if s.flushed < s.wal:
            yield "all is flushed", s._replace(flushed=s.wal)
        held = s.hold if self.hold and s.hold >= 0 else self.entries
        if s.floor < min(s.flushed, held):
            yield "the WAL is truncated", s._replace(floor=min(s.flushed, held))
        if s.merged < s.wal:
            yield "all is merged", s._replace(merged=s.wal, flushed=max(s.flushed, s.wal))
        keeps = s.held if self.hold and s.hold >= 0 else self.entries
        if s.dropped < min(s.merged, keeps):
            yield "merged fragments are deleted", s._replace(dropped=min(s.merged, keeps))
        if s.announced or s.complete:
            yield "the checkpoint is deleted", s._replace(announced=False, complete=False)

    def _maker(self, s: Shard) -> Iterator[tuple[str, Shard]]:
        if s.maker == "idle":
            yield "a checkpoint is announced", s._replace(maker="announced", announced=self.announce)
        elif s.maker == "announced":
            held = s._replace(maker="holds", hold=s.flushed, held=s.merged)
            yield "the manifest holds on to the WAL", held._replace(saw=(s.flushed, s.wal))
        elif s.maker == "holds":
            if self.announce and self.recheck and not s.announced:
                yield "it is gone: refused", s._replace(maker="refused")
            else:
                done = s._replace(maker="over", complete=True, announced=False, version=s.merged)
                yield "the checkpoint is complete", done

    def _collector(self, s: Shard) -> Iterator[tuple[str, Shard]]:
        """Removes a hold whose checkpoint is not there."""
        there = s.announced or s.complete
        if self.manifest_first:
            if s.collector == "idle" and s.hold >= 0:
                yield "the collector sees a hold", s._replace(collector="saw the hold")
            elif s.collector == "saw the hold":
                if there:
                    yield "its checkpoint is there", s._replace(collector="idle")
                else:
                    yield "its checkpoint is gone: the hold goes", s._replace(collector="idle", hold=-1, held=-1)
        elif s.collector == "idle" and not there:
            yield "the collector sees no checkpoint", s._replace(collector="saw none")
        elif s.collector == "saw none":
            yield "holds go", s._replace(collector="idle", hold=-1, held=-1)

    def wrong(self, s: Shard) -> str:
        if not s.complete:
            return ""
        start, end = s.saw
        first = max(start, s.version)  # rows before the version's cursor are in the version
        if first < end and s.floor > first:
            return f"entry {first} of the WAL belongs to the checkpoint and is gone"
        # Rows between the version's cursor and replay_from are in fragments.
        if s.version < start and s.dropped > s.version:
            return f"a fragment with position {s.version} belongs to the checkpoint and is gone"
        return ""


VARIANTS: dict[str, tuple[Collect | Durable, bool]] = {
    "the rule: floor first, names and bases compared with it": (Collect(), True),
    "the same, four versions": (Collect(versions=4), True),
    "deleted by what was seen, without a floor": (Collect(floor=False), False),
    "a slow commit does not look at the floor": (Collect(base=False), False),
    "a version is named without a look at the floor": (Collect(kept=False), False),
    "the floor is raised though a version was named since": (Collect(rebased=False), False),
    "a checkpoint of a WAL: announced, held, completed": (Durable(), True),
    "the same, five entries": (Durable(entries=5), True),
    "truncation does not look at holds": (Durable(hold=False), False),
    "held without an announcement": (Durable(announce=False), False),
    "the collector reads the table first": (Durable(manifest_first=False), False),
    "completed though it was deleted meanwhile": (Durable(recheck=False), False),
}
LARGE: dict[str, tuple[Collect | Durable, bool]] = {
    "the rule, five versions": (Collect(versions=5), True),
    "a checkpoint of a WAL, seven entries": (Durable(entries=7), True),
}
