"""``check-store``: are tables safe on a store?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from siltstone.check import CommitsReport, StoreReport, check_store
from siltstone.cli.errors import DONE, FAILED
from siltstone.cli.options import storage_options
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from siltstone.cli.output import Colour, Output
    from siltstone.store.probe import Finding


# One line for each family, with what tells it from the others.
_REMEDIES = {
    "sqlite": ("sqlite:///path/to/claims.db", "all writers on one machine"),
    "postgresql": ("postgresql://user@host/database", "a server you run or rent"),
    "mysql": ("mysql://user@host/database", "also MariaDB"),
    "redis": ("redis://host:6379/0", "with appendfsync always"),
    "etcd": ("etcd://host:2379", "decides by majority"),
    "dynamodb": ("dynamodb://table?region=us-east-1", "nothing to run"),
}

_WEAK = "accept_weak_durability"


def run_check_store(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``check store``."""
    with Progress(output, f"trying {arguments.uri.rpartition('@')[2]}"):
        report = check_store(arguments.uri, arguments.commits, storage_options(arguments))
    weak = accepts_weak(arguments.commits)
    output.result(_document(report, weak=weak))
    output.line(f"{output.paint('store', 'bold')} {clean(report.uri)}")
    _findings(report.findings, output)
    output.line(f"  {clean(_provider(report))}")
    if report.commits is not None:
        _commits(report.commits, output)
    output.line()
    safe = is_safe(report)
    colour: Colour = "red" if not safe else "yellow" if weak else "green"
    output.line(output.paint(clean(verdict(report, weak=weak)), colour))
    if not safe:
        _remedies(report, output)
    elif report.commits is None:
        output.line(clean(_guard(report)))
    return DONE if safe else FAILED


def accepts_weak(commits: str | None) -> bool:
    """Whether a URI says that a commit store may lose what it decided when its machine fails."""
    try:
        given = parse_qs(urlsplit(commits or "").query)
    except ValueError:
        return False
    return given.get(_WEAK, ["false"])[-1].lower() in {"1", "true", "yes", "on"}


def is_safe(report: StoreReport) -> bool:
    """Whether tables are safe as asked, for more processes than this one."""
    return report.safe and (report.commits is None or report.commits.kind != "memory")


def verdict(report: StoreReport, *, weak: bool = False) -> str:
    """The answer in a sentence."""
    if report.commits is not None:
        if report.commits.kind == "memory":
            return (
                f"Not safe: {report.commits.uri} is memory of this process, and gone with it: nobody else could write."
            )
        if report.commits.safe:
            caveat = (
                f", as long as its machine does not fail: {_WEAK} lets it lose what it decided last" if weak else ""
            )
            return f"Safe: tables on {report.uri} are safe with {report.commits.uri} deciding who wins{caveat}."
        return f"Not safe: {report.commits.uri} does not decide each place once, so it can't decide for {report.uri}."
    if report.store_safe:
        return f"Safe: tables on {report.uri} are safe with the object store deciding who wins."
    return f"Not safe: {report.uri} does not create an object only once; tables there would lose rows."


def _provider(report: StoreReport) -> str:
    if report.known_good:
        return "Its provider is known to keep its word on creating an object only once."
    return (
        "Its provider is not known to keep its word on creating an object only once; what counts is what it did here."
    )


def _guard(report: StoreReport) -> str:
    if report.guard == "receipt":
        return "A log made here is guarded by receipts: a writer checks its last entry when it closes."
    return (
        "A log made here is guarded by witnesses: one more object and one listing for each entry, "
        "so that a store that changes its mind later is found out at once."
    )


def _findings(findings: Sequence[Finding], output: Output) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        output.line(f"  {output.verdict(good=finding.ok)}  {clean(finding.check):<{width}}  {clean(finding.detail)}")


def _commits(report: CommitsReport, output: Output) -> None:
    output.line(f"{output.paint('commit store', 'bold')} {clean(report.uri)}")
    _findings(report.findings, output)
    output.line(f"  A claim takes {report.latency_ms:.1f} ms.")


def _remedies(report: StoreReport, output: Output) -> None:
    output.line("A commit store makes it safe: it decides who wins, and the object store only keeps the bytes.")
    known = [(uri, why) for scheme, (uri, why) in _REMEDIES.items() if scheme in report.remedies]
    width = max((len(uri) for uri, _ in known), default=0)
    for uri, why in known:
        output.line(f"  --commits {uri:<{width}}  {why}")
    others = sorted({scheme for scheme in report.remedies if scheme not in _REMEDIES})
    if others:
        output.line(f"  also: {clean(', '.join(f'{scheme}://' for scheme in others))}")


def _document(report: StoreReport, *, weak: bool) -> dict[str, Any]:
    commits = report.commits
    return {
        "uri": report.uri,
        "kind": report.kind,
        "safe": is_safe(report),
        "store_safe": report.store_safe,
        "known_good": report.known_good,
        "guard": report.guard,
        "verdict": verdict(report, weak=weak),
        "findings": _finding_documents(report.findings),
        "remedies": list(report.remedies),
        "commits": None
        if commits is None
        else {
            "uri": commits.uri,
            "kind": commits.kind,
            "identity": commits.identity,
            "safe": commits.safe,
            "latency_ms": commits.latency_ms,
            "findings": _finding_documents(commits.findings),
        },
    }


def _finding_documents(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [{"check": finding.check, "ok": finding.ok, "detail": finding.detail} for finding in findings]
