"""``shards``, ``merge`` and ``split`` as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.grammar.shapes import WRITE_SHAPE
from siltstone.cli.options import add_table, add_verb, count

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_SHARDS = """\
epoch counts a shard's writers, and writer is the newest of them, at work or not. lag is how many entries of its WAL are
neither in fragments nor in the table; fragments and rows are those that wait to be merged; merged is the position up
to which everything is in the table, and end where the WAL ends. Reads only.

Examples:
  siltstone shards events
  siltstone shards s3://bucket/events --json
"""
_MERGE = """\
All that is durable in the shards becomes one version; then the shards drop it. Anyone may do it, at any time, beside
writers and other mergers: no row is taken twice. Run it every few minutes, or whenever reads should see new rows
without --fresh.

Example:
  siltstone merge events
"""
_SPLIT = """\
Spreads the keys of a table over COUNT shards, more or fewer than there are, in one version; gives a table with a key
its first ones too. Writers of the present shards are fenced, and open the table again. One that was cut off
leaves shards that can't be written: run it again to end it.

Example:
  siltstone split events 8
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on shards."""
    parser = add_verb(
        verbs,
        "shards",
        "shards.run_shards",
        says="See the shards of a table.",
        teaches=_SHARDS,
        shape=("uri", "version", "shards"),
    )
    add_table(parser)
    parser = add_verb(
        verbs,
        "merge",
        "shards.run_merge",
        says="Take the rows of shards into their table.",
        teaches=_MERGE,
        shape=WRITE_SHAPE,
    )
    add_table(parser)
    parser = add_verb(
        verbs, "split", "shards.run_split", says="Change the number of shards.", teaches=_SPLIT, shape=WRITE_SHAPE
    )
    add_table(parser)
    parser.add_argument("count", metavar="COUNT", type=count, help="how many shards there are to be")
