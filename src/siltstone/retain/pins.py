"""Pins: checkpoints that a clone holds in the tables whose objects it names.

What must hold:
- A clone holds a pin in each table that it reads from, before it names anything of it: in its parent, and in those
  that the parent's own fragments are in.
- A pin is for one clone at one place. A copy of the clone's objects elsewhere has the same id and is not that one, so
  it never releases what it did not make.
- A version that is not kept any more can't be pinned.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from siltstone.commit.external import External
from siltstone.errors import ConflictError, MissingObjectError, NotFoundError, SiltstoneError, TruncatedError
from siltstone.format.table import Checkpoint, Holder
from siltstone.log.open import NoRegistry, open_log, read_identity
from siltstone.paths import LOG
from siltstone.retain.checkpoint import CLONES
from siltstone.retain.expiry import now_ms
from siltstone.table.commit import commit
from siltstone.table.history import History
from siltstone.table.operations import Work, check_kept
from siltstone.table.tools import make_tools
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from siltstone.commit.registry import Registry
    from siltstone.format.table import Origin
    from siltstone.log import Log
    from siltstone.table.draft import Draft
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State


COLLECTED_MAX = 100  # collections that one may meet
FLOOR = "floor"  # a fact of errors: versions were collected, all there is to do is to run it again


class Claim(NamedTuple):
    """Who pins: the name that its pins have, and where it is."""

    name: str
    holder: Holder


def claim_of(log: Log, state: State) -> Claim:
    """What the pins of a clone are called. One that comes where another was dropped has the id of that one's log."""
    born = f" {state.born}" if state.born else ""
    return Claim(f"{CLONES}{log.identity.log}{born}", Holder(table=log.identity.log, uri=log.store.uri))


def is_held(state: State, claim: Claim) -> bool:
    """Whether a table is pinned already.

    Raises:
        ConflictError: by the clone that this one's objects were copied from.
    """
    had = state.checkpoints.get(claim.name)
    if had is not None and had.holder != claim.holder:
        raise ConflictError(
            f"what is at {claim.holder.uri} was copied from {had.holder.uri if had.holder else 'elsewhere'} while that "
            "clone was made",
            hint="drop() it, and clone the table itself",
        )
    return had is not None


class Asked(NamedTuple):
    """What is to be pinned: a version, or what a checkpoint keeps, or, with neither, the version that is made."""

    version: int | None = None
    checkpoint: str = ""
    pin: str = ""  # the checkpoint's


class Pin(Work):
    """A clone takes hold of a version."""

    operation = "checkpoint"

    def __init__(self, claim: Claim, asked: Asked, *, pin: str, created_ms: int) -> None:
        self._claim = claim
        self._asked = asked
        self._pin = pin  # an id that nobody used
        self._created_ms = created_ms

    def run(self, draft: Draft) -> None:
        """Nothing where it has it."""
        draft.depends(kept=True)
        if not is_held(draft.state, self._claim):
            draft.retain(checkpoints={self._claim.name: self._made(draft)})

    def _made(self, draft: Draft) -> Checkpoint:
        asked, holder = self._asked, self._claim.holder
        if asked.checkpoint:
            there = _still_there(draft.state, asked)
            # Under the same pin: what it holds of shards stays though the checkpoint may go.
            return msgspec.structs.replace(there, holder=holder, created_ms=self._created_ms, expires_ms=None)
        if asked.version is None:
            draft.depends(numbered=True)
            version = draft.begun.version + 1
        else:
            version = asked.version
            try:
                check_kept(draft.state, version)
            except TruncatedError as error:
                raise ConflictError(
                    f"what was to be cloned is gone: {error.message}", hint=error.hint, version=version
                ) from error
        return Checkpoint(version=version, pin=self._pin, created_ms=self._created_ms, holder=holder)


def _still_there(state: State, asked: Asked) -> Checkpoint:
    there = state.checkpoints.get(asked.checkpoint)
    if there is None or there.pin != asked.pin or there.pending:
        raise ConflictError(
            f"checkpoint {shown(asked.checkpoint)} is not there any more",
            hint="nothing was cloned; drop() what was begun, and clone from something else",
            checkpoint=asked.checkpoint,
        )
    return there


class Lighten(Work):
    """A clone lets go of shards: their rows are its own now."""

    operation = "checkpoint"

    def __init__(self, claim: Claim, pin: str) -> None:
        self._claim = claim
        self._pin = pin  # an id that nobody used

    def run(self, draft: Draft) -> None:
        """Keeps the version."""
        draft.depends(kept=True)  # also where there is none: it may come before this lands
        had = draft.state.checkpoints.get(self._claim.name)
        if had is not None and had.scope != "all":
            new = msgspec.structs.replace(had, scope="all", shards={}, pin=self._pin)
            draft.retain(checkpoints={self._claim.name: new})


class Unpin(Work):
    """A clone lets go."""

    operation = "checkpoint"

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def run(self, draft: Draft) -> None:
        """Nothing where the pin is another's, or gone."""
        draft.depends(kept=True)  # also where there is none: it may come before this lands
        had = draft.state.checkpoints.get(self._claim.name)
        if had is not None and had.holder == self._claim.holder:
            draft.retain(checkpoints={self._claim.name: None})


# -- in other tables -------------------------------------------------------------------------------


def pin_origin(log: Log, claim: Claim, origin: Origin, number: int, others: OpensOthers) -> None:
    """Take hold of a table that objects are named of, at the version that was cloned of it.

    Raises:
        ConflictError: that version is not kept there any more.
        MissingObjectError: it is not there.
    """
    there = open_other_log(log, origin, number, others)
    if there is None:
        raise MissingObjectError(
            f"{origin.uri} has objects that are to be cloned, and is not there, or is another table now",
            hint="put it back, or open the parent with origins= that says where it is now",
            object=origin.uri,
        )
    with there:
        history = History(there)
        if not is_held(history.newest(), claim):
            _do(history, Pin(claim, Asked(origin.version), pin=log.env.ids.new(), created_ms=now_ms(there)))


def release(log: Log, claim: Claim, origins: Iterable[tuple[int, Origin]], others: OpensOthers) -> None:
    """Let go of tables. One that is gone holds nothing."""
    for number, origin in origins:
        there = open_other_log(log, origin, number, others)
        if there is None:
            continue
        with there:
            history = History(there)
            if claim.name not in history.newest().checkpoints:
                continue
            try:
                _do(history, Unpin(claim))
            except NotFoundError:
                if not history.newest().dropped:
                    raise


def is_left_over(log: Log, name: str, holder: Holder, others: OpensOthers) -> bool:
    """Whether the clone that a pin is held for was dropped, or names nothing of here any more, as its own log says.

    Nothing is concluded from a place where it is not: it may be elsewhere.
    """
    with contextlib.suppress(SiltstoneError):
        store = others(holder.uri)
        found = read_identity(store, LOG)
        if found is None or found.identity.log != holder.table:
            return False
        with open_log(store, root=LOG, probe=False, env=log.env) as there:
            state = History(there).newest()
            if state.dropped or claim_of(there, state).name != name:
                return True
            return state.exists and all(one.table != log.identity.log for one in state.origins.values())
    return False


def _do(history: History, work: Work) -> None:
    """Make a version of a table; again where versions were collected meanwhile, since nothing was written yet."""
    tools = make_tools(history.store, history.log.env)
    for _ in range(COLLECTED_MAX):
        state = history.newest()
        try:
            commit(tools, history, state, [work], base=state.version)
        except ConflictError as error:
            if FLOOR not in error.facts:
                raise
        else:
            return
    raise ConflictError(f"versions of {history.store.uri} were collected all the time", hint="try again")


def open_other_log(log: Log, origin: Origin, number: int, others: OpensOthers) -> Log | None:
    """The log of another table, to be written to; None where that very table is not there."""
    store = others(origin.uri, number)
    found = read_identity(store, LOG)
    if found is None or found.identity.log != origin.table:
        return None
    commits: str | Registry | None = None
    if found.identity.commits:
        commits = others.commits(origin.uri, number) or _registry_of(log, found.identity.commits_identity)
    return open_log(store, commits=commits, root=LOG, probe=log.probe, env=log.env)


def _registry_of(log: Log, identity: str) -> Registry | None:
    """The commit store of a table, where it decides another one too."""
    registry = log.commits.registry if isinstance(log.commits, External) else None
    if registry is None or isinstance(registry, NoRegistry) or registry.identity() != identity:
        return None
    return registry
