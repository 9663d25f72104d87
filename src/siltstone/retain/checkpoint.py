"""Checkpoints as entries of the table's log: they come, are refreshed, and go.

What must hold:
- The log decides: a checkpoint is what the newest version says of it, and each of these names the version that it
  makes or one that is kept, so it is run again whenever that may have changed.
- A checkpoint of scope ``all`` is one entry, which merges what is durable in shards and names itself: it refers to
  no entry of a WAL and to no fragment of a shard.
- One of scope ``durable`` is two. The first takes the name and a pin; shards are captured in between; the second says
  what was captured, and is refused where the first is gone. What lies before the second one's cursors is in its
  version, and the capture, which is older than that version, has what lies behind them.
- A name is given once. What a clone holds stays as long as the clone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from siltstone.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from siltstone.format.table import Checkpoint
from siltstone.retain.expiry import expires_ms, is_expired
from siltstone.table.operations import Work, check_kept
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.format.table import KeptShard
    from siltstone.table.draft import Draft
    from siltstone.table.state import State

CLONES = "clone "  # what the names of those begin with that clones hold


class Asked(NamedTuple):
    """What a caller asks for: a name, how long it is kept, and the store's time when it asked."""

    name: str
    keep_ms: int | None
    now_ms: int
    pin: str  # an id that nobody used

    @property
    def expires_ms(self) -> int | None:
        """When it is over."""
        return expires_ms(self.now_ms, self.keep_ms)


class _Checkpoints(Work):
    """Changes checkpoints; ``made`` is what became of the one that it is about."""

    operation = "checkpoint"

    def __init__(self) -> None:
        self.made: Checkpoint | None = None

    def _set(self, draft: Draft, name: str, made: Checkpoint | None) -> None:
        draft.retain(checkpoints={name: made})
        self.made = made


class Keep(_Checkpoints):
    """A version gets a checkpoint: the one that is being made, or an earlier one that is kept."""

    def __init__(self, asked: Asked, *, version: int | None = None) -> None:
        super().__init__()
        self._asked = asked
        self._version = version

    def run(self, draft: Draft) -> None:
        """Takes the name."""
        draft.depends(kept=True, numbered=self._version is None)
        had = draft.state.checkpoints.get(self._asked.name)
        if had is not None:
            raise taken(self._asked.name, had, self._asked.now_ms)
        if self._version is None:
            version = draft.begun.version + 1
        else:
            check_kept(draft.state, self._version)
            version = self._version
        asked = self._asked
        made = Checkpoint(version=version, pin=asked.pin, created_ms=asked.now_ms, expires_ms=asked.expires_ms)
        self._set(draft, asked.name, made)


class Begin(_Checkpoints):
    """A checkpoint of scope ``durable`` takes its name, before shards are captured for it.

    One that another began and has not ended is gone on with, under the pin that it has.
    """

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked

    def run(self, draft: Draft) -> None:
        """Takes the name, or takes part in what was begun."""
        asked = self._asked
        draft.depends(kept=True, numbered=True)
        had = draft.state.checkpoints.get(asked.name)
        made = Checkpoint(
            version=draft.begun.version + 1,
            pin=asked.pin,
            scope="durable",
            created_ms=asked.now_ms,
            expires_ms=asked.expires_ms,
            pending=True,
        )
        if had is None:
            self._set(draft, asked.name, made)
            return
        if not had.pending or had.scope != "durable" or _keep_ms(had) != asked.keep_ms:
            raise taken(asked.name, had, asked.now_ms)
        self.made = had
        if is_expired(had, asked.now_ms):  # a collection would take it away from under this caller
            self._set(draft, asked.name, msgspec.structs.replace(made, pin=had.pin))


class Complete(_Checkpoints):
    """A checkpoint of scope ``durable`` says what was captured. ``made`` stays None where other shards are to be."""

    def __init__(self, asked: Asked, shards: Mapping[str, KeptShard], *, looked_at: frozenset[str]) -> None:
        super().__init__()
        self._asked = asked  # with the pin of the one that was begun
        self._shards = shards
        self._looked_at = looked_at  # all shards of the version that they were captured by

    def run(self, draft: Draft) -> None:
        """Ends what was begun, unless another did, or it is gone."""
        asked, self.made = self._asked, None
        draft.depends(kept=True, numbered=True)
        had = draft.state.checkpoints.get(asked.name)
        if had is None or had.pin != asked.pin:
            raise ConflictError(
                f"checkpoint {shown(asked.name)} was deleted by another while it was being made",
                hint="nothing is kept by it; call checkpoint() again",
                checkpoint=asked.name,
            )
        if not had.pending:
            if not self._is_within(had):
                raise taken(asked.name, had, asked.now_ms)
            self.made = had
        elif draft.state.shards.keys() == self._looked_at:
            made = msgspec.structs.replace(
                had,
                version=draft.begun.version + 1,
                created_ms=asked.now_ms,
                expires_ms=asked.expires_ms,
                pending=False,
                shards=dict(self._shards),
            )
            self._set(draft, asked.name, made)

    def _is_within(self, had: Checkpoint) -> bool:
        """Whether one that another ended meanwhile has all that was captured here."""
        return all(
            name in had.shards and had.shards[name].until.position >= one.until.position
            for name, one in self._shards.items()
        )


class Refresh(_Checkpoints):
    """A checkpoint is kept longer, or shorter."""

    def __init__(self, name: str, *, pin: str, expires_ms: int | None) -> None:
        super().__init__()
        self._name = name
        self._pin = pin
        self._expires_ms = expires_ms

    def run(self, draft: Draft) -> None:
        """Also where it is over, as long as it is there."""
        draft.depends(kept=True)
        had = found(draft.state, self._name, pin=self._pin)
        _check_own(self._name, had, "refreshed")
        if had.pending:
            raise InvalidInputError(
                f"checkpoint {shown(self._name)} was begun and not ended: there is nothing yet to keep longer",
                hint="call checkpoint() with the same arguments again to end it, or delete_checkpoint()",
            )
        self._set(draft, self._name, msgspec.structs.replace(had, expires_ms=self._expires_ms))


class Remove(_Checkpoints):
    """A checkpoint goes."""

    def __init__(self, name: str, *, pin: str, left_over: bool = False) -> None:
        super().__init__()
        self._name = name
        self._pin = pin
        self._left_over = left_over  # the clone that held it was dropped

    def run(self, draft: Draft) -> None:
        """Whatever only it kept may be collected then."""
        draft.depends(kept=True)
        had = found(draft.state, self._name, pin=self._pin)
        if not self._left_over:
            _check_own(self._name, had, "deleted")
        self._set(draft, self._name, None)


def found(state: State, name: str, *, pin: str = "") -> Checkpoint:
    """The checkpoint of a name; with ``pin``, that very one.

    Raises:
        NotFoundError: there is none, or another one by now.
    """
    had = state.checkpoints.get(name)
    if had is not None and pin in {"", had.pin}:
        return had
    known = ", ".join(shown(one)[1:-1] for one in sorted(state.checkpoints)[:10]) or "none"
    if had is None:
        raise NotFoundError(f"there is no checkpoint {shown(name)}", hint=f"checkpoints: {known}")
    raise NotFoundError(
        f"checkpoint {shown(name)} was deleted, and another one has its name now",
        hint="name the checkpoint to mean whichever has that name",
    )


def taken(name: str, had: Checkpoint, now_ms: int) -> AlreadyExistsError:
    """The error for a name that a checkpoint has."""
    if had.pending:
        what = f"a checkpoint {shown(name)} was begun with other arguments, and not ended"
        hint = "call checkpoint() with the same arguments to end it, or delete_checkpoint()"
    elif is_expired(had, now_ms):
        what = f"there is a checkpoint {shown(name)}, which expired and was not collected yet"
        hint = "delete_checkpoint() or gc() makes room for another one; refresh_checkpoint() keeps it"
    else:
        what = f"there is a checkpoint {shown(name)}, of version {had.version}"
        hint = "choose another name, or delete it first"
    return AlreadyExistsError(what, hint=hint, checkpoint=name, version=had.version)


def _keep_ms(had: Checkpoint) -> int | None:
    return None if had.expires_ms is None else had.expires_ms - had.created_ms


def _check_own(name: str, had: Checkpoint, what: str) -> None:
    if had.holder is not None:
        raise InvalidInputError(
            f"checkpoint {shown(name)} can't be {what}: the clone at {had.holder.uri} reads from it",
            hint="detach() or drop() the clone first",
            checkpoint=name,
            holder=had.holder.uri,
        )
