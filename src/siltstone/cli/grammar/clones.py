"""``clone``, ``detach`` and ``drop`` as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.grammar.shapes import WRITE_SHAPE
from siltstone.cli.options import add_table, add_verb

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_CLONE = """\
The clone begins as the table is now, with all that is durable in its shards, or as TABLE@3, TABLE@tag or
TABLE@checkpoint was. No data is copied: it names objects of the table, which are kept for it. What is written to one
of the two does not reach the other. One that was cut off is ended by the same call, or done away with by `drop`.

Examples:
  siltstone clone events trial
  siltstone clone s3://bucket/events@before-migration s3://other/trial
  siltstone clone events events-low --where "id < 1000"
"""
_DETACH = """\
Copies what a clone has in common with other tables, and lets go of them: they can be dropped then. Versions of the
clone from before can't be read any more. One that was cut off is ended by the same call.

Example:
  siltstone detach trial
"""
_DROP = """\
Does away with a table, with its tags and checkpoints, or with a clone that was begun and not ended. It is refused
while clones read from it. Whoever uses it is told. Some small objects stay that say so; those that may go later are
deleted by the next call. Without --yes nothing is done, and checkpoints that are not over are named.

Example:
  siltstone drop trial --yes
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that make clones, and do away with tables."""
    shape = ("uri", "version", "rows", "parent", "parent_version", "where")
    parser = add_verb(
        verbs,
        "clone",
        "clones.run_clone",
        says="Make a table that begins as another one is.",
        teaches=_CLONE,
        shape=shape,
    )
    add_table(parser, reads=True)
    parser.add_argument("uri", metavar="URI", help="where the clone is to be: a directory or a URI")
    parser.add_argument("--where", metavar="SQL", help="only the rows for which this is true")
    parser.add_argument(
        "--clone-commits", metavar="URI", help="the commit store that is to decide the clone's versions"
    )
    parser.add_argument("--clone-wal", metavar="URI", help="another store for the WALs of the clone's shards")
    parser.add_argument(
        "--clone-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the clone's store; without any, those of the table are used where both are in one bucket",
    )
    parser = add_verb(
        verbs, "detach", "clones.run_detach", says="Let a clone stand alone.", teaches=_DETACH, shape=WRITE_SHAPE
    )
    add_table(parser)
    parser = add_verb(
        verbs,
        "drop",
        "clones.run_drop",
        says="Do away with a table.",
        teaches=_DROP,
        shape=("uri", "dropped", "checkpoints"),
    )
    add_table(parser)
    parser.add_argument("--yes", action="store_true", help="do it")
    parser.add_argument("--missing-ok", action="store_true", help="no error where there is none")
