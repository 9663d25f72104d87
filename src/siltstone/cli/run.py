"""Parsing a command line, running its verb, and reporting how it went."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING

from siltstone._version import __version__
from siltstone.cli.errors import FAILED, INTERRUPTED, PIPE_CLOSED, exit_code, show, unexpected
from siltstone.cli.grammar import (
    about,
    checkpoints,
    clones,
    collect,
    columns,
    console,
    demo,
    entries,
    health,
    indexes,
    pipeline,
    put,
    search,
    shards,
    showing,
    stores,
    tables,
    tail,
    versions,
    wal,
    writing,
)
from siltstone.cli.options import Parser, load_verb, secrets
from siltstone.cli.output import Output
from siltstone.errors import SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Sequence

TRACEBACK_VARIABLE = "SILTSTONE_TRACEBACK"
LOG_VARIABLE = "SILTSTONE_LOG"

PARTS = (
    stores,
    writing,
    put,
    tables,
    search,
    console,
    versions,
    checkpoints,
    clones,
    collect,
    columns,
    indexes,
    shards,
    wal,
    tail,
    showing,
    health,
    entries,
    pipeline,
    demo,
    about,
)
THEMES = {
    "begin here": ("demo", "check-store", "doctor", "completion", "version"),
    "tables and their rows": ("create", "append", "upsert", "overwrite", "delete", "update", "column", "drop"),
    "reading": ("scan", "sql", "get", "changes", "search", "console"),
    "versions": ("log", "tag", "checkpoint", "restore", "clone", "detach"),
    "upkeep": ("compact", "index", "gc", "verify", "repair"),
    "many small writes, through shards": ("put", "merge", "shards", "split", "tail", "wal"),
    "on Spark": ("pipeline",),
    "below tables": ("show", "entries"),
}
_DESCRIPTION = """\
Tables on object storage: many writers, one history, no server, no lost row.

  siltstone demo                                       see it at work on this machine
  siltstone check-store s3://bucket/path               is this store safe?
  siltstone create reviews --like reviews.csv --key id make a table
  siltstone append reviews reviews.csv                 add rows
  siltstone scan reviews --where "stars > 3"           read them
  siltstone search reviews text "slow delivery"        find rows by their words
  siltstone log reviews                                its versions; reviews@3 reads an earlier one
  siltstone put events rows.jsonl                      add rows without a version each, through shards
  siltstone verify reviews                             is everything there?

siltstone VERB --help says more, with examples.
"""
_EPILOG = """\
exit codes: 0 done, 1 error or not safe or problems found, 2 wrong usage, 3 conflict or fenced, 130 interrupted,
141 whoever read our output has gone
"""


def parser() -> Parser:
    """The whole grammar."""
    top = Parser(
        prog="siltstone",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.themes = THEMES
    top.add_argument("--version", action="version", version=f"siltstone {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser, title="verbs")
    for part in PARTS:
        part.add_verbs(verbs)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (``sys.argv`` without one) and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    arguments = argparse.Namespace()
    try:
        return _run(given, arguments)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python flushes once more at its end: let that go nowhere.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as end:  # argparse's way to end after --help and --version
        return end.code if isinstance(end.code, int) else FAILED
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        known = error if isinstance(error, SiltstoneError) else unexpected(error)
        # A command line that can't be parsed can still ask for JSON.
        one_line = bool(getattr(arguments, "rows", False))
        show(known, as_json="--json" in given, one_line=one_line, secrets=secrets(arguments))
        return exit_code(known)


def _run(given: list[str], arguments: argparse.Namespace) -> int:
    parser().parse_args(given, arguments)
    if os.environ.get(LOG_VARIABLE):  # loaded only then: most command lines end sooner than logging is loaded
        logs = importlib.import_module("siltstone.telemetry.logs")
        logs.log_to_stderr(os.environ[LOG_VARIABLE], secrets=secrets(arguments))
    output = Output(as_json=arguments.json)
    try:
        code = load_verb(arguments.run)(arguments, output)
    finally:
        output.end()
    return code
