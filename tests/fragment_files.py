"""Rows for fragments, and fragments read back with pyarrow."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from siltstone import paths
from siltstone.table.fragment import FragmentWriter
from siltstone.table.schema import make_schema
from siltstone.testing.manual import manual_env

NAME = paths.name(3, "0" * 32)


def people(rows, *, seed=0, shuffled=False):
    random = np.random.default_rng(seed)
    ids = random.permutation(rows) if shuffled else np.arange(rows)
    return pa.table(
        {
            "id": ids,
            "name": pa.array([f"person {n}" for n in ids], pa.string()),
            "group": np.array(["red", "green", "blue"])[ids % 3],
            "score": random.random(rows),
        }
    )


def write(store, table, *, key=None, **options):
    writer = FragmentWriter(store, make_schema(table.schema, key), base=3, env=manual_env(), **options)
    writer.write(table)
    return writer.finish()


def file_of(store, fragment):
    data = store.get(paths.data(fragment.name))
    assert len(data) == fragment.bytes
    assert hashlib.sha256(data).hexdigest() == fragment.sha256
    return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)


def read_all(store, written):
    return pa.concat_tables([file_of(store, one.fragment).read() for one in written])


def same(left, right):
    """Whether two tables hold the same rows; the files' columns carry field ids and what must not be null."""
    return left.cast(right.schema).equals(right)
