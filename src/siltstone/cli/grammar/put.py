"""``put`` as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import INPUT_FORMATS, add_table, add_verb, count

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

BATCH_ROWS = 10_000
WRITER = "siltstone put"
_SHAPE = ("uri", "rows", "deleted", "entries", "bytes", "seconds", "shards")
_PUT = f"""\
Rows are durable as soon as they are in the WAL of their shard, and make no version: `scan --fresh` sees them at once,
`siltstone merge` takes them into the table. Each takes the place of the row with its key. In a table without a key
--shard names where they go, and they are added.

Files are JSON lines, Parquet, CSV or Arrow, told by their names or by --format; without any, or with -, standard input
is read, JSON lines as they come. Rows are put {BATCH_ROWS:,} at a time, each batch when the one before is durable. It
is no transaction: what was put before an error stays, and is counted. With a key, putting it again does no harm.

A shard has one writer: whoever has it now is fenced, and told so at its next put.

Examples:
  siltstone put events today.jsonl
  my-source | siltstone put events --no-wait
  siltstone put events gone.jsonl --delete
  siltstone put lines --shard worker-1 part-1.parquet
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``put``."""
    parser = add_verb(
        verbs, "put", "put.run_put", says="Put rows into the shards of a table.", teaches=_PUT, shape=_SHAPE
    )
    add_table(parser)
    parser.add_argument("files", metavar="FILE", nargs="*", default=[], help="a file of rows; default: -")
    parser.rest = "files"
    parser.add_argument("--format", choices=INPUT_FORMATS, help="the format of all files; default: by their names")
    parser.add_argument("--shard", metavar="SHARD", help="only this one: rows that belong to others are refused")
    parser.add_argument("--delete", action="store_true", help="delete the rows with these keys instead")
    parser.add_argument(
        "--no-wait", action="store_true", help="read on while rows are written; they are durable when it ends"
    )
    parser.add_argument("--batch-rows", type=count, default=BATCH_ROWS, metavar="N", help="default: %(default)s")
    parser.add_argument("--writer", default=WRITER, metavar="NAME", help="shown by `siltstone shards`")
