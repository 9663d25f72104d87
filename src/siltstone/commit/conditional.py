"""Places decided by the object store itself: create-if-absent.

What must hold:
- "Refused" says nothing about who won: the object is read back and returned.
- "Refused" with nothing there (a 409 of S3) and "no answer" are answered by sending the same bytes to
  the same key again, never another key; a put that is still under way is then a repetition.
- After a lost answer no later error, however definite, may be reported as "not committed".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.commit.base import CommitStore, Place
from siltstone.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    NotFoundError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
)
from siltstone.telemetry import events, metrics

if TYPE_CHECKING:
    from siltstone.env import Env
    from siltstone.store.base import Store


class ConditionalPut(CommitStore):
    """The object store decides."""

    def __init__(self, store: Store, env: Env) -> None:
        self._store = store
        self._env = env

    def decide(self, place: Place, proposal: bytes) -> bytes:
        doubt: SiltstoneError | None = None
        for _ in self._env.tries():
            try:
                self._store.create(place.key, proposal)
            except AlreadyExistsError as error:
                doubt = doubt or error
                found = self._read_back(place)
                if found is not None:
                    if found == proposal and isinstance(doubt, UnavailableError):
                        tell_found(place)
                    return found
            except SiltstoneError as error:
                if isinstance(error, UnavailableError) and not isinstance(error, StoreFullError):
                    doubt = error
                elif doubt is None:
                    raise  # refused for good, and nothing of ours is under way
                else:
                    raise unknown(place, error) from error
            else:
                return proposal
        raise unknown(place, doubt) from doubt

    def decided(self, place: Place) -> bytes | None:
        try:
            return self._store.get(place.key)
        except NotFoundError:
            return None

    def _read_back(self, place: Place) -> bytes | None:
        try:
            return self.decided(place)
        except UnavailableError:
            return None
        except SiltstoneError as error:  # the refusal may have been for our own bytes
            raise unknown(place, error) from error


def tell_found(place: Place) -> None:
    """An answer was lost on the way, and what was proposed is there."""
    metrics.LOST_ANSWERS.add()
    events.LOST_ANSWER.tell(log=place.root, position=place.position)


def unknown(place: Place, cause: SiltstoneError | None) -> CommitUnknownError:
    """The error for a place whose outcome can't be found out now."""
    return CommitUnknownError(
        f"it is not known whether {place.key} was written: {cause.message if cause else 'no answer'}",
        hint="look the op id up in the log before running the operation again",
        object=place.key,
        position=place.position,
    )
