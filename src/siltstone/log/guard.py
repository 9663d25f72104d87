"""What stands between a decided entry and its acknowledgement: the floor, and the witness.

What must hold:
- The floor is known to be at or below a place after that place was decided; a look counts for ``trust_ms``, and
  only where the store keeps its word.
- Once an entry may be written, no error says that it was not.
- Where the store is not known to keep its word, the whole entry is left under a name nobody else uses, and no
  other witness of the same place may be there, nor a floor above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import SiltstoneError, UnavailableError, UnsafeStoreError
from siltstone.format.frame import digest
from siltstone.log import outcomes
from siltstone.log.reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.commit.base import CommitStore
    from siltstone.env import Env
    from siltstone.format.records import Identity
    from siltstone.log.marks import Entry, Mark
    from siltstone.store.base import Store


class GuardedLog(LogReader):
    """The checks of one writer's handle, and the tip it knows."""

    def __init__(
        self,
        store: Store,
        root: str,
        identity: Identity,
        genesis: str,
        commits: CommitStore,
        *,
        env: Env,
        lookup: Callable[[str], Mark | None] | None,
    ) -> None:
        super().__init__(store, root, identity, genesis, commits, env=env)
        self._lookup = lookup
        self._tip: Mark | None = None

    def _passed(self, op: str, position: int) -> bool:
        """Whether the floor passed a place, asked after it was decided.

        Whoever holds it now: one's own entry may have been there, and gone with the floor, so no error says that it
        was not.
        """
        try:
            self._read_floor(trust_ms=self.identity.trust_ms if self._trusting else 0)
        except SiltstoneError as error:
            self._tip = None
            raise outcomes.unfinished("the floor can't be read", op, position, error) from error
        return position < self._floor

    @property
    def _trusting(self) -> bool:
        return self.identity.guard == "receipt" and self.identity.publish == "create"

    def _read_floor(self, *, trust_ms: int = 0) -> None:
        failure: UnavailableError | None = None
        for _ in self._env.tries():
            try:
                self.floor_now(trust_ms=trust_ms)
            except UnavailableError as error:
                failure = error
            else:
                return
        if failure is not None:
            raise failure

    def _folded(self, op: str, position: int) -> Mark:
        """The mark behind an operation that was folded while its writer waited; raises where nobody can tell."""
        self._tip = None
        try:
            found = self._lookup(op) if self._lookup else None
        except SiltstoneError as error:
            raise outcomes.passed(op, position, self._floor) from error
        if found is None:
            raise outcomes.passed(op, position, self._floor)
        return found

    def _witness(self, entry: Entry, data: bytes | None) -> Mark:
        """Leave the witness of an entry; the mark behind it, or where it was folded meanwhile."""
        if data is None or digest(data) != entry.digest:
            raise outcomes.unfinished("it is gone again", entry.op, entry.position, None)
        key = paths.witness(self.root, entry.position, entry.nonce)
        failure: SiltstoneError | None = None
        for _ in self._env.tries():
            try:
                self.store.put(key, data)
                self._check_alone(entry)
            except UnsafeStoreError:
                raise
            except SiltstoneError as error:
                failure = error
                if not isinstance(error, UnavailableError):
                    break
            else:
                # Below a floor witnesses were removed: to be alone there says nothing.
                return self._folded(entry.op, entry.position) if self._passed(entry.op, entry.position) else entry.end
        self._tip = None
        raise outcomes.unfinished("its witness was not", entry.op, entry.position, failure) from failure

    def _check_alone(self, entry: Entry) -> None:
        """Raise UnsafeStoreError where someone else was told that the place is theirs."""
        others = []
        for info in self.store.list(f"{self.root}{paths.WITNESS}/{paths.digits(entry.position)}"):
            parsed = paths.parse_witness(self.root, info.key)
            if parsed is not None and parsed[1] != entry.nonce:
                others.append(parsed[1])
        if others:
            self._tip = None
            raise outcomes.not_alone(self.store.uri, entry, others)
