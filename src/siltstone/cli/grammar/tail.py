"""``tail`` as it is written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from siltstone.cli.options import add_table, add_verb, whole_number

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

LAST_ENTRIES = 10
_SHAPE = ("position", "time", "epoch", "kind", "rows", "deleted", "bytes", "writer", "op", "once", "batches")
_TAIL = f"""\
Shows the last {LAST_ENTRIES} entries, or all from a position on, and then each one as it is written, until Ctrl-C,
which is no error. SHARD is a number, or a name where the table has no key. A fence is what a new writer puts behind the
entries of those before it. With --rows, each row is a JSON object on a line, with the entry it is in as _position, and
_deleted true where its key was deleted. Reads only; what was flushed or merged long ago is not there any more.

Examples:
  siltstone tail events 0
  siltstone tail events 3 --from 0 --no-follow --rows
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``tail``."""
    parser = add_verb(
        verbs, "tail", "tail.run_tail", says="Follow the WAL of a shard.", teaches=_TAIL, shape=_SHAPE, rows=True
    )
    add_table(parser)
    parser.add_argument("shard", metavar="SHARD", help="its number or its name, see `siltstone shards`")
    parser.add_argument("--from", dest="start", type=whole_number, metavar="POSITION", help="begin with this entry")
    parser.add_argument(
        "--follow", action=argparse.BooleanOptionalAction, default=True, help="wait for more at the end; default: yes"
    )
    parser.add_argument("--rows", action="store_true", dest="show_rows", help="print rows as JSON lines")
