"""Builds of indexes whose objects go: what a commit store knows of their logs goes with them.

What must hold:
- Only builds that nothing names, and nothing ever will: whoever asks has made sure.
- Claims go before objects, and a log's identity before its entries: one that was cut off leaves no log to be seen that
  lacks entries, and the next one goes on from what it finds.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.commit.external import External
from siltstone.errors import SiltstoneError
from siltstone.log import open_beside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from siltstone.log import Log


def in_order(log: Log, keys: Iterable[str]) -> list[str]:
    """The keys of objects that are to be deleted, those of builds in the order in which they may go.

    What the commit store knows of the builds' logs is let go of first. Best effort: a range of claims is small.
    """
    there = list(keys)
    roots = {paths.index_log(found[0]) for key in there if (found := paths.parse_index(key)) is not None}
    identities = {key for key in there if paths.parse_identity(key) in roots}
    if isinstance(log.commits, External):
        for root in sorted(root for key in identities if (root := paths.parse_identity(key)) is not None):
            with contextlib.suppress(SiltstoneError):
                _let_go(log, root)
    return sorted(there, key=lambda key: key not in identities)


def _let_go(table: Log, root: str) -> None:
    """Replace the claims of a build's log by one range, as truncation does."""
    log = open_beside(table, root)
    tip = log.tip()
    if isinstance(log.commits, External) and tip.position:
        log.commits.registry.truncate(log.scope, below=tip.position, digest=tip.digest)
