"""What one walk over a log gathers, and what follows from it.

What must hold:
- The newest readable entry is taken as it is; from there down, each entry says which one belongs before it.
  So an entry that was overwritten has no say about its predecessors.
- A witness fills a place only where the chain asks for its very bytes, or where it goes on behind the last
  readable entry and nothing readable is in its place.
- An operation that has a witness and neither a place in the log nor one to be filled is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from siltstone.verify.report import Problem

if TYPE_CHECKING:
    from siltstone.log.marks import Entry, Mark


@dataclass
class Findings:
    """Everything that was seen of one log; ``repair`` works from it."""

    start: Mark
    published: dict[int, list[str]]  # position -> keys
    chain: dict[int, Entry] = field(default_factory=dict)  # entries that are readable, without their bodies
    witnesses: list[tuple[str, Entry]] = field(default_factory=list)  # those that differ from what is published
    aside: list[tuple[str, Entry]] = field(default_factory=list)  # those that a truncation kept, because they did
    fillers: dict[int, tuple[str, Entry]] = field(default_factory=dict)  # position -> the witness that belongs there
    wanted: dict[int, str] = field(default_factory=dict)  # position -> digest of the entry that belongs there
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dead: int = 0
    epoch: int = 0
    staged: int = 0

    @property
    def tip(self) -> int:
        """Behind the last position that anything was published at."""
        return max(self.published, default=self.start.position - 1) + 1

    def ops(self) -> set[str]:
        """The operations that are in the log, or back in it once the fillers are in their places."""
        return {entry.op for entry in self.chain.values()} | {entry.op for _, entry in self.fillers.values()}

    def is_lost(self, entry: Entry, known: set[str]) -> bool:
        """Whether a witness tells of something that the log must get back."""
        if entry.kind == "fence":
            return entry.epoch > self.epoch  # a fence does its work by its epoch, whoever wrote it
        return entry.kind == "data" and entry.op not in known


def judge(findings: Findings) -> None:
    """Find what was overwritten, what witnesses can fill, and what is lost."""
    _fill_top(findings)
    _judge_downwards(findings)
    _extend(findings)
    _mark_repairable(findings)
    known = findings.ops()
    for key, entry in (*findings.witnesses, *findings.aside):
        if findings.is_lost(entry, known):
            known.add(entry.op)
            what = f"operation {entry.op}" if entry.kind == "data" else f"the fence of epoch {entry.epoch}"
            detail = f"{what} was written at {entry.position} and is in no entry now"
            findings.problems.append(Problem("lost", detail, entry.position, entry.op, key, repairable=True))
    _note_contest(findings)


def _note_contest(findings: Findings) -> None:
    last = findings.tip - 1
    here = findings.chain.get(last)
    others = [entry for _, entry in findings.witnesses if entry.position == last and here and entry.nonce != here.nonce]
    if others and not any(problem.position == last for problem in findings.problems):
        detail = f"{len(others) + 1} attempts were told that they won this place, so writers refuse to go on behind it"
        findings.problems.append(Problem("contested", detail, last, op=others[0].op, repairable=True))


def _fill_top(findings: Findings) -> None:
    """Where the newest entry is unreadable, a witness of its place whose predecessor is there or has a witness."""
    top = findings.tip - 1
    if top in findings.chain or len(findings.published.get(top, [])) != 1:
        return
    below = findings.chain.get(top - 1)
    standing = below.digest if below is not None else findings.start.digest if top == findings.start.position else ""
    known = {standing, *(entry.digest for _, entry in findings.witnesses if entry.position == top - 1)}
    fitting = [(key, entry) for key, entry in findings.witnesses if entry.position == top and entry.prev in known]
    if fitting:
        followed = {entry.prev for _, entry in findings.witnesses}
        findings.fillers[top] = min(fitting, key=lambda w: (w[1].prev != standing, w[1].digest not in followed, w[0]))


def _judge_downwards(findings: Findings) -> None:
    by_place = {(entry.position, entry.digest): (key, entry) for key, entry in findings.witnesses}
    expected: int | None = None  # the position that `want` speaks of
    want = ""
    for position in [*sorted(findings.published, reverse=True), findings.start.position - 1]:
        while expected is not None and expected > position:
            filler = by_place.get((expected, want))
            if filler is None:
                expected = None
                break
            findings.fillers[expected] = filler
            expected, want = expected - 1, filler[1].prev
        here = findings.chain.get(position)
        if position in findings.fillers:
            here = findings.fillers[position][1]
        if expected == position:
            findings.wanted[position] = want
            here = _judge_one(findings, position, want, by_place.get((position, want)))
        expected, want = (position - 1, here.prev) if here is not None else (None, "")


def _judge_one(findings: Findings, position: int, want: str, filler: tuple[str, Entry] | None) -> Entry | None:
    """The entry that belongs at a position, as far as it is there or has a witness."""
    here = findings.chain.get(position)
    if position < findings.start.position:
        if want != findings.start.digest:
            before = "the floor" if findings.start.position else "the log's identity"
            detail = f"entry {position + 1} was written behind {want[:12]}..., which {before} is not"
            findings.problems.append(Problem("overwritten", detail, position + 1))
        return None
    if here is not None and here.digest == want:
        return here
    if filler is not None:
        findings.fillers[position] = filler
    if here is not None:
        detail = f"the next entry was written behind {want[:12]}..., but operation {here.op} is here"
        findings.problems.append(Problem("overwritten", detail, position, op=here.op))
    return filler[1] if filler is not None else here


def _extend(findings: Findings) -> None:
    """Witnesses that go on behind the last readable entry: what followed it was deleted or damaged."""
    top = max([findings.start.position - 1, *findings.chain, *findings.fillers])
    last = findings.fillers[top][1] if top in findings.fillers else findings.chain.get(top)
    digest = last.digest if last is not None else findings.start.digest
    followed = {entry.prev for _, entry in findings.witnesses}
    while True:
        top += 1
        fitting = [(key, e) for key, e in findings.witnesses if e.position == top and e.prev == digest]
        if not fitting or len(findings.published.get(top, [])) > 1:
            return
        # Of several, one that has a successor; else any, but always the same one.
        filler = min(fitting, key=lambda found: (found[1].digest not in followed, found[0]))
        findings.fillers[top] = filler
        digest = filler[1].digest
        if top not in findings.published:
            findings.problems.append(Problem("missing", "the entry is gone", top, object=filler[0]))


def _mark_repairable(findings: Findings) -> None:
    for number, problem in enumerate(findings.problems):
        filler = findings.fillers.get(-1 if problem.position is None else problem.position)
        if filler is not None and problem.fault in {"missing", "corrupt", "overwritten"}:
            detail = f"{problem.detail}; a witness has operation {filler[1].op}, which belongs here"
            findings.problems[number] = replace(problem, detail=detail, op=filler[1].op, repairable=True)
