"""Which tables there are below a root.

What must hold:
- What is inside of a table is not looked through: finding it costs a few requests, however many objects it has.
- A look is bounded. Where it ends before everything was seen, it says so.
- A part that can't be listed hides nothing of the others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import InvalidInputError, PermissionDeniedError, SiltstoneError, UnavailableError
from siltstone.log.open import read_identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.store.base import Store

TABLES_MAX = 10_000
OBJECTS_MAX = 200_000  # that belong to no table
SECONDS_MAX = 30.0
REFUSALS_MAX = 20  # parts that can't be listed
# What a table's objects are below; one of these comes first in the order of names.
_PARTS = frozenset({paths.DATA, paths.INDEXES, paths.LOG.rstrip("/"), paths.ROLLUPS, paths.SHARDS, paths.VECTORS})


@dataclass(frozen=True)
class Found:
    """Tables by their paths below the root, "" being the root itself; ``notes`` say what was not looked at."""

    paths: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[SiltstoneError, ...] = ()


def find_tables(store: Store, *, seconds_max: float = SECONDS_MAX) -> Found:
    """Look for tables. Raises what the store raises where nothing of it can be listed."""
    if _is_table(store, ""):
        return Found(("",))
    return _Walk(store, time.monotonic() + seconds_max).run()


def _is_table(store: Store, path: str) -> bool:
    """Whether a log is where a table's would be; one that can't be read is shown as a table with its error.

    Of the root itself nothing is shown where it can't be reached: that is told instead.
    """
    try:
        root = paths.check_root(f"{path}/{paths.LOG}" if path else paths.LOG)
    except InvalidInputError:
        return False
    try:
        return read_identity(store, root) is not None
    except InvalidInputError:  # a symbolic link, or a name that no key has
        return False
    except (PermissionDeniedError, UnavailableError):
        if not path:
            raise
        return True
    except SiltstoneError:
        return True


class _Walk:
    def __init__(self, store: Store, deadline: float) -> None:
        self._store = store
        self._deadline = deadline
        self._found: list[str] = []
        self._refused: list[SiltstoneError] = []
        self._notes: list[str] = []
        self._none: set[str] = set()  # where no table is
        self._seen = 0

    def run(self) -> Found:
        after = ""
        while True:
            try:
                table = next((one for key in self._keys(after) if (one := self._table_of(key)) is not None), None)
            except SiltstoneError as error:
                table = self._refusal(error, after)
            if table is None or self._notes:
                return Found(tuple(self._found), tuple(self._notes), tuple(self._refused))
            after = f"{table}0"  # the character behind the slash: all below the table comes before it

    def _refusal(self, error: SiltstoneError, after: str) -> str:
        """The part to go on behind, where a part can't be listed; raises where that is not known."""
        part = str(error.facts.get("object", "")).rstrip("/")
        if not part or f"{part}0" <= after or len(self._refused) >= REFUSALS_MAX:
            raise error
        self._refused.append(error)
        return part

    def _keys(self, after: str) -> Iterator[str]:
        for info in self._store.list("", after=after):
            self._seen += 1
            if self._seen > OBJECTS_MAX or time.monotonic() > self._deadline:
                self._notes.append(
                    f"not everything was looked at: the look ended after {self._seen:,} objects that are no table's; "
                    f"name a directory or prefix with fewer"
                )
                return
            yield info.key

    def _table_of(self, key: str) -> str | None:
        """The table that an object belongs to, if there is one that was not known."""
        segments = key.split("/")
        for place, segment in enumerate(segments[:-1]):
            path = "/".join(segments[:place])
            if segment not in _PARTS or not path or path in self._none:
                continue
            if not _is_table(self._store, path):
                self._none.add(path)
                continue
            self._found.append(path)
            if len(self._found) >= TABLES_MAX:
                self._notes.append(f"there may be more: the look ended at {TABLES_MAX:,} tables")
            return path
        return None
