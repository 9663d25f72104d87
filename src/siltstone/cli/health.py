"""``verify`` and ``repair``: is everything there, and if not, bring it back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from siltstone import paths
from siltstone.cli.errors import DONE, FAILED
from siltstone.cli.options import storage_options, wal_of
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress, size_text
from siltstone.cli.shard_check import GivenWals
from siltstone.cli.table_check import check_tables
from siltstone.errors import NotFoundError
from siltstone.verify import LogReport, repair, verify

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from siltstone.cli.options import GivenWal
    from siltstone.cli.output import Output
    from siltstone.cli.shard_check import ShardReport
    from siltstone.cli.table_check import TableReport
    from siltstone.verify import Problem

GUARDS = {"receipt": "receipts", "witness": "witnesses"}


def run_verify(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``verify``."""
    given = wal_of(arguments)
    with Progress(output, "verify") as bar:
        reports = verify(
            arguments.uri,
            commits=arguments.commits,
            storage_options=storage_options(arguments),
            progress=lambda root, entries: bar.say(f"{root or 'log'}: {entries:,} entries read"),
        )
        wals = _verify_wals(given, arguments, bar)
        bar.say("files of tables")
        tables = check_tables(
            arguments.uri,
            reports,
            deep=arguments.deep,
            commits=arguments.commits,
            storage_options=storage_options(arguments),
            progress=bar.done,
            wals=None if given["wal"] is None else GivenWals(given["wal"], given["wal_options"], wals),
        )
    quiet = {f"{table.root}{paths.SHARDS}/" for table in tables} | {f"{paths.SHARDS}/" for _ in wals}
    reports += wals
    document = {
        "ok": _ok(reports) and all(table.ok for table in tables),
        "logs": [_document(report) for report in reports],
        "tables": [{"ok": table.ok} | asdict(table) for table in tables],
    }
    output.result(document)
    for report in reports:
        # Tables with shards have many logs: those that nothing is to be said of are told by their shard's line.
        if report.problems or report.notes or not any(report.root.startswith(root) for root in quiet):
            _show(report, output)
    for table in tables:
        _show_table(table, output)
    found = [problem for report in reports for problem in report.problems]
    found += [problem for table in tables for problem in table.problems]
    problems = len(found)
    repairable = sum(problem.repairable for problem in found)
    extent = _extent(reports) + _table_extent(tables)
    output.line()
    if not problems:
        output.line(output.paint(f"Everything is there: {extent}.", "green"))
        return DONE
    ending = (
        "`siltstone repair` mends all of them" if repairable == problems else f"`siltstone repair` mends {repairable}"
    )
    ending = ending if repairable else "none of them can be mended from what is there"
    output.line(output.paint(f"{_count(problems, 'problem')} in {extent}; {ending}.", "red"))
    return FAILED


def _verify_wals(given: GivenWal, arguments: argparse.Namespace, bar: Progress) -> list[LogReport]:
    """Walk the logs in a WAL store; none where it is empty, which the shards then say."""
    if given["wal"] is None:
        return []
    try:
        return verify(
            given["wal"],
            commits=arguments.commits,
            storage_options=given["wal_options"] or storage_options(arguments),
            progress=lambda root, entries: bar.say(f"{root}: {entries:,} entries read"),
        )
    except NotFoundError:
        return []


def run_repair(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``repair``."""
    with Progress(output, "repair") as bar:
        reports = repair(
            arguments.uri,
            commits=arguments.commits,
            dry_run=arguments.dry_run,
            adopt=arguments.adopt,
            moved=arguments.moved,
            storage_options=storage_options(arguments),
        )
        bar.say("files of tables")
        tables = check_tables(
            arguments.uri,
            reports,
            deep=False,
            commits=arguments.commits,
            storage_options=storage_options(arguments),
            progress=bar.done,
        )
    output.result(
        {
            "ok": _ok(reports) and all(table.ok for table in tables),
            "dry_run": arguments.dry_run,
            "logs": [_document(report) for report in reports],
            "tables": [{"ok": table.ok} | asdict(table) for table in tables],
        }
    )
    for report in reports:
        _show(report, output)
    for table in tables:
        if table.problems or table.notes:
            _show_table(table, output)
    return _say_repaired(reports, tables, output, dry_run=arguments.dry_run)


def _say_repaired(reports: Sequence[LogReport], tables: Sequence[TableReport], output: Output, *, dry_run: bool) -> int:
    """The last lines: what was mended, and what is left."""
    found = [problem for report in reports for problem in report.problems]
    found += [problem for table in tables for problem in table.problems]
    problems = len(found)
    done = sum(len(report.repaired) for report in reports)
    given_up = sum(report.given_up for report in reports)
    extent = _extent(reports) + _table_extent(tables)
    output.line()
    if dry_run and problems:
        repairable = sum(problem.repairable for problem in found)
        output.line(f"Nothing was changed: {_count(problems, 'problem')}, {repairable} of them can be mended.")
    elif problems:
        output.line(output.paint(f"{_count(done, 'repair')} made, {_count(problems, 'problem')} left.", "red"))
    if given_up:
        gone = f"what {_count(given_up, 'entry', 'entries')} held is gone, and may have been acknowledged"
        output.line(output.paint(f"Writers can go on; {gone}.", "red"))
        output.line("Look for older versions of those objects in the bucket, and run what is missing again.")
    if any(table.problems for table in tables):
        output.line("Files of tables come from a copy of the bucket or from older versions of its objects only.")
    if problems or given_up:
        return FAILED
    if done:
        output.line(output.paint(f"Mended with {_count(done, 'repair')}; everything is there: {extent}.", "green"))
    else:
        output.line(output.paint(f"Nothing to mend: {extent}.", "green"))
    return DONE


def _show(report: LogReport, output: Output) -> None:
    place = clean(f"{report.uri}/{report.root}".rstrip("/"))
    output.line(f"{output.paint('log', 'bold')} {place}")
    if report.log:
        there = _count(report.entries, "entry", "entries")
        extent = f", positions {report.floor} to {report.tip - 1}" if report.tip > report.floor else ""
        output.line(
            f"  {there}{extent}, epoch {report.epoch}, "
            f"decided by {clean(report.decided_by)}, guarded by {GUARDS.get(report.guard, report.guard)}"
        )
    if report.dead:
        output.line(f"  {_count(report.dead, 'entry', 'entries')} of fenced writers, which readers pass over")
    for note in report.notes:
        output.line(f"  {output.paint('note', 'yellow')}: {clean(note)}")
    for done in report.repaired:
        output.line(f"  {output.paint('mended', 'green')}: {clean(done)}")
    for problem in report.problems:
        where = "the log" if problem.position is None else f"entry {problem.position}"
        _show_problem(problem, where, output)


def _show_problem(problem: Problem, where: str, output: Output) -> None:
    named = f" (op {problem.op})" if problem.op and problem.op not in problem.detail else ""
    mend = output.paint("can be mended", "green") if problem.repairable else output.paint("can't be mended", "red")
    what = output.paint(problem.fault, "red")
    output.line(f"  {what}: {clean(where)}: {clean(problem.detail)}{named}: {mend}")


def _show_table(table: TableReport, output: Output) -> None:
    output.line(f"{output.paint('table', 'bold')} {clean(table.uri)}")
    if table.version >= 0:
        files = f"{_count(table.fragments, 'fragment')} of {size_text(table.bytes)}"
        vectors = f", {_count(table.vectors, 'object')} of deletion vectors" if table.vectors else ""
        indexes = f", {_count(table.indexes, 'index', 'indexes')}" if table.indexes else ""
        read = "all of them read" if table.deep else "their sizes compared"
        output.line(f"  version {table.version}, {_count(table.rows, 'row')} in {files}{vectors}{indexes}, {read}")
    for shard in table.shards:
        _show_shard(shard, output)
    for note in table.notes:
        output.line(f"  {output.paint('note', 'yellow')}: {clean(note)}")
    for problem in table.problems:
        _show_problem(problem, problem.object or "the table", output)


def _show_shard(shard: ShardReport, output: Output) -> None:
    waiting = _count(max(0, shard.wal_end - shard.wal_from), "entry", "entries")
    files = f"{_count(shard.rows, 'row')} in {_count(shard.fragments, 'fragment')} of {size_text(shard.bytes)}"
    sealed = ", sealed" if shard.sealed else ""
    output.line(f"  shard {clean(shard.name)}: epoch {shard.epoch}, {waiting} in the WAL alone, {files}{sealed}")


def _table_extent(tables: Sequence[TableReport]) -> str:
    fragments = sum(table.fragments for table in tables)
    shards = sum(len(table.shards) for table in tables)
    behind = f" and {_count(shards, 'shard')}" if shards else ""
    return f", {_count(len(tables), 'table')} with {_count(fragments, 'fragment')}{behind}" if tables else ""


def _ok(reports: Sequence[LogReport]) -> bool:
    return all(report.ok for report in reports)


def _extent(reports: Sequence[LogReport]) -> str:
    entries = sum(report.entries for report in reports)
    return f"{_count(len(reports), 'log')} with {_count(entries, 'entry', 'entries')}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _document(report: LogReport) -> dict[str, Any]:
    return {"ok": report.ok} | asdict(report)
