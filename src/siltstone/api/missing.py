"""What a user is told where a table, a version or a tag is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import NotFoundError, TruncatedError
from siltstone.table.commit import dropped
from siltstone.table.types import shown

if TYPE_CHECKING:
    from siltstone.table.state import State


def missing(uri: str) -> NotFoundError:
    """The error for a URI without a table."""
    return NotFoundError(f"there is no table at {uri}", hint="check the URI, or make one with siltstone.create()")


def not_there(uri: str, state: State) -> NotFoundError:
    """The error for a log that holds no table at its newest version, or another one than before."""
    if state.dropped:
        return dropped(uri, state)
    if state.exists:
        return NotFoundError(
            f"the table at {uri} was dropped, in version {state.born}, and another one was made there since",
            hint="open it again",
        )
    if state.clone is not None:
        return NotFoundError(
            f"{uri} was to become a clone of {state.clone.uri}, and that was not ended",
            hint="run clone() with the same arguments again, or drop() it",
        )
    return missing(uri)


def no_tag(name: str, state: State) -> NotFoundError:
    """The error for a tag that no version has."""
    known = ", ".join(shown(one)[1:-1] for one in sorted(state.tags)[:10]) or "none"
    return NotFoundError(f"there is no tag {name!a}", hint=f"tags: {known}")


def collected(error: TruncatedError, what: str) -> TruncatedError:
    """The error for a version that is gone."""
    return TruncatedError(
        f"{what} can't be read any more: {error.message}",
        hint="history() lists the versions that are left",
        **error.facts,
    )
