"""Objects under fresh names: written once, whole, and known to be there.

What must hold: a lost answer is repeated with the same bytes to the same key, and what is found there is ours
only if its bytes are. An object that was written and is not wanted after all is referred to by nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import (
    AlreadyExistsError,
    CorruptionError,
    NotFoundError,
    StoreFullError,
    UnavailableError,
)
from siltstone.format.frame import digest
from siltstone.store.base import OBJECT_BYTES_MAX

if TYPE_CHECKING:
    from siltstone.env import Env
    from siltstone.store.base import Store


def upload(store: Store, key: str, data: bytes, *, sha256: str, env: Env) -> None:
    """Write an object that nobody else writes.

    Raises:
        UnavailableError: the store did not answer for as long as ``env`` is patient; the object may be there.
        CorruptionError: other bytes are there.
    """
    doubt: UnavailableError | AlreadyExistsError | None = None
    for _ in env.tries():
        try:
            store.create(key, data)
        except AlreadyExistsError as error:
            doubt = doubt or error
            if _is_there(store, key, sha256, len(data)):
                return
        except StoreFullError:
            raise
        except UnavailableError as error:
            doubt = error
        else:
            return
    raise UnavailableError(
        f"{key} could not be written to {store.uri}: {doubt.message if doubt else 'no answer'}",
        hint="nothing refers to it; run the operation again when the store answers",
        object=key,
    ) from doubt


def _is_there(store: Store, key: str, sha256: str, size: int) -> bool:
    """Whether our bytes are there; a refusal with nothing there, or no answer, is worth another try."""
    try:
        found = store.get(key, limit=max(size, OBJECT_BYTES_MAX))
    except (NotFoundError, UnavailableError):
        return False
    if digest(found) != sha256:
        raise CorruptionError(
            f"{key} in {store.uri} holds other bytes than were written to it",
            hint="the name is fresh and random, so the store changed them; check the store with check-store",
            object=key,
        )
    return True
