"""Which version a user means: by number, by tag, by checkpoint, or by a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.api.missing import collected, no_tag
from siltstone.errors import InvalidInputError, TruncatedError
from siltstone.retain.checkpoint import found
from siltstone.table import arguments
from siltstone.table.checkpoints import Checkpoint
from siltstone.table.operations import check_kept
from siltstone.table.versions import version_at

if TYPE_CHECKING:
    from siltstone.table.history import History
    from siltstone.table.state import State

READS = "version=, tag=, timestamp= and checkpoint="  # the ways to name a version that is to be read


def chosen(
    history: History,
    state: State,
    *,
    version: object = None,
    tag: object = None,
    timestamp: object = None,
    checkpoint: object = None,
    ways: str = "version=, tag= and timestamp=",
) -> State:
    """The version that is meant, as ``state`` has tags and checkpoints. Raises NotFoundError, TruncatedError."""
    count = sum(one is not None for one in (version, tag, timestamp, checkpoint))
    if count != 1:
        raise InvalidInputError(f"{count} of {ways} are given", hint="give one of them")
    if tag is not None:
        name = arguments.check_label(tag, "tag")
        if name not in state.tags:
            raise no_tag(name, state)
        version = state.tags[name]
    elif timestamp is not None:
        version = version_at(state, arguments.moment_ms(timestamp))
    elif checkpoint is not None:
        version = _version_of(state, checkpoint)
    number = arguments.check_version(version, newest=state.version)
    check_kept(state, number)
    try:
        return state if number == state.version else history.at(number)
    except TruncatedError as error:
        raise collected(error, f"version {number}") from error


def _version_of(state: State, checkpoint: object) -> int:
    name, pin = named(checkpoint)
    had = found(state, name, pin=pin)
    if had.pending:
        raise InvalidInputError(
            f"checkpoint {name} was begun and not ended, so that nobody knows what belongs to it",
            hint="call checkpoint() with the same arguments to end it, or delete_checkpoint()",
            checkpoint=name,
        )
    return had.version


def named(checkpoint: object) -> tuple[str, str]:
    """A name, and the id of that very checkpoint where one was given."""
    if isinstance(checkpoint, Checkpoint):
        return checkpoint.name, checkpoint.id
    if not isinstance(checkpoint, str) or not checkpoint:
        raise InvalidInputError(
            f"a checkpoint is named by a string, or is one that checkpoint() returned; got "
            f"{arguments.shown_object(checkpoint)}",
            hint="checkpoints() lists them",
        )
    return checkpoint, ""
