"""Rows on their way in: checked, cut into fragments and written, before anything refers to them.

What must hold:
- What was written here is in no version: a transaction that fails leaves fragments that nothing names.
- In a keyed table no key is twice in what one call brings: ``append`` refuses, ``upsert`` keeps the last.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from siltstone.errors import DuplicateKeyError
from siltstone.table.fragment import FragmentWriter, Written
from siltstone.table.keys import SHOWN_MOST, check_batch_keys, duplicates, key_array, last_of_each, match, show_keys
from siltstone.table.rows import batches
from siltstone.table.schema import key_fields
from siltstone.table.vectors import Deleted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from siltstone.format.table import Fragment, Schema
    from siltstone.table.tools import Tools

GATHERED_ROWS = 1_048_576
GATHERED_BYTES = 256 * 1024 * 1024
WRITERS = 2
_ONE_EACH = "leave one row for each key, or use upsert(), which keeps the last"

Twice = Literal["refuse", "last wins"]


@dataclass(frozen=True)
class Inserted:
    """Fragments that were written, with their keys, and the rows in them that a later one replaces."""

    schema: Schema  # that they were written with
    fragments: tuple[Fragment, ...] = ()
    key_rows: Sequence[pa.Table] = ()  # the key columns of each fragment, in its order of rows; empty without a key
    replaced: dict[str, Deleted] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows they bring."""
        return sum(one.rows for one in self.fragments) - sum(one.count for one in self.replaced.values())


def write_rows(tools: Tools, schema: Schema, data: object, *, base: int, twice: Twice) -> Inserted:
    """Write whatever a user handed in as fragments."""
    names = [one.name for one in key_fields(schema)]

    def write(tables: list[pa.Table]) -> list[Written]:
        # One writer for each: rows of two of them must not share a fragment, or nobody knows which came last.
        with FragmentWriter(tools.store, schema, base=base, env=tools.env, threads=1) as writer:
            writer.write(_unique(tables, names, twice))
            return writer.finish()

    written = [one for some in _overlapped(write, _gathered(data, schema)) for one in some]
    fragments = tuple(one.fragment for one in written)
    if not names:
        return Inserted(schema, fragments)
    key_rows = tuple(one.keys for one in written if one.keys is not None)
    keys = tuple(key_array(one, names) for one in key_rows)
    return Inserted(schema, fragments, key_rows, _between(fragments, keys, key_rows, twice))


def _gathered(data: object, schema: Schema) -> Iterator[list[pa.Table]]:
    """Rows in lots of about a fragment."""
    lot: list[pa.Table] = []
    rows = size = 0
    for table in batches(data, schema):
        lot.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= GATHERED_ROWS or size >= GATHERED_BYTES:
            yield lot
            lot, rows, size = [], 0, 0
    if rows:
        yield lot


def _overlapped(
    write: Callable[[list[pa.Table]], list[Written]], lots: Iterator[list[pa.Table]]
) -> Iterator[list[Written]]:
    """``write`` of each lot, in order; two at a time where there are several."""
    lot = next(lots, None)
    following = next(lots, None)
    if lot is None or following is None:
        if lot is not None:
            yield write(lot)
        return
    with ThreadPoolExecutor(WRITERS, thread_name_prefix="siltstone-write") as pool:
        running = deque([pool.submit(write, lot)])
        while following is not None:
            running.append(pool.submit(write, following))
            if len(running) >= WRITERS:
                yield running.popleft().result()
            following = next(lots, None)
        for one in running:
            yield one.result()


def _unique(tables: list[pa.Table], names: list[str], twice: Twice) -> pa.Table:
    """One table, each key in it once."""
    table = pa.concat_tables(tables)
    if not names:
        return table
    keys = key_array(table, names)
    check_batch_keys(keys, columns=names)
    again = duplicates(keys)
    if not len(again):
        return table
    if twice == "refuse":
        raise given_twice(table.select(names), again, hint=_ONE_EACH)
    return table.take(pa.array(last_of_each(keys)))


def _between(
    fragments: tuple[Fragment, ...], keys: tuple[pa.Array, ...], key_rows: tuple[pa.Table, ...], twice: Twice
) -> dict[str, Deleted]:
    """Rows of earlier fragments whose key comes again in a later one."""
    replaced: dict[str, Deleted] = {}
    for late in range(1, len(fragments)):
        for early in range(late):
            rows = np.flatnonzero(match(keys[late], keys[early]) >= 0)
            if not len(rows):
                continue
            if twice == "refuse":
                raise given_twice(key_rows[early], rows, hint=_ONE_EACH)
            fragment = fragments[early]
            gone = Deleted.from_numbers(rows, rows=fragment.rows)
            replaced[fragment.name] = replaced[fragment.name].union(gone) if fragment.name in replaced else gone
    return replaced


def given_twice(keys: pa.Table, rows: np.ndarray, *, hint: str) -> DuplicateKeyError:
    """The error for rows whose keys come twice. It tells no number: what comes behind them was not looked at."""
    often = duplicates(key_array(keys.take(pa.array(rows)), keys.column_names))
    rows = np.delete(rows, often)  # a key that comes three times is named once
    told = show_keys(keys, rows[:SHOWN_MOST])
    many = "keys come twice in what was given, such as" if len(rows) > 1 else "a key comes twice in what was given:"
    return DuplicateKeyError(f"{many} {told}", hint=hint, keys=told)
