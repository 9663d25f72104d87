"""Places decided by a registry: stage, claim, publish, then acknowledge.

What must hold:
- Bytes are staged under a name of their own before they are claimed, and go only when their final is there.
- A claim decides; whoever meets a claim without its published object publishes it, with the same bytes.
- Published objects are the authority. A loser publishes nothing. Two finals are a loud SplitHistoryError.
- A registry that lost rows is a loud CommitStoreBehindError, never a second history.
- A claim whose staged bytes are gone and that was never published is closed by an abort entry, the same
  bytes from everyone; the claim's writer then finds the abort at its place and is not acknowledged.

Publishing is by ``create`` where the store keeps its word, and by ``fork`` elsewhere: under a name taken
from the bytes, followed by a listing of the place, which must show that name alone.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

import msgspec

from siltstone import paths
from siltstone.commit.base import CommitStore, Place
from siltstone.commit.conditional import ConditionalPut, tell_found, unknown
from siltstone.commit.registry import Behind, Claim, Registry, Truncated
from siltstone.errors import (
    ClosedError,
    CommitStoreBehindError,
    CommitUnknownError,
    CorruptionError,
    MissingObjectError,
    NotFoundError,
    PermissionDeniedError,
    SiltstoneError,
    SplitHistoryError,
    StoreFullError,
    TruncatedError,
    UnavailableError,
    UnsafeStoreError,
)
from siltstone.format.frame import digest
from siltstone.format.records import Header, decode_entry, encode_entry
from siltstone.ids import is_id

if TYPE_CHECKING:
    from siltstone.env import Env
    from siltstone.store.base import Store

Publish = Literal["create", "fork"]
NONCE_DIGITS = 32
_COPIED = (
    "this log was made at another place. If it is a copy, `siltstone repair` lets it go on by itself, apart from the "
    "one that it was copied from; if it is the same one under another name, open it by the name that it was made by"
)


class AbortBody(msgspec.Struct, frozen=True):
    """What an abort entry says: which claim it closes."""

    digest: str
    staged: str


class External(CommitStore):
    """A registry decides, the object store keeps."""

    def __init__(self, store: Store, registry: Registry, *, publish: Publish, env: Env) -> None:
        self._store = store
        self.registry = registry
        self._publish_by: Publish = publish
        self._env = env
        self._create = ConditionalPut(store, env)

    def decide(self, place: Place, proposal: bytes) -> bytes:
        name = paths.staged("", place.position, self._env.ids.new())
        staged = place.root + name
        mine = Claim(place.scope, place.position, digest(proposal), place.prev, name)
        self._stage(staged, proposal)
        won = self._claim(place, mine)
        if won.value != name:
            try:
                winner = self._help(place, won)
            except UnavailableError as error:  # the registry may have forgotten that the place was ours before
                raise unknown(place, error) from error
            self._discard(staged)
            return winner
        try:
            published = self._publish(place, proposal)
        except (CommitUnknownError, UnsafeStoreError, TruncatedError):
            raise
        except SiltstoneError as error:  # it is claimed: whoever comes next publishes it
            raise unknown(place, error) from error
        self._discard(staged)
        return published

    def decided(self, place: Place) -> bytes | None:
        published = self.published(place)
        if published is not None:
            return published
        claim = self._lookup(place)
        try:
            return None if claim is None else self._help(place, claim)
        except (TruncatedError, PermissionDeniedError, StoreFullError, CommitUnknownError):
            return None  # gone, or not ours to publish: what was acknowledged is published

    def check_open(self, place: Place) -> None:
        if self.registry.lookup(place.scope, place.position) is not None and self.published(place) is None:
            raise CommitUnknownError(
                f"{place.key} was claimed and is not published yet",
                hint="whoever may write there publishes it; look again then",
                object=place.key,
                position=place.position,
            )

    def published(self, place: Place) -> bytes | None:
        """What is published at a place, without asking the registry."""
        if self._publish_by == "create":
            return self._create.decided(place)
        keys = self._finals(place)
        if len(keys) > 1:
            raise _split(place, keys)
        try:
            return self._store.get(keys[0]) if keys else None
        except NotFoundError:  # truncated since it was listed
            return None

    def _finals(self, place: Place) -> list[str]:
        """What is published by fork at a place; other objects there are not ours."""
        found = (info.key for info in self._store.list(place.key))
        return [key for key in found if is_id(key.removeprefix(f"{place.key}/"))]

    # -- stage and claim -------------------------------------------------------------------------

    def _stage(self, key: str, data: bytes) -> None:
        failure: SiltstoneError | None = None
        for _ in self._env.tries():
            try:
                self._store.put(key, data)
            except UnavailableError as error:
                failure = error
            else:
                return
        raise failure or UnavailableError(f"{key} was not tried")

    def _claim(self, place: Place, mine: Claim) -> Claim:
        """Who holds the place. An error after a lost answer is unknown, never a conflict."""
        doubt: SiltstoneError | None = None
        for _ in self._env.tries():
            try:
                found = self.registry.claim(mine)
            except UnavailableError as error:
                doubt = error
                continue
            except SiltstoneError as error:
                if doubt is None:
                    raise
                raise unknown(place, error) from error
            if isinstance(found, Claim):
                if doubt is not None and found.value == mine.value:
                    tell_found(place)
                return found
            if isinstance(found, Truncated):
                raise TruncatedError(
                    f"position {place.position} lies below the floor {found.below}", position=place.position
                )
            try:
                mine = self._behind(place, mine, found)
            except SiltstoneError as error:
                if doubt is None:
                    raise
                raise unknown(place, error) from error
        raise unknown(place, doubt) from doubt

    def _behind(self, place: Place, mine: Claim, behind: Behind) -> Claim:
        """The claim to send next: behind an aborted place the predecessor's claim names the lost bytes."""
        if behind.found is not None and mine.parent == place.prev and self._was_aborted(place, behind.found):
            return msgspec.structs.replace(mine, parent=behind.found.digest)
        known = "nothing" if behind.found is None else f"{behind.found.digest[:12]}..."
        raise CommitStoreBehindError(
            f"{self.registry.kind} commit store {self.registry.uri} knows {known} at position {place.position - 1}, "
            f"but {place.prev[:12]}... is published there",
            hint=_COPIED
            if place.scope != place.log
            else "it was emptied or restored from a backup; run `siltstone repair` to put its rows back",
            position=place.position - 1,
            scope=place.scope,
        )

    def _was_aborted(self, place: Place, claim: Claim) -> bool:
        before = place._replace(key=paths.entry(place.root, place.position - 1), position=place.position - 1)
        data = self.published(before)
        return data is not None and digest(data) == place.prev and aborts(data, claim)

    def _lookup(self, place: Place) -> Claim | None:
        try:
            return self.registry.lookup(place.scope, place.position)
        except (UnavailableError, ClosedError):
            return None  # what was acknowledged is published, so reading goes on without the registry

    # -- publish ---------------------------------------------------------------------------------

    def _publish(self, place: Place, data: bytes) -> bytes:
        """Make the decided bytes readable; return what is published, which is the authority."""
        if self._publish_by == "create":
            return self._create.decide(place, data)
        name = f"{place.key}/{digest(data)[:NONCE_DIGITS]}"
        failure: SiltstoneError | None = None
        for _ in self._env.tries():
            try:
                self._store.put(name, data)
                keys = self._finals(place)
            except UnavailableError as error:
                failure = error
                continue
            if keys == [name]:
                return data
            if keys:
                raise _split(place, keys)
            if self.registry.lookup(place.scope, place.position) is None:  # claims go before objects
                raise _truncated(place)
            failure = UnavailableError(f"{name} is not listed right after it was written", object=name)
        raise unknown(place, failure) from failure

    def _help(self, place: Place, claim: Claim) -> bytes:
        """Publish what another claimed and may not have lived to publish."""
        published = self.published(place)
        if published is not None:
            return published
        staged = place.root + claim.value
        parsed = paths.parse_staged("", claim.value)
        if parsed is None or parsed[0] != place.position:
            raise CorruptionError(
                f"the commit store names {claim.value!a} as the staged bytes of {place.key}", object=place.key
            )
        try:
            data = self._store.get(staged)
        except NotFoundError:
            return self._close(place, claim)
        if digest(data) != claim.digest:
            raise CorruptionError(f"{staged} does not have the digest that was claimed for it", object=staged)
        published = self._publish(place, data)
        self._discard(staged)
        return published

    def _close(self, place: Place, claim: Claim) -> bytes:
        newest = self.registry.newest(place.scope)
        published = self.published(place)  # its writer may have published and cleaned up meanwhile
        if published is not None:
            return published
        if self.registry.lookup(place.scope, place.position) is None:  # claims go before objects
            raise _truncated(place)
        if newest is not None and newest.position > place.position:
            raise MissingObjectError(
                f"{place.key} is missing: later places are claimed, so it was published",
                hint="run `siltstone verify`",
                object=place.key,
                position=place.position,
            )
        if not place.log:
            raise MissingObjectError(
                f"{self.registry.uri} remembers that {place.key} was decided here, but its bytes are gone: "
                f"what was made here was removed",
                hint="use another location or root, or another table, namespace or prefix of the commit store",
                object=place.key,
            )
        if self._publish_by != "create":
            raise MissingObjectError(
                f"{place.key} was claimed, but its staged bytes {claim.value} are gone, and no entry is there: "
                f"it was never published, or deleted since",
                hint="put the entry back if the bucket has an older version of it; else run `siltstone repair` when no "
                "writer is running: it closes the place with an abort entry",
                object=claim.value,
            )
        return self._publish(place, abort_entry(place, claim))

    def _discard(self, key: str) -> None:
        # Best effort: what stays is not referred to, and collection removes it.
        with contextlib.suppress(SiltstoneError):
            self._store.delete([key])


def abort_entry(place: Place, claim: Claim) -> bytes:
    """The entry that closes a place whose bytes are lost; the same bytes whoever makes it."""
    header = Header(
        log=place.log,
        position=place.position,
        epoch=place.epoch,
        op=claim.digest[:NONCE_DIGITS],
        nonce=claim.digest[NONCE_DIGITS:],
        prev=place.prev,
        kind="abort",
    )
    return encode_entry(header, msgspec.json.encode(AbortBody(claim.digest, claim.value)))


def aborts(data: bytes, claim: Claim) -> bool:
    """Whether ``data`` is the abort entry of ``claim``."""
    header, body = decode_entry(data, name="the predecessor")
    if header.kind != "abort":
        return False
    try:
        return msgspec.json.decode(body, type=AbortBody).digest == claim.digest
    except msgspec.DecodeError:
        return False


def _truncated(place: Place) -> TruncatedError:
    return TruncatedError(f"position {place.position} was truncated meanwhile", position=place.position)


def _split(place: Place, keys: list[str]) -> SplitHistoryError:
    names = ", ".join(key.rpartition("/")[2] for key in keys) or "nothing"
    return SplitHistoryError(
        f"{place.key} was published {len(keys)} times ({names}): the commit store forgot a decision",
        hint="run `siltstone verify` to see what is there and `siltstone repair` to mend it",
        object=place.key,
        position=place.position,
    )
