"""``verify`` and ``repair``: is everything there, and if not, bring it back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from siltstone import paths
from siltstone.cli.errors import DONE, FAILED
from siltstone.cli.options import add_store, add_verb, storage_options
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress, size_text
from siltstone.cli.table_check import check_tables
from siltstone.verify import LogReport, repair, verify

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output
    from siltstone.cli.shard_check import ShardReport
    from siltstone.cli.table_check import TableReport
    from siltstone.verify import Problem

GUARDS = {"receipt": "receipts", "witness": "witnesses"}
_VERIFY = """\
Walks every log below the URI: positions, chain, checksums, epochs, witnesses, and the commit store where one is
given. Of tables, looks for every file that the newest version and the shards name, and with --deep reads all of them,
and the rows of WALs. Names what is missing, overwritten or lost, with its op id. Writes nothing. Exit code 1 for
problems.

Examples:
  siltstone verify s3://bucket/path
  siltstone verify reviews --deep
  siltstone verify DIR --commits sqlite:claims.db --json
"""
_REPAIR = """\
Puts back what witnesses, staged bytes and the chain prove, and appends lost operations again, each once. Run it
when no writer is running. Exit code 1 where something is left that it can't mend.

Examples:
  siltstone repair s3://bucket/path --dry-run
  siltstone repair DIR --commits sqlite:claims.db --adopt
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs ``verify`` and ``repair``."""
    parser = add_verb(
        verbs,
        "verify",
        _verify,
        says="Check every log and table below a URI.",
        teaches=_VERIFY,
        shape=("ok", "logs", "tables"),
    )
    add_store(parser, what="where the logs and tables are")
    parser.add_argument("--deep", action="store_true", help="read every file of a table and compare its checksum")

    parser = add_verb(
        verbs, "repair", _repair, says="Mend the logs below a URI.", teaches=_REPAIR, shape=("ok", "dry_run", "logs")
    )
    add_store(parser, what="where the logs are")
    parser.add_argument("--dry-run", action="store_true", help="only say what is wrong and what could be mended")
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="let a commit store that was emptied take its former place, with rows made anew from the log",
    )


def _verify(arguments: argparse.Namespace, output: Output) -> int:
    reports = verify(
        arguments.uri,
        commits=arguments.commits,
        storage_options=storage_options(arguments),
        progress=lambda root, entries: output.progress(f"{root or 'log'}: {entries} entries read"),
    )
    tables = check_tables(
        arguments.uri,
        reports,
        deep=arguments.deep,
        commits=arguments.commits,
        storage_options=storage_options(arguments),
        progress=Progress(output, "reading files").done,
    )
    document = {
        "ok": _ok(reports) and all(table.ok for table in tables),
        "logs": [_document(report) for report in reports],
        "tables": [{"ok": table.ok} | asdict(table) for table in tables],
    }
    output.result(document)
    quiet = {f"{table.root}{paths.SHARDS}/" for table in tables}
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


def _repair(arguments: argparse.Namespace, output: Output) -> int:
    reports = repair(
        arguments.uri,
        commits=arguments.commits,
        dry_run=arguments.dry_run,
        adopt=arguments.adopt,
        storage_options=storage_options(arguments),
    )
    document = {"ok": _ok(reports), "dry_run": arguments.dry_run, "logs": [_document(report) for report in reports]}
    output.result(document)
    for report in reports:
        _show(report, output)
    problems = sum(len(report.problems) for report in reports)
    repairable = sum(problem.repairable for report in reports for problem in report.problems)
    done = sum(len(report.repaired) for report in reports)
    output.line()
    if arguments.dry_run and problems:
        output.line(f"Nothing was changed: {_count(problems, 'problem')}, {repairable} of them can be mended.")
    elif problems:
        output.line(output.paint(f"{_count(done, 'repair')} made, {_count(problems, 'problem')} left.", "red"))
    elif done:
        output.line(
            output.paint(f"Mended with {_count(done, 'repair')}; everything is there: {_extent(reports)}.", "green")
        )
    else:
        output.line(output.paint(f"Nothing to mend: {_extent(reports)}.", "green"))
    return FAILED if problems else DONE


def _show(report: LogReport, output: Output) -> None:
    place = clean(f"{report.uri}/{report.root}".rstrip("/"))
    output.line(f"{output.paint('log', 'bold')} {place}")
    if report.log:
        there = _count(report.entries, "entry", "entries")
        extent = f", positions {report.floor} to {report.tip - 1}" if report.tip > report.floor else ""
        output.line(
            f"  {there}{extent}, epoch {report.epoch}, "
            f"decided by {clean(report.decided_by)}, guarded by {report.guard}s"
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
        read = "all of them read" if table.deep else "their sizes compared"
        output.line(f"  version {table.version}, {_count(table.rows, 'row')} in {files}{vectors}, {read}")
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
