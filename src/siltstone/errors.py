"""Every error a user of siltstone can meet, grouped by what the caller does next.

What must hold:
- No error of a library below (obstore, a database driver, the operating system) reaches a user bare.
- An error carries facts (subject, found, expected, ids) and a hint that says what to do.
- No error carries a credential: whatever builds one uses masked URIs only.
- "Unknown" is never reported as "failed".
"""

from __future__ import annotations

from typing import ClassVar


class SiltstoneError(Exception):
    """Base of all siltstone errors: a message, what to do about it, and the facts behind it."""

    kind: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    remedy: ClassVar[str] = ""  # the hint where none is given

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.remedy
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.facts))


def _rebuild(cls: type[SiltstoneError], message: str, hint: str, facts: dict[str, object]) -> SiltstoneError:
    return cls(message, hint=hint, **facts)


# -- try again ---------------------------------------------------------------------------------


class UnavailableError(SiltstoneError):
    """A store or commit store did not answer, or answered that it can't now."""

    kind = "unavailable"
    retryable = True


class StoreFullError(UnavailableError):
    """The disk or quota behind a store is used up; nothing was written."""

    kind = "store-full"
    retryable = False


# -- refresh, look, drop the writer -------------------------------------------------------------


class ConflictError(SiltstoneError):
    """Another entry holds the place; read what landed and try again behind it."""

    kind = "conflict"
    retryable = True
    winner: object = None  # the entry that holds the place, where it was read


class CommitUnknownError(SiltstoneError):
    """No answer, and the place can't be read back: the operation may or may not be in the log.

    ``facts`` holds ``op`` and ``position``; look the op id up before running the operation again.
    """

    kind = "commit-unknown"

    def __str__(self) -> str:
        told, op = super().__str__(), self.facts.get("op")
        return f"{told}; op {op}" if op and str(op) not in told else told


class FencedError(SiltstoneError):
    """A writer with a higher epoch took over; this writer's handle is of no more use.

    ``facts`` holds ``epoch`` and, where it is known, ``found``; of a shard's writer ``shard`` and ``table`` too.
    """

    kind = "fenced"


class WriterStoppedError(SiltstoneError):
    """A shard's writer could not write and was stopped; these rows are not there, and only another writer helps.

    ``facts`` holds ``shard`` and ``table``.
    """

    kind = "writer-stopped"


class BackpressureError(SiltstoneError):
    """Too much is waiting to be written; slow down."""

    kind = "backpressure"
    retryable = True


class UnfinishedError(SiltstoneError):
    """Work that others were to do is not done yet; the error says what is missing."""

    kind = "unfinished"
    retryable = True


# -- what was named is not there, or already there -----------------------------------------------


class NotFoundError(SiltstoneError):
    """Nothing has that name."""

    kind = "not-found"


class TruncatedError(NotFoundError):
    """The position lies below the log's floor: its entry was, or may be, removed."""

    kind = "truncated"


class AlreadyExistsError(SiltstoneError):
    """The name is taken."""

    kind = "already-exists"


# -- fix the call --------------------------------------------------------------------------------


class InvalidInputError(SiltstoneError, ValueError):
    """An argument is wrong; the message names it and says what is accepted."""

    kind = "invalid-input"


class LimitExceededError(InvalidInputError):
    """An argument or object is larger than a stated limit."""

    kind = "limit-exceeded"


class WrongCommitStoreError(InvalidInputError):
    """The commit store given is not the one that decides this log (or none was given)."""

    kind = "wrong-commit-store"


class WrongWalStoreError(InvalidInputError):
    """The WAL of a shard is in another store than the one that was given, or that store was emptied."""

    kind = "wrong-wal-store"


class SchemaMismatchError(InvalidInputError):
    """Rows do not have the columns or types of the table."""

    kind = "schema-mismatch"


class UnsupportedTypeError(InvalidInputError):
    """A column has a type that tables, or the library that rows were asked for in, can't hold."""

    kind = "unsupported-type"


class DuplicateKeyError(InvalidInputError):
    """A key is in the table, or twice in what was given."""

    kind = "duplicate-key"


class MissingDependencyError(InvalidInputError):
    """An optional package is needed for this call; the hint names the extra to install."""

    kind = "missing-dependency"


class PermissionDeniedError(SiltstoneError):
    """Credentials are missing, wrong, or do not allow the action."""

    kind = "permission-denied"


class ClosedError(SiltstoneError):
    """The handle was closed."""

    kind = "closed"


class ForkedError(ClosedError):
    """The handle was opened before ``os.fork()`` and can't be used in the child."""

    kind = "forked"


# -- do not trust what is there ------------------------------------------------------------------


class UnsafeStoreError(SiltstoneError):
    """The store breaks its word on creating an object only once; writing there would lose data."""

    kind = "unsafe-store"


class CommitStoreBehindError(UnsafeStoreError):
    """Published entries exist that the commit store does not know: it was emptied or restored."""

    kind = "commit-store-behind"


class SplitHistoryError(UnsafeStoreError):
    """Two different objects were published for one place; nothing more is acknowledged behind it."""

    kind = "split-history"


class CorruptionError(SiltstoneError):
    """An object is not what was written: cut, changed, replaced or out of its chain."""

    kind = "corruption"
    remedy = "run `siltstone verify` to see what else is damaged; a copy of the object put back mends it"


class MissingObjectError(CorruptionError):
    """An object that must be there is gone."""

    kind = "missing-object"


class UnsupportedFormatError(SiltstoneError):
    """The object was written by a newer format, or needs a feature this version does not have."""

    kind = "unsupported-format"


class InternalError(SiltstoneError):
    """A rule of siltstone itself was broken; please report it."""

    kind = "internal"
