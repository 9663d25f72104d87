"""Between the types of tables, which are Arrow's, and those of Spark.

What must hold:
- A value that is read is the value that was stored; one that Spark can't hold is an error, never a rounded one.
- The same column has the same Spark type however it is read. All columns may be null, as everywhere in Spark's own
  sources: Spark trusts what a schema says of nulls, and then reads nulls as zeros where it was wrong.
- A type that one side lacks is refused by the name of its column, before anything is read or written.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.sql import types as st

from siltstone.errors import InvalidInputError, UnsupportedTypeError
from siltstone.table.types import decoded, is_bytes, is_list, is_text, shown, shown_type

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

MICROSECONDS = "us"
UTC = "UTC"
DIGITS_MAX = 38
_LEAVE_OUT = "read the other columns with columns=[...]"
_PLAIN: dict[pa.DataType, st.DataType] = {
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    # Spark has no unsigned integers: the next larger type holds them all.
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.date32(): st.DateType(),
    pa.date64(): st.DateType(),
}
_ARROW: dict[type[st.DataType], pa.DataType] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp(MICROSECONDS, UTC),
    st.TimestampNTZType: pa.timestamp(MICROSECONDS),
    st.DayTimeIntervalType: pa.duration(MICROSECONDS),
}


# -- from a table to Spark -------------------------------------------------------------------------


def spark_schema(schema: pa.Schema) -> st.StructType:
    """The columns of a table as Spark has them.

    Raises:
        UnsupportedTypeError: Spark has no type that holds all values of a column.
    """
    return st.StructType([st.StructField(field.name, spark_type(field.type, column=field.name)) for field in schema])


def spark_type(kind: pa.DataType, *, column: str) -> st.DataType:
    """The type of a column; ``column`` is its name, or the path of a part of it."""
    kind = decoded(kind)
    if (found := _PLAIN.get(kind)) is not None:
        return found
    if is_text(kind):
        return st.StringType()
    if is_bytes(kind) or kinds.is_fixed_size_binary(kind):
        return st.BinaryType()
    if kinds.is_timestamp(kind):
        return st.TimestampType() if kind.tz else st.TimestampNTZType()
    if kinds.is_duration(kind):
        return st.DayTimeIntervalType()
    if kinds.is_decimal(kind):
        return _decimal(kind, column=column)
    if kinds.is_struct(kind):
        parts = [kind.field(number) for number in range(kind.num_fields)]
        return st.StructType(
            [st.StructField(one.name, spark_type(one.type, column=f"{column}.{one.name}")) for one in parts]
        )
    if kinds.is_map(kind):
        key = spark_type(kind.key_type, column=f"{column}.key")
        return st.MapType(key, spark_type(kind.item_type, column=f"{column}.value"))
    if is_list(kind) or kinds.is_fixed_size_list(kind):
        return st.ArrayType(spark_type(kind.value_type, column=f"{column}.item"))
    raise UnsupportedTypeError(
        f"column {shown(column)} has the type {shown_type(kind)}, which Spark lacks",
        hint=f"{_LEAVE_OUT}, or keep it as a number or a string",
        column=column,
    )


def _decimal(kind: pa.DataType, *, column: str) -> st.DataType:
    if kind.precision > DIGITS_MAX:
        raise UnsupportedTypeError(
            f"column {shown(column)} has the type {shown_type(kind)}, and Spark's decimals have {DIGITS_MAX} digits",
            hint=f"{_LEAVE_OUT}, or keep it as a string",
            column=column,
        )
    return st.DecimalType(kind.precision, kind.scale)


# -- from Spark to a table -------------------------------------------------------------------------


def arrow_of(schema: st.StructType) -> pa.Schema:
    """The columns of a DataFrame as Arrow has them: what Spark hands out, and takes back.

    Raises:
        UnsupportedTypeError: a column has a type that no table can hold.
    """
    return pa.schema([pa.field(field.name, arrow_type(field.dataType, column=field.name)) for field in schema.fields])


def arrow_type(kind: st.DataType, *, column: str) -> pa.DataType:
    """The type of a column; ``column`` is its name, or the path of a part of it."""
    if (found := _ARROW.get(type(kind))) is not None:
        return found
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, st.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType, column=f"{column}.item")))
    if isinstance(kind, st.MapType):
        key = pa.field("key", arrow_type(kind.keyType, column=f"{column}.key"), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(kind.valueType, column=f"{column}.value")))
    if isinstance(kind, st.StructType):
        return pa.struct([pa.field(one.name, arrow_type(one.dataType, column=f"{column}.{one.name}")) for one in kind])
    raise UnsupportedTypeError(
        f"column {shown(column)} has Spark's type {shown(kind.simpleString())[1:-1]}, which tables can't hold",
        hint="cast it to a number, a string or a timestamp, or drop it",
        column=column,
    )


def to_spark(rows: Rows, schema: st.StructType) -> Rows:
    """Rows whose columns are of exactly the Arrow types that Spark takes for a schema, in its order.

    Raises:
        InvalidInputError: a value can't be held, such as a time between two microseconds; the message names the column.
    """
    wanted = arrow_of(schema)
    if rows.schema.equals(wanted, check_metadata=True):
        return rows
    columns = [_as(rows.column(field.name), field) for field in wanted]
    return type(rows).from_arrays(columns, schema=wanted)


def _as(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if column.type.equals(field.type) and not kinds.is_nested(field.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        first = ascii(str(error).partition("\n")[0][:200])[1:-1]
        raise InvalidInputError(
            f"column {shown(field.name)} holds {shown_type(column.type)} values that Spark's "
            f"{shown_type(field.type)} can't: {first}",
            hint=f"{_LEAVE_OUT}; Spark's times end at microseconds",
            column=field.name,
        ) from error
