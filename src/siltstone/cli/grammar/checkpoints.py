"""``checkpoint`` and its verbs as they are written."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from siltstone.cli.grammar.shapes import VERSION_SHAPE
from siltstone.cli.options import add_group, add_table, add_verb, whole_number

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_CHECKPOINT = ("uri", "name", "version", "scope", "created", "expires", "pending", "holder", "shards", "id")
_TEACHES = """\
A checkpoint is a promise: the version stays, whatever is collected, until the checkpoint expires or is deleted.
TABLE@name reads it. Times are of the store's clock. Without a verb a checkpoint is created.

Examples:
  siltstone checkpoint reviews before-migration --keep-days 7
  siltstone checkpoint list reviews
  siltstone scan reviews@before-migration
"""
_CREATE = """\
With --scope all, what is durable in shards is taken into the table first, as `siltstone merge` does, and no WAL is
needed. With --scope durable nothing is rewritten: the WALs and fragments of shards are kept as they are. Neither
disturbs those who write. One of scope durable that was cut off is ended by the same command.

Examples:
  siltstone checkpoint create reviews before-migration --keep-days 7
  siltstone checkpoint create s3://bucket/events nightly --scope durable --keep-days 1.5
  siltstone checkpoint create reviews as-published --version 12
"""
_LIST = """\
Also those that clones hold; they go with the clone.

Example:
  siltstone checkpoint list reviews --json
"""
_REFRESH = """\
Counts from now on. One that expired can be refreshed as long as it was not collected.

Examples:
  siltstone checkpoint refresh reviews before-migration --keep-days 30
  siltstone checkpoint refresh reviews before-migration --for-ever
"""
_DELETE = """\
What only the checkpoint kept may be collected from then on. One that a clone holds can't be deleted.

Example:
  siltstone checkpoint delete reviews before-migration
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on checkpoints."""
    group = add_group(
        verbs,
        "checkpoint",
        says="Promise to keep a table as it is.",
        teaches=_TEACHES,
        inside=("create", "list", "refresh", "delete"),
        default="create",
    )
    parser = add_verb(
        group, "create", "checkpoints.run_create", says="Keep the table as it is.", teaches=_CREATE, shape=_CHECKPOINT
    )
    add_table(parser)
    parser.add_argument("name", metavar="NAME", help="letters, digits and _ . - and not digits alone")
    parser.add_argument("--scope", choices=("all", "durable"), default="all", help="default: %(default)s")
    parser.add_argument("--keep-days", type=_days, metavar="DAYS", help="default: for ever")
    parser.add_argument("--version", type=whole_number, metavar="N", help="an earlier version; shards are left alone")

    parser = add_verb(
        group, "list", "checkpoints.run_list", says="List the checkpoints of a table.", teaches=_LIST,
        shape=("uri", "version", "checkpoints"),
    )  # fmt: skip
    add_table(parser, reads=True)

    parser = add_verb(
        group,
        "refresh",
        "checkpoints.run_refresh",
        says="Keep one longer, or shorter.",
        teaches=_REFRESH,
        shape=_CHECKPOINT,
    )
    add_table(parser)
    parser.add_argument("name", metavar="NAME", help="the checkpoint")
    keeps = parser.add_mutually_exclusive_group(required=True)
    keeps.add_argument("--keep-days", type=_days, metavar="DAYS", help="from now on")
    keeps.add_argument("--for-ever", action="store_true", help="until it is deleted")

    parser = add_verb(
        group, "delete", "checkpoints.run_delete", says="Take the promise back.", teaches=_DELETE,
        shape=("uri", "name", *VERSION_SHAPE),
    )  # fmt: skip
    add_table(parser)
    parser.add_argument("name", metavar="NAME", help="the checkpoint")


def _days(text: str) -> float:
    """A number of days, for argparse."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not found > 0 or math.isinf(found):
        raise argparse.ArgumentTypeError(f"{text[:40]!a} is not a number above 0")
    return found
