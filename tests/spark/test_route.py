"""Spark computes the shard of a key as siltstone does."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from siltstone.shard.route import hash64, shard_numbers, spark_expression, spark_hash
from siltstone.spark.types import spark_schema, to_spark
from siltstone.table.schema import key_fields, make_schema

COUNT = 7
MOMENTS = [0, 1, -1, 1_767_225_600, -62_000_000_000]
COLUMNS = {
    "i8": pa.array([0, 1, -1, 127, -128], pa.int8()),
    "i16": pa.array([0, 1, -1, 2**15 - 1, -(2**15)], pa.int16()),
    "i32": pa.array([0, 1, -1, 2**31 - 1, -(2**31)], pa.int32()),
    "i64": pa.array([0, 1, -1, 2**63 - 1, -(2**63)], pa.int64()),
    "u8": pa.array([0, 1, 2, 127, 255], pa.uint8()),
    "u16": pa.array([0, 1, 2, 2**15, 2**16 - 1], pa.uint16()),
    "u32": pa.array([0, 1, 2, 2**31, 2**32 - 1], pa.uint32()),
    "u64": pa.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()),
    "text": pa.array(["", "a", "äöü €", "x" * 31, "0123456789" * 50]),
    "Odd `name`": pa.array(["b", "31" * 16, "c" * 33, "\u0000", "😀"]),
    "raw": pa.array([b"", b"\xff", b"\x80" * 8, b"\x00" * 32, bytes(range(256))], pa.binary()),
    "fixed": pa.array([b"abc", b"\xff\x00\xff", b"\0\0\0", b"\x80\x80\x80", b"xyz"], pa.binary(3)),
    "day": pa.array([0, 1, -1, 20_000, -700_000], pa.int32()).cast(pa.date32()),
    "seconds": pa.array(MOMENTS, pa.timestamp("s")),
    "millis": pa.array(MOMENTS, pa.timestamp("ms", "UTC")),
    "micros": pa.array(MOMENTS, pa.timestamp("us")),
    "zoned": pa.array(MOMENTS, pa.timestamp("us", "Europe/Vienna")),
    "short decimal": pa.array([Decimal(one) for one in ("0", "1.5", "-1.5", "999.99", "-999.99")], pa.decimal128(5, 2)),
    "decimal 18": pa.array([Decimal(one) for one in (0, 127, 128, -128, 10**18 - 1)], pa.decimal128(18, 0)),
    "decimal 19": pa.array([Decimal(one) for one in (0, -129, 255, 256, 10**19 - 1)], pa.decimal128(19, 0)),
    "decimal 38": pa.array(
        [Decimal(f"{one}E-10") for one in (0, -1, 2**64, -(2**127) // 2, 10**38 - 1)], pa.decimal128(38, 10)
    ),
}


def test_spark_hash__all_types_of_keys_that_spark_has__is_the_same(spark):
    keys = pa.table(COLUMNS)
    fields = key_fields(make_schema(keys.schema, keys.column_names))
    wanted = spark_schema(keys.schema)
    frame = spark.createDataFrame(to_spark(keys, wanted), wanted)

    alone = [f"{spark_hash([field])} AS h{place}" for place, field in enumerate(fields)]
    found = frame.selectExpr(
        *alone, f"{spark_hash(fields)} AS together", f"{spark_expression(fields, COUNT)} AS number"
    ).toArrow()

    for place, field in enumerate(fields):
        assert found.column(f"h{place}").to_pylist() == hash64(keys.select([field.name])).tolist(), field.name
    assert found.column("together").to_pylist() == hash64(keys).tolist()
    assert found.column("number").to_pylist() == shard_numbers(keys, COUNT).tolist()
