"""``check-store`` as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_store, add_verb

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_TEACHES = """\
Tries the store with objects of its own, which it removes again: creates one twice, reads it back, lets
several creates race for one name, lists and deletes. Says in a sentence whether tables are safe there, and
what would make them safe. Exit code 1 where they are not.

Examples:
  siltstone check-store s3://bucket/path
  siltstone check-store s3://bucket --storage-option aws_endpoint=http://127.0.0.1:9000 \\
      --storage-option aws_secret_access_key=env:MY_SECRET
  siltstone check-store s3://bucket --commits postgresql://me@db.example.com/commits
"""
_SHAPE = (
    "uri", "kind", "safe", "store_safe", "known_good", "guard", "verdict", "findings", "remedies", "commits",
)  # fmt: skip


def add_verbs(verbs: Verbs) -> None:
    """The verb ``check-store``."""
    parser = add_verb(
        verbs,
        "check-store",
        "stores.run_check_store",
        says="Are tables safe on this store?",
        teaches=_TEACHES,
        shape=_SHAPE,
    )
    add_store(parser, what="the store to try")
