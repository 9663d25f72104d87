"""Fragments of any layout, written with pyarrow alone, and what pyarrow reads from them."""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone import paths
from siltstone.format import seal
from siltstone.format.table import Fragment
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.wrapper import StoreWrapper
from siltstone.table import fragment_bytes
from siltstone.table.files import Files
from siltstone.table.schema import arrow_schema, make_schema

NAME = paths.name(7, "ab" * 16)
KEY = paths.data(NAME)
OPTIONS = {
    "compression": "zstd",
    "row_group_size": 1000,
    "max_rows_per_page": 100,
    "write_page_index": True,
    "write_page_checksum": True,
    "use_dictionary": False,
}
FULL = {"use_dictionary": ["color", "small"], "bloom_filter_options": {"id": True, "name": True}}
ROWS = 4300
FLAT = ("id", "name", "color", "score", "when", "price", "day", "flag", "small", "raw")


class CountingStore(StoreWrapper):
    """Counts calls, and remembers what was asked for: a request may be for several ranges."""

    def __init__(self, inner=None):
        super().__init__(inner or MemoryStore(bucket=MemoryBucket()))
        self.calls = []

    def get_ranges(self, key, ranges):
        self.calls.append(list(ranges))
        return self.inner.get_ranges(key, ranges)


def encoded(table, *, sealed=True, **options):
    """A file's bytes, and the record of its columns."""
    schema = make_schema(table.schema, None)
    out = pa.BufferOutputStream()
    rows = pa.Table.from_arrays(table.columns, schema=arrow_schema(schema, ids=True))
    pq.write_table(rows, out, **{**OPTIONS, **options})
    data = out.getvalue().to_pybytes()
    return seal.seal(data, name="a file") if sealed else data, schema.fields


def record(data, rows, *, name=NAME, **changes):
    facts = {"name": name, "rows": rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return Fragment(**{**facts, **changes})


def stored(store, table, **options):
    """A fragment in a store, and its columns by name."""
    data, fields = encoded(table, **options)
    store.put(KEY, data)
    return record(data, table.num_rows), {field.name: field for field in fields}


def rows(count=ROWS, *, seed=0):
    """Rows of many types, some null, in the order of ``id``, which is three times the row's number."""
    random = np.random.default_rng(seed)
    ids = 3 * np.arange(count)
    some = random.random(count) < 0.2
    return pa.table(
        {
            "id": pa.array(ids),
            "name": pa.array([f"name {n:07d}" for n in ids], mask=some),
            "color": pa.array(np.array(["red", "green", "blue"])[random.integers(0, 3, count)]),
            "score": pa.array(random.normal(size=count), mask=random.random(count) < 0.5),
            "when": pa.array(10**15 + random.integers(0, 10**12, count), pa.timestamp("us", "UTC")),
            "price": pa.array([decimal.Decimal(int(n)) / 100 for n in ids], pa.decimal128(12, 2)),
            "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=int(n)) for n in ids % 4000]),
            "flag": pa.array(ids % 2 == 0, mask=some),
            "small": pa.array(random.integers(-100, 100, count), pa.int8()),
            "raw": pa.array([n.tobytes() for n in ids], pa.binary(8)),
            "list": pa.array([None if n % 7 == 0 else [f"{n}", None][: n % 5] for n in ids], pa.list_(pa.string())),
            "pair": pa.array([None if n % 11 == 0 else {"x": int(n), "y": [float(n)]} for n in ids]),
        }
    )


class Place:
    """A fragment in a store that counts, opened."""

    def __init__(self, table, **options):
        self.store = CountingStore()
        self.table = table
        self.fragment, self.fields = stored(self.store, table, **options)
        self.files = Files(self.store)
        self.file = self.files.open(self.fragment)

    def __getitem__(self, names):
        return [self.fields[name] for name in ((names,) if isinstance(names, str) else names)]

    def expected(self, numbers, names):
        return self.table.select(names).take(pa.array(numbers))


def same(left, right):
    """Whether two tables hold the same rows, whatever they say of nulls."""
    return left.cast(right.schema).equals(right)


def opened(*, sealed):
    """``rows()`` in a file of which only a small part is kept from its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fragment_bytes, "TAIL_BYTES", 4096)
        return Place(rows(), sealed=sealed, **FULL)
