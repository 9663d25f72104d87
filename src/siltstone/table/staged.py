"""Work of many processes that becomes one version: what they need, what they send back, how it is put together.

What must hold:
- What a process writes is in no version until the one that gathers commits it; a process that is run twice, or
  killed, leaves objects that nothing names.
- What is sent is small: names and numbers of rows. Keys are read from the fragments where they are needed.
- In a keyed table no key is in the work of two processes: there is no order between them that says which counts.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import pyarrow as pa

from siltstone.env import REAL
from siltstone.errors import DuplicateKeyError, InternalError
from siltstone.table.inserts import Inserted, Twice, given_twice, write_rows
from siltstone.table.keys import duplicates, key_array
from siltstone.table.lookup import match_keys
from siltstone.table.predicate import parse_predicate
from siltstone.table.row_set import RowSet, row_set
from siltstone.table.scan import matching
from siltstone.table.schema import arrow_schema, key_fields
from siltstone.table.tools import Tools, make_tools
from siltstone.table.update import Copied, copy_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from siltstone.format.rollup import Live
    from siltstone.format.table import Fragment, Schema
    from siltstone.store.base import Store
    from siltstone.table.operations import Matched
    from siltstone.table.vectors import Deleted

STORES_MAX = 8  # whose readers a process keeps


@dataclass(frozen=True)
class Site:
    """What a process needs to work on a table's objects: no log, and no commit store."""

    store: Store = field(repr=False)
    schema: Schema
    base: int  # the version that the work starts from
    log: str = ""  # the id of its log: tables come and go at one place
    moment: int = field(default_factory=time.time_ns, compare=False)  # that now() is in all processes

    def tools(self) -> Tools:
        """The readers of this process; they stay for the next task."""
        return _tools(pickle.dumps(self.store))


@lru_cache(STORES_MAX)
def _tools(store: bytes) -> Tools:
    return make_tools(pickle.loads(store), REAL)  # noqa: S301 - it was pickled in the line above


@dataclass(frozen=True)
class Staged:
    """Fragments that a process wrote, and the rows in them that its own later ones replace."""

    fragments: tuple[Fragment, ...] = ()
    replaced: dict[str, Deleted] = field(default_factory=dict)


def stage_rows(site: Site, data: object, *, twice: Twice) -> Staged:
    """Write rows as fragments."""
    try:
        inserted = write_rows(site.tools(), site.schema, data, base=site.base, twice=twice)
    except DuplicateKeyError as error:  # here upsert() refuses them too
        names = [one.name for one in key_fields(site.schema)]
        raise DuplicateKeyError(error.message, hint=_one_each(names), **error.facts) from None
    return Staged(inserted.fragments, inserted.replaced)


class StoredKeys(Sequence[pa.Table]):
    """The key columns of fragments, read when they are asked for."""

    def __init__(self, tools: Tools, schema: Schema, fragments: Sequence[Fragment]) -> None:
        self._tools = tools
        self._fields = key_fields(schema)
        self._fragments = fragments

    def __len__(self) -> int:
        return len(self._fragments)

    @overload
    def __getitem__(self, number: int) -> pa.Table: ...
    @overload
    def __getitem__(self, number: slice) -> list[pa.Table]: ...
    def __getitem__(self, number: int | slice) -> pa.Table | list[pa.Table]:
        if isinstance(number, slice):
            return [self._read(one) for one in self._fragments[number]]
        return self._read(self._fragments[number])

    def _read(self, fragment: Fragment) -> pa.Table:
        file = self._tools.files.open(fragment)
        return pa.concat_tables([file.read(group, self._fields) for group in range(len(file.groups))])


def gather(tools: Tools, schema: Schema, staged: Iterable[Staged]) -> Inserted:
    """All that processes wrote, as one operation's rows.

    Raises:
        DuplicateKeyError: two of them brought a row with the same key.
    """
    staged = [one for one in staged if one.fragments]
    fragments = tuple(fragment for one in staged for fragment in one.fragments)
    replaced = {name: gone for one in staged for name, gone in one.replaced.items()}
    if not schema.key:
        return Inserted(schema, fragments)
    keys = StoredKeys(tools, schema, fragments)
    owners = [number for number, one in enumerate(staged) for _ in one.fragments]
    for crowd in _crowds(fragments, schema):
        if len({owners[number] for number in crowd}) > 1:
            _check_apart([_left(keys[number], fragments[number], replaced) for number in crowd])
    return Inserted(schema, fragments, keys, replaced)


def _crowds(fragments: Sequence[Fragment], schema: Schema) -> Iterator[list[int]]:
    """Numbers of fragments whose keys may meet, by the statistics of the key's first column."""
    bounds = [one.bounds.get(str(schema.key[0])) for one in fragments]
    ends = [(one.low, one.high) for one in bounds if one is not None and one.low is not None and one.high is not None]
    if len(ends) < len(fragments):
        yield list(range(len(fragments)))
        return
    crowd: list[int] = []
    reach: object = None
    for number in sorted(range(len(fragments)), key=lambda one: ends[one]):
        low, high = ends[number]
        if crowd and low > reach:  # type: ignore[operator]
            yield crowd
            crowd, reach = [], None
        crowd.append(number)
        reach = high if reach is None else max(reach, high)  # type: ignore[call-overload]
    if crowd:
        yield crowd


def _left(keys: pa.Table, fragment: Fragment, replaced: Mapping[str, Deleted]) -> pa.Table:
    gone = replaced.get(fragment.name)
    return keys if gone is None else keys.filter(pa.array(~gone.mask()))


def _check_apart(keys: Sequence[pa.Table]) -> None:
    """Refuse keys that are in the work of two processes; what one brought was looked at by itself."""
    table = pa.concat_tables(keys)
    again = duplicates(key_array(table, table.column_names))
    if len(again):
        raise given_twice(table, again, hint=_one_each(table.column_names))


def _one_each(names: Sequence[str]) -> str:
    listed = ", ".join(f'"{ascii(name)[1:-1]}"' for name in names)
    return (
        f"leave one row for each key: dropDuplicates([{listed}]) keeps any, row_number() over a window the one you say"
    )


# -- rows of the table that are concerned ----------------------------------------------------------


class Met(NamedTuple):
    """Rows of a fragment, deleted ones too, that have the keys of some fragments that were written."""

    name: str
    rows: dict[int, np.ndarray]  # by the number of the fragment that was written


def meet(site: Site, live: Live, written: Mapping[int, Fragment]) -> Met:
    """Find the rows of a fragment that have a key of those that were written, given by their numbers."""
    tools = site.tools()
    stored = StoredKeys(tools, site.schema, list(written.values()))
    keys = pa.concat_tables(stored[:]).combine_chunks()
    ends = np.cumsum([one.rows for one in written.values()])
    rows, which = _first_matches(tools, site.schema, live, keys)
    owner = np.searchsorted(ends, which, "right")
    return Met(live.fragment.name, {number: rows[owner == place] for place, number in enumerate(written)})


def _first_matches(tools: Tools, schema: Schema, live: Live, keys: pa.Table) -> Matched:
    """As ``match_keys``, for keys of which some may come again."""
    plain = key_array(keys, keys.column_names)
    again = duplicates(plain)
    if not len(again):
        return match_keys(tools, live, keys, schema)
    keep = np.ones(len(plain), np.bool_)
    keep[again] = False
    rows, which = match_keys(tools, live, keys.filter(pa.array(keep)), schema)
    return rows, np.flatnonzero(keep)[which]


def as_matched(met: Iterable[Met], count: int) -> dict[tuple[str, int], Matched]:
    """What processes found, for the operation that commits it; ``count`` fragments were written."""
    found: dict[tuple[str, int], Matched] = {}
    for one in met:
        if any(number >= count for number in one.rows):
            raise InternalError(f"{one.name} was compared with more fragments than {count}")
        for number, rows in one.rows.items():
            found[one.name, number] = (rows, np.zeros(len(rows), np.int8))
    return found


_NO_ROWS = row_set(np.empty(0, np.int64), rows=0)


class Chosen(NamedTuple):
    """Rows of a fragment that match a filter, deleted ones too, and their copies with new values, if any."""

    name: str
    rows: RowSet
    copied: tuple[Fragment, ...] = ()
    left: RowSet = _NO_ROWS  # the rows that were copied: those that were not deleted


def choose(site: Site, live: Live, where: str | None, values: Mapping[str, str] | None = None) -> Chosen:
    """Find the rows of a fragment that match, and write copies of them with new values, if there are any."""
    tools = site.tools()
    if where is None:
        rows = np.arange(live.fragment.rows)
    else:
        rows = matching(tools, live, parse_predicate(where, arrow_schema(site.schema)), site.schema)
    found = Chosen(live.fragment.name, row_set(rows, rows=live.fragment.rows))
    if live.vector is not None and len(rows):
        rows = rows[~tools.vectors.read(live.vector, live.fragment).mask()[rows]]
    if values is None or not len(rows):
        return found
    done = copy_rows(tools, site.schema, values, [(live.fragment, rows)], base=site.base, moment=site.moment)
    return found._replace(copied=done.inserted.fragments, left=row_set(rows, rows=live.fragment.rows))


def as_copied(tools: Tools, schema: Schema, live: Live, chosen: Chosen) -> Copied:
    """The copies that a process made, for the operation that commits them."""
    keys = StoredKeys(tools, schema, chosen.copied) if schema.key else ()
    return Copied(schema, ((live.fragment, chosen.left),), Inserted(schema, chosen.copied, keys))
