"""Committing a transaction: run its operations on the newest version, win a place, or look and go on behind others.

What must hold:
- A change is committed only behind a version that it was run on, or that ``conflict`` says does not concern it.
- One transaction has one op id on every attempt; where nobody can tell what became of it, CommitUnknownError carries
  it, and nothing that was written is deleted.
- No version names an object that a collection may remove: what was written on top of a version below the floor.
- A transaction whose ``once`` was applied before changes nothing, also where ten processes commit it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    MissingObjectError,
    NotFoundError,
    SiltstoneError,
)
from siltstone.format.table import Change, encode_change
from siltstone.format.version import encode_version, requires
from siltstone.log.marks import Entry
from siltstone.table.conflict import Footprint, Verdict, verdict_of_all
from siltstone.table.draft import Draft, is_empty
from siltstone.table.history import repeats, to_step
from siltstone.table.named import own_names
from siltstone.table.once import ANYTIME, Once
from siltstone.table.state import State, Step
from siltstone.telemetry import events, metrics, seams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

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
    columns: pa.Table | None  # fragments that the change has besides
    raw: bytes
    footprint: Footprint
    oldest: int  # the lowest version that something it names was written on top of


def _about(tools: Tools, history: History, state: State, works: Sequence[Work], **_: object) -> Mapping[str, str]:
    """What telemetry is told of a commit."""
    del tools, state
    return {"table": history.store.uri, "operation": _operation(works)}


def _became(done: Committed) -> Mapping[str, object]:
    return {"outcome": "unchanged" if done.change is None else seams.OK, "version": done.version}


@seams.traced("siltstone.commit", about=_about, facts=_became, count=metrics.COMMITS, seconds=metrics.COMMIT_SECONDS)
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
    # A place that the floor of the log passed is empty again: what is put there is put in vain.
    passed = history.log.floor_now(trust_ms=history.log.identity.trust_ms) > state.mark.position
    looked, losses = history.crowded or passed, 0  # looked: ``state`` was the newest at some time since the call
    if looked:
        state = history.refresh(state)
    for _ in tools.env.tries(most_s=0):
        if (version := once.applied_as(state, _operation(works))) is not None:
            return Committed(state, version, None)
        _check_room(history, state, base)
        try:
            prepared = prepared or _prepare(tools, state, works, base=base, once=once, message=message)
        except (InvalidInputError, ConflictError, MissingObjectError) as error:
            # Files of a version that was looked at may be collected since.
            if (looked and not isinstance(error, MissingObjectError)) or _is_newest(history, state):
                raise
        if prepared is not None and _is_empty(prepared) and (looked or _is_newest(history, state)):
            return Committed(state, state.version, None)
        if prepared is not None and not _is_empty(prepared):
            began = tools.env.clock.monotonic()
            step, landed = _attempt(history, state, prepared, op=op, time_ms=tools.env.clock.wall_ms())
            if landed is None:
                history.note_losses(losses)
                state = state.step(step)
                history.keep(state)
                history.write_rollup(state)
                return Committed(state, step.position, prepared.change)
            losses += 1
            _tell_loss(history, losses, step)
            state, prepared = state.step(landed), _judge(history, prepared, [landed])
            if losses == 1:
                continue  # the next place may well be free
            _wait(tools, losses, tools.env.clock.monotonic() - began)
        newest = history.refresh(state)
        prepared = _judge(history, prepared, newest.steps_since(state))
        state, looked = newest, True
    raise ConflictError(
        f"other writers were first all the time for {tools.env.patience_s} s",
        hint="try again; fewer writers, or more rows in one version, help",
        op=op,
        version=state.version,
    )


def _tell_loss(history: History, losses: int, mine: Step) -> None:
    metrics.COMMIT_CONFLICTS.add(table=history.store.uri)
    if losses > 1:  # one is nothing to speak of
        events.CONFLICT.tell(table=history.store.uri, losses=losses, version=mine.position)


def _wait(tools: Tools, losses: int, took_s: float) -> None:
    """Let others get on: the longer an attempt takes and the more were lost, the longer."""
    most = min(WAIT_MOST_S, max(took_s, WAIT_LEAST_S) * 2 ** min(losses + 2, 12))
    tools.env.clock.sleep(tools.env.ids.uniform(0, most))


def _is_newest(history: History, state: State) -> bool:
    """Whether nothing landed since: what an old version says is no reason to refuse, or to do nothing."""
    return history.refresh(state).version == state.version


def _check_room(history: History, state: State, base: int) -> None:
    """What was written on top of a version that is collected may be collected too: it must not be named any more."""
    if state.dropped:
        raise dropped(history.store.uri, state)
    if base < state.floor:
        raise _too_late(base, state)


def _too_late(base: int, state: State) -> ConflictError:
    return ConflictError(
        f"it was begun on version {base}, and versions below {state.floor} were collected since",
        hint="nothing was changed; run it again, and collect with a longer keep_days= where it takes so long",
        floor=state.floor,
        version=base,
    )


def _if_too_late(history: History, state: State, op: str) -> ConflictError | None:
    """What a writer is told whose place the log's floor passed. Versions know the op ids of all entries."""
    try:
        newest = history.newest()
    except SiltstoneError:  # nobody can tell
        return None
    return _too_late(state.version, newest) if newest.version_of(op) is None else None


def dropped(uri: str, state: State) -> NotFoundError:
    """The error for a table that is gone."""
    return NotFoundError(
        f"the table at {uri} was dropped, in version {state.born}", hint="create another one there, or elsewhere"
    )


def _prepare(tools: Tools, state: State, works: Sequence[Work], *, base: int, once: Once, message: str) -> _Prepared:
    draft = Draft(tools, state)
    for work in works:
        work.run(draft)
    change, columns, footprint = draft.finish(_operation(works), base=base, once=once, message=message)
    try:
        state.apply(change, version=state.mark.position, columns=columns)
    except CorruptionError as error:  # better no version than one that nobody can read
        raise InternalError(f"the change does not fit the version it was made for: {error.message}") from error
    return _Prepared(change, columns, encode_change(change), footprint, _oldest(change, columns, base))


def _is_empty(prepared: _Prepared) -> bool:
    return prepared.columns is None and is_empty(prepared.change)


def _operation(works: Sequence[Work]) -> Operation:
    """What a version of some operations is called."""
    kinds = {work.operation for work in works if not work.accompanies}
    return kinds.pop() if len(kinds) == 1 else "transaction"


def _oldest(change: Change, columns: pa.Table | None, base: int) -> int:
    """The lowest base in the names of what a change brings, or its own. What a restore brings back is kept."""
    if change.revives:
        return base
    names = [*(one.name for one in change.add), *(one.name for one in change.mask.values())]
    if columns is not None:
        names += own_names(columns)
    found = (paths.parse_name(name) for name in names)  # those of other tables are none
    return min((base, *(one[0] for one in found if one is not None)))


def _attempt(
    history: History, state: State, prepared: _Prepared, *, op: str, time_ms: int
) -> tuple[Step, None] | tuple[Step, Step]:
    """My step and None where it was committed, else my step and the one that holds the place."""
    _check_room(history, state, prepared.oldest)
    prev, before = repeats(state)
    body = encode_version(prepared.raw, prev=prev, before=before, columns=prepared.columns)
    mine = Step(
        position=state.mark.position,
        op=op,
        time_ms=time_ms,
        digest="",
        epoch=state.mark.epoch,
        said=prepared.change,
        raw=prepared.raw,
        columns=prepared.columns,
    )
    try:
        needs = requires(prepared.columns)
        end = history.log.append(body, after=state.mark, op=op, time_ms=time_ms, requires=needs)
    except ConflictError as error:
        if not isinstance(error.winner, Entry):
            raise
        return mine, to_step(error.winner)
    except CommitUnknownError as error:
        late = _if_too_late(history, state, op) if "floor" in error.facts else None
        if late is None:
            raise
        raise late from error
    return mine.acknowledged(end.digest), None


def _judge(history: History, prepared: _Prepared | None, landed: Sequence[Step] | None) -> _Prepared | None:
    """What is left of a prepared change: itself, or None where it must be run again."""
    left = _left(prepared, landed)
    if prepared is not None and left is None:
        metrics.COMMIT_RETRIES.add(table=history.store.uri)
    return left


def _left(prepared: _Prepared | None, landed: Sequence[Step] | None) -> _Prepared | None:
    if prepared is None or landed is None:
        return None
    if landed and prepared.footprint.numbered:
        return None  # also where what landed holds no change: the number is another one
    changes = [step.change for step in landed if step.change is not None]
    found = verdict_of_all(prepared.footprint, changes)
    if found is Verdict.CONFLICT:
        raise ConflictError(
            "the fragments that were being rewritten were replaced meanwhile", hint="nothing was changed; run it again"
        )
    return prepared if found is Verdict.KEEP else None
