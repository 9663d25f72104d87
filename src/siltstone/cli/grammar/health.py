"""``verify`` and ``repair`` as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_store, add_verb, add_wal

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_VERIFY = """\
Walks every log below the URI: positions, chain, checksums, epochs, witnesses, and the commit store where one is
given. Of tables, looks for every file that the newest version and the shards name, and with --deep reads all of them,
and the rows of WALs; those in another store are checked where --wal names it. Names what is missing, overwritten or
lost, with its op id. Writes nothing. Exit code 1 for problems.

Examples:
  siltstone verify s3://bucket/path
  siltstone verify reviews --deep
  siltstone verify DIR --commits sqlite:claims.db --json
"""
_REPAIR = """\
Puts back what witnesses, staged bytes and the chain prove, and appends lost operations again, each once. Looks for
the files of tables too, as verify does, and says what is gone: those come from a copy only. Run it when no writer is
running. Exit code 1 where something is left that it can't mend.

Examples:
  siltstone repair s3://bucket/path --dry-run
  siltstone repair DIR --commits sqlite:claims.db --adopt
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs ``verify`` and ``repair``."""
    parser = add_verb(
        verbs,
        "verify",
        "health.run_verify",
        says="Check every log and table below a URI.",
        teaches=_VERIFY,
        shape=("ok", "logs", "tables"),
    )
    add_store(parser, what="where the logs and tables are")
    add_wal(parser)
    parser.add_argument("--deep", action="store_true", help="read every file of a table and compare its checksum")

    parser = add_verb(
        verbs,
        "repair",
        "health.run_repair",
        says="Mend the logs below a URI.",
        teaches=_REPAIR,
        shape=("ok", "dry_run", "logs", "tables"),
    )
    add_store(parser, what="where the logs are")
    parser.add_argument("--dry-run", action="store_true", help="only say what is wrong and what could be mended")
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="let a commit store that was emptied take its former place, with rows made anew from the log",
    )
    parser.add_argument(
        "--moved",
        action="store_true",
        help="with --adopt: it is at another URI than the log remembers, and the former one is gone for good",
    )
