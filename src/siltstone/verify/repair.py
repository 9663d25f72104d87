"""Mending a log: putting back what witnesses, staged bytes and the chain prove.

What must hold:
- An operation is re-appended at most once, by its op id; running ``repair`` again, or twice at once, changes
  nothing more.
- Nothing is removed before a copy of it is kept under a witness's name.
- Only what the chain itself asks for is written over a published entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.commit.connect import open_registry
from siltstone.commit.external import abort_entry
from siltstone.commit.registry import Claim, Registry
from siltstone.env import REAL, Env
from siltstone.errors import MissingObjectError, NotFoundError, SiltstoneError, UnavailableError
from siltstone.format.frame import digest
from siltstone.log.open import identity_place, open_log, read_identity
from siltstone.store.connect import open_store
from siltstone.verify.inspect import Findings, find_logs, fits, registry_for, report, walk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from siltstone.log.log import Log
    from siltstone.log.marks import Entry
    from siltstone.store.base import Store
    from siltstone.verify.report import LogReport


def repair(
    uri: str | Path | Store,
    *,
    commits: str | Registry | None = None,
    dry_run: bool = False,
    adopt: bool = False,
    storage_options: Mapping[str, str] | None = None,
    env: Env = REAL,
) -> list[LogReport]:
    """Mend every log below a URI as far as it can be; the reports say what was done and what is left.

    ``adopt`` lets a commit store that was emptied take its former place: its identity becomes the one that
    the log remembers, and its rows are put back from the published entries. Run it when no writer is running.
    """
    store = open_store(uri, storage_options)
    registry = open_registry(commits) if isinstance(commits, str) else commits
    reports = []
    for root in find_logs(store):
        mine = registry_for(store, root, registry)
        log = open_log(store, root=root, commits=mine, probe=False, env=env, writer="repair")
        reports.append(_repair_log(log, mine, dry_run=dry_run, adopt=adopt))
    if not reports:
        raise NotFoundError(f"there is no log below {store.uri}", hint="check the URI")
    return reports


def _repair_log(log: Log, registry: Registry | None, *, dry_run: bool, adopt: bool) -> LogReport:
    done: list[str] = []
    findings = walk(log)
    if dry_run or not findings.problems:
        return report(log, findings, tuple(done))
    if registry is not None and adopt and registry.identity() != log.identity.commits_identity:
        registry.adopt(log.identity.commits_identity)
        done.append(f"{registry.uri} was given its former identity {log.identity.commits_identity}")
    done += _settle_splits(log, findings, registry)
    done += _refill(log, findings)
    findings = walk(log)
    if registry is not None:
        done += _restore_claims(log, findings, registry)
        done += _publish_claimed(log, registry)
    done += _append_lost(log, findings)
    return report(log, walk(log), tuple(done))


def _settle_splits(log: Log, findings: Findings, registry: Registry | None) -> list[str]:
    """Leave one of two published entries in its place; the other becomes a witness, to be appended again."""
    done = []
    for position, keys in sorted(findings.published.items()):
        if len(keys) < 2:
            continue
        entries = {key: log.read(log.store.get(key), position) for key in keys}
        keeper = _keeper(log, findings, entries, registry)
        for key, entry in entries.items():
            if key == keeper:
                continue
            log.store.copy(key, paths.witness(log.root, position, entry.nonce))
            log.store.delete([key])
            done.append(f"entry {position}: kept {entries[keeper].op}, moved {entry.op} to its witness")
    return done


def _keeper(log: Log, findings: Findings, entries: dict[str, Entry], registry: Registry | None) -> str:
    """The entry that its successor names; else the one the commit store names; else the first by name."""
    position = next(iter(entries.values())).position
    wanted = findings.wanted.get(position)
    claim = registry.lookup(log.identity.log, position) if registry is not None else None
    for want in (wanted, claim.digest if claim else None):
        for key, entry in entries.items():
            if want == entry.digest:
                return key
    return min(entries)


def _refill(log: Log, findings: Findings) -> list[str]:
    """Put entries back that the chain asks for and a witness has."""
    done = []
    for key, entry in findings.witnesses:
        there = findings.chain.get(entry.position)
        if not fits(findings, entry) or (there is not None and there.digest == entry.digest):
            continue
        if there is not None:
            log.store.copy(findings.published[entry.position][0], paths.witness(log.root, entry.position, there.nonce))
        log.store.put(_published_key(log, entry), log.store.get(key))
        done.append(f"entry {entry.position}: brought operation {entry.op} back from its witness")
    return done


def _published_key(log: Log, entry: Entry) -> str:
    return paths.entry(log.root, entry.position, entry.digest[:32] if log.identity.publish == "fork" else "")


def _restore_claims(log: Log, findings: Findings, registry: Registry) -> list[str]:
    """Tell a commit store that lost rows what is published, oldest first."""
    found = read_identity(log.store, log.root)
    if found is not None:
        place = identity_place(log.store, log.root)
        registry.restore(Claim(place.scope, 0, digest(found.data), "", ""))
    if findings.start.position:
        registry.truncate(log.identity.log, below=findings.start.position, digest=findings.start.digest)
    restored = 0
    for position, entry in sorted(findings.chain.items()):
        if registry.lookup(log.identity.log, position) is None:
            registry.restore(Claim(log.identity.log, position, entry.digest, entry.prev, ""))
            restored += 1
    return [f"put {restored} rows back into {registry.uri}"] if restored else []


def _publish_claimed(log: Log, registry: Registry) -> list[str]:
    """Publish what was decided and not published; close a place whose staged bytes are gone."""
    mark = log.tip()
    claim = registry.lookup(log.identity.log, mark.position)
    if claim is None:
        return []
    place = log.place(mark)
    try:
        log.commits.decided(place)
    except MissingObjectError:
        data = abort_entry(place, claim)
        log.store.put(paths.entry(log.root, mark.position, digest(data)[:32]), data)
        return [f"entry {mark.position}: closed with an abort entry, the claimed bytes are gone"]
    return [f"entry {mark.position}: published"]


def _append_lost(log: Log, findings: Findings) -> list[str]:
    done = []
    known = findings.ops()
    for _, entry in findings.witnesses:
        if entry.op in known or entry.kind != "data":
            continue
        known.add(entry.op)
        try:
            end = log.restore(entry)
        except UnavailableError:
            raise
        except SiltstoneError as error:
            done.append(f"operation {entry.op} could not be appended again: {error.message}")
            continue
        done.append(f"operation {entry.op} (was at {entry.position}) appended again as entry {end.position - 1}")
    return done
