"""What a table's handle does with clones, and how a table is dropped."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import TYPE_CHECKING

import msgspec

from siltstone.api.choosing import chosen, named
from siltstone.api.given import given_wal
from siltstone.api.missing import missing
from siltstone.env import REAL, Env
from siltstone.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    SiltstoneError,
    WrongCommitStoreError,
)
from siltstone.format.table import CloneOf
from siltstone.log import open_log
from siltstone.paths import LOG
from siltstone.retain import clone as clones
from siltstone.retain.capture import release
from siltstone.retain.checkpoint import found
from siltstone.retain.detach import Detach, Forget, let_go
from siltstone.retain.drop import drop
from siltstone.retain.expiry import now_ms
from siltstone.retain.pins import COLLECTED_MAX, FLOOR, Asked, Lighten, Pin, Unpin, claim_of, is_held
from siltstone.shard.merge import Settle
from siltstone.store.connect import open_store
from siltstone.store.origins import OriginsStore
from siltstone.table import arguments
from siltstone.table.checkpoints import Checkpoint
from siltstone.table.history import History
from siltstone.table.origins import Others, check_origins
from siltstone.table.predicate import parse_predicate
from siltstone.table.schema import arrow_schema
from siltstone.table.transaction import Operations
from siltstone.table.types import shown
from siltstone.telemetry.seams import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from siltstone.commit.registry import Registry
    from siltstone.format import table as records
    from siltstone.log import Log
    from siltstone.log.open import Guard
    from siltstone.retain.pins import Claim
    from siltstone.shard.shards import Shards
    from siltstone.shard.wal_store import OtherWal
    from siltstone.store.base import Store
    from siltstone.table.operations import Work
    from siltstone.table.origins import Given, OpensOthers
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.versions import Version


class Cloned(Operations):
    """The part of a table's handle that has to do with clones."""

    _shards: Shards
    _log: Log
    _history: History
    _env: Env
    _others: OpensOthers
    _born: int

    @traced("siltstone.clone")
    def clone(
        self,
        uri: str | Path | Store,
        *,
        at: Checkpoint | str | int | None = None,
        where: str | None = None,
        wal: str | Path | Store | None = None,
        wal_options: Mapping[str, str] | None = None,
        commits: str | Registry | None = None,
        storage_options: Mapping[str, str] | None = None,
        guard: Guard = "auto",
        probe: bool = True,
        sync: bool = True,
    ) -> Self:
        """Make a table at a URI that begins as this one is, and open it. No data is copied: it names objects of here.

        ``at`` is a checkpoint, or the name of one, a version, or a tag; without it the clone has all that is durable
        now, in shards too. With ``where``, it has the rows for which that is true. The clone has settings, shards and
        ids of transactions as this table has them, no tags and no checkpoints; its shards begin empty, with their WALs
        in ``wal`` where that is given. What it needs here is kept for as long as it needs it: see ``detach`` and
        ``drop``. In the bucket of this table it is opened with the same ``storage_options`` where none are given.

        A call that was cut off leaves a URI that can't be opened: the same call, by anyone, ends it, or ``drop`` does
        away with it. Where that clone is there already and was not written to, it is opened as it was made: without
        ``at``, what was written here since is not in it.

        Raises:
            AlreadyExistsError: another table is there, or another clone was begun there.
            NotFoundError: there is no such checkpoint, version or tag.
            ConflictError: what was to be cloned was collected or deleted meanwhile.
        """
        text = arguments.check_where(where) or ""
        if storage_options is None and isinstance(uri, str):
            storage_options = self._others.options_for(uri)
        store = open_store(uri, storage_options, sync=sync)
        other = given_wal(wal, wal_options, storage_options, store, sync=sync)
        wanted = self._wanted(store, self._looked(), at, text)
        self._log.check_writable()  # it gets a pin: where that can't be, nothing is begun elsewhere
        log = open_log(
            store, commits=commits, create=True, root=LOG, guard=guard, probe=probe, sync=sync, env=self._env
        )
        try:
            others = Others(log.store.uri, storage_options, self._stores(), sync)
            if other is not None:
                other.record(log)  # another table's is refused before anything is said or pinned
            begun = clones.begin(log, wanted, others, other)
            made = self._opened(log, others, other, since=self._make(log, begun, others, other))
            if made._born != begun.born:  # noqa: SLF001 - the same class
                raise clones.dropped_meanwhile(log.store.uri)
            return made
        except BaseException:
            with contextlib.suppress(SiltstoneError):
                log.close()
            raise

    @traced("siltstone.detach")
    def detach(self, *, progress: Callable[[int, int], None] | None = None) -> Version:
        """Copy what a clone has in common with other tables, and let go of them. Its versions before this one go.

        ``progress`` is called with bytes that were copied and bytes in all. One that was cut off is ended by calling it
        again. A table that needs no other one is left as it is.

        Raises:
            ConflictError: a tag or a checkpoint keeps a version that needs the others.
        """
        arguments.check_progress(progress)
        done = self._insist(lambda: (Detach(self._history, progress),))
        state = self._looked()
        if state.origins:
            let_go(self._log, state, self._others)
            self._insist(lambda: (Forget(),))
            # Someone else who was making the clone, and slept, may have pinned them again before the record went.
            with contextlib.suppress(SiltstoneError):
                let_go(self._log, state, self._others)
        return done

    # -- behind it ---------------------------------------------------------------------------------

    def _wanted(self, store: Store, state: State, at: object, where: str) -> CloneOf:
        """What the clone is to be; checked before anything says so."""
        wanted = CloneOf(table=self._log.identity.log, uri=self._log.store.uri, version=state.version, where=where)
        if at is None:
            _check_where(where, state)
            return msgspec.structs.replace(wanted, newest=True)
        name, pin = _checkpoint_of(state, at)
        if not name:
            by = {"tag": at} if isinstance(at, str) else {"version": at}
            version = chosen(self._history, state, **by)
            _check_where(where, version)
            return msgspec.structs.replace(wanted, version=version.version)
        if name not in state.checkpoints:  # it may be gone since the clone was begun
            begun = _begun(store, self._env)
            if begun is None or (begun.table, begun.checkpoint) != (wanted.table, name) or pin not in {"", begun.pin}:
                raise NotFoundError(
                    f"there is no checkpoint {shown(name)}, and no tag",
                    hint="checkpoints() and tags list what there is",
                )
            return msgspec.structs.replace(begun, where=where)
        version = chosen(self._history, state, checkpoint=at)
        _check_where(where, version)
        kept = found(state, name, pin=pin)
        return msgspec.structs.replace(wanted, version=version.version, checkpoint=name, pin=kept.pin)

    def _make(self, log: Log, begun: State, others: Others, other: OtherWal | None) -> State | None:
        """Do what is left to do of a clone that was begun; the state that was made, where it was here."""
        claim = claim_of(log, begun)
        made: State | None = None
        if begun.clone is not None and not begun.exists:
            pin = self._pinned_for(claim, begun.clone)
            state = self._looked()
            version = state if pin.version == state.version else self._history.at(pin.version)
            parent = clones.Parent(self._log, version, pin, self._shards, self._others)
            try:
                made = clones.end(log, begun, parent, others, wal=None if other is None else other.make(log))
            except SiltstoneError:
                self._loosen(log, begun, claim)
                raise
            if made is None:
                self._loosen(log, begun, claim)
        held = self._looked().checkpoints.get(claim.name)
        if held is not None and held.scope != "all":
            self._insist(lambda: (Lighten(claim, self._env.ids.new()),))
            with contextlib.suppress(SiltstoneError):
                release(self._shards, self._looked, held.shards)
        return made

    def _loosen(self, log: Log, begun: State, claim: Claim) -> None:
        """Let go where the clone was dropped, or made and detached, by someone who did not see the pin."""
        if not clones.needs(log, begun, self._log.identity.log):
            self._insist(lambda: (Unpin(claim),))

    def _pinned_for(self, claim: Claim, asked: CloneOf) -> records.Checkpoint:
        """Take hold of what is to be cloned."""
        if not is_held(self._looked(), claim):
            what = Asked(None if asked.newest else asked.version, asked.checkpoint, asked.pin)
            pin = Pin(claim, what, pin=self._env.ids.new(), created_ms=now_ms(self._log))
            self._insist(
                lambda: (
                    (Settle(self._shards.readers, now=self._looked, accompanies=True), pin) if asked.newest else (pin,)
                )
            )
        made = self._looked().checkpoints.get(claim.name)
        if made is None:
            raise ConflictError(
                "the clone was dropped, or made and detached, by another while it was made",
                hint="open it where it is there, else run clone() again",
            )
        return made

    def _insist(self, make: Callable[[], Sequence[Work]]) -> Version:
        """Make a version of operations; of new ones where versions were collected meanwhile."""
        for _ in range(COLLECTED_MAX):
            self._looked()
            try:
                return self._do(*make())
            except ConflictError as error:
                if FLOOR not in error.facts:
                    raise
        raise ConflictError(f"versions of {self._log.store.uri} were collected all the time", hint="try again")

    def _stores(self) -> dict[str, Given]:
        """This table's store and those of the tables that it reads from, by URI."""
        store, state = self._tools.store, self._looked()
        found: dict[str, Given] = {self._log.store.uri: self._log.store}
        if isinstance(store, OriginsStore):
            found |= {one.uri: store.others[int(number)] for number, one in state.origins.items()}
        return found

    @abstractmethod
    def _opened(self, log: Log, others: Others, other: OtherWal | None, *, since: State | None) -> Self:
        """A handle on another table, of which a state is known."""

    @property
    @abstractmethod
    def _tools(self) -> Tools:
        """What it works with."""

    @abstractmethod
    def _looked(self) -> State:
        """The newest version, for a write."""

    @abstractmethod
    def _do(self, *works: Work) -> Version:
        """Make a version of operations."""


def drop_table(
    uri: str | Path | Store,
    *,
    missing_ok: bool = False,
    commits: str | Registry | None = None,
    storage_options: Mapping[str, str] | None = None,
    origins: Mapping[str | int, Given] | None = None,
    wal: str | Path | Store | None = None,
    wal_options: Mapping[str, str] | None = None,
    probe: bool = True,
    sync: bool = True,
    env: Env = REAL,
) -> None:
    """Do away with the table at a URI, or with a clone that was begun there. Whoever uses it is told.

    What it held in other tables is let go, and its objects are deleted. Some small ones stay, which say so to
    whoever comes late; those that may go later are deleted by the next call. ``create`` may make another one there.

    Raises:
        NotFoundError: there is no table, or it was dropped before; not with ``missing_ok``.
        ConflictError: clones read from it; nothing was changed.
        WrongWalStoreError: WALs of its shards are in a store that was not given: pass it as ``wal``.
    """
    arguments.check_flag(missing_ok, "missing_ok")
    store = open_store(uri, storage_options, sync=sync)
    others = Others(store.uri, storage_options, check_origins(origins), sync)
    other = given_wal(wal, wal_options, storage_options, store, sync=sync)
    try:
        log = open_log(store, commits=commits, root=LOG, probe=probe, sync=sync, env=env)
    except NotFoundError as error:
        if missing_ok:
            return
        raise missing(store.uri) from error
    with log:
        try:
            drop(log, others, other)
        except NotFoundError:
            if not missing_ok:
                raise


def _begun(store: Store, env: Env) -> CloneOf | None:
    """What the clone at a place was asked to be, if someone began one there."""
    try:
        with open_log(store, root=LOG, probe=False, env=env) as log:
            return History(log).newest().clone
    except (NotFoundError, WrongCommitStoreError):
        return None


def _checkpoint_of(state: State, at: object) -> tuple[str, str]:
    """The checkpoint that is meant, and its id; nothing where it is a version or a tag."""
    if isinstance(at, Checkpoint):
        return named(at)
    if isinstance(at, bool) or not isinstance(at, str | int):
        raise InvalidInputError(
            f"at must be a checkpoint or the name of one, a version or a tag, got {arguments.shown_object(at)}",
            hint="leave it out for the newest version",
        )
    if not isinstance(at, str):
        return "", ""
    kept, tagged = state.checkpoints.get(at), state.tags.get(at)
    if kept is not None and tagged is not None and kept.version != tagged:
        raise InvalidInputError(
            f"{shown(at)} is a checkpoint of version {kept.version} and a tag of version {tagged}",
            hint="pass the number of the version, or the checkpoint itself",
        )
    return ("", "") if kept is None and tagged is not None else (at, "")


def _check_where(where: str, state: State) -> None:
    if where:
        parse_predicate(where, arrow_schema(state.schema))
