"""Collection: what no version that is kept needs any more is removed.

What must hold:
- An entry of the table's log raises the floor before anything is deleted, and is made anew where it changed which
  versions are kept since the collector looked. What may go is found out from the state that this entry made.
- So nobody needs to be waited for: whoever began below the floor is refused when it commits, and whoever names a
  version looks at the floor.
- No clock is needed for that. Clocks, and only the store's, say how long versions and checkpoints are kept.
- Every step may be cut off, and be done by several at once: the next collection goes on from what it finds.
- A collection that has nothing to do makes no version.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from siltstone.errors import ConflictError, SiltstoneError, TruncatedError
from siltstone.retain.builds import in_order
from siltstone.retain.expiry import is_expired, now_ms
from siltstone.retain.leftovers import delete, left_over, unfinished
from siltstone.retain.pins import claim_of, release
from siltstone.retain.plan import ENTRY, Doomed, Survey, choose_floor, still_unneeded, survey, unneeded
from siltstone.retain.rollups import old_entries, old_rollups, shorten
from siltstone.retain.shard_gc import collect_shards, old_shard_objects
from siltstone.table.commit import commit
from siltstone.table.operations import Work
from siltstone.telemetry import events, metrics, seams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from siltstone.format.table import Checkpoint, Origin
    from siltstone.shard.shards import Shards
    from siltstone.table.draft import Draft
    from siltstone.table.history import History
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

ROUNDS_MAX = 8  # of looking again, where another collection went further meanwhile


@dataclass(frozen=True)
class Collected:
    """What a collection did, or with ``dry_run`` would do. Objects and bytes are by kind.

    ``kept`` are the versions below ``floor`` that tags and checkpoints keep; ``left`` says what could not be done, and
    is tried again by the next collection. Entries of the log stay a little longer than the floor says.
    """

    version: int
    floor: int
    kept: tuple[int, ...] = ()
    objects: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    expired: tuple[str, ...] = ()  # checkpoints
    dry_run: bool = False
    doomed: tuple[Doomed, ...] = ()  # with ``dry_run``, all that would go
    left: tuple[str, ...] = ()

    @property
    def deleted(self) -> int:
        """How many objects went, or would go."""
        return sum(self.objects.values())


class Wanted(NamedTuple):
    """What is to be kept."""

    keep_ms: int
    keep_versions: int


class Handle(NamedTuple):
    """What a collection works with."""

    history: History
    tools: Tools
    shards: Shards
    now: Callable[[], State]  # the newest version
    others: OpensOthers


class Collect(Work):
    """The floor goes up, checkpoints that are over go, and other tables of which nothing is named any more."""

    operation = "collect"

    def __init__(self, history: History, *, floor: int, now_ms: int) -> None:
        self._history = history
        self._floor = floor
        self._now_ms = now_ms

    def run(self, draft: Draft) -> None:
        """Decided by the version that it comes behind."""
        draft.depends(kept=True)
        state = draft.state
        floor = max(self._floor, state.floor)
        over = expired(state, self._now_ms)
        idle: frozenset[str] = frozenset()
        if state.origins:
            # A version that lands meanwhile may name them again: whatever it is, look again.
            draft.depends(numbered=True)
            found = survey(self._history, without(draft.begun, over), floor=floor)
            idle = frozenset(state.origins) - found.needed.origins
        draft.retain(
            floor=floor if floor > state.floor else None,
            checkpoints=dict.fromkeys(over),
            origins=dict.fromkeys(idle),
        )


def expired(state: State, time_ms: int) -> dict[str, Checkpoint]:
    """Checkpoints that are no promise any more."""
    return {name: one for name, one in state.checkpoints.items() if is_expired(one, time_ms)}


def without(state: State, over: Iterable[str]) -> State:
    """A state as if some checkpoints were gone."""
    gone = frozenset(over)
    return replace(state, checkpoints={name: one for name, one in state.checkpoints.items() if name not in gone})


class _Look(NamedTuple):
    """What a collector saw before it did anything."""

    state: State
    over: Mapping[str, Checkpoint]
    found: Survey
    doomed: list[Doomed]
    idle: frozenset[str]  # numbers of other tables

    @property
    def needs_entry(self) -> bool:
        """Whether anything is gained by an entry: else collections of a table that nobody writes to would add up."""
        raised = self.found.floor > self.state.floor
        gained = self.found.passes or any(one.base >= self.state.floor for one in self.doomed)
        return bool(self.over or self.idle or (raised and gained))

    def as_it_will_be(self) -> State:
        """The state that the entry would make, but for its number."""
        return replace(without(self.state, self.over), floor=self.found.floor)


class Collection:
    """One collection of one table."""

    def __init__(self, handle: Handle, wanted: Wanted, *, progress: Callable[[int, int], None] | None = None) -> None:
        self._handle = handle
        self._history = handle.history
        self._log = handle.history.log
        self._wanted = wanted
        self._progress = progress
        self._now_ms = now_ms(self._log)
        self._objects: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._left: list[str] = []

    # -- looking -----------------------------------------------------------------------------------

    def plan(self) -> Collected:
        """What a collection would do now."""
        look = self._look(explain=True)
        will = look.as_it_will_be()
        if not look.needs_entry:
            will = replace(will, floor=look.state.floor)
        doomed = [one for one in look.doomed if one.base < will.floor]
        doomed += old_entries(self._log, will)
        doomed += old_rollups(self._history, will)
        doomed += old_shard_objects(self._handle.shards, look.state, now_ms=self._now_ms)
        known = {one.key for one in doomed}
        end = look.state.mark.position
        doomed += (one for one in left_over(self._log, end=end, now_ms=self._now_ms) if one.key not in known)
        doomed += unfinished(self._log.store, now_ms=self._now_ms, remove=False)
        for one in doomed:
            self._count(one)
        return self._collected(will, look.over, doomed=tuple(doomed), dry_run=True)

    def _look(self, *, explain: bool = False) -> _Look:
        for number in range(ROUNDS_MAX):
            state = self._handle.now()
            over = expired(state, self._now_ms)
            floor = choose_floor(self._log, state, **self._wanted._asdict(), now_ms=self._now_ms)
            try:
                found = survey(self._history, without(state, over), floor=floor, explain=explain)
            except TruncatedError:
                if number == ROUNDS_MAX - 1:
                    raise
                continue
            doomed = list(unneeded(self._log.store, found))
            return _Look(state, over, found, doomed, frozenset(state.origins) - found.needed.origins)
        raise _outrun()

    # -- doing -------------------------------------------------------------------------------------

    @seams.traced("siltstone.gc", about=seams.of_log, seconds=metrics.GC_SECONDS)
    def run(self) -> Collected:
        """Collect."""
        look = self._look()
        self._let_go(look.found.let_go)  # a collection before this one may not have come so far
        for _ in range(ROUNDS_MAX):
            try:
                state, found = self._raise_floor(look)
                break
            except ConflictError as error:
                if "floor" not in error.facts:
                    raise
            except TruncatedError:
                pass
            look = self._look()  # another collection went further
        else:
            raise _outrun()
        gone = [one for one in look.doomed if still_unneeded(one, found)]
        delete(self._log.store, in_order(self._log, (one.key for one in gone)), progress=self._progress)
        for one in gone:
            self._count(one)
        self._best_effort("the log can't be truncated", lambda: self._shorten(state))
        self._best_effort("shards can't be tidied", self._shards)
        self._let_go({number: one for number, one in look.state.origins.items() if number not in state.origins})
        self._best_effort("what was left over can't be removed", lambda: self._leftovers(state))
        done = self._collected(state, look.over)
        _tell(self._log.store.uri, done)
        return done

    def _raise_floor(self, look: _Look) -> tuple[State, Survey]:
        """The state that an entry made, and what is needed by it; nothing is put where nothing is gained."""
        if not look.needs_entry:
            return look.state, replace(look.found, floor=look.state.floor)
        work = Collect(self._history, floor=look.found.floor, now_ms=self._now_ms)
        tools = self._handle.tools
        done = commit(tools, self._history, look.state, [work], base=look.state.version)
        if done.change is not None and done.version == look.state.version + 1:
            return done.state, look.found
        return done.state, survey(self._history, done.state, floor=done.state.floor)

    def _shorten(self, state: State) -> None:
        done = shorten(self._history, state)
        if done.objects:
            self._objects[ENTRY] += done.objects
            self._bytes[ENTRY] += done.bytes
        self._delete(old_rollups(self._history, state))

    def _shards(self) -> None:
        for one in collect_shards(self._handle.shards, self._handle.now, self._left.append):
            self._count(one)

    def _leftovers(self, state: State) -> None:
        self._delete(left_over(self._log, end=state.mark.position, now_ms=self._now_ms))
        for one in unfinished(self._log.store, now_ms=self._now_ms, remove=True):
            self._count(one)

    def _let_go(self, origins: Mapping[str, Origin]) -> None:
        """Release what this table holds in others, of which it names nothing any more."""
        if not origins:
            return
        state = self._handle.now()
        claim, needed = claim_of(self._log, state), {one.table for one in state.origins.values()}
        for number, origin in origins.items():
            if origin.table in needed:
                continue
            what = f"the hold on {origin.uri} can't be released"
            self._best_effort(what, partial(release, self._log, claim, [(int(number), origin)], self._handle.others))

    # -- helpers -----------------------------------------------------------------------------------

    def _delete(self, doomed: Iterable[Doomed]) -> None:
        found = list(doomed)
        delete(self._log.store, [one.key for one in found])
        for one in found:
            self._count(one)

    def _count(self, one: Doomed) -> None:
        self._objects[one.kind] += 1
        self._bytes[one.kind] += one.bytes

    def _best_effort(self, what: str, call: Callable[[], None]) -> None:
        """Do what the next collection does too, where it can't be done now."""
        try:
            call()
        except SiltstoneError as error:
            self._left.append(f"{what}: {error.message}")

    def _collected(
        self, state: State, over: Iterable[str], *, doomed: tuple[Doomed, ...] = (), dry_run: bool = False
    ) -> Collected:
        return Collected(
            version=state.version,
            floor=state.floor,
            kept=tuple(sorted(one for one in state.kept if one < state.floor)),
            objects=dict(self._objects),
            bytes=dict(self._bytes),
            expired=tuple(sorted(over)),
            dry_run=dry_run,
            doomed=doomed,
            left=tuple(self._left),
        )


def _tell(table: str, done: Collected) -> None:
    for kind, objects in done.objects.items():
        metrics.GC_REMOVED.add(objects, table=table, kind=kind)
        metrics.GC_BYTES.add(done.bytes[kind], table=table, kind=kind)
    nbytes = sum(done.bytes.values())
    events.COLLECTED.tell(table=table, objects=done.deleted, bytes=nbytes, floor=done.floor, left=len(done.left))


def _outrun() -> ConflictError:
    return ConflictError(
        f"other collections went further {ROUNDS_MAX} times while this one looked", hint="they do the same; try later"
    )
