"""What a caller of a log is told when an entry was not acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import (
    CommitUnknownError,
    ConflictError,
    FencedError,
    SiltstoneError,
    UnsafeStoreError,
)
from siltstone.telemetry.seams import alarm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.log.marks import Entry, Mark

SHOWN_MAX = 5
LOOK_FIRST = "look the op id up before running the operation again"


def taken(entry: Entry, op: str) -> ConflictError:
    """Another's entry holds the place."""
    error = ConflictError(
        f"entry {entry.position} was taken by {entry.writer or 'another writer'}",
        hint="read what landed, then append behind it",
        end=entry.end,
        op=op,
    )
    error.winner = entry
    return error


def crowded(op: str, end: Mark, patience_s: float) -> ConflictError:
    """Others were first all the time."""
    return ConflictError(
        f"other writers were first all the time for {patience_s} s",
        hint="try again; fewer writers, or batches of several changes, help",
        end=end,
        op=op,
    )


def fenced(root: str, *, epoch: int, found: int | None, position: int, who: str) -> FencedError:
    """An entry of a higher epoch is there, or the epoch is no longer the caller's."""
    at = f"at epoch {found}" if found is not None else f"beyond epoch {epoch}"
    by = f" (by {who})" if who else ""
    return FencedError(
        f"{root.rstrip('/') or 'the log'} is {at} at position {position}{by}, this writer at {epoch}",
        hint="another writer took over; drop this one",
        epoch=epoch,
        found=found,
        position=position,
    )


def unfinished(what: str, op: str, position: int, cause: SiltstoneError | None) -> CommitUnknownError:
    """The entry was written, and a step before its acknowledgement could not be taken."""
    return CommitUnknownError(
        f"entry {position} was written, but {what}: {cause.message if cause else 'no answer'}",
        hint=LOOK_FIRST,
        op=op,
        position=position,
    )


def passed(op: str, position: int, floor: int) -> CommitUnknownError:
    """The floor passed the place: the entry may have been folded, or the place was empty again."""
    return CommitUnknownError(
        f"position {position} lies below the floor {floor}: the log moved on while this writer waited",
        hint="look the op id up in the newest state, then start again from the tip",
        op=op,
        position=position,
        floor=floor,
    )


def not_alone(uri: str, entry: Entry, others: Sequence[str]) -> UnsafeStoreError:
    """The store let several writers win one place."""
    error = UnsafeStoreError(
        f"{uri} let {len(others) + 1} writers win entry {entry.position}: one of them was overwritten",
        hint="not acknowledged; run `siltstone verify`, then `siltstone repair`, and give the log a commit store",
        op=entry.op,
        position=entry.position,
        others=tuple(others),
    )
    return alarm(error)


def overwritten(uri: str, root: str, lost: Sequence[Entry]) -> UnsafeStoreError:
    """Entries that were won, and may have been acknowledged, had been overwritten when others were folded."""
    shown = ", ".join(entry.op for entry in lost[:SHOWN_MAX]) + (", ..." if len(lost) > SHOWN_MAX else "")
    error = UnsafeStoreError(
        f"{uri} overwrote {len(lost)} entries of {root.rstrip('/') or 'the log'} that writers had won: {shown}",
        hint=f"they are kept below {root}{paths.LOST}/; run `siltstone repair`, and give the log a commit store",
        op=lost[0].op,
        ops=tuple(entry.op for entry in lost),
    )
    return alarm(error)
