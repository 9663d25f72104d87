"""Schemas and chunks for tests of shards: a column of every type that tables hold, and ways to look at rows."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import msgspec
import numpy as np
import pyarrow as pa

from every_type import COLUMNS
from siltstone.format.shard import WalHeader
from siltstone.shard.rows import Chunk, fitted
from siltstone.table.schema import make_schema

FIRM = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("s", pa.string(), nullable=False)])
PAIR = pa.list_(pa.field("item", pa.int16(), nullable=False), 2)
MORE = {
    "tiny": pa.array([-128, 127, None], pa.int8()),
    "small": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
    "u8": pa.array([0, 255, None], pa.uint8()),
    "u16": pa.array([0, 2**16 - 1, None], pa.uint16()),
    "u32": pa.array([0, 2**32 - 1, None], pa.uint32()),
    "seconds": pa.array([0, -1, None], pa.timestamp("s")),
    "nanos": pa.array([0, -(2**62), None], pa.timestamp("ns", "UTC")),
    "clock s": pa.array([1, 2, None], pa.time32("s")),
    "clock ns": pa.array([1, 2, None], pa.time64("ns")),
    "took ns": pa.array([1, -2, None], pa.duration("ns")),
    "wide": pa.array([Decimal(10) ** 70, Decimal(-1), None], pa.decimal256(76, 0)),
    "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    "vector": pa.array([[1.5, 2.5], [0.0, -0.0], None], pa.list_(pa.float32(), 2)),
    "pair": pa.array([[1, 2], [3, 4], None], PAIR),
    "lists": pa.array([[["a"], None], [], None], pa.list_(pa.list_(pa.string()))),
    "firm": pa.StructArray.from_arrays(
        [pa.array([1, 2, 0], pa.int64()), pa.array(["a", "b", ""])],
        fields=list(FIRM),
        mask=pa.array([False, False, True]),
    ),
    "deep": pa.array(
        [[{"at": dt.date(2026, 1, 1), "m": [("k", [1])]}], [None], None],
        pa.list_(pa.struct([("at", pa.date32()), ("m", pa.map_(pa.string(), pa.list_(pa.int8())))])),
    ),
}
EVERY = COLUMNS | MORE
ROWS = pa.table({"key": pa.array([1, 2, 3], pa.int64()), **EVERY})
SCHEMA = make_schema(ROWS.schema, "key")

LENGTH = struct.Struct("<I")  # of the header before an entry's rows
END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream

PLAIN = pa.schema([("id", pa.int64()), ("name", pa.string()), ("payload", pa.string())])
KEYED = make_schema(PLAIN, "id")
UNKEYED = make_schema(PLAIN, None)


def rows_of(ids, schema=KEYED, *, text="x"):
    """Rows of the plain columns."""
    ids = list(ids)
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"name {one:015}" for one in ids], pa.string()),
        pa.array([text * 100] * len(ids), pa.string()),
    ]
    return fitted(pa.table(columns, names=PLAIN.names), schema)


def chunk_of(ids, *, position=0, text="x", deleted=None):
    """A chunk of the plain columns."""
    return Chunk(position, rows_of(ids, text=text), None if deleted is None else np.array(deleted, np.bool_))


def as_lists(table):
    """A table in a form that compares as values do: NaN is NaN, and times have nanoseconds."""
    return [(name, _plain(column)) for name, column in zip(table.column_names, table.columns, strict=True)]


def _plain(column):
    if pa.types.is_temporal(column.type):
        return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist()
    return [repr(one) for one in column.to_pylist()]


def same_rows(found, wanted):
    """Compare columns, types and values."""
    assert found.schema.equals(wanted.schema)
    assert as_lists(found) == as_lists(wanted)


def made(batch, *, rows=None, header=None, start=None, end=END, options=None):
    """A body put together by hand."""
    head = header or msgspec.json.encode(WalHeader(rows=batch.num_rows if rows is None else rows))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    stream = sink.getvalue().to_pybytes().removesuffix(END)
    return LENGTH.pack(len(head)) + head + (start or b"") + stream + end


def batch_of(**columns):
    """A batch whose columns are named by field ids."""
    return pa.record_batch({name.removeprefix("f"): values for name, values in columns.items()})


GOOD = {"f1": pa.array([1, 2]), "f2": pa.array(["a", "b"]), "f3": pa.array(["x", None])}
