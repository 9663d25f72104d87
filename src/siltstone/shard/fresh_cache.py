"""What fresh reads keep of the shards of a table: keys, rows of small fragments, tails.

What must hold:
- What is kept is bounded in bytes, and is a copy of something that never changes: losing it costs time alone.
- A fragment's keys are loaded for single keys only where it was asked for often: the first ones cost a few pages.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from siltstone.locks import ForkLock
from siltstone.shard.fresh_file import KeptFile
from siltstone.shard.fresh_keys import Keys, load_keys
from siltstone.shard.fresh_tail import Tail, counted
from siltstone.shard.kept import Kept
from siltstone.table.masking import joined

if TYPE_CHECKING:
    import pyarrow as pa

    from siltstone.format.table import Field, Fragment
    from siltstone.shard.snapshot import Snapshot
    from siltstone.store.base import Store
    from siltstone.table.files import FileLike
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

CACHE_BYTES = 128 * 1024 * 1024
OFTEN = 4  # lookups in a fragment; from then on its keys are kept
KEYS_ROWS_MAX = 1_048_576  # of a fragment whose keys are loaded for a single key
ASKED_MAX = 10_000  # fragments whose lookups are counted
_PACKED = 3  # what decoded rows take for each byte of the file


class FreshCache:
    """Safe to share between threads. ``cache_bytes`` are kept of keys and tails, and as much of decoded rows."""

    def __init__(self, tools: Tools, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.tools = tools
        self._keys: Kept[Keys] = Kept(cache_bytes // 2)
        self._tails: Kept[Tail] = Kept(cache_bytes // 2)
        self._rows: Kept[pa.Table] = Kept(cache_bytes)
        self._rows_max = cache_bytes // 4  # of one fragment
        self._lock = ForkLock()
        self._asked: Counter[str] = Counter()

    def tail(self, state: State, snapshot: Snapshot) -> Tail | None:
        """The rows behind a shard's fragments that are not in the table; None where there are none."""
        chunks = counted(snapshot, merged_until(state, snapshot.shard))
        if not chunks:
            return None
        found = self._tails.get(snapshot.shard)
        if found is None or len(found.chunks) != len(chunks) or not found.fits(snapshot, state.schema):
            found = Tail(snapshot, chunks, schema=state.schema, env=self.tools.env, before=found)
            self._tails.put(snapshot.shard, found, found.nbytes)
        return found

    def keys(self, fragment: Fragment, store: Store, key: tuple[Field, ...]) -> Keys:
        """The keys of a shard's fragment."""
        found = self._keys.get((fragment.name, key))
        if found is None:
            found = load_keys(self.tools.files.open(fragment, store=store), key)
            self._keys.put((fragment.name, key), found, found.nbytes)
        return found

    def keys_if_worth(self, fragment: Fragment, store: Store, key: tuple[Field, ...]) -> Keys | None:
        """The same for a lookup; None where reading a few pages of the fragment is cheaper."""
        found = self._keys.get((fragment.name, key))
        if found is None and fragment.rows <= KEYS_ROWS_MAX and self._is_asked_often(fragment):
            found = self.keys(fragment, store, key)
        return found

    def rows_if_worth(self, fragment: Fragment, store: Store, fields: tuple[Field, ...]) -> pa.Table | None:
        """All rows of a shard's fragment; None where they are too many to be kept."""
        if not self._is_kept(fragment):
            return None
        found = self._rows.get((fragment.name, fields))
        if found is None:
            file = self.tools.files.open(fragment, store=store)
            found = joined([file.read(group, fields, threads=True) for group in range(len(file.groups))])
            self._rows.put((fragment.name, fields), found, found.nbytes)
        return found

    def kept_file(self, file: FileLike) -> FileLike:
        """The file of a shard's fragment for scans, which read it again and again until it is merged."""
        return KeptFile(file, self._rows) if self._is_kept(file.fragment) else file

    def _is_kept(self, fragment: Fragment) -> bool:
        """Whether there is room for its rows beside those of others."""
        return fragment.bytes * _PACKED <= self._rows_max

    def _is_asked_often(self, fragment: Fragment) -> bool:
        with self._lock:
            if len(self._asked) >= ASKED_MAX:
                self._asked.clear()
            self._asked[fragment.name] += 1
            return self._asked[fragment.name] > OFTEN


def merged_until(state: State, shard: str) -> int:
    """The first position of a shard that is not in the table."""
    cursor = state.shards.get(shard)
    return 0 if cursor is None else cursor.position
