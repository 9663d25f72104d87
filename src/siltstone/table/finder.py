"""The rows of one fragment that have a key.

What must hold:
- No row with one of the keys is left out: bounds and bloom filters only rule out what can't match.
- A bloom filter is read only where it can spare more than it costs: many pages may match, or the last search there
  read pages for nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.table import bloom
from siltstone.table.columns import as_keys, comparable, filler
from siltstone.table.reader import Reader, row_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.table import Field
    from siltstone.table.columns import Plan
    from siltstone.table.excerpt import Pick
    from siltstone.table.indexes import Indexes

BLOOM_PAGES = 4  # that may match: from here on the filter is asked
BLOOM_KEYS_MAX = 1024
LOOKUP_PAGES_MAX = 64  # up to here a lookup decodes all columns of the pages that may match
ROUTES_MAX = 16

Found = tuple[np.ndarray, np.ndarray]
_NOTHING = np.empty(0, np.int64)
_ONE = np.zeros(1, np.int64)
_NOTHING.flags.writeable = _ONE.flags.writeable = False  # many answers share them


class _Route(NamedTuple):
    """How some columns are looked up by one: made once, for lookups are many."""

    plan: Plan  # of the column with the keys
    wanted: Plan
    both: Plan  # what was read for the search alone comes last
    place: int  # of the keys among both
    empty: pa.Table  # the answer without rows


class Finder:
    """Finds keys in one fragment. Keys are distinct and not null."""

    def __init__(self, reader: Reader, indexes: Indexes, *, rows: int, groups: int) -> None:
        self._reader = reader
        self._indexes = indexes
        self._rows = rows
        self._groups = groups
        self._routes: dict[tuple[Field, tuple[Field, ...]], _Route] = {}

    def find(self, keys: pa.Array, field: Field) -> Found:
        """The rows that have one of the keys, in order, and which one."""
        plan = self._indexes.plan((field,))
        keys = as_keys(keys, plan)
        if not plan.leaves:
            return self._all_or_none(keys, field)
        return self._search(keys, plan, self._candidates(keys, plan, plan.leaves))

    def lookup(
        self, keys: pa.Array, field: Field, fields: tuple[Field, ...]
    ) -> tuple[np.ndarray, np.ndarray, pa.Table]:
        """The same, and some columns of these rows."""
        route = self._routes.get((field, fields)) or self._route(field, fields)
        plan, wanted, both = route.plan, route.wanted, route.both
        keys = as_keys(keys, plan)
        if not plan.leaves:
            rows, which = self._all_or_none(keys, field)
        else:
            picks = self._candidates(keys, plan, both.leaves if both.flat else plan.leaves)
            if not picks:
                return _NOTHING, _NOTHING, route.empty
            pages = sum(len(pick.counts) if pick.pages is not None else LOOKUP_PAGES_MAX for pick in picks)
            if pages <= LOOKUP_PAGES_MAX and self._reader.aligned(both, picks):
                return self._lookup(keys, route, picks)
            rows, which = self._search(keys, plan, picks)
        table = self._reader.take(wanted, rows) if len(rows) and wanted.leaves else wanted.fill(len(rows))
        return rows, which, table

    def _route(self, field: Field, fields: tuple[Field, ...]) -> _Route:
        plan, wanted = self._indexes.plan((field,)), self._indexes.plan(fields)
        both = wanted if field in fields else self._indexes.plan((*fields, field))
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        made = self._routes[field, fields] = _Route(plan, wanted, both, both.fields.index(field), wanted.fill(0))
        return made

    def _lookup(self, keys: pa.Array, route: _Route, picks: Sequence[Pick]) -> tuple[np.ndarray, np.ndarray, pa.Table]:
        table = self._reader.read(route.both, picks)
        places, which = _match(table.column(route.place), keys)
        self._learn(picks, places)
        if not len(places):
            return _NOTHING, _NOTHING, route.empty
        chosen = _row(table, int(places[0])) if len(places) == 1 else table.take(pa.array(places))
        if route.both is not route.wanted:
            chosen = chosen.remove_column(route.place)
        return row_numbers(places, picks), which, chosen

    def _search(self, keys: pa.Array, plan: Plan, picks: Sequence[Pick]) -> Found:
        rows, keys_of = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for batch in self._reader.batches(picks, plan):
            places, which = _match(self._reader.read(plan, batch).column(0), keys)
            self._learn(batch, places)
            rows.append(row_numbers(places, batch))
            keys_of.append(which)
        return np.concatenate(rows), np.concatenate(keys_of)

    def _all_or_none(self, keys: pa.Array, field: Field) -> Found:
        """Where the file lacks the column all rows have its default."""
        _, which = _match(filler(field, 1), keys)
        rows = np.arange(self._rows if len(which) else 0, dtype=np.int64)
        return rows, np.full(len(rows), which[0] if len(which) else 0, np.int64)

    def _candidates(self, keys: pa.Array, plan: Plan, leaves: Sequence[int]) -> list[Pick]:
        """The pages that may hold one of the keys. The page indexes of ``leaves`` are loaded along."""
        values = comparable(keys)
        limits = self._indexes.group_limits(plan) if values is not None else None
        if values is None or limits is None:
            return [self._reader.all_of(group) for group in range(self._groups)]
        ordered = np.sort(values) if len(values) > 1 else values
        groups = limits.may_hold(ordered)
        self._indexes.load(groups, leaves if len(keys) <= LOOKUP_PAGES_MAX else plan.leaves, bounded=plan)
        sieve = _Sieve(self._indexes, plan, keys, values)
        picks = [self._pick(group, plan, ordered, sieve) for group in groups]
        return [pick for pick in picks if pick is not None]

    def _pick(self, group: int, plan: Plan, ordered: np.ndarray, sieve: _Sieve) -> Pick | None:
        limits = self._indexes.page_limits(group, plan)
        chosen = limits.may_hold(ordered) if limits is not None else None
        if chosen == []:
            return None
        many = chosen is None or len(chosen) > BLOOM_PAGES * len(ordered)
        left = sieve.left(group, fetch=many or group in self._indexes.missed)
        if left is not None and limits is not None and len(left) < len(ordered):
            chosen = limits.may_hold(left) if len(left) else []
        if chosen == [] or (left is not None and not len(left)):
            return None
        if chosen is None:
            return self._reader.all_of(group)
        return self._reader.pages_of(group, chosen, self._indexes.index(group, plan.leaves[0]).layout)

    def _learn(self, picks: Sequence[Pick], places: np.ndarray) -> None:
        if not len(places):
            self._indexes.missed.update(pick.group for pick in picks)


class _Sieve:
    """Which of some keys a row group may hold, by its bloom filter."""

    def __init__(self, indexes: Indexes, plan: Plan, keys: pa.Array, values: np.ndarray) -> None:
        self._indexes = indexes
        self._plan = plan
        self._keys = keys
        self._values = values

    def left(self, group: int, *, fetch: bool) -> np.ndarray | None:
        """The values of the keys that are left, in order; None where no filter was asked."""
        if len(self._keys) > BLOOM_KEYS_MAX:
            return None
        found = self._indexes.bloom(group, self._plan.leaves[0], fetch=fetch)
        if found is None or self._stored is None:
            return None
        if len(self._keys) == 1:
            return self._values if found.might_contain_one(bloom.hash_one(self._stored)) else _NOTHING
        return np.sort(self._values[found.might_contain(self._hashes)])

    @cached_property
    def _hashes(self) -> np.ndarray:
        return bloom.hashes(self._stored)

    @cached_property
    def _stored(self) -> pa.Array | None:
        """The keys in the file's type; None where they are not hashed."""
        kind = self._indexes.type_of(self._plan).arrow
        if not bloom.can_hash(kind):
            return None
        try:
            return self._keys if self._keys.type == kind else self._keys.cast(kind)
        except pa.ArrowException:
            return None  # a key that the file's narrower type can't hold


def _match(column: pa.ChunkedArray, keys: pa.Array) -> Found:
    """Where a column has one of the keys, and which."""
    if len(keys) == 1:
        places = _places(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks(), keys)
        return places, _ONE if len(places) == 1 else np.zeros(len(places), np.int64)
    ordered = _search(column, keys)
    if ordered is not None:
        return ordered
    which = pc.index_in(column, value_set=keys).fill_null(-1).to_numpy()
    places = np.flatnonzero(which >= 0)
    return places, which[places].astype(np.int64)


def _search(column: pa.ChunkedArray, keys: pa.Array) -> Found | None:
    """The same by bisection, several times faster; None where it can't be done."""
    if column.null_count or column.type != keys.type or not kinds.is_integer(keys.type) or not len(column):
        return None
    values, wanted = column.to_numpy(), keys.to_numpy()
    if not (_ascends(values) and _ascends(wanted)):
        return None
    places = np.searchsorted(values, wanted)
    found = np.flatnonzero(values[np.minimum(places, len(values) - 1)] == wanted)
    return places[found], found


def _ascends(values: np.ndarray) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _places(values: pa.Array, key: pa.Array) -> np.ndarray:
    if kinds.is_integer(values.type) and not values.null_count:
        return (values.to_numpy() == key[0].as_py()).nonzero()[0]  # several times faster
    same = pc.equal(values, key[0])
    return np.flatnonzero((same.fill_null(False) if same.null_count else same).to_numpy(zero_copy_only=False))


def _row(table: pa.Table, place: int) -> pa.Table:
    """One row, with memory of its own; faster than ``take``."""
    # Two chunks become one by a copy, even where the first is empty.
    return pa.concat_tables([table.slice(0, 0), table.slice(place, 1)]).combine_chunks()
