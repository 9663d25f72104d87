"""``entries`` and its verbs as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_group, add_store, add_verb, whole_number

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

LIMIT_DEFAULT = 20
_ENTRIES = """\
A log holds numbered entries that stay as they are. Tables keep their versions in one; your own logs work alike.

Examples:
  siltstone entries list DIR
  echo hello | siltstone entries add DIR - --create
"""
_LIST = """\
Newest first. Dead entries are those that a fenced writer put behind its successor; readers pass over them.

Examples:
  siltstone entries list s3://bucket/reviews/log
  siltstone entries list DIR --limit 100 --after 4000 --json
"""
_ADD = """\
Adds one entry for each FILE, or one for each line with --lines; - is standard input. An entry is in the log
for good once its line is printed. With --op, an operation that is in the log already is not added again.

Examples:
  echo hello | siltstone entries add DIR - --create
  siltstone entries add s3://bucket/log --lines events.jsonl
  siltstone entries add DIR change.json --op 0123456789abcdef0123456789abcdef
"""
_TRUNCATE = """\
Entries below POSITION may go. They stay readable for twice the time that a writer may trust an earlier look at
the log, one minute by default; running the same command again after that deletes them.

Example:
  siltstone entries truncate DIR --until 1000
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on one log."""
    group = add_group(
        verbs, "entries", says="Read and write raw logs.", teaches=_ENTRIES, inside=("list", "add", "truncate")
    )
    parser = add_verb(
        group,
        "list",
        "entries.run_list",
        says="List the entries of a log.",
        teaches=_LIST,
        shape=("uri", "log", "floor", "tip", "epoch", "entries"),
    )
    add_store(parser, what="the log")
    parser.add_argument("--limit", type=whole_number, default=LIMIT_DEFAULT, metavar="N", help="default: %(default)s")
    parser.add_argument("--after", type=whole_number, metavar="POSITION", help="only entries behind this one")

    parser = add_verb(
        group, "add", "entries.run_add", says="Add entries to a log.", teaches=_ADD, shape=("uri", "log", "appended")
    )
    add_store(parser, what="the log")
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file, or - for standard input")
    parser.add_argument("--create", action="store_true", help="make the log where there is none")
    parser.add_argument("--lines", action="store_true", help="one entry for each line, without its line end")
    parser.add_argument("--op", default="", metavar="ID", help="the op id (32 hex digits) of the one entry")
    parser.add_argument("--epoch", type=whole_number, help="write as the owner of this epoch; exit code 3 where fenced")
    parser.add_argument("--writer", default="", metavar="NAME", help="a label that entries carry")

    parser = add_verb(
        group,
        "truncate",
        "entries.run_truncate",
        says="Remove the beginning of a log.",
        teaches=_TRUNCATE,
        shape=("uri", "log", "floor", "deleted_below", "deleted_objects", "deleted_bytes"),
    )
    add_store(parser, what="the log")
    parser.add_argument("--until", type=whole_number, required=True, metavar="POSITION", help="the first entry to keep")
