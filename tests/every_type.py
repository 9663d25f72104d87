"""Three rows with a column of every type; the last row is null."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa

UTC = dt.UTC
DAY = dt.date(2026, 1, 1)


def naive(*parts):
    return dt.datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


NOON = naive(2026, 1, 1, 12)
COLUMNS = {
    "i": pa.array([1, 2, None], pa.int32()),
    "big": pa.array([2**62, -5, None], pa.int64()),
    "unsigned": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "x": pa.array([1.5, math.nan, None], pa.float64()),
    "half": pa.array([0.5, 0.25, None], pa.float32()),
    "flag": pa.array([True, False, None]),
    "s": pa.array(["apple", "Äpfel", None]),
    "Odd name": pa.array([10, 20, None], pa.int64()),
    "UPPER": pa.array(["a", "b", None]),
    "day": pa.array([DAY, DAY + dt.timedelta(1), None], pa.date32()),
    "at": pa.array([NOON, NOON + dt.timedelta(1), None], pa.timestamp("us")),
    "zoned": pa.array([NOON, NOON + dt.timedelta(1), None], pa.timestamp("us", "Europe/Vienna")),
    "clock": pa.array([dt.time(10), dt.time(11), None], pa.time64("us")),
    "took": pa.array([dt.timedelta(hours=1), dt.timedelta(hours=2), None], pa.duration("us")),
    "price": pa.array([Decimal("1.50"), Decimal("2.50"), None], pa.decimal128(10, 2)),
    "raw": pa.array([b"\x00\xff", b"b", None], pa.binary()),
    "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "list": pa.array([[1, 2], [3], None], pa.list_(pa.int64())),
    "part": pa.array(
        [{"x": 1, "Y": "a"}, {"x": 2, "Y": "b"}, None], pa.struct([("x", pa.int64()), ("Y", pa.string())])
    ),
}
TABLE = pa.table(COLUMNS)
SCHEMA = TABLE.schema
