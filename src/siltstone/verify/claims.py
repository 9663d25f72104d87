"""Comparing a log with the commit store that decides it.

What must hold: a writer at work is no problem. Its claim may be seen before its entry; only a decision whose
bytes are nowhere is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.commit.external import External
from siltstone.errors import SiltstoneError, WrongCommitStoreError
from siltstone.verify.report import Problem

if TYPE_CHECKING:
    from siltstone.commit.registry import Claim, Registry
    from siltstone.log.log import Log
    from siltstone.log.marks import Entry
    from siltstone.verify.findings import Findings


def check_commit_store(log: Log, findings: Findings) -> None:
    """Add what the commit store and the log do not agree on."""
    identity = log.identity
    if not isinstance(log.commits, External):
        return
    registry = log.commits.registry
    try:
        if registry.identity() != identity.commits_identity:
            detail = (
                f"{registry.uri} is not the commit store {identity.commits_identity} that decides this log, "
                f"or it was emptied; `siltstone repair --adopt` lets an emptied one take its place again"
            )
            findings.problems.append(Problem("commit-store", detail))
            return
        _compare_claims(registry, log, findings)
    except WrongCommitStoreError:
        findings.notes.append(
            f"not compared with its commit store ({identity.commits} at {identity.commits_uri}): that one was not given"
        )
    except SiltstoneError as error:
        findings.problems.append(Problem("commit-store", f"can't be compared with the log: {error.message}"))


def _compare_claims(registry: Registry, log: Log, findings: Findings) -> None:
    newest = registry.newest(log.scope)
    if newest is not None and newest.position >= findings.tip:
        _check_undelivered(log, findings, newest)
    unknown = []
    for position, entry in sorted(findings.chain.items()):
        claim = registry.lookup(log.scope, position)
        if claim is None:
            unknown.append(position)
        elif contradicts(claim, entry):
            detail = f"{registry.uri} decided for {claim.digest[:12]}..., but operation {entry.op} is published"
            # With a successor known there, nobody builds on that row any more.
            if newest is not None and newest.position > position:
                findings.notes.append(f"entry {position}: {detail}, and was built upon")
            else:
                problem = Problem("commit-store", detail, position, op=entry.op, repairable=True)
                findings.problems.append(problem)
    if unknown:
        detail = f"{len(unknown)} published entries from {unknown[0]} on are unknown to {registry.uri}"
        findings.problems.append(Problem("behind", detail, unknown[0], repairable=True))


def _check_undelivered(log: Log, findings: Findings, claim: Claim) -> None:
    if has_staged(log, claim):
        findings.notes.append(
            f"entry {claim.position} was decided just now or by a writer that died; "
            f"the next reader or writer publishes it"
        )
    elif log.published(claim.position) is None:  # its writer publishes first and removes the staged bytes then
        detail = "it was decided, but neither the entry nor its staged bytes are there"
        name = paths.entry(log.root, claim.position)
        findings.problems.append(Problem("unpublished", detail, claim.position, object=name, repairable=True))


def contradicts(claim: Claim, entry: Entry) -> bool:
    """Whether a claim names other bytes than are published; an abort entry stands for bytes that are gone."""
    return claim.digest != entry.digest and entry.kind != "abort"


def has_staged(log: Log, claim: Claim) -> bool:
    """Whether the bytes that a claim names are there."""
    parsed = paths.parse_staged("", claim.value)
    return parsed is not None and parsed[0] == claim.position and log.store.head(log.root + claim.value) is not None
