"""``demo`` as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.cli.options import add_verb

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_SHAPE = ("ok", "seconds", "steps")
_TEACHES = """\
Reviews arrive in files, and a pipeline takes them in on a Spark of this machine: a stream into the WALs of shards,
stopped in the middle and started again, and merged into the table; corrections, a delete, an update, a compaction; a
text index is built and searched; then an older version is read and a question asked. After that, processes write to an
S3 server that lies, and a writer is killed. Every step is counted. Takes about a minute; needs
`pip install 'siltstone[spark]'`.

Examples:
  siltstone demo
  siltstone demo --keep demo-files
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``demo``."""
    parser = add_verb(
        verbs, "demo", "demo.run_demo", says="See siltstone at work on this machine.", teaches=_TEACHES, shape=_SHAPE
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        type=Path,
        help="leave files and tables in this directory, which must be new, or that of an earlier demo",
    )
