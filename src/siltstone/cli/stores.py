"""``check-store``: are tables safe on a store?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.check import CommitsReport, StoreReport, check_store
from siltstone.cli.errors import DONE, FAILED
from siltstone.cli.options import add_store, add_verb, storage_options
from siltstone.cli.output import clean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output
    from siltstone.store.probe import Finding

_TEACHES = """\
Tries the store with objects of its own, which it removes again: creates one twice, reads it back, lets
several creates race for one name, lists and deletes. Says in a sentence whether tables are safe there, and
what would make them safe. Exit code 1 where they are not.

Examples:
  siltstone check-store s3://bucket/path
  siltstone check-store s3://bucket --storage-option aws_endpoint=http://127.0.0.1:9000 \\
      --storage-option aws_secret_access_key=env:MY_SECRET
  siltstone check-store s3://bucket --commits postgresql://me@db.example.com/commits
"""

_SHAPE = (
    "uri", "kind", "safe", "store_safe", "known_good", "guard", "verdict", "findings", "remedies", "commits",
)  # fmt: skip

# One line for each family, with what tells it from the others.
_REMEDIES = {
    "sqlite": ("sqlite:///path/to/claims.db", "all writers on one machine"),
    "postgresql": ("postgresql://user@host/database", "a server you run or rent"),
    "mysql": ("mysql://user@host/database", "also MariaDB"),
    "redis": ("redis://host:6379/0", "with appendfsync always"),
    "etcd": ("etcd://host:2379", "decides by majority"),
    "dynamodb": ("dynamodb://table?region=us-east-1", "nothing to run"),
}


def add_verbs(verbs: Verbs) -> None:
    """The verb ``check-store``."""
    parser = add_verb(
        verbs, "check-store", _check_store, says="Are tables safe on this store?", teaches=_TEACHES, shape=_SHAPE
    )
    add_store(parser, what="the store to try")


def _check_store(arguments: argparse.Namespace, output: Output) -> int:
    output.progress(f"trying {arguments.uri.rpartition('@')[2]} ...")
    report = check_store(arguments.uri, arguments.commits, storage_options(arguments))
    output.result(_document(report))
    output.line(f"{output.paint('store', 'bold')} {clean(report.uri)}")
    _findings(report.findings, output)
    output.line(f"  {clean(_provider(report))}")
    if report.commits is not None:
        _commits(report.commits, output)
    output.line()
    output.line(output.paint(clean(verdict(report)), "green" if report.safe else "red"))
    if not report.safe:
        _remedies(report, output)
    elif report.commits is None:
        output.line(clean(_guard(report)))
    return DONE if report.safe else FAILED


def verdict(report: StoreReport) -> str:
    """The answer in a sentence."""
    if report.commits is not None:
        if report.commits.safe:
            return f"Safe: tables on {report.uri} are safe with {report.commits.uri} deciding who wins."
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


def _document(report: StoreReport) -> dict[str, Any]:
    commits = report.commits
    return {
        "uri": report.uri,
        "kind": report.kind,
        "safe": report.safe,
        "store_safe": report.store_safe,
        "known_good": report.known_good,
        "guard": report.guard,
        "verdict": verdict(report),
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
