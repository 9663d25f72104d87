"""Fresh reads: a table together with the rows that are still in its shards.

A fresh read is a read of another state: the table's fragments with more rows gone, the shards' fragments, and the rows
of their tails in memory. All that reads a table reads it.

What must hold:
- A row of a shard counts where its position is not before the shard's cursor in the table's state. Of one key, the
  newest row that counts is read, or nothing where that is a tombstone; rows of the table count where no shard has
  their key. A table without a key has all rows of both.
- Snapshots are taken before the state that they are read with: what a shard lacks is in that state.
- What is in memory is the keys of rows that are not merged, and a bit for each row of the fragments that they touch;
  the rows themselves are read like all others. What is kept from one read to the next, rows of shards' fragments among
  it, is bounded in bytes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siltstone.shard.fresh_cache import CACHE_BYTES, FreshCache, merged_until
from siltstone.shard.fresh_keys import HIDDEN
from siltstone.shard.fresh_tail import same_tail
from siltstone.shard.kept import Kept
from siltstone.table.lookup import candidates, match_keys
from siltstone.table.overlay import overlay_state, overlay_tools
from siltstone.table.schema import key_fields
from siltstone.table.stream import Turn, in_order, pace_for
from siltstone.table.vectors import Deleted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from siltstone.format.rollup import Live
    from siltstone.format.table import Field, Fragment, Schema, ShardFragment
    from siltstone.shard.fresh_keys import Keys
    from siltstone.shard.fresh_tail import Tail
    from siltstone.shard.snapshot import Snapshot
    from siltstone.store.base import Store
    from siltstone.table.files import FileLike
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

_NOTHING = np.empty(0, np.int32)


def fresh(tools: Tools, state: State, snapshots: Sequence[Snapshot]) -> tuple[Tools, State]:
    """Tools and a state to read a table with its shards. Who reads more than once keeps a ``Freshness``."""
    return Freshness(tools).read(state, snapshots)


class Freshness(FreshCache):
    """Fresh reads of one table, and what is kept between them. Threads may share it."""

    def __init__(self, tools: Tools, *, cache_bytes: int = CACHE_BYTES) -> None:
        super().__init__(tools, cache_bytes=cache_bytes)
        self._pairs: Kept[_Found] = Kept(cache_bytes // 2)
        self._last: _Last | None = None

    def read(self, state: State, snapshots: Sequence[Snapshot]) -> tuple[Tools, State]:
        """Tools and a state that hold the table's rows and those of its shards.

        Raises CorruptionError and MissingObjectError (a file is damaged or gone; the error names it), UnavailableError.
        """
        with self._lock:
            last = self._last
        if last is not None and last.fits(state, snapshots):
            return last.result
        result = _Laid(self, state).over(snapshots)
        with self._lock:
            self._last = _Last(state, tuple(snapshots), result)
        return result

    def hidden(self, older: _Source, newer: _Source) -> NDArray[np.int32]:
        """The rows of a source whose key a newer one has."""
        found = self._pairs.get((older.name, newer.name))
        if found is None:
            found = _Found(older.keys.hidden_by(newer.keys).astype(np.int32), _NOTHING)
            self._pairs.put((older.name, newer.name), found, found.nbytes)
        return found.rows

    def find(self, wanted: Iterable[tuple[Live, _Source]], schema: Schema) -> list[_Found]:
        """The rows of the table's fragments that have a key of a source; those that are not known are looked up."""
        pairs = list(wanted)
        found = [self._pairs.get((live.fragment.name, source.name)) for live, source in pairs]
        missing = [place for place, one in enumerate(found) if one is None]
        tasks = (_Find(self.tools, *pairs[place], schema) for place in missing)
        for place, made in zip(missing, in_order(tasks, pace_for(self.tools.store)), strict=True):
            live, source = pairs[place]
            self._pairs.put((live.fragment.name, source.name), made, made.nbytes)
            found[place] = made
        return [one for one in found if one is not None]


class _Last(NamedTuple):
    """The last read, for who reads again before anything changes."""

    state: State
    snapshots: tuple[Snapshot, ...]
    result: tuple[Tools, State]

    def fits(self, state: State, snapshots: Sequence[Snapshot]) -> bool:
        mine = self.state
        if state is not mine and (state.mark != mine.mark or state.fragments is not mine.fragments):
            return False
        return len(snapshots) == len(self.snapshots) and all(
            one.shard == other.shard and one.state == other.state and same_tail(one, other)
            for one, other in zip(self.snapshots, snapshots, strict=True)
        )


class _Source(NamedTuple):
    """Rows of a shard that count, all of them or but for those that are merged: a fragment, or a tail."""

    name: str
    keys: Keys
    merged: NDArray[np.bool_] | None  # rows that are in the table; None: none
    generation: int
    fragment: Fragment | None  # None: a tail


class _Found(NamedTuple):
    """Rows of a fragment that have keys of a source, and the rows of the source that have those."""

    rows: NDArray[np.int32]
    which: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.which.nbytes) + 128

    def counting(self, merged: NDArray[np.bool_] | None) -> NDArray[np.int32]:
        """The rows whose key is that of a row that counts."""
        return self.rows if merged is None else self.rows[~merged[self.which]]


class _Find(NamedTuple):
    """Looks for the keys of a source in a fragment of the table."""

    tools: Tools
    live: Live
    source: _Source
    schema: Schema
    nbytes: int = 8 * 1024 * 1024  # about what a batch of rows takes

    def run(self, turn: Turn) -> _Found:
        first = str(self.schema.key[0])
        near = self.source.keys.within(self.live.fragment.bounds.get(first))
        if turn.stop.is_set() or near.start >= near.stop:
            return _Found(_NOTHING, _NOTHING)
        keys = self.source.keys.table.slice(near.start, near.stop - near.start)
        rows, which = match_keys(self.tools, self.live, keys, self.schema)
        return _Found(rows.astype(np.int32), (which + near.start).astype(np.int32))


class _Load(NamedTuple):
    """Loads the keys of a shard's fragment."""

    freshness: Freshness
    fragment: Fragment
    store: Store
    key: tuple[Field, ...]

    @property
    def nbytes(self) -> int:
        return self.fragment.bytes

    def run(self, turn: Turn) -> Keys | None:
        return None if turn.stop.is_set() else self.freshness.keys(self.fragment, self.store, self.key)


class _Laid:
    """What is laid over a table's state."""

    def __init__(self, freshness: Freshness, state: State) -> None:
        self._freshness = freshness
        self._tools = freshness.tools
        self._state = state
        self._add: list[Fragment] = []
        self._remove: list[str] = []
        self._masks: dict[str, Deleted] = {}
        self._files: dict[str, FileLike] = {}
        self._stores: dict[str, Store] = {}

    def over(self, snapshots: Sequence[Snapshot]) -> tuple[Tools, State]:
        if self._state.schema.key:
            self._lay_keyed(snapshots)
        else:
            self._lay_plain(snapshots)
        if not (self._add or self._remove or self._masks):
            return self._tools, self._state
        around = self._freshness.kept_file
        return (
            overlay_tools(self._tools, masks=self._masks, files=self._files, stores=self._stores, around=around),
            overlay_state(self._state, add=self._add, remove=self._remove, masks=self._masks),
        )

    # -- without a key -----------------------------------------------------------------------------

    def _lay_plain(self, snapshots: Sequence[Snapshot]) -> None:
        for snapshot in snapshots:
            merged = merged_until(self._state, snapshot.shard)
            for one in unmerged(snapshot, merged):
                gone = None if one.first >= merged else self._merged_rows(one.fragment, snapshot.store, merged)
                self._add_fragment(one.fragment, snapshot.store, gone)
            tail = self._freshness.tail(self._state, snapshot)
            if tail is not None:
                self._add_tail(tail)

    def _merged_rows(self, fragment: Fragment, store: Store, merged: int) -> NDArray[np.bool_]:
        file = self._tools.files.open(fragment, store=store)
        parts = [file.read(group, HIDDEN[:1]).column(0).to_numpy() for group in range(len(file.groups))]
        return np.concatenate(parts) < merged

    # -- with one ----------------------------------------------------------------------------------

    def _lay_keyed(self, snapshots: Sequence[Snapshot]) -> None:
        shards = self._sources(snapshots)
        for snapshot, sources in zip(snapshots, shards, strict=True):
            for place, source in enumerate(sources):
                if source.fragment is not None:
                    self._add_fragment(source.fragment, snapshot.store, self._gone(source, sources[:place]))
        self._mask_base([source for sources in shards for source in sources])

    def _sources(self, snapshots: Sequence[Snapshot]) -> list[list[_Source]]:
        """What each shard has beyond the table, the newest first."""
        key = key_fields(self._state.schema)
        wanted: list[tuple[int, ShardFragment]] = []
        for number, snapshot in enumerate(snapshots):
            found = unmerged(snapshot, merged_until(self._state, snapshot.shard))
            wanted += [(number, one) for one in found]
        tasks = (_Load(self._freshness, one.fragment, snapshots[number].store, key) for number, one in wanted)
        loaded = list(in_order(tasks, pace_for(self._tools.store)))
        shards = [self._tail_source(snapshot) for snapshot in snapshots]
        for (number, one), keys in zip(wanted, loaded, strict=True):
            if keys is not None:
                until = merged_until(self._state, snapshots[number].shard)
                merged = None if one.first >= until else keys.merged(until)
                shards[number].append(_Source(one.fragment.name, keys, merged, one.generation, one.fragment))
        return shards

    def _tail_source(self, snapshot: Snapshot) -> list[_Source]:
        tail = self._freshness.tail(self._state, snapshot)
        if tail is None:
            return []
        self._add_tail(tail)
        keys = tail.rows().keys
        return [] if keys is None else [_Source(tail.name, keys, None, 2**63, None)]

    def _gone(self, source: _Source, newer: Sequence[_Source]) -> NDArray[np.bool_] | None:
        """The rows of a source that are not read; None where all are."""
        keys = source.keys
        parts = [part for part in (source.merged, keys.deleted) if part is not None]
        gone = np.logical_or.reduce(parts) if parts else np.zeros(len(keys), np.bool_)
        for one in newer:
            # A memtable may be several fragments, which have no key in common.
            if one.generation > source.generation:
                gone[self._freshness.hidden(source, one)] = True
        return gone

    def _mask_base(self, sources: Sequence[_Source]) -> None:
        """Rows of the table are gone where a shard has their key."""
        wanted = [(live, source) for source in sources for live in candidates(self._state, source.keys.table)]
        hits: dict[str, list[NDArray[np.int32]]] = defaultdict(list)
        touched: dict[str, Live] = {}
        for (live, source), found in zip(wanted, self._freshness.find(wanted, self._state.schema), strict=True):
            rows = found.counting(source.merged)
            if len(rows):
                hits[live.fragment.name].append(rows)
                touched[live.fragment.name] = live
        lives = touched.values()
        before = self._tools.vectors.read_many([(one.vector, one.fragment) for one in lives if one.vector is not None])
        for name, live in touched.items():
            gone = np.zeros(live.fragment.rows, np.bool_)
            for rows in hits[name]:
                gone[rows] = True
            self._mask(live.fragment, Deleted.from_mask(gone), before.get(name))

    def _mask(self, fragment: Fragment, gone: Deleted, before: Deleted | None) -> None:
        if before is not None:
            gone = gone.union(before)
            if gone.count == before.count:
                return
        if gone.count == fragment.rows:
            self._remove.append(fragment.name)
        else:
            self._masks[fragment.name] = gone

    # -- adding ------------------------------------------------------------------------------------

    def _add_fragment(self, fragment: Fragment, store: Store, gone: NDArray[np.bool_] | None) -> None:
        count = 0 if gone is None else int(np.count_nonzero(gone))
        if count == fragment.rows:
            return
        self._add.append(fragment)
        self._stores[fragment.name] = store
        if gone is not None and count:
            self._masks[fragment.name] = Deleted.from_mask(gone)

    def _add_tail(self, tail: Tail) -> None:
        file = tail.rows().file
        if file is not None:
            self._add.append(file.fragment)
            self._files[file.fragment.name] = file


def unmerged(snapshot: Snapshot, merged: int) -> list[ShardFragment]:
    """The fragments that hold rows that are not in the table, the newest first."""
    found = [one for one in snapshot.state.fragments if one.until > merged]
    return sorted(found, key=lambda one: -one.generation)
