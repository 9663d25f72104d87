"""Rows by their keys, from a table together with its shards.

What must hold:
- Sources are asked from the newest to the oldest: a shard's tail, its fragments by generation, then the table. The
  first one that has a key settles it; a tombstone ends the search for it.
- Rows that are merged do not count: the table has them, or what came after them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone.format.rollup import Live
from siltstone.shard.chunks import DELETED, POSITION
from siltstone.shard.fresh import unmerged
from siltstone.shard.fresh_cache import merged_until
from siltstone.shard.fresh_keys import HIDDEN
from siltstone.shard.memtable import GONE
from siltstone.table.keys import key_array
from siltstone.table.lookup import get, get_rows, in_order_of, key_rows, match_keys, one_key
from siltstone.table.overlay import overlay_tools
from siltstone.table.reading import chosen_schema
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import key_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.format.table import Field, Fragment
    from siltstone.shard.fresh import Freshness
    from siltstone.shard.fresh_keys import Keys
    from siltstone.shard.fresh_tail import Tail
    from siltstone.shard.snapshot import Snapshot
    from siltstone.store.base import Store
    from siltstone.table.lookup import OneKey
    from siltstone.table.state import State
    from siltstone.table.tools import Tools


def fresh_get(  # noqa: PLR0917 - what `get` of a table takes, and where else rows are
    tools: Tools,
    freshness: Freshness,
    state: State,
    snapshots: Sequence[Snapshot],
    keys: object,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The rows that have one of ``keys``, in the order asked for; a key that is not there, or asked for again, is not.

    ``snapshots`` are those of the shards that may have the keys, taken before the state.

    Raises:
        InvalidInputError: the table has no key, or a key is none of its type; the message names the row of it.
    """
    shards = _Shards(freshness, state, chosen_fields(state.schema, columns), key_fields(state.schema))
    one = one_key(keys, shards.key[0]) if len(shards.key) == 1 else None
    if one is not None:
        found = shards.settle_one(snapshots, one)
        return get(tools, state, keys, columns) if found is None else found
    return _get_many(tools, shards, snapshots, key_rows(state.schema, keys))


def _get_many(tools: Tools, shards: _Shards, snapshots: Sequence[Snapshot], wanted: pa.Table) -> pa.Table:
    open_ = np.ones(wanted.num_rows, np.bool_)  # keys that nothing has settled yet
    tables: list[pa.Table] = []
    places: list[NDArray[np.int64]] = []
    for snapshot in snapshots:
        for source in shards.sources(snapshot):
            asked = np.flatnonzero(open_)
            if not len(asked):
                break
            answer = shards.ask(source, wanted if len(asked) == wanted.num_rows else wanted.take(pa.array(asked)))
            open_[asked[answer.settled]] = False
            if answer.rows.num_rows:
                tables.append(answer.rows)
                places.append(asked[answer.which])
    asked = np.flatnonzero(open_)
    if len(asked):
        rest, which = get_rows(tools, shards.state, wanted.take(pa.array(asked)), shards.fields)
        tables += rest
        places += [asked[one] for one in which]
    return in_order_of(tables, places) if tables else shards.none()


class _Answer(NamedTuple):
    """What a source says to some keys: rows, the place of each one's key, and the places of all that it settles."""

    rows: pa.Table
    which: NDArray[np.int64]
    settled: NDArray[np.int64]


class _Part(NamedTuple):
    """A fragment of a shard, whose rows count from position ``merged`` on."""

    fragment: Fragment
    store: Store
    merged: int


class _Shards(NamedTuple):
    """What is asked of shards: some columns of the rows that have a key."""

    freshness: Freshness
    state: State
    fields: tuple[Field, ...]
    key: tuple[Field, ...]

    def none(self) -> pa.Table:
        """No rows."""
        return _schema(self.fields).empty_table()

    def sources(self, snapshot: Snapshot) -> list[Tail | _Part]:
        """What a shard has beyond the table, the newest first."""
        tail = self.freshness.tail(self.state, snapshot)
        merged = merged_until(self.state, snapshot.shard)
        parts = (_Part(one.fragment, snapshot.store, merged) for one in unmerged(snapshot, merged))
        return [*parts] if tail is None else [tail, *parts]

    # -- one key -----------------------------------------------------------------------------------

    def settle_one(self, snapshots: Sequence[Snapshot], one: OneKey) -> pa.Table | None:
        """The row of a key, or none where a tombstone says so; None where the shards say nothing of it."""
        for snapshot in snapshots:
            for source in self.sources(snapshot):
                found = self._one_in_part(source, one) if isinstance(source, _Part) else self._one_in_tail(source, one)
                if found is not None:
                    return found
        return None

    def _one_in_tail(self, tail: Tail, one: OneKey) -> pa.Table | None:
        row = tail.get_one(one.value)
        if row is None:
            return None
        return self.none() if row is GONE else self._shaped(row)

    def _one_in_part(self, part: _Part, one: OneKey) -> pa.Table | None:
        keys = self.freshness.keys_if_worth(part.fragment, part.store, self.key)
        if keys is None:
            answer = self._ask_file(part, pa.Table.from_arrays([one.array], names=[self.key[0].name]))
            return answer.rows if len(answer.settled) else None
        row = keys.find_one(one.value)
        if row < 0 or keys.positions[row] < part.merged:
            return None
        if keys.deleted is not None and keys.deleted[row]:
            return self.none()
        return self._take(part, np.array([row], np.int64))

    # -- many --------------------------------------------------------------------------------------

    def ask(self, source: Tail | _Part, wanted: pa.Table) -> _Answer:
        """What a source says to keys."""
        if not isinstance(source, _Part):
            found = source.get(wanted)
            return _Answer(self._shaped(found.rows), found.which, np.concatenate([found.which, found.gone]))
        keys = self.freshness.keys_if_worth(source.fragment, source.store, self.key)
        return self._ask_file(source, wanted) if keys is None else self._ask_keys(source, keys, wanted)

    def _ask_keys(self, part: _Part, keys: Keys, wanted: pa.Table) -> _Answer:
        rows = keys.find(key_array(wanted, [one.name for one in self.key]))
        settled = np.flatnonzero(rows >= 0)
        settled = settled[keys.positions[rows[settled]] >= part.merged]
        there = settled if keys.deleted is None else settled[~keys.deleted[rows[settled]]]
        there = there[np.argsort(rows[there])]
        return _Answer(self._take(part, rows[there]), there, settled)

    def _ask_file(self, part: _Part, wanted: pa.Table) -> _Answer:
        """The same from the pages of the file that may have a key."""
        tools = self.freshness.tools
        file = tools.files.open(part.fragment, store=part.store)
        fields = (*self.fields, *HIDDEN)
        if len(self.key) == 1:
            first = wanted.column(0)
            first = first.chunk(0) if first.num_chunks == 1 else first.combine_chunks()
            _, which, found = file.lookup(first, self.key[0], fields)
        else:
            here = overlay_tools(tools, masks={}, files={part.fragment.name: file}, stores={})
            rows, which = match_keys(here, Live(part.fragment, None), wanted, self.state.schema)
            found = file.take(rows, fields)
        counts = found.column(POSITION).to_numpy() >= part.merged
        there = counts & ~found.column(DELETED).to_numpy()
        rows_found = found.select([one.name for one in self.fields])
        return _Answer(rows_found if there.all() else rows_found.filter(pa.array(there)), which[there], which[counts])

    # -- rows --------------------------------------------------------------------------------------

    def _take(self, part: _Part, rows: NDArray[np.int64]) -> pa.Table:
        """Rows of a fragment, whose numbers ascend."""
        whole = self.freshness.rows_if_worth(part.fragment, part.store, self.state.schema.fields)
        if whole is None:
            return self.freshness.tools.files.open(part.fragment, store=part.store).take(rows, self.fields)
        if len(rows) != 1:
            return self._shaped(whole.take(pa.array(rows)))
        # Two chunks become one by a copy: the row does not keep all others in memory.
        row = self._shaped(whole.slice(int(rows[0]), 1))
        return pa.concat_tables([row.slice(0, 0), row]).combine_chunks()

    def _shaped(self, rows: pa.Table) -> pa.Table:
        """The columns that were asked for."""
        return pa.Table.from_arrays([rows.column(one.name) for one in self.fields], schema=_schema(self.fields))


@lru_cache(maxsize=64)
def _schema(fields: tuple[Field, ...]) -> pa.Schema:
    return chosen_schema(fields)
