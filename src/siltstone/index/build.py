"""A build of a text index: a plan, attempts at its items, and the end that any number of processes may bring about.

What must hold (``models/finalize.py``):
- The plan is fixed before work begins. Of each item the attempt counts that the build's log names first; what others
  stage for it is never read.
- The end is brought about for the whole plan or not at all. What counts is copied to its final name; nothing staged and
  no final name is deleted before the marker is there, and no final name ever.
- All that the marker says follows from the build's log. So whoever brings about the end, once more or at the same time,
  writes the same bytes to the same names. The marker is written where none is; whoever finds one changes nothing more.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.errors import (
    AlreadyExistsError,
    CorruptionError,
    MissingObjectError,
    NotFoundError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
    UnfinishedError,
)
from siltstone.format.frame import digest
from siltstone.format.packed import unpack_json
from siltstone.format.text import (
    MARKER_BYTES_MAX,
    Marker,
    Plan,
    Segment,
    Staged,
    decode_marker,
    decode_plan,
    decode_staged,
    encode,
    plain,
)
from siltstone.log.open import open_beside
from siltstone.table.upload import upload
from siltstone.telemetry import events, metrics, seams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from siltstone.env import Env
    from siltstone.format.text import PartFile
    from siltstone.log import Log, Mark
    from siltstone.store.base import Store

NAMED_MAX = 5  # items and fragments that an error names


class MadePart(NamedTuple):
    """A part that was made: what the marker will say of it, but for its name, and its bytes."""

    facts: PartFile
    data: bytes


class Finished(NamedTuple):
    """A build that is at its end: what the log of the table says of it, and its marker."""

    segment: Segment
    marker: Marker


def _about(build: Build, *_: object, **__: object) -> Mapping[str, str]:
    return {"table": build.store.uri}


@dataclass
class Build:
    """A handle on a build. Anyone may have one: whoever began it, workers, and who finds it after a crash."""

    table: Log
    name: str
    plan: Plan
    log: Log
    _known: tuple[Mark | None, dict[int, Staged]] = field(default=(None, {}), repr=False)

    @property
    def store(self) -> Store:
        """Where its objects are."""
        return self.table.store

    @property
    def env(self) -> Env:
        """Clock, ids and patience."""
        return self.table.env

    # -- work --------------------------------------------------------------------------------------

    def staged(self) -> dict[int, Staged]:
        """What counts, by item: the first that the log has of each."""
        mark, known = self._known
        tip, found = self.log.tip(mark), dict(known)
        plan = digest(plain(self.plan))
        for entry in self.log.entries(mark, until=tip):
            if entry.position == 0 or entry.kind != "data":
                continue
            one = decode_staged(entry.body, name=f"entry {entry.position} of {self.log.root}")
            if one.plan != plan or one.item >= len(self.plan.items):
                raise CorruptionError(f"entry {entry.position} of {self.log.root} is of another plan")
            found.setdefault(one.item, one)
        self._known = tip, found
        return found

    @seams.traced(
        "siltstone.index.item",
        about=_about,
        count=metrics.INDEX_ITEMS,
        seconds=metrics.INDEX_ITEM_SECONDS,
        expects=(MissingObjectError,),
    )
    def stage(self, item: int, parts: Iterable[MadePart]) -> Staged:
        """Write what was made of an item, and say so; what counts is returned, which may be another's."""
        attempt, facts = self.env.ids.new(), []
        for number, made in enumerate(parts):
            key = paths.index(self.name, paths.staged_part(item, attempt, number))
            upload(self.store, key, made.data, sha256=made.facts.sha256, env=self.env)
            facts.append(made.facts)
        mine = Staged(item=item, attempt=attempt, plan=digest(plain(self.plan)), parts=tuple(facts))
        self.log.add(encode(mine), op=attempt)
        counts = self.staged().get(item)
        if counts is None:
            raise MissingObjectError(
                f"the log of build {self.name} is gone", hint="build the index anew", object=self.log.root
            )
        return counts

    def missing(self) -> list[int]:
        """Items that nobody finished."""
        there = self.staged()
        return [number for number in range(len(self.plan.items)) if number not in there]

    # -- the end -----------------------------------------------------------------------------------

    def finished(self) -> Finished | None:
        """The build's end; None where it has none yet."""
        key = paths.index(self.name, paths.MARKER)
        try:
            data = self.store.get(key, limit=MARKER_BYTES_MAX)
        except NotFoundError:
            return None
        return _finished(data, self.name, key)

    @seams.traced(
        "siltstone.index.finalize",
        about=_about,
        seconds=metrics.INDEX_FINALIZE_SECONDS,
        expects=(MissingObjectError,),
    )
    def finalize(self, progress: Callable[[str, int, int], None] | None = None) -> Finished:
        """Bring about the end. May be called by anyone, at any time, again and at the same time.

        Raises:
            UnfinishedError: items were not finished; their fragments are named.
        """
        done = self.finished()
        if done is not None:
            return done
        staged = self.staged()
        if len(staged) < len(self.plan.items):
            raise self._unfinished(staged)
        copies = list(self._copies(staged))
        for number, (source, target, part) in enumerate(copies):
            done = self.finished()  # another one may have been faster
            if done is not None:
                return done
            if not self._copy(source, target, part):  # another one cleared it, or it is lost
                done = self.finished()
                if done is not None:
                    return done
                raise MissingObjectError(
                    f"{source} was staged and is gone, and the build has no end yet",
                    hint="build the index anew; this build can't be finished",
                    object=source,
                )
            if progress is not None:
                progress("copy", number + 1, len(copies))
        done = self._mark(encode(self._marker(staged)))
        made = done.segment
        events.FINALIZED.tell(table=self.store.uri, build=self.name, parts=made.parts, rows=made.rows)
        self._clear(source for source, _, _ in copies)
        return done

    def _copies(self, staged: dict[int, Staged]) -> Iterator[tuple[str, str, PartFile]]:
        for item, one in sorted(staged.items()):
            for number, part in enumerate(one.parts):
                if part.name != paths.part(item, number):
                    raise CorruptionError(f"part {number} of item {item} is called {part.name!a}", object=self.log.root)
                source = paths.index(self.name, paths.staged_part(item, one.attempt, number))
                yield source, paths.index(self.name, part.name), part

    def _copy(self, source: str, target: str, part: PartFile) -> bool:
        """Copy what was staged to its final name; whether it was there."""
        doubt: SiltstoneError | None = None
        for _ in self.env.tries():
            try:
                info = self.store.head(source)
                if info is None:
                    return False
                if info.size != part.bytes:
                    raise CorruptionError(
                        f"{source} has {info.size} bytes, and {part.bytes} were staged",
                        hint="build the index anew",
                        object=source,
                    )
                self.store.copy(source, target)
            except NotFoundError:
                return False
            except StoreFullError:
                raise
            except UnavailableError as error:
                doubt = error
            else:
                return True
        raise UnavailableError(
            f"{source} could not be copied to {target}", hint="finalize again when the store answers", object=target
        ) from doubt

    def _mark(self, data: bytes) -> Finished:
        """Write the marker, or find the one that another wrote meanwhile."""
        key = paths.index(self.name, paths.MARKER)
        doubt: SiltstoneError | None = None
        for _ in self.env.tries():
            try:
                self.store.create(key, data)
            except AlreadyExistsError as error:
                doubt, done = error, self.finished()
                if done is not None:
                    return done
            except StoreFullError:
                raise
            except UnavailableError as error:
                doubt = error
            else:
                return _finished(data, self.name, key)
        raise UnavailableError(
            f"{key} could not be written: {doubt.message if doubt else 'no answer'}",
            hint="finalize again when the store answers",
            object=key,
        ) from doubt

    def _marker(self, staged: dict[int, Staged]) -> Marker:
        plan = self.plan
        return Marker(
            plan=digest(plain(plan)),
            build=plan.build,
            index=plan.index,
            field=plan.field,
            analyzer=plan.analyzer,
            parts=tuple(part for _, one in sorted(staged.items()) for part in one.parts),
        )

    def _clear(self, keys: Iterable[str]) -> None:
        """Clear from staging what the marker stands for; a collection removes what is left."""
        with contextlib.suppress(SiltstoneError):
            self.store.delete(keys)

    def _unfinished(self, staged: dict[int, Staged]) -> UnfinishedError:
        items = self.plan.items
        missing = [number for number in range(len(items)) if number not in staged]
        names = [one.name for number in missing for one in items[number].fragments]
        return UnfinishedError(
            f"{len(missing)} of {len(items)} items of build {self.name} were not finished: {_first(missing)} "
            f"(fragments {_first(names)})",
            hint="run the items that are missing, then commit again",
            items=missing,
            fragments=names,
        )


def begin(table: Log, plan: Plan) -> Build:
    """Begin a build: its plan is fixed from here on."""
    log = open_beside(table, paths.index_log(plan.build), create=True)
    data = encode(plan)
    log.append(data, after=log.start, op=digest(data)[:32])
    return Build(table, plan.build, plan, log)


def open_build(table: Log, name: str) -> Build:
    """A build that somebody began.

    Raises:
        NotFoundError: there is none of this name, or it has no plan.
    """
    try:
        log = open_beside(table, paths.index_log(name))
    except NotFoundError as error:
        raise _no_build(table, name) from error
    data = log.published(0)
    if data is None:
        raise _no_build(table, name)
    plan = decode_plan(log.read(data, 0).body, name=f"the plan of build {name}")
    if plan.build != name:
        raise CorruptionError(f"the plan of build {name} is of build {plan.build}", object=log.root)
    return Build(table, name, plan, log)


def read_marker(store: Store, segment: Segment) -> Marker:
    """The marker of a segment, which must be the one that the table's log names."""
    key = paths.index(segment.build, paths.MARKER)
    try:
        data = store.get(key, limit=MARKER_BYTES_MAX)
    except NotFoundError:
        raise MissingObjectError(
            f"the marker of an index is gone: {key}", hint="drop the index and create it again", object=key
        ) from None
    if digest(unpack_json(data, name=key)) != segment.digest:
        raise CorruptionError(
            f"{key} is another one than the table names", hint="drop the index and create it again", object=key
        )
    return decode_marker(data, name=key)


def _finished(data: bytes, build: str, key: str) -> Finished:
    marker = decode_marker(data, name=key)
    if marker.build != build:
        raise CorruptionError(f"{key} is of build {marker.build}", object=key)
    return Finished(segment_of(marker, marker_bytes=len(data)), marker)


def segment_of(marker: Marker, *, marker_bytes: int) -> Segment:
    """What the log of a table says of a build that has a marker."""
    covered = {one.name for part in marker.parts for one in part.fragments}
    return Segment(
        build=marker.build,
        digest=digest(plain(marker)),
        bytes=marker_bytes,
        parts=len(marker.parts),
        rows=sum(part.documents for part in marker.parts),
        stored_bytes=sum(part.bytes for part in marker.parts),
        fragments=len(covered),
    )


def _first(many: Sequence[object]) -> str:
    """Some of many, for people."""
    more = f" and {len(many) - NAMED_MAX} more" if len(many) > NAMED_MAX else ""
    return ", ".join(map(str, many[:NAMED_MAX])) + more


def _no_build(table: Log, name: str) -> NotFoundError:
    return NotFoundError(f"there is no build {name} at {table.store.uri}", hint="begin it first")
