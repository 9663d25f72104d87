"""Walking logs: every position, link, checksum, epoch, witness, claim and receipt.

What must hold: an acknowledged operation that is gone is named, with its op id; an honest log gives no
finding. Nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.commit.connect import open_registry
from siltstone.commit.external import External
from siltstone.env import REAL, Env
from siltstone.errors import CorruptionError, NotFoundError, SiltstoneError, UnsupportedFormatError
from siltstone.log.open import open_log
from siltstone.store.connect import open_store
from siltstone.verify.report import LogReport, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from siltstone.commit.registry import Registry
    from siltstone.log.log import Log
    from siltstone.log.marks import Entry, Mark
    from siltstone.store.base import Store


@dataclass
class Findings:
    """What one walk over a log gathers; ``repair`` works from it."""

    start: Mark
    published: dict[int, list[str]]  # position -> keys
    chain: dict[int, Entry] = field(default_factory=dict)  # entries that are readable
    wanted: dict[int, str] = field(default_factory=dict)  # position -> digest that its successor names
    witnesses: list[tuple[str, Entry]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    dead: int = 0
    epoch: int = 0
    staged: int = 0

    @property
    def tip(self) -> int:
        """Behind the last position that anything was published at."""
        return max(self.published, default=self.start.position - 1) + 1

    def ops(self) -> set[str]:
        """The operations that are in the log."""
        return {entry.op for entry in self.chain.values()}


def verify(
    uri: str | Path | Store,
    *,
    commits: str | Registry | None = None,
    receipts: Iterable[Mark] = (),
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str, int], None] | None = None,
    env: Env = REAL,
) -> list[LogReport]:
    """Check every log below a URI; one report for each.

    ``receipts`` (marks that ``append`` returned) are checked against the log they belong to when there is
    just one. ``progress`` is told a log's root and how many entries were read. Raises NotFoundError where
    there is no log.
    """
    store = open_store(uri, storage_options)
    registry = open_registry(commits) if isinstance(commits, str) else commits
    reports = []
    for root in find_logs(store):
        try:
            log = open_log(store, root=root, commits=registry_for(store, root, registry), probe=False, env=env)
        except (CorruptionError, UnsupportedFormatError) as error:
            reports.append(_unreadable(store, root, error))
            continue
        findings = walk(log, progress=progress)
        check_receipts(log, findings, receipts)
        reports.append(report(log, findings))
    if not reports:
        raise NotFoundError(f"there is no log below {store.uri}", hint="check the URI")
    return reports


def find_logs(store: Store) -> Iterator[str]:
    """Roots of the logs below a store's root."""
    seen = set()
    for info in store.list():
        root = paths.parse_identity(info.key)
        if root is not None and root not in seen:
            seen.add(root)
            yield root


def registry_for(store: Store, root: str, registry: Registry | None) -> Registry | None:
    """The given registry for logs that are decided by one; None for those the object store decides."""
    if registry is None:
        return None
    with open_log(store, root=root, probe=False) as log:
        return registry if log.identity.commits else None


def walk(log: Log, *, progress: Callable[[str, int], None] | None = None) -> Findings:
    """Read a whole log and gather what is wrong with it."""
    findings = Findings(log.first(), {})
    for info in log.store.list(f"{log.root}{paths.ENTRIES}"):
        parsed = paths.parse_entry(log.root, info.key)
        if parsed is not None and parsed[0] >= findings.start.position:
            findings.published.setdefault(parsed[0], []).append(info.key)
    findings.staged = sum(1 for _ in log.store.list(f"{log.root}{paths.STAGED}"))
    _walk_chain(log, findings, progress)
    _walk_witnesses(log, findings)
    _check_commit_store(log, findings)
    return findings


def _walk_chain(log: Log, findings: Findings, progress: Callable[[str, int], None] | None) -> None:
    singles = [position for position, keys in sorted(findings.published.items()) if len(keys) == 1]
    data = dict(zip(singles, log.store.get_many(findings.published[n][0] for n in singles), strict=True))
    mark: Mark | None = findings.start
    findings.epoch = findings.start.epoch
    for position in range(findings.start.position, findings.tip):
        entry = _entry_at(log, findings, position, data.pop(position, None))
        if entry is None:
            mark = None  # the chain goes on behind the hole; what it says of the hole is in `wanted`
            continue
        findings.chain[position] = entry
        findings.wanted[position - 1] = entry.prev
        if mark is not None and entry.prev != mark.digest:
            findings.problems.append(_overwritten(findings, position - 1, entry.prev))
        findings.dead += entry.epoch < findings.epoch
        findings.epoch = max(findings.epoch, entry.epoch)
        mark = entry.end
        if progress is not None and position % 1000 == 999:
            progress(log.root, position + 1 - findings.start.position)


def _entry_at(log: Log, findings: Findings, position: int, data: bytes | None) -> Entry | None:
    keys = findings.published.get(position, [])
    name = paths.entry(log.root, position)
    if len(keys) > 1:
        ops = []
        for key in keys:
            entry = log.read(log.store.get(key), position)
            ops.append(f"{entry.op} ({key.rpartition('/')[2]})")
        detail = f"published {len(keys)} times, by operations {', '.join(ops)}"
        findings.problems.append(Problem("split", detail, position, object=name, repairable=True))
        return None
    if data is None:
        findings.problems.append(Problem("missing", "the entry is gone", position, object=name))
        return None
    try:
        return log.read(data, position)
    except (CorruptionError, UnsupportedFormatError) as error:
        findings.problems.append(Problem("corrupt", error.message, position, object=name))
        return None


def _overwritten(findings: Findings, position: int, wanted: str) -> Problem:
    there = findings.chain.get(position)
    found = f"operation {there.op}" if there else "the log's identity"
    detail = f"the next entry was written behind {wanted[:12]}..., but {found} is here"
    return Problem("overwritten", detail, position, op=there.op if there else "")


def _walk_witnesses(log: Log, findings: Findings) -> None:
    """A witness whose operation is nowhere in the log is a lost operation; one that fits a hole can fill it."""
    keys = []
    for info in log.store.list(f"{log.root}{paths.WITNESS}"):
        parsed = paths.parse_witness(log.root, info.key)
        if parsed is None or parsed[0] < findings.start.position:
            continue
        here = findings.chain.get(parsed[0])
        if here is None or here.nonce != parsed[1] or findings.wanted.get(parsed[0], here.digest) != here.digest:
            keys.append((info.key, parsed[0]))
    for (key, position), data in zip(keys, log.store.get_many(key for key, _ in keys), strict=True):
        if data is None:
            continue
        try:
            findings.witnesses.append((key, log.read(data, position)))
        except (CorruptionError, UnsupportedFormatError) as error:
            findings.problems.append(Problem("corrupt", error.message, position, object=key))
    _mark_repairable(findings)
    known = findings.ops()
    for key, entry in findings.witnesses:
        if entry.op in known:
            continue
        known.add(entry.op)
        detail = f"operation {entry.op} was written at {entry.position} and is in no entry now"
        problem = Problem("lost", detail, entry.position, entry.op, key, repairable=True)
        findings.problems.append(problem)


def _mark_repairable(findings: Findings) -> None:
    """Holes that a witness fits: its digest is the one that the next entry names."""
    fitting = {entry.position: entry for _, entry in findings.witnesses if fits(findings, entry)}
    for number, problem in enumerate(findings.problems):
        if problem.position in fitting and problem.fault in {"missing", "corrupt", "overwritten"}:
            findings.problems[number] = Problem(
                problem.fault,
                f"{problem.detail}; a witness has operation {fitting[problem.position].op}, which belongs here",
                problem.position,
                fitting[problem.position].op,
                problem.object,
                repairable=True,
            )


def fits(findings: Findings, entry: Entry) -> bool:
    """Whether a witness is the entry that the chain wants at its position."""
    return findings.wanted.get(entry.position) == entry.digest


def _check_commit_store(log: Log, findings: Findings) -> None:
    identity = log.identity
    if not identity.commits or not isinstance(log.commits, External):
        return
    registry = log.commits.registry
    try:
        if registry.identity() != identity.commits_identity:
            detail = f"{registry.uri} is not the commit store {identity.commits_identity}, or it was emptied"
            findings.problems.append(Problem("commit-store", detail))
            return
        _compare_claims(registry, log, findings)
    except SiltstoneError as error:
        findings.problems.append(Problem("commit-store", f"can't be compared with the log: {error.message}"))


def _compare_claims(registry: Registry, log: Log, findings: Findings) -> None:
    newest = registry.newest(log.identity.log)
    known = -1 if newest is None else newest.position
    if known >= findings.tip and newest is not None:
        detail = f"position {known} was decided and is not published; the next writer publishes it"
        findings.problems.append(Problem("unpublished", detail, known, object=newest.value, repairable=True))
    unknown = [n for n in range(findings.start.position, findings.tip) if registry.lookup(log.identity.log, n) is None]
    if unknown:
        detail = f"{len(unknown)} published entries from {unknown[0]} on are unknown to {registry.uri}"
        findings.problems.append(Problem("behind", detail, unknown[0], repairable=True))


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
        repaired=repaired,
    )


def _unreadable(store: Store, root: str, error: SiltstoneError) -> LogReport:
    problem = Problem("corrupt", error.message, object=f"{root}{paths.IDENTITY}")
    return LogReport(store.uri, root, "", "", "", 0, 0, 0, 0, problems=(problem,))
