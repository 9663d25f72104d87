"""Walking logs: every position, link, checksum, epoch, witness, claim and receipt.

What must hold: an acknowledged operation that is gone is named, with its op id; an honest log gives no
finding, also while writers are at work on it. Nothing is written, and no body is kept in memory.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.commit.connect import open_registry
from siltstone.env import REAL, Env
from siltstone.errors import CorruptionError, NotFoundError, SiltstoneError, SplitHistoryError, UnsupportedFormatError
from siltstone.log.open import open_log
from siltstone.store.connect import open_store
from siltstone.verify.claims import check_commit_store
from siltstone.verify.deciding import UNREADABLE, decided_by
from siltstone.verify.findings import Findings, judge
from siltstone.verify.report import Fault, LogReport, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from siltstone.commit.registry import Registry
    from siltstone.log.log import Log
    from siltstone.log.marks import Entry, Mark
    from siltstone.store.base import Store

    Progress = Callable[[str, int], None]

PROGRESS_EVERY = 1000
GAP_ENTRIES_MAX = 100  # positions of one gap that are named one by one


def verify(
    uri: str | Path | Store,
    *,
    commits: str | Registry | None = None,
    receipts: Iterable[Mark] = (),
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    env: Env = REAL,
) -> list[LogReport]:
    """Check every log below a URI; one report for each.

    ``receipts`` (marks that ``append`` returned) are checked against the log they belong to when there is
    just one. ``progress`` is told a log's root and how many entries were read. Raises NotFoundError where
    there is no log.
    """
    store = open_store(uri, storage_options)
    reports = []
    with opened_registry(commits) as registry:
        roots = list(find_logs(store))
        mine = decided_by(store, roots, registry)
        for root in roots:
            try:
                log = open_log(store, root=root, commits=registry if root in mine else None, probe=False, env=env)
                findings = walk(log, progress=progress)
            except UNREADABLE as error:
                reports.append(unreadable(store, root, error))
                continue
            check_receipts(log, findings, receipts)
            reports.append(report(log, findings))
    if not reports:
        raise NotFoundError(f"there is no log below {store.uri}", hint="check the URI")
    return reports


@contextlib.contextmanager
def opened_registry(commits: str | Registry | None) -> Iterator[Registry | None]:
    """The registry that a caller named; one that was opened here is closed here."""
    if not isinstance(commits, str):
        yield commits
        return
    registry = open_registry(commits)
    try:
        yield registry
    finally:
        registry.close()


def find_logs(store: Store) -> Iterator[str]:
    """Roots of the logs below a store's root."""
    seen = set()
    for info in store.list():
        root = paths.parse_identity(info.key)
        if root is not None and root not in seen:
            seen.add(root)
            yield root


def walk(log: Log, *, progress: Progress | None = None) -> Findings:
    """Read a whole log and gather what is wrong with it."""
    # Witnesses before entries: a writer at work adds the entry first, so none is seen here without its entry.
    witnesses = _list_witnesses(log)
    findings = Findings(log.first(), {})
    for info in log.store.list(f"{log.root}{paths.ENTRIES}"):
        parsed = paths.parse_entry(log.root, info.key)
        if parsed is not None and parsed[0] >= findings.start.position:
            findings.published.setdefault(parsed[0], []).append(info.key)
    findings.staged = sum(1 for _ in log.store.list(f"{log.root}{paths.STAGED}"))
    _fill_gaps(log, findings)
    _read_entries(log, findings, progress)
    _read_witnesses(log, findings, witnesses)
    _read_lost(log, findings)
    judge(findings)
    check_commit_store(log, findings)
    _forget_truncated(log, findings)
    return findings


def _fill_gaps(log: Log, findings: Findings) -> None:
    """Look again for what the listing did not show: that of a directory at work is no picture of one moment."""
    listed = sorted(findings.published)
    for before, after in zip([findings.start.position - 1, *listed], listed, strict=False):
        for position in range(before + 1, after) if after - before <= GAP_ENTRIES_MAX else ():
            keys = [paths.entry(log.root, position)]
            if log.identity.publish == "fork":
                keys = [info.key for info in log.store.list(keys[0]) if paths.parse_entry(log.root, info.key)]
            found = [key for key in keys if log.store.head(key) is not None]
            if found:
                findings.published[position] = found


def _read_entries(log: Log, findings: Findings, progress: Progress | None) -> None:
    findings.epoch = findings.start.epoch
    singles = (keys[0] for _, keys in sorted(findings.published.items()) if len(keys) == 1)
    objects = log.store.get_many(singles)
    expected = findings.start.position
    for number, (position, keys) in enumerate(sorted(findings.published.items()), 1):
        _note_gap(log, findings, expected, position)
        expected = position + 1
        if len(keys) > 1:
            _note_split(log, findings, position)
            continue
        entry = _read_one(log, findings, position, next(objects))
        if entry is not None:
            findings.chain[position] = replace(entry, body=b"")
            findings.dead += entry.epoch < findings.epoch
            findings.epoch = max(findings.epoch, entry.epoch)
        if progress is not None and number % PROGRESS_EVERY == 0:
            progress(log.root, number)


def _note_gap(log: Log, findings: Findings, start: int, stop: int) -> None:
    """Positions that nothing is published at, although something is behind them."""
    if stop - start > GAP_ENTRIES_MAX:
        detail = f"entries {start} to {stop - 1} are gone, or {stop} does not belong here"
        findings.problems.append(Problem("missing", detail, start, object=paths.entry(log.root, start)))
        return
    for position in range(start, stop):
        name = paths.entry(log.root, position)
        findings.problems.append(Problem("missing", "the entry is gone", position, object=name))


def _read_one(log: Log, findings: Findings, position: int, data: bytes | None) -> Entry | None:
    name = paths.entry(log.root, position)
    if data is None:
        findings.problems.append(Problem("missing", "the entry is gone", position, object=name))
        return None
    try:
        return log.read(data, position)
    except (CorruptionError, UnsupportedFormatError) as error:
        findings.problems.append(Problem("corrupt", error.message, position, object=name))
        return None


def _note_split(log: Log, findings: Findings, position: int) -> None:
    """Two finals: which one stays is for ``repair`` to say."""
    keys = findings.published[position]
    said, readable = [], True
    for key in keys:
        try:
            said.append(log.read(log.store.get(key), position).op)
        except (CorruptionError, UnsupportedFormatError, NotFoundError):
            said.append(f"unreadable ({key.rpartition('/')[2]})")
            readable = False
    detail = f"published {len(keys)} times, by operations {' and '.join(said)}"
    problem = Problem("split", detail, position, object=paths.entry(log.root, position), repairable=readable)
    findings.problems.append(problem)


def _list_witnesses(log: Log) -> list[tuple[str, int, str]]:
    """Key, position and nonce of every witness."""
    found = []
    for info in log.store.list(f"{log.root}{paths.WITNESS}"):
        parsed = paths.parse_witness(log.root, info.key)
        if parsed is not None:
            found.append((info.key, *parsed))
    return found


def _read_witnesses(log: Log, findings: Findings, listed: list[tuple[str, int, str]]) -> None:
    """The witnesses that say something new: of an attempt that is not the entry in its place."""
    named = {entry.position - 1: entry.prev for entry in findings.chain.values()}
    wanted = []
    for key, position, nonce in listed:
        here = findings.chain.get(position)
        if position < findings.start.position:
            continue
        if here is None or here.nonce != nonce or named.get(position, here.digest) != here.digest:
            wanted.append((key, position))
    for (key, position), data in zip(wanted, log.store.get_many(key for key, _ in wanted), strict=True):
        if data is None:
            continue
        try:
            findings.witnesses.append((key, log.read(data, position)))
        except (CorruptionError, UnsupportedFormatError) as error:
            findings.problems.append(Problem("corrupt", error.message, position, object=key))


def _read_lost(log: Log, findings: Findings) -> None:
    """What a truncation found overwritten, and kept."""
    keys = [(info.key, paths.parse_lost(log.root, info.key)) for info in log.store.list(f"{log.root}{paths.LOST}")]
    for key, parsed in keys:
        if parsed is None:
            continue
        try:
            findings.aside.append((key, log.read(log.store.get(key), parsed[0])))
        except NotFoundError:
            continue
        except (CorruptionError, UnsupportedFormatError) as error:
            findings.problems.append(Problem("corrupt", error.message, parsed[0], object=key))


def _forget_truncated(log: Log, findings: Findings) -> None:
    """What was truncated while we looked is not missing."""
    floor = log.first().position
    if floor > findings.start.position:
        aside = {key for key, _ in findings.aside}
        findings.problems = [
            problem
            for problem in findings.problems
            if problem.position is None or problem.position >= floor or problem.object in aside
        ]


def check_receipts(log: Log, findings: Findings, receipts: Iterable[Mark]) -> None:
    """Compare what was acknowledged with what is there."""
    for receipt in receipts:
        position = receipt.position - 1
        entry = findings.chain.get(position)
        if position < findings.start.position or (entry is not None and entry.digest == receipt.digest):
            continue
        found = f"operation {entry.op} is there" if entry else "nothing readable is there"
        detail = f"{receipt.digest[:12]}... was acknowledged, {found}"
        findings.problems.append(Problem("receipt", detail, position, object=paths.entry(log.root, position)))


def report(log: Log, findings: Findings, repaired: tuple[str, ...] = ()) -> LogReport:
    """Findings as a report."""
    return LogReport(
        uri=log.store.uri,
        root=log.root,
        log=log.identity.log,
        decided_by=log.identity.commits or "the object store",
        guard=log.identity.guard,
        floor=findings.start.position,
        tip=findings.tip,
        entries=len(findings.chain),
        epoch=findings.epoch,
        dead=findings.dead,
        staged=findings.staged,
        problems=tuple(sorted(findings.problems, key=lambda p: -1 if p.position is None else p.position)),
        notes=tuple(findings.notes),
        repaired=repaired,
    )


def unreadable(store: Store, root: str, error: SiltstoneError) -> LogReport:
    """The report on a log that can't be opened."""
    fault: Fault = "split" if isinstance(error, SplitHistoryError) else "corrupt"
    where = str(error.facts.get("object", f"{root}{paths.IDENTITY}"))
    return LogReport(store.uri, root, "", "", "", 0, 0, 0, 0, problems=(Problem(fault, error.message, object=where),))
