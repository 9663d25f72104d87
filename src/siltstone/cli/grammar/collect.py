"""``gc`` as it is written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from siltstone.cli.options import add_table, add_verb, count

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

SHAPE = ("uri", "version", "floor", "kept", "expired", "objects", "bytes", "dry_run", "doomed", "left")
_GC = """\
Versions that were the newest one within --keep-days stay, by the clock of the store, and so do tagged and checkpointed
ones. What only older versions need is removed, with what crashes left behind. Writers and readers of what is kept go
on meanwhile; a transaction that was begun on a version which is removed is refused when it commits. Without
--keep-days the table's setting gc.keep_days counts, or 7. --dry-run removes nothing and says of each object why it may
go.

Examples:
  siltstone gc reviews --dry-run
  siltstone gc s3://bucket/reviews --keep-days 30 --keep-versions 10
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``gc``."""
    parser = add_verb(
        verbs, "gc", "collect.run_gc", says="Remove what nobody needs any more.", teaches=_GC, shape=SHAPE
    )
    add_table(parser)
    parser.add_argument("--keep-days", type=_days, metavar="N", help="default: what the table says, or 7")
    parser.add_argument(
        "--keep-versions", type=count, default=1, metavar="N", help="at least so many stay; default: %(default)s"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would go, and why")


def _days(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!a} is not a number") from None
