"""What a table's handle does with checkpoints: promises to keep a version, and what is durable in shards."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, NamedTuple

from siltstone.api.choosing import READS, chosen, named
from siltstone.errors import (
    ConflictError,
    InternalError,
    InvalidInputError,
    SiltstoneError,
    UnavailableError,
    WrongWalStoreError,
)
from siltstone.retain.capture import capture, kept_snapshots, release
from siltstone.retain.checkpoint import Asked, Begin, Complete, Keep, Refresh, Remove, found, taken
from siltstone.retain.expiry import check_keep_days, expires_ms, now_ms
from siltstone.retain.pins import is_left_over
from siltstone.shard.fresh import fresh
from siltstone.shard.merge import Settle
from siltstone.table import arguments
from siltstone.table.checkpoints import Checkpoint, describe_checkpoint
from siltstone.table.operations import Restore
from siltstone.table.transaction import Operations
from siltstone.telemetry.seams import traced

if TYPE_CHECKING:
    from datetime import datetime

    from siltstone.format import table as records
    from siltstone.log import Log
    from siltstone.shard.shards import Shards
    from siltstone.table.history import History
    from siltstone.table.operations import Work
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.versions import Version

Scope = Literal["all", "durable"]


class Kept(NamedTuple):
    """A checkpoint whose rows are more than a version: which one it is, and the version alone with what reads it."""

    checkpoint: Checkpoint
    tools: Tools
    state: State


class Checkpointed(Operations):
    """The part of a table's handle that has to do with checkpoints."""

    _shards: Shards
    _log: Log
    _history: History
    _kept: Kept | None
    _others: OpensOthers

    @traced("siltstone.checkpoint")
    def checkpoint(
        self, name: str, *, scope: Scope = "all", keep_days: float | None = None, version: int | None = None
    ) -> Checkpoint:
        """Promise to keep the table as it is now, for some days by the store's clock, or for ever.

        ``scope="all"`` takes what is durable in shards into the table, as a merge does, in the very version that is
        kept: it needs no WAL. ``scope="durable"`` rewrites nothing: the entries of WALs and the fragments of shards
        that are not merged yet are kept with the newest version. Neither disturbs those who write shards. With
        ``version``, an earlier one that is still kept gets the checkpoint, and shards are left as they are.

        A call of scope ``durable`` that was cut off leaves a checkpoint that is ``pending``: the same call, by anyone,
        ends it; ``delete_checkpoint`` and, a day later, ``gc`` remove it.

        Raises:
            AlreadyExistsError: a checkpoint has that name.
            ConflictError: it was deleted by another while it was made.
            TruncatedError: ``version`` was collected.
        """
        arguments.check_label(name, "checkpoint")
        keep_ms = check_keep_days(keep_days)
        _check_scope(scope, version)
        state = self._looked()
        if version is not None:
            arguments.check_version(version, newest=state.version)
        asked = Asked(name, keep_ms, now_ms(self._log), self._tools.env.ids.new())
        if scope == "durable":
            made = self._capture(asked)
        else:
            if name in state.checkpoints:
                raise taken(name, state.checkpoints[name], asked.now_ms)
            keep = Keep(asked, version=version)
            settle = [] if version is not None else [Settle(self._shards.readers, now=self._looked, accompanies=True)]
            self._do(*settle, keep)
            made = _made(keep.made)
        return describe_checkpoint(name, made)

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, those that clones hold too, by their versions."""
        each = self._now().checkpoints.items()
        return sorted((describe_checkpoint(*one) for one in each), key=lambda one: (one.version, one.name))

    def refresh_checkpoint(self, checkpoint: Checkpoint | str, *, keep_days: float | None) -> Checkpoint:
        """Keep a checkpoint for so many days from now on, or for ever (None); also one that is over and still there.

        Raises:
            NotFoundError: there is none, or it is another one by now.
        """
        name, pin = named(checkpoint)
        keep_ms = check_keep_days(keep_days, hint="give None to keep it for ever")
        found(self._looked(), name, pin=pin)
        refresh = Refresh(name, pin=pin, expires_ms=expires_ms(now_ms(self._log), keep_ms))
        self._do(refresh)
        return describe_checkpoint(name, _made(refresh.made))

    def delete_checkpoint(self, checkpoint: Checkpoint | str) -> Version:
        """Take the promise back: what only it kept may be collected from now on. Versions and tags stay.

        One that a clone holds goes with the clone. Where that was dropped, and whoever made it died before it let go,
        this lets go.

        Raises:
            NotFoundError: there is none, or it is another one by now.
            InvalidInputError: a clone reads from it.
        """
        name, pin = named(checkpoint)
        had = found(self._looked(), name, pin=pin)
        left_over = had.holder is not None and is_left_over(self._log, name, had.holder, self._others)
        done = self._do(Remove(name, pin=had.pin, left_over=left_over))
        self._release(had)
        return done

    def restore(
        self,
        *,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime | str | int | None = None,
        checkpoint: Checkpoint | str | None = None,
    ) -> Version:
        """Bring back the rows and columns of an earlier version, or of a checkpoint, as a new version.

        A checkpoint of scope ``durable`` with rows that are in shards alone is more than a version, and is refused:
        ``clone`` makes a table of it.
        """
        now = self._looked()
        state = chosen(
            self._history, now, version=version, tag=tag, timestamp=timestamp, checkpoint=checkpoint, ways=READS
        )
        if checkpoint is not None:
            _check_whole(now, checkpoint)
        return self._do(Restore(state))

    # -- behind it ---------------------------------------------------------------------------------

    def _capture(self, asked: Asked) -> records.Checkpoint:
        """A checkpoint of scope ``durable``: begun, captured, ended."""
        begin = Begin(asked)
        self._do(begin)
        begun = _made(begin.made)
        is_new = begun.pin == asked.pin
        asked = asked._replace(pin=begun.pin)
        for _ in self._tools.env.tries():
            state = self._looked()
            try:
                kept = capture(self._shards.readers(state), asked.pin, state.shards)
            except WrongWalStoreError:
                if is_new:  # nobody could end it with these arguments
                    self._do(Remove(asked.name, pin=asked.pin))
                    self._release(begun)
                raise
            end = Complete(asked, kept, looked_at=frozenset(state.shards))
            try:
                self._do(end)
            except ConflictError:
                self._release(begun)
                raise
            if end.made is not None:
                return end.made
        raise UnavailableError(
            f"the shards of the table were others all the time while checkpoint {asked.name} was made", hint="try again"
        )

    def _release(self, gone: records.Checkpoint) -> None:
        """Let shards go of what no checkpoint needs; what stays, a collection removes."""
        if gone.scope == "durable":
            with contextlib.suppress(SiltstoneError):
                release(self._shards, self._now, gone.shards)

    @property
    def _plain_tools(self) -> Tools:
        """What reads versions, without anything laid over them."""
        return self._tools if self._kept is None else self._kept.tools

    def _plain(self) -> State:
        """The version that a read sees, without anything laid over it."""
        return self._now() if self._kept is None else self._kept.state

    def _laid(self, now: State, version: State, checkpoint: object) -> tuple[Tools, State, Kept | None]:
        """A version with what a checkpoint kept of shards, and what reads it."""
        tools = self._plain_tools
        if checkpoint is None:
            return tools, version, None
        name, pin = named(checkpoint)
        had = found(now, name, pin=pin)
        if not had.shards:
            return tools, version, None
        read, seen = fresh(tools, version, kept_snapshots(self._shards, version, had))
        return read, seen, Kept(describe_checkpoint(name, had), tools, version)

    @abstractmethod
    def _now(self) -> State:
        """The state that a read sees."""

    @abstractmethod
    def _looked(self) -> State:
        """The newest version, for a write."""

    @abstractmethod
    def _do(self, *works: Work) -> Version:
        """Make a version of operations."""


def _check_scope(scope: object, version: object) -> None:
    if scope not in ("all", "durable"):
        raise InvalidInputError(
            f"scope is {arguments.shown_object(scope)}",
            hint="'all' takes what is durable in shards into the table; 'durable' keeps the WALs as they are",
        )
    if version is not None and scope != "all":
        raise InvalidInputError(
            "version= names rows that are in the table, and scope='durable' means those that are in shards now",
            hint="leave one of them out",
        )


def _check_whole(state: State, checkpoint: Checkpoint | str) -> None:
    """Refuse a checkpoint whose rows are partly in shards: its version alone is not what it keeps."""
    name, pin = named(checkpoint)
    had = found(state, name, pin=pin)
    if had.shards:
        raise InvalidInputError(
            f"checkpoint {name} has rows that are in the WALs and fragments of {len(had.shards)} shards alone, "
            f"and a version can't name those",
            hint=f"clone() it; or restore version {had.version}, which has what was merged by then",
            checkpoint=name,
        )


def _made(record: records.Checkpoint | None) -> records.Checkpoint:
    if record is None:
        raise InternalError("a checkpoint was committed and not noted")
    return record
