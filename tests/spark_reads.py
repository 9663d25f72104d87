"""Tables that tests of reading on Spark share, and how what was read is compared."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

import every_type
import siltstone as ss
from siltstone.spark.types import spark_schema, to_spark

ROWS = 40
_SKIPPED = {"clock"}  # Spark has no time of day
_NESTED = pa.list_(pa.struct([("when", pa.timestamp("us", "UTC")), ("values", pa.list_(pa.float64()))]))
MORE = {
    "tiny": pa.array([-128, 127, None], pa.int8()),
    "short": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
    "byte": pa.array([0, 255, None], pa.uint8()),
    "word": pa.array([0, 2**16 - 1, None], pa.uint16()),
    "dword": pa.array([0, 2**32 - 1, None], pa.uint32()),
    "odd float": pa.array([-0.0, float("-inf"), None], pa.float32()),
    "seconds": pa.array([0, -(10**9), None], pa.timestamp("s", "UTC")),
    "millis": pa.array([1, -1, None], pa.timestamp("ms")),
    "nanos": pa.array([1000, -(10**12), None], pa.timestamp("ns", "America/New_York")),
    "ancient": pa.array([-(719_162), 2_932_896, None], pa.date32()),  # years 1 and 9999
    "longest": pa.array([Decimal("9" * 28 + ".0123456789"), Decimal(-1), None], pa.decimal128(38, 10)),
    "wide": pa.array([Decimal("1.001"), Decimal("-2.5"), None], pa.decimal256(38, 3)),
    "span": pa.array([90, -1, None], pa.duration("s")),
    "triple": pa.array([[1, 2, 3], [4, None, 6], None], pa.list_(pa.int32(), 3)),
    "map": pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.uint64())),
    "nested": pa.array(
        [
            [{"when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "values": [1.5, None]}, None],
            [{"when": None, "values": None}],
            None,
        ],
        _NESTED,
    ),
    "deep": pa.array(
        [{"a": {"b": [{"c": "x"}]}}, {"a": None}, None],
        pa.struct([("a", pa.struct([("b", pa.list_(pa.struct([("c", pa.string())])))]))]),
    ),
}
EVERY = pa.table(
    {"id": pa.array([1, 2, 3], pa.int64())}
    | {name: column for name, column in every_type.COLUMNS.items() if name not in _SKIPPED}
    | MORE
)
DAY = dt.date(2026, 1, 1)
PLAIN = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("small", pa.uint8()),
        ("s", pa.string()),
        ("flag", pa.bool_()),
        ("x", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "Europe/Vienna")),
        ("price", pa.decimal128(10, 2)),
        ("a.b `c` D", pa.int64()),
    ]
)


def plain_rows(start, count=ROWS):
    """Rows with nulls, NaN, both zeros and values on both sides of every bound that filters name."""
    numbers = range(start, start + count)
    floats = [0.0, -0.0, float("nan"), 0.5, None, float("inf"), -1.0]
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    return pa.table(
        {
            "id": list(numbers),
            "i": [None if n % 7 == 3 else n % 11 - 5 for n in numbers],
            "small": [n % 256 for n in numbers],
            "s": [None if n % 13 == 5 else f"row {n}" if n % 3 else "Äpfel" for n in numbers],
            "flag": [None if n % 5 == 4 else n % 2 == 0 for n in numbers],
            "x": [floats[n % len(floats)] for n in numbers],
            "day": [DAY + dt.timedelta(n % 9 - 4) for n in numbers],
            "at": [noon.replace(tzinfo=None) + dt.timedelta(hours=n, microseconds=n) for n in numbers],
            "zoned": [noon + dt.timedelta(hours=n) for n in numbers],
            "price": [Decimal(n) / 4 for n in numbers],
            "a.b `c` D": [n * 10 for n in numbers],
        },
        schema=PLAIN,
    )


def plain_table(uri, *, appends=3):
    """Fragments of the same columns."""
    table = ss.create(uri, schema=PLAIN, key="id")
    for number in range(appends):
        table.append(plain_rows(ROWS * number))
    return table


def masked_table(uri):
    """Fragments with and without deleted rows."""
    table = plain_table(uri, appends=4)
    table.delete("id in (0, 39, 41, 45, 46, 47) or id between 130 and 150")
    return table


def same_size_table(uri):
    """Fragments of the same bytes in which other rows are gone."""
    table = ss.create(uri, schema=pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    for number in range(1, 4):
        table.append(pa.table({"id": np.arange(100) + 1000 * number, "v": np.arange(100)}))
    table.delete("id in (1001, 1002, 1003, 2005, 3007)")
    return table


def evolved_table(uri):
    """Fragments from before and after every change of columns, with deleted rows in them."""
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("old", pa.string()),
            ("n", pa.int32()),
            ("f", pa.float32()),
            ("u", pa.uint8()),
            ("d", pa.decimal128(5, 2)),
            ("t", pa.timestamp("ms", "UTC")),
            ("gone", pa.int64()),
            ("l", pa.list_(pa.int32())),
        ]
    )
    table = ss.create(uri, schema=schema, key="id")

    def rows(start, **more):
        ids = range(start, start + 10)
        columns = {
            "id": list(ids),
            "old": [f"t{n}" for n in ids],
            "n": [None if n % 4 == 0 else n for n in ids],
            "f": [n + 0.1 for n in ids],
            "u": [n % 256 for n in ids],
            "d": [Decimal(n) / 4 for n in ids],
            "t": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=n) for n in ids],
            "gone": list(ids),
            "l": [[n, None] for n in ids],
        } | more
        found = table.schema
        return pa.table({name: columns[name] for name in found.names}, schema=found)

    table.append(rows(0))
    table.delete("id = 3")
    table.rename_column("old", "new")
    table.append(rows(10, new=["x"] * 10))
    table.drop_column("gone")
    table.add_column(pa.field("gone", pa.string()), default="none")
    table.add_column(pa.field("empty", pa.list_(pa.int64())))
    table.add_column(pa.field("zero", pa.float64()), default=0.25)
    table.append(rows(20, new=["y"] * 10, gone=["here"] * 10, empty=[[1]] * 10, zero=[None] * 10))
    for name, kind in {
        "n": pa.int64(),
        "f": pa.float64(),
        "u": pa.int32(),
        "d": pa.decimal128(20, 2),
    }.items():
        table.widen_column(name, kind)
    table.append(rows(30, new=["z"] * 10, gone=[None] * 10, empty=[[]] * 10, zero=[1.0] * 10))
    table.rename_column("n", "old")
    table.delete("id in (8, 19, 20, 21)")
    return table


def every_table(uri):
    table = ss.create(uri, schema=EVERY.schema)
    table.append(EVERY)
    return table


TABLES = {
    "every type": every_table,
    "plain": plain_table,
    "masked": masked_table,
    "same size": same_size_table,
    "evolved": evolved_table,
}


def shown(rows):
    """Rows as text, in the order of their ids: NaN equals itself there, and -0.0 is not 0.0."""
    columns = sorted(rows.column_names)
    order = rows.select(columns).to_pylist()
    return [repr(row) for row in sorted(order, key=lambda row: row.get("id", 0))]


def expected(table, *args, **options):
    """What the table's own scan gives, in Spark's types."""
    scan = table.scan(*args, **options)
    return shown(to_spark(scan.to_arrow(), spark_schema(scan.schema)))
