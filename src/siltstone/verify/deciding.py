"""Which of the logs below a URI a given commit store decides.

What must hold:
- A commit store is asked about, and written for, only those logs that it decides; one of another kind never.
- An emptied one takes a former place only at the URI that the logs remember, unless it is said to have been moved, and
  only where all of them remember one and the same: it can stand for no two.
- All of that is refused before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import (
    CorruptionError,
    InvalidInputError,
    SiltstoneError,
    SplitHistoryError,
    UnsupportedFormatError,
    WrongCommitStoreError,
)
from siltstone.format.records import COMMITS_URI_MAX
from siltstone.log.open import open_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from siltstone.commit.registry import Registry
    from siltstone.format.records import Identity
    from siltstone.store.base import Store

UNREADABLE = (CorruptionError, UnsupportedFormatError, SplitHistoryError)


def check_adopting(*, given: bool, adopt: object, moved: object) -> None:
    """Refuse what makes no sense together."""
    for name, flag in (("adopt", adopt), ("moved", moved)):
        if not isinstance(flag, bool):
            raise InvalidInputError(f"{name} must be True or False, got {flag!a}")
    if adopt and not given:
        raise InvalidInputError(
            "a commit store is to take its former place, and none was given", hint="pass commits= with its URI"
        )
    if moved and not adopt:
        raise InvalidInputError(
            "a commit store that was moved takes its place by being adopted", hint="pass adopt=True too"
        )


def decided_by(store: Store, roots: Iterable[str], registry: Registry | None) -> set[str]:
    """The roots of the logs that ``registry`` decides, or would if it were not emptied.

    Raises WrongCommitStoreError where all that are decided by a commit store are decided by one of another kind.
    """
    if registry is None:
        return set()
    identities = _identities(store, roots)
    mine = {root: one for root, one in identities.items() if one.commits == registry.kind}
    if identities and not mine:
        root, other = next(iter(identities.items()))
        raise WrongCommitStoreError(
            f"the log {root or 'at the root'} of {store.uri} is decided by a {other.commits} commit store, "
            f"not by {registry.kind}",
            hint=f"pass commits= with the URI of {other.commits_uri}",
        )
    try:
        identity = registry.identity()
    except SiltstoneError:  # said of each log
        return set(mine)
    known = {root for root, one in mine.items() if one.commits_identity == identity}
    return known or _remembered_at(registry, mine) or set(mine)


def _remembered_at(registry: Registry, identities: Mapping[str, Identity]) -> set[str]:
    """The logs that remember a commit store at this one's URI."""
    return {root for root, one in identities.items() if one.commits_uri == registry.uri[:COMMITS_URI_MAX]}


def adopted_by(store: Store, roots: Iterable[str], registry: Registry, *, moved: bool) -> set[str]:
    """As ``decided_by``, where an emptied registry is to take its former place.

    Raises WrongCommitStoreError where it is at another place than the logs remember and was not ``moved``, or where
    they remember several.
    """
    mine = _identities(store, decided_by(store, roots, registry))
    if not mine or any(one.commits_identity == registry.identity() for one in mine.values()):
        return set(mine)
    if not moved and not _remembered_at(registry, mine):
        remembered = ", ".join(sorted({one.commits_uri for one in mine.values()})[:3])
        raise WrongCommitStoreError(
            f"{registry.uri} is not where the commit store of {store.uri} was: that is {remembered}",
            hint="pass commits= with that URI; where it was moved, and the former one is gone for good, moved=True too",
        )
    if len({one.commits_identity for one in mine.values()}) > 1:
        raise WrongCommitStoreError(
            f"the logs below {store.uri} were decided by several commit stores, and one can't stand for all",
            hint="name the tables one by one",
        )
    return set(mine)


def _identities(store: Store, roots: Iterable[str]) -> Mapping[str, Identity]:
    """What the logs that are decided by a commit store say of it; those that can't be read are reported elsewhere."""
    found = {}
    for root in roots:
        try:
            with open_log(store, root=root, probe=False) as log:
                if log.identity.commits:
                    found[root] = log.identity
        except UNREADABLE:
            continue
    return found
