"""Between the types of tables and those of Spark."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from siltstone.errors import InvalidInputError, UnsupportedTypeError
from siltstone.spark.types import arrow_of, spark_schema, to_spark
from spark_reads import EVERY, shown

NESTED = st.StructType(
    [
        st.StructField("flag", st.BooleanType()),
        st.StructField("tiny", st.ByteType()),
        st.StructField("short", st.ShortType()),
        st.StructField("i", st.IntegerType()),
        st.StructField("l", st.LongType()),
        st.StructField("f", st.FloatType()),
        st.StructField("d", st.DoubleType()),
        st.StructField("dec", st.DecimalType(38, 18)),
        st.StructField("s", st.StringType()),
        st.StructField("b", st.BinaryType()),
        st.StructField("day", st.DateType()),
        st.StructField("at", st.TimestampType()),
        st.StructField("local", st.TimestampNTZType()),
        st.StructField("took", st.DayTimeIntervalType()),
        st.StructField("list", st.ArrayType(st.ArrayType(st.IntegerType()))),
        st.StructField("map", st.MapType(st.StringType(), st.StructType([st.StructField("x", st.DoubleType())]))),
    ]
)


def test_spark_schema__types_of_spark__come_back_as_they_were():
    assert spark_schema(arrow_of(NESTED)) == NESTED


def test_spark_schema__unsigned_and_fixed_sizes__the_next_type_that_holds_all():
    found = spark_schema(
        pa.schema(
            {
                "u8": pa.uint8(),
                "u16": pa.uint16(),
                "u32": pa.uint32(),
                "u64": pa.uint64(),
                "fixed": pa.binary(4),
                "triple": pa.list_(pa.int8(), 3),
                "wide": pa.decimal256(38, 1),
            }
        )
    )

    assert [field.dataType.simpleString() for field in found] == [
        "smallint", "int", "bigint", "decimal(20,0)", "binary", "array<tinyint>", "decimal(38,1)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "kind", [pa.time32("s"), pa.time64("ns"), pa.decimal256(39, 0), pa.list_(pa.time64("us")), pa.null()]
)
def test_spark_schema__type_that_spark_lacks__error_names_the_column(kind):
    with pytest.raises(UnsupportedTypeError, match="'odd") as caught:
        spark_schema(pa.schema({"id": pa.int64(), "odd": kind}))
    assert "columns=" in caught.value.hint


@pytest.mark.parametrize(
    "kind", [st.NullType(), st.VariantType(), st.YearMonthIntervalType(), st.CalendarIntervalType(), st.TimeType()]
)
def test_arrow_of__type_that_tables_lack__error_names_the_column(kind):
    inside = st.StructType([st.StructField("part", kind)])

    with pytest.raises(UnsupportedTypeError, match=r"'odd\.part'"):
        arrow_of(st.StructType([st.StructField("odd", inside)]))


def test_to_spark__every_type__exactly_what_spark_takes_and_the_same_values():
    schema = spark_schema(EVERY.schema)

    found = to_spark(EVERY, schema)

    assert found.schema.equals(arrow_of(schema), check_metadata=True)
    assert all(field.nullable for field in found.schema)
    assert found["unsigned"].to_pylist() == [2**64 - 1, 0, None]
    assert found["triple"].to_pylist() == [[1, 2, 3], [4, None, 6], None]
    assert found["span"].cast(pa.int64()).to_pylist() == [90_000_000, -1_000_000, None]
    assert math.copysign(1, found["odd float"][0].as_py()) == -1
    same = [name for name in EVERY.column_names if name not in {"unsigned", "map", "seconds", "nanos", "zoned"}]
    assert shown(found.select(same)) == shown(EVERY.select(same))


def test_to_spark__batch_with_columns_in_another_order__columns_by_name():
    batch = pa.record_batch({"b": ["x"], "a": pa.array([1], pa.uint8())})

    found = to_spark(batch, st.StructType([st.StructField("a", st.ShortType()), st.StructField("b", st.StringType())]))

    assert isinstance(found, pa.RecordBatch)
    assert found.to_pylist() == [{"a": 1, "b": "x"}]
    assert found.schema.types == [pa.int16(), pa.string()]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1001], pa.timestamp("ns")), st.TimestampNTZType()),
        (pa.array([[1001]], pa.list_(pa.timestamp("ns", "UTC"))), st.ArrayType(st.TimestampType())),
        (pa.array([2**62], pa.timestamp("s")), st.TimestampNTZType()),
        (pa.array([1], pa.duration("ns")), st.DayTimeIntervalType()),
    ],
)
def test_to_spark__value_that_would_change__error_names_the_column(values, wanted):
    with pytest.raises(InvalidInputError, match="column 'odd' holds"):
        to_spark(pa.table({"odd": values}), st.StructType([st.StructField("odd", wanted)]))
