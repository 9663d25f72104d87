"""Rows by their keys: which fragments may hold them, and which rows of those do.

What must hold:
- A fragment is left out only where its statistics rule every key out; statistics of all fragments are compared at
  once, and no record is made of one that is left out.
- A key is in at most one row that is not deleted, so looking ends with the last key that was found.
- Keys are those of the table's own types, or they are refused: nothing is parsed, rounded or guessed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError
from siltstone.table.bounds import term
from siltstone.table.keys import as_integers, duplicates, key_array, match
from siltstone.table.reading import chosen_schema
from siltstone.table.rows import batches
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import first_names, key_fields
from siltstone.table.stream import ALONE, Turn, in_order, pace_for

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from siltstone.format.rollup import Live
    from siltstone.format.table import Field, Schema
    from siltstone.table.fragments import ColumnBounds
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

EACH_MAX = 10_000  # keys that are compared one by one with the bounds of fragments, where they are texts
FEW_ROWS = 64  # up to here deleted rows are looked up one by one


_LOG_MOST = int(np.iinfo(np.int64).max)  # the log has no bounds above it
_RANGES = {
    str(kind): (kind, int(np.iinfo(kind.to_pandas_dtype()).min), int(np.iinfo(kind.to_pandas_dtype()).max))
    for kind in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    )
}  # fmt: skip
_TEXT = pa.string()


class Matches(NamedTuple):
    """Rows of a fragment that have one of some keys, deleted ones too, and which key each of them has."""

    live: Live
    rows: NDArray[np.int64]
    which: NDArray[np.int64]


def get(tools: Tools, state: State, keys: object, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows that have one of ``keys``, in the order asked for; a key that is not there, or asked for again, is not.

    Raises:
        InvalidInputError: the table has no key, or a key is none of its type; the message names the row of it.
    """
    fields = chosen_fields(state.schema, columns)
    key = key_fields(state.schema)
    one = one_key(keys, key[0]) if len(key) == 1 else None
    if one is not None:
        lives = _holders(state, key[0], one.value)
        wanted = _Wanted(state.schema, key, one.array, None, fields)
    else:
        rows = key_rows(state.schema, keys)
        lives = candidates(state, rows)
        wanted = _Wanted(state.schema, key, _combined(rows.column(0)), rows, fields)
    tables, places = _look_up(tools, lives, wanted)
    return in_order_of(tables, places) if tables else chosen_schema(fields).empty_table()


def get_rows(
    tools: Tools, state: State, keys: pa.Table, fields: tuple[Field, ...]
) -> tuple[list[pa.Table], list[NDArray[np.int64]]]:
    """The rows that have one of some distinct keys, in parts, and of each part which key each row has."""
    wanted = _Wanted(state.schema, key_fields(state.schema), _combined(keys.column(0)), keys, fields)
    return _look_up(tools, candidates(state, keys), wanted)


def _look_up(tools: Tools, lives: Sequence[Live], wanted: _Wanted) -> tuple[list[pa.Table], list[NDArray[np.int64]]]:
    # The newest first: what was written last is asked for most.
    lookups = (_Lookup(tools, live, wanted) for live in reversed(lives))
    tables: list[pa.Table] = []
    places: list[NDArray[np.int64]] = []
    missing = len(wanted.first)
    with closing(_each(tools, lookups)) as answers:
        for table, which in answers:
            if len(which):
                tables.append(table)
                places.append(which)
                missing -= len(which)
            if not missing:
                break
    return tables, places


def candidates(state: State, keys: pa.Table) -> list[Live]:
    """The fragments that may hold a row with one of some keys; ``keys`` has the key's columns."""
    fragments = state.fragments
    keep = np.ones(fragments.slots, np.bool_)
    if not keys.num_rows:
        keep[:] = False
    for column in key_fields(state.schema):
        bounds = fragments.bounds(column.id)
        if bounds is not None:
            keep &= _may_hold(bounds, _combined(keys.column(column.name)))
    return fragments.select(keep)


def match_keys(tools: Tools, live: Live, keys: pa.Table, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of a fragment that have one of some distinct keys, deleted ones too, and which key each of them has."""
    file = tools.files.open(live.fragment)
    key = key_fields(schema)
    first = _combined(keys.column(key[0].name))
    if len(key) == 1:
        return file.find(first, key[0])
    rows, _ = file.find(first.unique(), key[0])
    if not len(rows):
        return rows, rows
    names = [one.name for one in key]
    which = match(key_array(keys, names), key_array(file.take(rows, key), names))
    there = which >= 0
    return rows[there], which[there]


def find_keys(tools: Tools, lives: Iterable[Live], keys: pa.Table, schema: Schema) -> Iterator[Matches]:
    """The rows of fragments that have one of some distinct keys; fragments without any are left out."""
    found = in_order((_Match(tools, one, keys, schema) for one in lives), pace_for(tools.store))
    with closing(found):
        for one in found:
            if len(one.rows):
                yield one


@dataclass(frozen=True)
class _Match:
    tools: Tools
    live: Live
    keys: pa.Table
    schema: Schema
    nbytes: int = 8 * 1024 * 1024  # about what a batch of rows takes

    def run(self, turn: Turn) -> Matches:
        if turn.stop.is_set():
            return Matches(self.live, np.empty(0, np.int64), np.empty(0, np.int64))
        return Matches(self.live, *match_keys(self.tools, self.live, self.keys, self.schema))


class _Wanted(NamedTuple):
    """What is asked for: distinct keys, and columns of their rows."""

    schema: Schema
    key: tuple[Field, ...]
    first: pa.Array  # the first column of the keys
    keys: pa.Table | None  # all of them; None for a single value, which needs no table
    fields: tuple[Field, ...]


class _Lookup(NamedTuple):
    """The rows of one fragment that have one of some keys and are not deleted."""

    tools: Tools
    live: Live
    wanted: _Wanted
    nbytes: int = 1024 * 1024

    def run(self, turn: Turn) -> tuple[pa.Table, NDArray[np.int64]]:
        if turn.stop.is_set():
            return pa.table({}), np.empty(0, np.int64)
        file = self.tools.files.open(self.live.fragment)
        schema, key, first, keys, fields = self.wanted
        if keys is None or len(key) == 1:
            rows, which, table = file.lookup(first, key[0], fields)
            there = self._there(rows)
            return (table, which) if there is None else (table.filter(pa.array(there)), which[there])
        rows, which = match_keys(self.tools, self.live, keys, schema)
        there = self._there(rows)
        if there is not None:
            rows, which = rows[there], which[there]
        return file.take(rows, fields), which

    def _there(self, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which of some rows are not deleted; None where all are there."""
        if self.live.vector is None or not len(rows):
            return None
        deleted = self.tools.vectors.read(self.live.vector, self.live.fragment)
        if len(rows) == 1:
            return np.zeros(1, np.bool_) if deleted.slice(int(rows[0]), 1)[0] else None
        if len(rows) <= FEW_ROWS:
            gone = np.array([deleted.slice(row, 1)[0] for row in rows.tolist()], np.bool_)
        else:
            gone = deleted.mask()[rows]
        return ~gone if gone.any() else None


def _each(tools: Tools, lookups: Iterator[_Lookup]) -> Generator[tuple[pa.Table, NDArray[np.int64]], None, None]:
    """What lookups find; those behind a network overlap."""
    if tools.store.traits.cheap_probes:
        for one in lookups:
            yield one.run(ALONE)
    else:
        yield from in_order(lookups, pace_for(tools.store, first=1))


def in_order_of(tables: Sequence[pa.Table], places: Sequence[NDArray[np.int64]]) -> pa.Table:
    """Rows in the order of their keys' places."""
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    which = places[0] if len(places) == 1 else np.concatenate(places)
    if len(which) < 2 or bool((np.diff(which) > 0).all()):
        return table
    return table.take(pa.array(np.argsort(which)))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# -- which fragments may hold them -----------------------------------------------------------------


def _holders(state: State, column: Field, value: int | str) -> list[Live]:
    """The fragments that may hold one value of the key."""
    bounds = state.fragments.bounds(column.id)
    if bounds is None or (bounds.low.dtype == object) != isinstance(value, str):
        return state.fragments.select(np.ones(state.fragments.slots, np.bool_))
    return state.fragments.select(_around(bounds, value if isinstance(value, str) else min(value, _LOG_MOST)))


def _around(bounds: ColumnBounds, value: Any) -> NDArray[np.bool_]:
    """Which fragments may hold a value, which is in the terms of bounds in the log."""
    wanted = term(value)
    return np.asarray((bounds.low <= wanted) & (bounds.high >= wanted) | ~bounds.known, dtype=np.bool_)


def _may_hold(bounds: ColumnBounds, values: pa.Array) -> NDArray[np.bool_]:
    """Which fragments may hold one of some values in a column, by its bounds."""
    if len(values) > EACH_MAX and as_integers(values) is None:
        return _may_overlap(bounds, values)
    ordered = _ordered(values)
    if ordered is None or (ordered.dtype == object) != (bounds.low.dtype == object):
        return np.ones(len(bounds.known), np.bool_)
    if len(ordered) == 1:
        return _around(bounds, ordered[0])
    first = np.searchsorted(ordered, bounds.low, "left")
    found = first < np.searchsorted(ordered, bounds.high, "right")
    return np.asarray(found, dtype=np.bool_) | ~bounds.known


def _may_overlap(bounds: ColumnBounds, values: pa.Array) -> NDArray[np.bool_]:
    """The same by the least and the greatest value alone."""
    extremes = pc.min_max(values)
    ends = _ordered(pa.array([extremes["min"].as_py(), extremes["max"].as_py()], values.type))
    if ends is None or bounds.low.dtype != object:
        return np.ones(len(bounds.known), np.bool_)
    found = (bounds.low <= term(ends[1])) & (bounds.high >= term(ends[0]))
    return np.asarray(found, dtype=np.bool_) | ~bounds.known


def _ordered(values: pa.Array) -> NDArray[Any] | None:
    """Values in order, in the terms of bounds in the log; None where they have none there."""
    kind = values.type
    plain = as_integers(values)
    if plain is not None:
        if kinds.is_uint64(kind):
            plain = np.minimum(plain, _LOG_MOST)
        ordered: NDArray[Any] = np.sort(plain.astype(np.int64, copy=False))
        return ordered
    if kinds.is_string(kind):
        return _objects(sorted(values.to_pylist()))
    if kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind):
        return _objects(sorted(one.hex() for one in values.to_pylist()))
    return None


def _objects(values: list[Any]) -> NDArray[Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


# -- what is asked for -----------------------------------------------------------------------------


def key_rows(schema: Schema, keys: object) -> pa.Table:
    """Whatever a user hands in as keys, as the key's columns; each key once, in the order it first comes."""
    table = given_keys(schema, keys)
    if table.num_rows < 2:
        return table
    again = duplicates(key_array(table, table.column_names))
    if not len(again):
        return table
    keep = np.ones(table.num_rows, np.bool_)
    keep[again] = False
    return table.filter(pa.array(keep))


def given_keys(schema: Schema, keys: object) -> pa.Table:
    """The same with those that come again, too."""
    key = key_fields(schema)
    if not key:
        raise InvalidInputError(
            "the table has no key to look rows up by", hint="use scan(where=...), or create the table with key="
        )
    if len(key) == 1 and (one := one_key(keys, key[0])) is not None:
        return pa.Table.from_arrays([one.array], names=[key[0].name])
    names = [one.name for one in key]
    only = msgspec.structs.replace(schema, fields=tuple(msgspec.structs.replace(one, default=None) for one in key))
    found = list(batches(_as_columns(keys, names), only))
    return pa.concat_tables(found) if found else pa.table({one.name: [] for one in key})


class OneKey(NamedTuple):
    """A single key."""

    value: int | str
    array: pa.Array


def one_key(keys: object, column: Field) -> OneKey | None:
    """A single key that needs no further checks, which is what is asked for most; None for all others."""
    value = keys[0] if type(keys) is list and len(keys) == 1 else keys
    if type(value) is int and (found := _RANGES.get(column.type)) is not None:
        kind, low, high = found
        if not low <= value <= high:
            return None
        plain = value.to_bytes(kind.byte_width, sys.byteorder, signed=low < 0)  # faster than pa.array
        return OneKey(value, pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(plain)]))
    if type(value) is str and column.type == "string" and value.isascii():
        return OneKey(value, pa.array([value], _TEXT))
    return None


def _as_columns(keys: Any, names: Sequence[str]) -> object:
    """Keys in a form that rows come in."""
    if isinstance(keys, Mapping):
        # One composite key as a dict, or columns of them.
        plain = all(
            not isinstance(one, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray) for one in keys.values()
        )
        return [dict(keys)] if plain else keys
    if _is_table(keys) or (isinstance(keys, list | tuple) and keys and isinstance(keys[0], Mapping)):
        return keys
    if len(names) == 1:
        return {names[0]: _as_column(keys)}
    if isinstance(keys, tuple) and not any(isinstance(one, tuple | list | Mapping) for one in keys):
        keys = [keys]
    if not isinstance(keys, list | tuple):
        raise InvalidInputError(
            f"keys must be tuples of {first_names(names)}, got {type(keys).__name__}",
            hint="pass a list of tuples or dicts, or a table with these columns",
        )
    for row, one in enumerate(keys):
        if not isinstance(one, tuple | list) or len(one) != len(names):
            raise InvalidInputError(
                f"key {row} is no tuple of the {len(names)} values {first_names(names)}",
                hint="pass tuples in the order of the key's columns, or dicts",
                row=row,
            )
    return {name: [one[place] for one in keys] for place, name in enumerate(names)}


def _as_column(keys: Any) -> object:
    """Keys of one column, as values of it."""
    if isinstance(keys, pa.Scalar):
        return [keys.as_py()]
    if isinstance(keys, np.ndarray):
        return keys if keys.ndim else [keys.item()]
    if isinstance(keys, str | bytes | bytearray) or not hasattr(keys, "__iter__"):
        return [keys]
    known = isinstance(keys, list | tuple | pa.Array | pa.ChunkedArray) or hasattr(keys, "__arrow_c_stream__")
    return keys if known or hasattr(keys, "iloc") else list(keys)


def _is_table(keys: Any) -> bool:
    """Whether keys come with the names of their columns."""
    if isinstance(keys, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    return hasattr(keys, "columns") and (hasattr(keys, "iloc") or hasattr(keys, "__arrow_c_stream__"))
