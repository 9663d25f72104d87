"""Types that a key may have, and distinct values of each for the numbers from 0 to 120."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

EPOCH = dt.datetime(1960, 1, 1, tzinfo=dt.UTC)
KEYS = {
    "int8": (pa.int8(), lambda n: n - 100),
    "int64": (pa.int64(), lambda n: (n - 60) * 2**53),
    "uint64": (pa.uint64(), lambda n: 2**63 - 60 + n),
    "uint64 above": (pa.uint64(), lambda n: 2**64 - 121 + n),
    "text": (pa.string(), lambda n: f"a prefix of more than 16 characters {n:03}"),
    "odd text": (pa.string(), lambda n: chr(0x20 + 37 * n) * (n % 4) + str(n)),
    "long text": (pa.string(), lambda n: "x" * 5000 + str(n)),
    "binary": (pa.binary(), lambda n: b"\xff" * 17 + bytes([n])),
    "fixed binary": (pa.binary(3), lambda n: bytes([n, 255 - n, 7])),
    "decimal": (pa.decimal128(20, 2), lambda n: Decimal(n - 60) / 4),
    "date": (pa.date32(), lambda n: dt.date(1969, 11, 1) + dt.timedelta(days=n)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: EPOCH + dt.timedelta(days=60 * n)),
    "timestamp of seconds": (pa.timestamp("s"), lambda n: EPOCH.replace(tzinfo=None) + dt.timedelta(days=60 * n)),
    "time": (pa.time32("s"), lambda n: dt.time(n // 60, n % 60)),
    "fine time": (pa.time64("us"), lambda n: dt.time(0, 0, n // 60, n)),
}
