"""``wal`` as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_table, add_verb

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_WAL = """\
For each shard: the store that its WAL is in, with its id where that is not the table's own, the positions that it has,
up to where its rows are in fragments (flushed) and in the table (merged), and what still needs it. Where nothing does,
the next writer may be given another WAL store, or none. Positions are not known where --wal does not name the store.
Reads only.

Examples:
  siltstone wal events
  siltstone wal s3://lake/events --wal s3://fast/events-wal --json
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``wal``."""
    parser = add_verb(
        verbs, "wal", "wal.run_wal", says="See where WALs are, and what needs them.", teaches=_WAL,
        shape=("uri", "version", "store", "wals"),
    )  # fmt: skip
    add_table(parser)
