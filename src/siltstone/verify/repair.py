"""Mending a log: putting back what witnesses, staged bytes and the chain prove.

What must hold:
- An operation is re-appended at most once, by its op id; running ``repair`` again, or twice at once, changes
  nothing more.
- Nothing readable is removed before a copy of it is kept under a witness's name.
- Only what the chain itself asks for is written over a published entry.
- A commit store is written to only when it is the one that the log remembers, or was adopted as that one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.commit.conditional import ConditionalPut
from siltstone.commit.external import External, abort_entry
from siltstone.commit.registry import Claim, Registry
from siltstone.env import REAL, Env
from siltstone.errors import ConflictError, NotFoundError, SiltstoneError, UnavailableError
from siltstone.format.frame import digest
from siltstone.format.records import Header, encode_entry
from siltstone.format.table import is_body
from siltstone.log.open import NoRegistry, identity_place, open_log, read_identity
from siltstone.store.connect import open_store
from siltstone.verify.claims import contradicts, has_staged
from siltstone.verify.deciding import UNREADABLE, adopted_by, check_adopting, decided_by
from siltstone.verify.inspect import find_logs, opened_registry, report, unreadable, walk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from siltstone.format.records import Kind
    from siltstone.log.log import Log
    from siltstone.log.marks import Entry, Mark
    from siltstone.store.base import Store
    from siltstone.verify.findings import Findings
    from siltstone.verify.report import LogReport

CLAIMS_CLOSED_MAX = 1000


def repair(
    uri: str | Path | Store,
    *,
    commits: str | Registry | None = None,
    dry_run: bool = False,
    adopt: bool = False,
    moved: bool = False,
    storage_options: Mapping[str, str] | None = None,
    env: Env = REAL,
) -> list[LogReport]:
    """Mend every log below a URI as far as it can be; the reports say what was done and what is left.

    ``adopt`` lets a commit store that was emptied take its former place: its identity becomes the one that
    the log remembers, and its rows are put back from the published entries. Run it when no writer is running. It must
    be where the log remembers it to be, unless ``moved`` says that it is at another URI now. Logs that another commit
    store than ``commits`` decides are left as they are.
    Raises NotFoundError where there is no log, WrongCommitStoreError where one is needed and none or another was given.
    """
    check_adopting(given=commits is not None, adopt=adopt, moved=moved)
    store = open_store(uri, storage_options)
    reports = []
    with opened_registry(commits) as registry:
        roots = list(find_logs(store))
        if adopt and registry is not None:
            mine = adopted_by(store, roots, registry, moved=moved)
        else:
            mine = decided_by(store, roots, registry)
        for root in roots:
            given = registry if root in mine else None
            try:
                log = open_log(store, root=root, commits=given, probe=False, env=env, writer="repair")
                findings = walk(log)
            except UNREADABLE as error:
                reports.append(unreadable(store, root, error))
                continue
            if dry_run and adopt:
                _foretell(log, findings)
            others = registry is not None and given is None and log.identity.commits
            if not dry_run and not others:
                _restate_floor(log, findings)
            if dry_run or others or not findings.problems:
                reports.append(report(log, findings))
            else:
                reports.append(_repair_log(log, findings, env, adopt=adopt))
    if not reports:
        raise NotFoundError(f"there is no log below {store.uri}", hint="check the URI")
    return reports


def _foretell(log: Log, findings: Findings) -> None:
    """Of a commit store that would be adopted, say that instead of what is wrong with it now."""
    if not isinstance(log.commits, External) or isinstance(log.commits.registry, NoRegistry):
        return
    registry, former = log.commits.registry, log.identity.commits_identity
    for number, problem in enumerate(findings.problems):
        if problem.fault == "commit-store" and problem.position is None and registry.identity() != former:
            detail = f"{registry.uri} would be given its former identity {former}, and its rows from what is published"
            findings.problems[number] = replace(problem, detail=detail, repairable=True)


def _restate_floor(log: Log, findings: Findings) -> None:
    """Tell the commit store where a log without entries begins: nothing that can be read says whether it knows."""
    registry = log.commits.registry if isinstance(log.commits, External) else None
    if registry is None or isinstance(registry, NoRegistry) or findings.chain or not findings.start.position:
        return
    if registry.identity() == log.identity.commits_identity:
        registry.truncate(log.scope, below=findings.start.position, digest=findings.start.digest)


def _repair_log(log: Log, findings: Findings, env: Env, *, adopt: bool) -> LogReport:
    done: list[str] = []
    closed: list[str] = []
    registry = log.commits.registry if isinstance(log.commits, External) else None
    if registry is not None and registry.identity() != log.identity.commits_identity:
        if not adopt:
            return report(log, findings)
        registry.adopt(log.identity.commits_identity)
        done.append(f"{registry.uri} was given its former identity {log.identity.commits_identity}")
    done += _settle_splits(log, findings, registry)
    findings = walk(log)
    done += _refill(log, findings)
    findings = walk(log)
    if registry is not None:
        done += _restore_claims(log, findings, registry)
        done += _step_past(log, findings, registry)
        done += _close_claimed(log, walk(log), registry, closed)
    done += _append_lost(log, findings, env)
    done += _settle_tip(log, env)
    return replace(report(log, walk(log), (*done, *closed)), given_up=len(closed))


# -- places ----------------------------------------------------------------------------------------


def _settle_splits(log: Log, findings: Findings, registry: Registry | None) -> list[str]:
    """Leave one of two published entries in its place; the other becomes a witness, to be appended again."""
    done = []
    splits = {p.position for p in findings.problems if p.fault == "split" and p.repairable and p.position is not None}
    for position in sorted(splits):
        entries = {key: log.read(log.store.get(key), position) for key in findings.published[position]}
        keeper = _keeper(log, findings, entries, registry)
        for key, entry in entries.items():
            if key == keeper:
                continue
            log.store.copy(key, paths.witness(log.root, position, entry.nonce))
            log.store.delete([key])
            done.append(f"entry {position}: kept operation {entries[keeper].op}, moved {entry.op} to its witness")
    return done


def _keeper(log: Log, findings: Findings, entries: dict[str, Entry], registry: Registry | None) -> str:
    """The entry that its successor names; else the one the commit store names; else the first by name."""
    position = next(iter(entries.values())).position
    claim = registry.lookup(log.scope, position) if registry is not None else None
    for want in (findings.wanted.get(position), claim.digest if claim else None):
        for key, entry in entries.items():
            if want == entry.digest:
                return key
    return min(entries)


def _refill(log: Log, findings: Findings) -> list[str]:
    """Put entries back that the chain asks for and a witness has, lowest first."""
    done = []
    for position, (key, entry) in sorted(findings.fillers.items()):
        there = findings.published.get(position, [])
        here = findings.chain.get(position)
        if here is not None:
            log.store.copy(there[0], paths.witness(log.root, position, here.nonce))
        target = paths.entry(log.root, position, entry.digest[:32] if log.identity.publish == "fork" else "")
        log.store.put(target, log.store.get(key))
        log.store.delete([old for old in there if old != target])
        done.append(f"entry {position}: brought operation {entry.op} back from its witness")
    return done


# -- commit store ----------------------------------------------------------------------------------


def _restore_claims(log: Log, findings: Findings, registry: Registry) -> list[str]:
    """Tell a commit store that lost rows what is published, oldest first."""
    found = read_identity(log.store, log.root)
    if found is not None:
        place = identity_place(log.store, log.root)
        registry.restore(Claim(place.scope, 0, digest(found.data), "", ""))
    if findings.start.position:
        registry.truncate(log.scope, below=findings.start.position, digest=findings.start.digest)
    restored = 0
    for position, entry in sorted(findings.chain.items()):
        if registry.lookup(log.scope, position) is None:
            registry.restore(Claim(log.scope, position, entry.digest, entry.prev, ""))
            restored += 1
    return [f"put {restored} rows back into {registry.uri}"] if restored else []


def _step_past(log: Log, findings: Findings, registry: Registry) -> list[str]:
    """Where the newest row names another entry than is published, put an abort entry behind it.

    Rows can't be changed, and the next claim would be refused for what the newest one says.
    """
    last = findings.chain.get(findings.tip - 1)
    newest = registry.newest(log.scope)
    if last is None or newest is None or newest.position != last.position or not contradicts(newest, last):
        return []
    data = abort_entry(log.place(last.end), newest)
    registry.restore(Claim(log.scope, last.end.position, digest(data), last.digest, ""))
    _publish_abort(log, last.end, data)
    return [f"entry {last.end.position}: an abort entry, so that {registry.uri} goes on behind what is published"]


def _close_claimed(log: Log, findings: Findings, registry: Registry, closed: list[str]) -> list[str]:
    """Publish what was decided and not published; close places whose staged bytes are gone with abort entries.

    Those go to ``closed``: whoever claimed such a place may have published it, and been acknowledged, before someone
    else deleted the entry.
    """
    done: list[str] = []
    if any(problem.fault in {"missing", "corrupt", "split"} for problem in findings.problems):
        return done  # what is decided behind a hole can't be told from what was lost with it
    last = findings.chain.get(findings.tip - 1)
    mark = findings.start if last is None else last.end
    for _ in range(CLAIMS_CLOSED_MAX):
        claim = registry.lookup(log.scope, mark.position)
        if claim is None:
            break
        place = log.place(mark)
        if has_staged(log, claim):
            data = log.commits.decided(place)
            done.append(f"entry {mark.position}: published")
        else:
            data = _publish_abort(log, mark, abort_entry(place, claim))
            closed.append(f"entry {mark.position}: closed with an abort entry, the bytes that were decided are gone")
        if data is None:
            break
        mark = log.read(data, mark.position).end
    return done


def _publish_abort(log: Log, mark: Mark, data: bytes) -> bytes | None:
    if log.identity.publish == "fork":
        log.store.put(paths.entry(log.root, mark.position, digest(data)[:32]), data)
        return data
    return ConditionalPut(log.store, REAL).decide(log.place(mark), data)


# -- operations ------------------------------------------------------------------------------------


def _append_lost(log: Log, findings: Findings, env: Env) -> list[str]:
    done = []
    known = findings.ops()
    for key, entry in (*findings.witnesses, *findings.aside):
        if not findings.is_lost(entry, known):
            _let_go(log, key)
            continue
        known.add(entry.op)
        what = f"operation {entry.op} (was at {entry.position})" if entry.kind == "data" else f"epoch {entry.epoch}"
        if entry.kind == "data" and is_body(entry.body):
            # It was made for the versions before it; behind others it could double a key, or fit nothing.
            done.append(f"{what} is a version of a table: run it again; what it changed is in {key}")
            continue
        if entry.kind == "data" and paths.is_of_shard(log.root):
            # Behind others it would be newer than they are: rows, or a whole state, from before.
            done.append(f"{what} belongs to a shard: put its rows again if they are not there; they are in {key}")
            continue
        try:
            _advance(log, env)
            end = log.restore(entry) if entry.kind == "data" else _fence_again(log, entry, env)
        except UnavailableError:
            raise
        except SiltstoneError as error:
            done.append(f"{what} could not be appended again from {key}: {error.message}")
            continue
        _let_go(log, key)
        done.append(f"{what} appended again as entry {end.position - 1}")
    return done


def _let_go(log: Log, key: str) -> None:
    """Remove what a truncation kept of an operation that is in the log."""
    if paths.parse_lost(log.root, key) is not None:
        log.store.delete([key])


def _fence_again(log: Log, lost: Entry, env: Env) -> Mark:
    """Put a lost fence behind the tip."""
    mark = log.tip()
    if mark.epoch >= lost.epoch:
        return mark
    return _put(log, mark, env, kind="fence", epoch=lost.epoch, op=lost.op)


def _advance(log: Log, env: Env) -> Mark:
    """The tip, moved to a place that no witness speaks of: there only can an append be found alone."""
    mark = log.tip()
    while any(log.store.list(_witnesses_of(log, mark.position))):
        mark = _put(log, mark, env, kind="abort", epoch=mark.epoch, op=env.ids.new())
    return mark


def _settle_tip(log: Log, env: Env) -> list[str]:
    """Move on from a newest entry that witnesses contradict, once all of them have their place in the log."""
    mark = log.tip()
    data = log.published(mark.position - 1) if mark.position > log.first().position else None
    if data is None or log.identity.guard != "witness":
        return []
    mine = paths.witness(log.root, mark.position - 1, log.read(data, mark.position - 1).nonce)
    if all(info.key == mine for info in log.store.list(_witnesses_of(log, mark.position - 1))):
        return []
    mark = _advance(log, env)
    _put(log, mark, env, kind="abort", epoch=mark.epoch, op=env.ids.new())
    return [f"entry {mark.position}: an abort entry, so that writers go on behind a place that several had won"]


def _witnesses_of(log: Log, position: int) -> str:
    return f"{log.root}{paths.WITNESS}/{paths.digits(position)}"


def _put(log: Log, mark: Mark, env: Env, *, kind: Kind, epoch: int, op: str) -> Mark:
    """An entry without a body right behind a mark, past what witnesses say."""
    header = Header(
        log=log.identity.log,
        position=mark.position,
        epoch=epoch,
        op=op,
        nonce=env.ids.new(),
        prev=mark.digest,
        kind=kind,
        writer="repair",
        time_ms=env.clock.wall_ms(),
    )
    winner = log.read(log.commits.decide(log.place(mark), encode_entry(header, b"")), mark.position)
    if winner.op != op:
        raise ConflictError(
            f"entry {winner.position} was taken by {winner.writer or 'another writer'} during the repair",
            hint="stop all writers, then run `siltstone repair` again",
            end=winner.end,
        )
    return winner.end
