"""Creating and opening logs: identity, who decides, and what is refused.

What must hold:
- A log's identity is decided once, like everything else, and names the commit store that decides its
  places; opening it for writing with another one, an emptied one or none is refused.
- Nothing is written to a store that fails the probe, unless an external commit store decides.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from siltstone import paths
from siltstone.commit.base import CommitStore, Place
from siltstone.commit.conditional import ConditionalPut
from siltstone.commit.connect import open_registry
from siltstone.commit.external import External
from siltstone.commit.observed import observed_registry
from siltstone.env import REAL, Env
from siltstone.errors import (
    InvalidInputError,
    NotFoundError,
    SplitHistoryError,
    UnsafeStoreError,
    WrongCommitStoreError,
)
from siltstone.format.frame import digest
from siltstone.format.records import (
    COMMITS_URI_MAX,
    TRUST_MS,
    Floor,
    Identity,
    decode_identity,
    encode_floor,
    encode_identity,
)
from siltstone.log.floors import home_of
from siltstone.log.log import Log
from siltstone.store.connect import open_store
from siltstone.store.probe import MOVE, REMEDY, probe_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from siltstone.commit.registry import Behind, Claim, Registry, Truncated
    from siltstone.log.marks import Mark
    from siltstone.store.base import Store

Guard = Literal["auto", "receipt", "witness"]
TRUST_MS_MAX = 86_400_000
WRITER_CHARACTERS_MAX = 256


class FoundIdentity(NamedTuple):
    """An identity and the bytes it was read from."""

    identity: Identity
    data: bytes


def open_log(
    uri: str | Path | Store,
    *,
    commits: str | Registry | None = None,
    create: bool = False,
    root: str = "",
    guard: Guard = "auto",
    probe: bool = True,
    trust_ms: int = TRUST_MS,
    writer: str = "",
    storage_options: Mapping[str, str] | None = None,
    sync: bool = True,
    lookup: Callable[[str], Mark | None] | None = None,
    env: Env = REAL,
) -> Log:
    """Open the log below a URI; with ``create``, make it where there is none.

    ``commits`` names the commit store that decides (a URI or a Registry); without it the object store
    does. It is remembered: a log made with one can be written only with that one. ``guard`` and
    ``trust_ms`` count when the log is made. ``lookup`` finds an op id in state that was folded out of the log:
    give it wherever the log is truncated and operations may be retried.

    Raises NotFoundError (no log there), WrongCommitStoreError, UnsafeStoreError (the store would lose
    data; pass ``commits``), PermissionDeniedError, UnavailableError, InvalidInputError.
    """
    _check_options(guard, trust_ms, writer)
    _check_surroundings(commits, lookup, env, flags={"create": create, "probe": probe, "sync": sync})
    store = open_store(uri, storage_options, sync=sync)
    root = paths.check_root(root)
    registry = open_registry(commits) if isinstance(commits, str) else commits
    registry = registry and observed_registry(registry)
    found = read_identity(store, root)
    if found is None:
        if not create:
            raise NotFoundError(
                f"there is no log at {store.uri}/{root}", hint="check the URI, or pass create=True to make one"
            )
        found = _create(store, root, registry, guard=guard, probe=probe, trust_ms=trust_ms, env=env)
    decides = _commit_store(store, found.identity, registry, env)
    check = probe and not found.identity.commits
    return Log(
        store,
        root,
        found.identity,
        digest(found.data),
        decides,
        env=env,
        writer=writer,
        before_write=lambda: _check_writable(store, found.identity, registry, check),
        probe=probe,
        lookup=lookup,
        on_close=registry.close if registry is not None and isinstance(commits, str) else lambda: None,
        reopen=partial(open_log, store, commits=registry, root=root, probe=probe, writer=writer, lookup=lookup),
    )


def open_beside(
    log: Log,
    root: str,
    *,
    create: bool = False,
    writer: str = "",
    store: Store | None = None,
    begins: Mark | None = None,
) -> Log:
    """Open another log, decided by the same commit store; made with ``create``, guarded alike.

    It is of the same store, or of ``store``. One that is made goes on behind the mark ``begins`` of another log, which
    is its first floor.
    """
    registry = log.commits.registry if isinstance(log.commits, External) else None
    given = not isinstance(registry, NoRegistry)
    try:
        opened = open_log(
            log.store if store is None else store,
            commits=registry if given else None,
            create=create and given,
            root=root,
            guard=log.identity.guard if store is None else "auto",
            probe=log.probe,
            trust_ms=log.identity.trust_ms,
            writer=writer,
            env=log.env,
        )
    except NotFoundError:
        if create and not given:  # else the object store would decide it from now on
            raise _no_commit_store(log.identity) from None
        raise
    if create and begins is not None and begins.position and not opened.floors():
        begin_at(opened, begins)
    return opened


def begin_at(log: Log, mark: Mark) -> None:
    """Give a log that has no entries its first floor. May be done again, with the same mark."""
    if isinstance(log.commits, External):
        log.commits.registry.truncate(log.scope, below=mark.position, digest=mark.digest)
    floor = Floor(log=log.identity.log, position=mark.position, epoch=mark.epoch, digest=mark.digest)
    log.store.put(paths.floor(log.root, mark.position), encode_floor(floor))
    log.floors()


def read_identity(store: Store, root: str) -> FoundIdentity | None:
    """The identity of the log at a root; None where there is no log."""
    key = f"{root}{paths.IDENTITY}"
    try:
        data = store.get(key)
    except NotFoundError:
        keys = [info.key for info in store.list(key) if paths.parse_identity(info.key) == root]
        if not keys:
            return None
        if len(keys) > 1:
            raise SplitHistoryError(f"{key} was published {len(keys)} times", object=key) from None
        key = keys[0]
        data = store.get(key)
    return FoundIdentity(decode_identity(data, name=key), data)


def identity_place(store: Store, root: str) -> Place:
    """Where a log's identity is decided. Its scope names the location, since there is no uuid yet."""
    scope = f"identity:{digest(f'{store.location}/{root}'.encode('utf-8', 'surrogateescape'))}"
    return Place(key=f"{root}{paths.IDENTITY}", scope=scope, root=root)


def _create(
    store: Store, root: str, registry: Registry | None, *, guard: Guard, probe: bool, trust_ms: int, env: Env
) -> FoundIdentity:
    if registry is None:
        _check_conditions(store)
    report = probe_once(store) if probe else None
    if registry is None and report is not None:
        report.require()
    honest = store.traits.known_good and (report is None or report.safe)
    if guard == "auto":
        guard = "receipt" if honest or registry is not None else "witness"
    identity = Identity(
        log=env.ids.new(),
        commits=registry.kind if registry else "",
        commits_identity=registry.identity() if registry else "",
        commits_uri=registry.uri[:COMMITS_URI_MAX] if registry else "",
        publish="create" if registry is None or honest else "fork",
        guard=guard,
        trust_ms=trust_ms,
        created_ms=env.clock.wall_ms(),
        home=home_of(store, root) if registry else "",
    )
    data = _commit_store(store, identity, registry, env).decide(identity_place(store, root), encode_identity(identity))
    return FoundIdentity(decode_identity(data, name=f"{root}{paths.IDENTITY}"), data)


def _commit_store(store: Store, identity: Identity, registry: Registry | None, env: Env) -> CommitStore:
    if not identity.commits:
        if registry is not None:
            raise WrongCommitStoreError(
                f"the log at {store.uri} is decided by its object store, not by {registry.kind}",
                hint="open it without commits=",
            )
        return ConditionalPut(store, env)
    if registry is None:
        return External(store, NoRegistry(identity), publish=identity.publish, env=env)
    if registry.kind != identity.commits:
        raise WrongCommitStoreError(
            f"the log at {store.uri} is decided by a {identity.commits} commit store, not by {registry.kind}",
            hint=f"pass commits= with the URI of {identity.commits_uri}",
        )
    return External(store, registry, publish=identity.publish, env=env)


def _check_writable(store: Store, identity: Identity, registry: Registry | None, probe: bool) -> None:  # noqa: FBT001
    if not identity.commits:
        _check_conditions(store)
    if probe:
        probe_once(store).require(hint=MOVE)
    if not identity.commits:
        return
    if registry is None:
        raise _no_commit_store(identity)
    if registry.kind != identity.commits or registry.identity() != identity.commits_identity:
        raise WrongCommitStoreError(
            f"the log at {store.uri} is decided by the {identity.commits} commit store "
            f"{identity.commits_identity} ({identity.commits_uri}); {registry.kind} at {registry.uri} is another one, "
            f"or was emptied",
            hint="pass the right commits=; if its data was lost, restore it or run `siltstone repair --adopt`",
        )


def _check_conditions(store: Store) -> None:
    """Whoever says that a store knows no conditions can't let it decide."""
    if not store.traits.conditional:
        raise UnsafeStoreError(
            f"{store.uri} can't decide who wins: it is not asked to (conditional_create)", hint=REMEDY
        )


def _no_commit_store(identity: Identity) -> WrongCommitStoreError:
    return WrongCommitStoreError(
        f"this log is decided by the {identity.commits} commit store at {identity.commits_uri}, and none was given",
        hint=f"pass commits= with its URI ({identity.commits}://...)",
    )


def _check_options(guard: object, trust_ms: object, writer: object) -> None:
    if not isinstance(guard, str) or guard not in {"auto", "receipt", "witness"}:
        raise InvalidInputError(f"guard must be 'auto', 'receipt' or 'witness', got {guard!a}")
    if type(trust_ms) is not int or not 0 <= trust_ms <= TRUST_MS_MAX:
        raise InvalidInputError(f"trust_ms must be a whole number from 0 to {TRUST_MS_MAX}, got {trust_ms!a}")
    if not isinstance(writer, str) or len(writer) > WRITER_CHARACTERS_MAX or _has_half_characters(writer):
        raise InvalidInputError(f"writer must be a string of at most {WRITER_CHARACTERS_MAX} characters that UTF-8 has")


def _has_half_characters(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _check_surroundings(commits: object, lookup: object, env: object, *, flags: Mapping[str, object]) -> None:
    if commits is not None and not isinstance(commits, str) and not hasattr(commits, "claim"):
        raise InvalidInputError(
            f"commits must be a URI or a Registry, got {type(commits).__name__}", hint="such as sqlite:claims.db"
        )
    if lookup is not None and not callable(lookup):
        raise InvalidInputError(f"lookup must be a callable, got {type(lookup).__name__}")
    if not isinstance(env, Env):
        raise InvalidInputError(f"env must be an Env, got {type(env).__name__}")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InvalidInputError(f"{name} must be True or False, got {flag!a}")


class NoRegistry:
    """Stands where a log needs its commit store and none was given: reading published entries works."""

    def __init__(self, identity: Identity) -> None:
        self.kind = identity.commits
        self.uri = identity.commits_uri
        self._identity = identity

    def identity(self) -> str:
        raise _no_commit_store(self._identity)

    def claim(self, claim: Claim) -> Claim | Behind | Truncated:
        raise _no_commit_store(self._identity)

    def lookup(self, scope: str, position: int) -> Claim | None:
        """Nothing: what was acknowledged is published, and the rest is not ours to publish."""

    def newest(self, scope: str) -> Claim | None:
        raise _no_commit_store(self._identity)

    def restore(self, claim: Claim) -> Claim | Truncated:
        raise _no_commit_store(self._identity)

    def truncate(self, scope: str, *, below: int, digest: str) -> None:
        raise _no_commit_store(self._identity)

    def adopt(self, identity: str) -> None:
        raise _no_commit_store(self._identity)

    def close(self) -> None:
        """Nothing is held."""
