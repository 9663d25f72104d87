"""What a log refuses before it writes.

What must hold: an argument that would make an entry nobody can read, or one that nobody ever finds, is
refused before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.frame import digest
from siltstone.format.records import BODY_BYTES_MAX
from siltstone.ids import is_id
from siltstone.log.marks import NUMBER_MAX, Mark, is_digest

if TYPE_CHECKING:
    from siltstone.log.reader import LogReader


def check_body(body: object) -> None:
    """Raise unless ``body`` can be an entry's body."""
    if not isinstance(body, bytes):
        raise InvalidInputError(f"an entry's body must be bytes, got {type(body).__name__}")
    if len(body) > BODY_BYTES_MAX:
        raise LimitExceededError(f"a body of {len(body)} bytes is over the limit of {BODY_BYTES_MAX}")


def check_epoch(epoch: object) -> None:
    """Raise unless ``epoch`` can be one; an entry with another would be unreadable for everyone."""
    if type(epoch) is not int or not 0 <= epoch <= NUMBER_MAX:
        raise InvalidInputError(f"epoch must be a whole number from 0 to {NUMBER_MAX}, got {epoch!a}")


def check_mark(mark: object, name: str) -> None:
    """Raise unless this is a mark that a log could have given out."""
    if not isinstance(mark, Mark):
        hint = "pass what append, add, tip or an entry's end returned"
        raise InvalidInputError(f"{name} must be a Mark, got {type(mark).__name__}", hint=hint)
    numbers = (mark.position, mark.epoch)
    in_range = all(type(number) is int and 0 <= number <= NUMBER_MAX for number in numbers)
    if not in_range or not is_digest(mark.digest):
        raise InvalidInputError(f"{name} is no mark of a log: {mark!a}", hint="pass one as it was returned")


def check_op(op: str) -> str:
    """Return ``op`` if it is an op id."""
    if not is_id(op):
        raise InvalidInputError(f"op must be 32 lower-case hex digits, got {op!a}")
    return op


def check_home(log: LogReader, mark: Mark) -> None:
    """Raise unless the mark is of this log: what is put behind another log's mark would never be found."""
    if mark == log.start:
        return
    data = log.published(mark.position - 1) if mark.position else None
    if data is not None and log.read(data, mark.position - 1).digest == mark.digest:
        return
    floor = log.first()
    if mark == floor or mark.position < floor.position:
        return  # truncated since, whatever latecomer may be there: the caller is told so by what comes next
    if data is not None and _has_witness(log, mark):
        log.check_receipt(mark)  # the mark was good, and the store replaced its entry
    raise InvalidInputError(
        f"position {mark.position - 1} does not hold the entry that the mark names",
        hint="pass a mark that append, add, tip or entries of this very log returned",
        position=mark.position,
    )


def _has_witness(log: LogReader, mark: Mark) -> bool:
    if log.identity.guard != "witness":
        return False
    witnesses = [info.key for info in log.store.list(f"{log.root}{paths.WITNESS}/{paths.digits(mark.position - 1)}")]
    return any(data is not None and digest(data) == mark.digest for data in log.store.get_many(witnesses))
