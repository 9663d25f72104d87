"""Does a store keep its word? Found out by trying, before anything is entrusted to it.

What must hold: a store whose create overwrites is found out every time; one that looks first and
overwrites later (a check-then-put gateway) is found out by concurrent creates; nothing is left behind.
A change after the probe (versioning switched on later) is not seen here: the witness is for that.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.env import REAL, Env
from siltstone.errors import (
    AlreadyExistsError,
    NotFoundError,
    SiltstoneError,
    UnavailableError,
    UnsafeStoreError,
)
from siltstone.store.base import REFUSED, REFUSING_REMEDY

if TYPE_CHECKING:
    from siltstone.store.base import Store

ROUNDS = 4
WRITERS = 8
PATIENCE_S = 5.0  # a store that gives no answer for so long is not there
REMEDY = "pass commits= with a sqlite, postgresql, mysql, redis, etcd or dynamodb URI; see docs/commit-stores.md"
# Who decides is part of a log: one whose store has begun to lie can't be given a commit store.
MOVE = "stop writing to it; make another table with commits= and copy the rows: see docs/how-to/recover.md"


@dataclass(frozen=True)
class Finding:
    """One question put to the store and its answer."""

    check: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class ProbeReport:
    """What a probe found; ``safe`` where the store may decide places itself."""

    uri: str
    findings: tuple[Finding, ...]

    @property
    def safe(self) -> bool:
        """Whether every answer was right."""
        return all(finding.ok for finding in self.findings)

    def require(self, hint: str = REMEDY) -> None:
        """Raise UnsafeStoreError where the store is not safe."""
        wrong = [finding.detail for finding in self.findings if not finding.ok]
        if wrong:
            raise UnsafeStoreError(f"{self.uri} can't decide who wins: {'; '.join(wrong)}", hint=hint)


def probe(store: Store, *, env: Env = REAL, rounds: int = ROUNDS, writers: int = WRITERS) -> ProbeReport:
    """Try the store with objects of its own and say what it does.

    Raises PermissionDeniedError, UnavailableError or InvalidInputError where it can't be tried at all.
    """
    env = replace(env, patience_s=min(env.patience_s, PATIENCE_S))
    prefix = f"{paths.PROBE}/{env.ids.new()}"  # one directory for all probes: on a disk an empty one stays
    keys = [f"{prefix}-twice", *(f"{prefix}-race{n}" for n in range(rounds))]
    try:
        findings = [_read_back(store, keys[0], env), _create_twice(store, keys[0], env)]
        if store.traits.conditional:
            findings += [_race(store, key, number, writers) for number, key in enumerate(keys[1:])]
        else:  # chance must not decide what is known
            findings.append(Finding("race", ok=False, detail="creating is a look and then a put, as options say"))
            keys = keys[:1]
        findings.append(_listing(store, prefix, keys))
    except BaseException:
        with contextlib.suppress(SiltstoneError):  # the first error says what is wrong
            store.delete(keys)
        raise
    store.delete(keys)
    return ProbeReport(store.uri, (*findings, _deleted(store, prefix)))


_probed: dict[str, ProbeReport] = {}


def probe_once(store: Store) -> ProbeReport:
    """As ``probe``, once per process and bucket."""
    found = _probed.get(store.domain)
    if found is None:
        found = _probed[store.domain] = probe(store)
    return replace(found, uri=store.uri)


def forget(endpoint: str) -> None:
    """Try out stores behind an endpoint anew: another server has its port."""
    for domain in [one for one in _probed if one.endswith(endpoint)]:
        del _probed[domain]


def _created(store: Store, key: str, data: bytes, env: Env) -> bool:
    """Whether a create was accepted; one whose answer was lost is sent again, and one's own object is one's own."""
    failure: UnavailableError | None = None
    for _ in env.tries():
        try:
            store.create(key, data)
        except AlreadyExistsError:
            return failure is not None and store.get(key) == data
        except UnavailableError as error:
            if error.facts.get("status") in REFUSED:
                store.put(key, data)  # it is not the store that is out of order
                what = f"{store.uri} refuses to create only what is absent ({error.facts['status']})"
                raise UnsafeStoreError(what, hint=REFUSING_REMEDY) from error
            failure = error
            continue
        return True
    raise failure or UnavailableError(f"{store.uri} gave no answer")


def _read_back(store: Store, key: str, env: Env) -> Finding:
    _created(store, key, b"first", env)
    try:
        ok = store.get(key) == b"first"
    except NotFoundError:
        ok = False
    detail = "reads see what was written" if ok else "an object can't be read back right after it was written"
    return Finding("read after write", ok, detail)


def _create_twice(store: Store, key: str, env: Env) -> Finding:
    refused = not _created(store, key, b"second", env)
    kept = store.get(key) == b"first"
    if refused and kept:
        return Finding("create twice", ok=True, detail="a second create is refused and changes nothing")
    what = "accepted" if not refused else "refused, and yet"
    return Finding("create twice", ok=False, detail=f"a second create was {what} and the object {_changed(kept)}")


def _changed(kept: bool) -> str:  # noqa: FBT001
    return "stayed as it was" if kept else "was overwritten"


def _race(store: Store, key: str, number: int, writers: int) -> Finding:
    start = threading.Barrier(writers)

    def create(writer: int) -> int | None:
        start.wait()
        try:
            store.create(key, b"writer %d" % writer)
        except (AlreadyExistsError, UnavailableError):
            return None
        return writer

    with ThreadPoolExecutor(writers) as pool:
        winners = [w for w in pool.map(create, range(writers)) if w is not None]
    name = f"race {number + 1}"
    if len(winners) > 1:
        return Finding(name, ok=False, detail=f"{len(winners)} of {writers} concurrent creates of one object succeeded")
    try:
        body = store.get(key)
    except NotFoundError:
        if winners:
            return Finding(name, ok=False, detail="the object of the winner of a race is gone")
        raise UnavailableError(f"{store.uri} answered none of {writers} creates", hint="try again") from None
    if winners and body != b"writer %d" % winners[0]:
        return Finding(name, ok=False, detail="the object of the winner of a race was overwritten by a loser")
    return Finding(name, ok=True, detail=f"of {writers} concurrent creates one succeeded")


def _listing(store: Store, prefix: str, keys: list[str]) -> Finding:
    found = _listed(store, prefix)
    ok = found == sorted(keys)
    detail = "listings see what was written" if ok else f"a listing shows {len(found)} of {len(keys)} new objects"
    return Finding("list after write", ok, detail)


def _listed(store: Store, prefix: str) -> list[str]:
    return [info.key for info in store.list(paths.PROBE) if info.key.startswith(prefix)]


def _deleted(store: Store, prefix: str) -> Finding:
    left = len(_listed(store, prefix))
    detail = "deleted objects are gone" if not left else f"{left} deleted objects are still listed"
    return Finding("delete", not left, detail)
