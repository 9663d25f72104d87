"""Another store for the WALs of a table's shards, and how it is told from every other one.

What must hold:
- A WAL store has an id, in an object of its own. What a manifest says is in one is looked for in that one alone: a
  place of the same name that was emptied, or belongs to another table, is refused.
- It belongs to one table. The id is made once, whoever comes first.
- A copy of a table has the ids of its original, and must not take part in its WALs: it needs a copy of them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from siltstone.errors import AlreadyExistsError, NotFoundError, WrongWalStoreError
from siltstone.format import frame
from siltstone.format.records import Id, Text, decode_json
from siltstone.format.table import WalStore
from siltstone.locks import ForkLock
from siltstone.log.floors import home_of
from siltstone.store.connect import open_store
from siltstone.store.options import parse_uri
from siltstone.table.operations import Work

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from siltstone.log import Log
    from siltstone.store.base import Store
    from siltstone.table.draft import Draft

KEY = "wal-store"


class WalStoreHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a WAL store says of itself: its id, the id of its table's log, and where both were when it was made."""

    id: Id
    table: Id
    table_home: Text
    home: Text


class OtherWal:
    """A store that was given for WALs. Threads may share it; it pickles as its store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = ForkLock()
        self._found: WalStoreHeader | None = None

    @property
    def uri(self) -> str:
        """Where it is, without credentials."""
        return self.store.uri

    def record(self, log: Log) -> WalStore | None:
        """What the records of a table call it; None where it has no id yet.

        Raises:
            WrongWalStoreError: it belongs to another table.
        """
        with self._lock:
            if self._found is None:
                try:
                    data = self.store.get(KEY, limit=4096)
                except NotFoundError:
                    return None
                raw, _ = frame.unwrap(data, name=KEY)
                self._found = decode_json(raw, WalStoreHeader, KEY)
            _check_home(self._found, self.store, log)
            return WalStore(id=self._found.id, uri=self.uri)

    def make(self, log: Log) -> WalStore:
        """The same, looked at anew, and with an id from now on: it may have been emptied since."""
        with self._lock:
            self._found = None
        found = self.record(log)
        if found is not None:
            return found
        header = WalStoreHeader(
            id=log.env.ids.new(),
            table=log.identity.log,
            table_home=home_of(log.store, log.root),
            home=home_of(self.store, ""),
        )
        with contextlib.suppress(AlreadyExistsError):  # another was first, or an answer was lost
            self.store.create(KEY, frame.wrap(msgspec.json.encode(header), b""))
        found = self.record(log)
        if found is None:
            raise WrongWalStoreError(f"{KEY} is gone from {self.uri} right after it was made", hint="try again")
        return found

    def __getstate__(self) -> Store:
        return self.store

    def __setstate__(self, store: Store) -> None:
        self.__init__(store)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"OtherWal({self.store!r})"


def _check_home(header: WalStoreHeader, store: Store, log: Log) -> None:
    if header.table != log.identity.log:
        raise WrongWalStoreError(
            f"{store.uri} holds the WALs of another table, whose log is {header.table}",
            hint="give each table a WAL store, or a prefix of one, of its own",
        )
    if header.table_home != home_of(log.store, log.root) and header.home == home_of(store, ""):
        raise WrongWalStoreError(
            f"{store.uri} holds the WALs of the table that the one at {log.store.uri} is a copy of",
            hint="copy the WAL store too, and give the copy: what is in this one belongs to the original",
        )


def open_wal(
    wal: str | Path | Store, storage_options: Mapping[str, str] | None = None, *, sync: bool = True
) -> OtherWal:
    """The WAL store that a user names; no request is made yet."""
    return OtherWal(open_store(wal, storage_options, sync=sync))


def is_alike(wal: str | Path, store: Store) -> bool:
    """Whether a WAL store is of the same kind as a table's store, so that it takes the same options."""
    return parse_uri(wal).scheme == store.traits.kind


def is_same(one: WalStore | None, other: WalStore | None) -> bool:
    """Whether two records are of one store, wherever it was; None is the table's own."""
    return one is other or (one is not None and other is not None and one.id == other.id)


class RecordWal(Work):
    """Says in the table's log where the WALs of its shards are, for those who look."""

    operation = "wal"

    def __init__(self, wal: WalStore) -> None:
        self._wal = wal

    def run(self, draft: Draft) -> None:
        """Replaces what was said before; nothing where another said the same."""
        if not is_same(draft.state.wal, self._wal):
            draft.retain(wal=self._wal)
