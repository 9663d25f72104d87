"""Committing a transaction: run its operations on the newest version, win a place, or look and go on behind others.

What must hold:
- A change is committed only behind a version that it was run on, or that ``conflict`` says does not concern it.
- One transaction has one op id on every attempt; where nobody can tell what became of it, CommitUnknownError carries
  it, and nothing that was written is deleted.
- A transaction whose ``once`` was applied before changes nothing, also where ten processes commit it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone.errors import ConflictError, CorruptionError, InternalError, InvalidInputError
from siltstone.format.table import Change, encode_body, encode_change
from siltstone.log.marks import Entry
from siltstone.table.conflict import Footprint, Verdict, verdict_of_all
from siltstone.table.draft import Draft, is_empty
from siltstone.table.history import repeats, to_step
from siltstone.table.once import ANYTIME, Once
from siltstone.table.state import State, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.table import Operation
    from siltstone.table.history import History
    from siltstone.table.operations import Work
    from siltstone.table.tools import Tools

WAIT_LEAST_S = 0.002
WAIT_MOST_S = 1.0


class Committed(NamedTuple):
    """What became of a transaction."""

    state: State
    version: int  # the version it made, or was applied in before, or the present one where it changed nothing
    change: Change | None  # None where it changed nothing


class _Prepared(NamedTuple):
    change: Change
    raw: bytes
    footprint: Footprint


def commit(
    tools: Tools,
    history: History,
    state: State,
    works: Sequence[Work],
    *,
    base: int,
    once: Once = ANYTIME,
    message: str = "",
    op: str = "",
) -> Committed:
    """Make a version of some operations; ``op`` names it.

    Raises ConflictError (they can't be done any more, or others were first all the time), CommitUnknownError (look
    ``facts["op"]`` up first), InvalidInputError (they don't fit what is in the table).
    """
    op = op or tools.env.ids.new()
    prepared: _Prepared | None = None
    looked, losses = history.crowded, 0  # looked: ``state`` was the newest at some time since the call
    if looked:
        state = history.refresh(state)
    for _ in tools.env.tries(most_s=0):
        if (version := once.applied(state)) is not None:
            return Committed(state, version, None)
        try:
            prepared = prepared or _prepare(tools, state, works, base=base, once=once, message=message)
        except (InvalidInputError, ConflictError):
            if looked or _is_newest(history, state):
                raise
        if prepared is not None and is_empty(prepared.change) and (looked or _is_newest(history, state)):
            return Committed(state, state.version, None)
        if prepared is not None and not is_empty(prepared.change):
            began = tools.env.clock.monotonic()
            step, landed = _attempt(history, state, prepared, op=op, time_ms=tools.env.clock.wall_ms())
            if landed is None:
                history.note_losses(losses)
                state = state.step(step)
                history.write_rollup(state)
                return Committed(state, step.position, prepared.change)
            losses += 1
            state, prepared = state.step(landed), _judge(prepared, [landed])
            if losses == 1:
                continue  # the next place may well be free
            _wait(tools, losses, tools.env.clock.monotonic() - began)
        newest = history.refresh(state)
        prepared = _judge(prepared, newest.steps_since(state))
        state, looked = newest, True
    raise ConflictError(
        f"other writers were first all the time for {tools.env.patience_s} s",
        hint="try again; fewer writers, or more rows in one version, help",
        op=op,
        version=state.version,
    )


def _wait(tools: Tools, losses: int, took_s: float) -> None:
    """Let others get on: the longer an attempt takes and the more were lost, the longer."""
    most = min(WAIT_MOST_S, max(took_s, WAIT_LEAST_S) * 2 ** min(losses + 2, 12))
    tools.env.clock.sleep(tools.env.ids.uniform(0, most))


def _is_newest(history: History, state: State) -> bool:
    """Whether nothing landed since: what an old version says is no reason to refuse, or to do nothing."""
    return history.refresh(state).version == state.version


def _prepare(tools: Tools, state: State, works: Sequence[Work], *, base: int, once: Once, message: str) -> _Prepared:
    draft = Draft(tools, state)
    for work in works:
        work.run(draft)
    kinds = {work.operation for work in works if not work.accompanies}
    operation: Operation = kinds.pop() if len(kinds) == 1 else "transaction"
    change, footprint = draft.finish(operation, base=base, once=once, message=message)
    try:
        state.apply(change, version=state.mark.position)
    except CorruptionError as error:  # better no version than one that nobody can read
        raise InternalError(f"the change does not fit the version it was made for: {error.message}") from error
    return _Prepared(change, encode_change(change), footprint)


def _attempt(
    history: History, state: State, prepared: _Prepared, *, op: str, time_ms: int
) -> tuple[Step, None] | tuple[Step, Step]:
    """My step and None where it was committed, else my step and the one that holds the place."""
    prev, before = repeats(state)
    body = encode_body(prepared.raw, prev=prev, before=before)
    mine = Step(
        position=state.mark.position,
        op=op,
        time_ms=time_ms,
        digest="",
        epoch=state.mark.epoch,
        change=prepared.change,
        raw=prepared.raw,
    )
    try:
        end = history.log.append(body, after=state.mark, op=op, time_ms=time_ms)
    except ConflictError as error:
        if not isinstance(error.winner, Entry):
            raise
        return mine, to_step(error.winner)
    return mine.acknowledged(end.digest), None


def _judge(prepared: _Prepared | None, landed: Sequence[Step] | None) -> _Prepared | None:
    """What is left of a prepared change: itself, or None where it must be run again."""
    if prepared is None or landed is None:
        return None
    changes = [step.change for step in landed if step.change is not None]
    found = verdict_of_all(prepared.footprint, changes)
    if found is Verdict.CONFLICT:
        raise ConflictError(
            "the fragments that were being rewritten were replaced meanwhile", hint="nothing was changed; run it again"
        )
    return prepared if found is Verdict.KEEP else None
