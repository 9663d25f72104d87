"""Finding the state of a table: rollups, then the entries behind them; and keeping up with others.

What must hold:
- A state is built from an unbroken, checked chain: a rollup counts only where the log's next entry, or the one
  before it, names the same digest.
- A rollup is an aid. One that is missing, broken or of another log is passed over; the log alone is enough.
- Opening reads few objects however long the log is: rollups of several levels, and one entry for each block.
- The log may be truncated while it is read, behind a rollup that stands on no other: whoever meets that looks again.
- Whoever commits entry n with n a multiple of ``ROLLUP_EVERY`` writes the rollup; it may die before.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from siltstone import paths
from siltstone.errors import (
    AlreadyExistsError,
    CorruptionError,
    InternalError,
    NotFoundError,
    SiltstoneError,
    TruncatedError,
)
from siltstone.format.rollup import ROLLUP_BYTES_MAX, Rollup, decode_rollup
from siltstone.format.table import BLOCK, Repeated, decode_change
from siltstone.format.version import decode_version
from siltstone.table.state import State, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.format.version import Held
    from siltstone.log import Entry, Log, Mark

ROLLUP_EVERY = 32
LEVEL = 8  # a rollup of one level stands on one of the next, which is this many times as rare
ROLLUPS_TRIED_MAX = 1000
LOOKS_MAX = 8  # at a log that is truncated while it is read; each time by another collection
CROWDED = 0.5
STATES_KEPT = 4


class History:
    """The states of one table, read from its store. Holds no state of its own but the rollups it stands on."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.store = log.store
        self.base = State(mark=log.start, block=log.start)
        self._chain: tuple[State, ...] = ()  # states at rollups, ascending
        self._losses = 0.0  # of this handle's recent commits, on average
        self._kept: dict[int, State] = {}  # the last few that were seen, by version

    @property
    def crowded(self) -> bool:
        """Whether others commit so often that it pays to look where the log ends before trying."""
        return self._losses > CROWDED

    def note_losses(self, losses: int) -> None:
        """Take down how many places a commit lost before it won one."""
        self._losses += (losses - self._losses) * 0.25

    # -- states ------------------------------------------------------------------------------------

    def newest(self) -> State:
        """The state at the tip."""
        return _again(self._newest)

    def _newest(self) -> State:
        state = self._from_rollups(None)
        after = self._follow(state, until=None, past=True)
        if after.mark == state.mark and state.mark.position:
            self.log.check_stands(state.mark)
        elif not after.mark.position and (floor := self.log.floor_now(trust_ms=0)):
            # The first entry was truncated since the floor was looked at: there is a table.
            raise TruncatedError(f"entries below {floor} were truncated meanwhile", hint="look again")
        return after

    def at(self, version: int) -> State:
        """The state at a version; the caller knows that it exists. Raises TruncatedError where it was collected."""
        if (kept := self._kept.get(version)) is not None:
            return kept

        def look() -> State:
            state = self._from_rollups(version + 1)
            return state if state.mark.position == version + 1 else self._follow(state, until=version + 1)

        return _again(look)

    def keep(self, state: State) -> None:
        """Remember a state for a while: who names a version mostly made it just now."""
        kept = {**self._kept, state.version: state}
        self._kept = dict(list(kept.items())[-STATES_KEPT:])

    def refresh(self, state: State) -> State:
        """The state at the tip, from an earlier one."""
        if self.log.floor_now(trust_ms=self.log.identity.trust_ms) > state.mark.position:
            return self.newest()  # what lies between was truncated
        try:
            return self._follow(state, until=None)
        except TruncatedError:  # or is, at this moment
            return self.newest()

    def _follow(self, state: State, *, until: int | None, past: bool = False) -> State:
        for step in self.steps(state.mark, until=until, past=past):
            state = state.step(step)
        return state

    # -- steps -------------------------------------------------------------------------------------

    def steps(self, since: Mark, *, until: int | None = None, past: bool = False) -> Iterator[Step]:
        """The entries behind ``since`` as a table sees them, each once, chain checked."""
        mark = since
        for entry in self.log.sparse(since, block=BLOCK, until=until, past=past):
            held = _held_by(entry)
            before = _before(entry, held, mark)
            for missed in self._whole(mark, entry.position - len(before)):
                step = to_step(missed)
                yield step
                mark = step.end
            for step in _repeated(entry, before):
                yield step
                mark = step.end
            self.log.check_follows(entry, mark)
            yield _step_of(entry, held)
            mark = entry.end

    def _whole(self, mark: Mark, stop: int) -> Iterator[Entry]:
        """Entries that nothing repeats, one by one."""
        for data in self.log.published_many(mark.position, stop) if mark.position < stop else ():
            if data is None:
                raise self.log.gone(mark.position)
            entry = self.log.read(data, mark.position)
            self.log.check_follows(entry, mark)
            yield entry
            mark = entry.end

    # -- rollups -----------------------------------------------------------------------------------

    def _from_rollups(self, at_most: int | None) -> State:
        """The newest state that rollups give, at or below a position."""
        after = paths.rollup(at_most + 1) if at_most is not None else ""
        listed = self.store.list(paths.ROLLUPS, after=after)
        for _, info in zip(range(ROLLUPS_TRIED_MAX), listed, strict=False):
            position = paths.parse_rollup(info.key)
            if position is None or (at_most is not None and position > at_most):
                continue
            with contextlib.suppress(CorruptionError, NotFoundError):  # the next older one, or the log, will do
                return self._build(position)
        if self.log.floor_now(trust_ms=self.log.identity.trust_ms):
            raise TruncatedError(
                f"the log of {self.store.uri} was truncated, and no rollup up to "
                f"{'its floor' if at_most is None else f'version {at_most - 1}'} is left",
                hint="run `siltstone verify`",
            )
        return self.base

    def _build(self, position: int) -> State:
        found = self._fetch(position)
        state, chain = self.base, []
        for at in sorted(found):
            state = state.join(found[at], name=paths.rollup(at))
            chain.append(state)
        if not self._chain or chain[-1].mark.position > self._chain[-1].mark.position:
            self._chain = tuple(chain)
        return state

    def _fetch(self, position: int) -> dict[int, Rollup]:
        """A rollup and all that it stands on. Where those are is guessed, so that they are fetched together."""
        guesses = [position]
        every = ROLLUP_EVERY * LEVEL
        while every <= position:
            if guesses[-1] != position - position % every:
                guesses.append(position - position % every)
            every *= LEVEL
        keys = [paths.rollup(at) for at in guesses]
        ready = dict(zip(guesses, self.store.get_many(keys, limit=ROLLUP_BYTES_MAX), strict=True))
        found: dict[int, Rollup] = {}
        while position:
            key = paths.rollup(position)
            data = ready.get(position)
            rollup = decode_rollup(self.store.get(key, limit=ROLLUP_BYTES_MAX) if data is None else data, name=key)
            if rollup.header.log != self.log.identity.log or rollup.header.position != position:
                raise CorruptionError(f"{key} is of log {rollup.header.log}", object=key)
            found[position] = rollup
            position = rollup.header.since
        return found

    def write_rollup(self, state: State) -> None:
        """Write the rollup of a state where one is due. Best effort: without it, opening reads more."""
        position = state.mark.position
        if position == 0 or position % ROLLUP_EVERY:
            return
        every = ROLLUP_EVERY
        while position % (every * LEVEL) == 0:
            every *= LEVEL
        chain = [
            one
            for one in self._chain
            if one.mark.position % (every * LEVEL) == 0
            and state.oldest < one.mark.position < position  # a collection removes those below
            and one.born == state.born
        ]
        since = chain[-1] if chain else self.base
        try:
            self.store.create(paths.rollup(position), state.rollup(since, log=self.log.identity.log))
        except AlreadyExistsError:  # another's rollup of the same state does as well
            pass
        except SiltstoneError:  # the next ones must not stand on it
            return
        kept = [one for one in self._chain if one.mark.position <= since.mark.position]
        self._chain = (*kept, state)

    def write_anchor(self, state: State) -> None:
        """Write a rollup that stands on no other, over any that is there: what the log is truncated behind."""
        key = paths.rollup(state.mark.position)
        with contextlib.suppress(NotFoundError, CorruptionError):
            there = decode_rollup(self.store.get(key, limit=ROLLUP_BYTES_MAX), name=key).header
            if (there.log, there.since, there.digest) == (self.log.identity.log, 0, state.mark.digest):
                return
        self.store.put(key, state.rollup(self.base, log=self.log.identity.log))


def _again(look: Callable[[], State]) -> State:
    """What a look finds, and another one where the log was truncated meanwhile."""
    for number in range(LOOKS_MAX):
        try:
            return look()
        except TruncatedError:
            if number == LOOKS_MAX - 1:
                raise
    raise InternalError("nobody looked")


def to_step(entry: Entry) -> Step:
    """An entry as a table sees it."""
    return _step_of(entry, _held_by(entry))


def _step_of(entry: Entry, held: Held | None) -> Step:
    raw = bytes(held.body.change) if held else b""
    return Step(
        position=entry.position,
        op=entry.op,
        time_ms=entry.time_ms,
        digest=entry.digest,
        epoch=entry.epoch,
        said=decode_change(raw, name=f"version {entry.position}") if raw else None,
        raw=raw,
        columns=held.columns if held else None,
    )


def repeats(state: State) -> tuple[str, tuple[Repeated, ...]]:
    """What the next entry repeats: the digest before its block, and the block so far."""
    count = state.mark.position % BLOCK
    steps = state.recent[-count:] if count else ()
    if any(step.columns is not None for step in steps):  # which are long
        return "", ()
    return (state.block.digest, tuple(map(_repeat, steps))) if steps and len(steps) == count else ("", ())


def _repeat(step: Step) -> Repeated:
    change = msgspec.Raw(step.raw or b"null")
    return Repeated(op=step.op, digest=step.digest, time_ms=step.time_ms, change=change)


def _held_by(entry: Entry) -> Held | None:
    """What an entry holds that has a change; None for aborts and the like."""
    if entry.kind != "data" or entry.dead:
        return None
    return decode_version(entry.body, name=f"version {entry.position}")


def _before(entry: Entry, held: Held | None, mark: Mark) -> tuple[Repeated, ...]:
    """What an entry repeats of those from ``mark`` on; nothing where it was written for another place."""
    before = held.body.before if held else ()
    skip = mark.position - (entry.position - len(before))
    if held is None or not 0 <= skip < len(before):
        return ()
    known = held.body.prev if skip == 0 else before[skip - 1].digest
    # The entries themselves are the authority: where the two differ, they are read instead.
    return before[skip:] if known == mark.digest and before[-1].digest == entry.prev else ()


def _repeated(entry: Entry, before: tuple[Repeated, ...]) -> Iterator[Step]:
    start = entry.position - len(before)
    for position, one in enumerate(before, start):
        raw = bytes(one.change)
        name = f"version {position}, as version {entry.position} repeats it"
        yield Step(
            position=position,
            op=one.op,
            time_ms=one.time_ms,
            digest=one.digest,
            epoch=entry.epoch,
            said=decode_change(raw, name=name) if raw != b"null" else None,
            raw=raw if raw != b"null" else b"",
        )
