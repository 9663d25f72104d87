"""``show`` as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_store, add_verb

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_SHAPE = ("object", "kind", "role", "bytes", "digest", "record", "doubts", "body", "parts")
_SHOW = """\
Of logs: identities, entries, witnesses, staged proposals, floors and hints. Of tables: versions (as the entries of
their log), fragments, deletion vectors and rollups. Of text indexes: markers, parts, and plans and items (as the
entries of a build's log). Bodies that are no changes of a table are shown as JSON or text where they are, else as
their first bytes.

Examples:
  siltstone show reviews/log/entries/00000000000000000007
  siltstone show s3://bucket/reviews/data/00000000000000000003-0123456789abcdef0123456789abcdef.parquet
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``show``."""
    parser = add_verb(
        verbs, "show", "showing.run_show", says="Print an object of siltstone readably.", teaches=_SHOW, shape=_SHAPE
    )
    add_store(parser, what="the object", name="object", commits=False)
