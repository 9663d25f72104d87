"""Columns of every type that has bounds, and one that has none."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

TYPES = {
    "tiny": pa.int8(),
    "big": pa.int64(),
    "unsigned": pa.uint64(),
    "x": pa.float64(),
    "half": pa.float32(),
    "flag": pa.bool_(),
    "s": pa.string(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "zoned": pa.timestamp("ms", "Europe/Vienna"),
    "clock": pa.time64("us"),
    "took": pa.duration("ms"),
    "price": pa.decimal128(10, 2),
    "Odd name": pa.int64(),
}
SCHEMA = pa.schema(list(TYPES.items()))
SECOND = 1_000_000
NEW_YEAR = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp())
