"""Is it safe to keep tables here? A store, and the commit store that is to decide for it, tried out.

What must hold: the answer rests on what the services did just now, never on an earlier answer; the store is
left as it was, and of a commit store's trial only a range claim on a scope of its own stays.
"""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from siltstone.commit.connect import open_registry, supported_schemes
from siltstone.commit.registry import Behind, Claim, Registry, Truncated
from siltstone.env import REAL, Env
from siltstone.format.frame import digest
from siltstone.store.connect import open_store
from siltstone.store.probe import Finding, probe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from siltstone.store.base import Store

CLAIMANTS = 8
# Decides within one process only, so it makes nothing safe that outlives the process.
_NOT_A_REMEDY = {"memory"}


@dataclass(frozen=True)
class CommitsReport:
    """What a commit store did when it was tried."""

    uri: str
    kind: str
    identity: str
    findings: tuple[Finding, ...]
    latency_ms: float  # median of one claim

    @property
    def safe(self) -> bool:
        """Whether every answer was right."""
        return all(finding.ok for finding in self.findings)


@dataclass(frozen=True)
class StoreReport:
    """What a store did when it was tried, and what that means for tables on it."""

    uri: str
    kind: str
    known_good: bool
    findings: tuple[Finding, ...]
    remedies: tuple[str, ...]  # schemes of commit stores that make an unsafe store safe
    commits: CommitsReport | None = None

    @property
    def store_safe(self) -> bool:
        """Whether the object store may decide by itself."""
        return all(finding.ok for finding in self.findings)

    @property
    def safe(self) -> bool:
        """Whether tables are safe as asked: with the commit store where one was given, else without."""
        return self.commits.safe if self.commits is not None else self.store_safe

    @property
    def guard(self) -> Literal["receipt", "witness"]:
        """How a log that is made here guards what it acknowledges."""
        honest = self.known_good and self.store_safe
        return "receipt" if honest or self.commits is not None else "witness"


def check_store(
    uri: str | Path | Store,
    commits: str | Registry | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    env: Env = REAL,
) -> StoreReport:
    """Try a store, and the commit store that would decide for it, and say whether tables are safe there.

    Raises InvalidInputError, PermissionDeniedError or UnavailableError where one of them can't be tried.
    """
    registry = open_registry(commits) if isinstance(commits, str) else commits
    store = open_store(uri, storage_options)
    try:
        found = probe(store, env=env)
        return StoreReport(
            uri=store.uri,
            kind=store.traits.kind,
            known_good=store.traits.known_good,
            findings=found.findings,
            remedies=tuple(scheme for scheme in supported_schemes() if scheme not in _NOT_A_REMEDY),
            commits=None if registry is None else check_commits(registry, env=env),
        )
    finally:
        store.close()
        if registry is not None and isinstance(commits, str):
            registry.close()


def check_commits(registry: Registry, *, env: Env = REAL) -> CommitsReport:
    """Try a commit store on a scope of its own."""
    trial = _Trial(registry, scope=f"check:{env.ids.new()}")
    identity = registry.identity()
    try:
        findings = (
            _identity(registry, identity),
            trial.claim_twice(),
            trial.look_up(),
            trial.wrong_predecessor(),
            trial.race(),
        )
    finally:
        registry.truncate(trial.scope, below=2, digest=digest(b"checked"))
    return CommitsReport(
        uri=registry.uri,
        kind=registry.kind,
        identity=identity,
        findings=(*findings, trial.refused_below()),
        latency_ms=round(statistics.median(trial.took_ms), 3),
    )


def _identity(registry: Registry, identity: str) -> Finding:
    ok = bool(identity) and registry.identity() == identity
    detail = f"it calls itself {identity} each time" if ok else "it gave two identities in a row, or an empty one"
    return Finding("identity", ok, detail)


class _Trial:
    """Claims on one scope that nobody else uses."""

    def __init__(self, registry: Registry, *, scope: str) -> None:
        self.registry = registry
        self.scope = scope
        self.took_ms: list[float] = []
        self.first = self._proposal(0, "first")

    def _proposal(self, position: int, words: str, *, parent: str = "") -> Claim:
        return Claim(self.scope, position, digest(f"{self.scope} {words}".encode()), parent, words)

    def _claim(self, claim: Claim) -> Claim | Behind | Truncated:
        started = time.monotonic()
        answer = self.registry.claim(claim)
        self.took_ms.append((time.monotonic() - started) * 1000)
        return answer

    def claim_twice(self) -> Finding:
        mine = self._claim(self.first)
        other = self._claim(self._proposal(0, "second"))
        again = self._claim(self.first)
        ok = mine == other == again == self.first
        return _finding(
            "claim twice", "of two claims for one place the first holds", "two claims won one place", holds=ok
        )

    def look_up(self) -> Finding:
        ok = self.registry.lookup(self.scope, 0) == self.registry.newest(self.scope) == self.first
        return _finding(
            "look up",
            "a decision is seen right after it was made",
            "a decision is not seen after it was made",
            holds=ok,
        )

    def wrong_predecessor(self) -> Finding:
        answer = self._claim(self._proposal(1, "stray", parent=digest(b"nobody")))
        return _finding(
            "predecessor",
            "a claim behind an unknown entry is refused, so lost rows are noticed",
            "a claim behind an unknown entry was taken",
            holds=isinstance(answer, Behind),
        )

    def race(self) -> Finding:
        start = threading.Barrier(CLAIMANTS)

        def claim(number: int) -> Claim | Behind | Truncated:
            start.wait()
            return self._claim(self._proposal(1, f"claimant {number}", parent=self.first.digest))

        with ThreadPoolExecutor(CLAIMANTS) as pool:
            answers = list(pool.map(claim, range(CLAIMANTS)))
        ok = all(isinstance(answer, Claim) and answer == answers[0] for answer in answers)
        return _finding(
            "race",
            f"{CLAIMANTS} concurrent claims for one place all name the same winner",
            f"{CLAIMANTS} concurrent claims for one place name different winners",
            holds=ok,
        )

    def refused_below(self) -> Finding:
        ok = isinstance(self._claim(self.first), Truncated)
        return _finding("range", "truncated places stay refused", "a truncated place can be taken again", holds=ok)


def _finding(check: str, good: str, bad: str, *, holds: bool) -> Finding:
    return Finding(check, holds, good if holds else bad)
