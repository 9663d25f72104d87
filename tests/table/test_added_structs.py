"""Columns of structs whose parts are never null, added when there were rows already, which have null."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.format.table import Field
from siltstone.table.columns import filler
from siltstone.table.schema import make_schema

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def firm(name, kind):
    return pa.field(name, kind, nullable=False)


PARTS = {
    "number": pa.int64(),
    "truth": pa.bool_(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "uuid": pa.binary(16),
    "money": pa.decimal128(10, 2),
    "day": pa.date32(),
    "moment": pa.timestamp("us", "UTC"),
    "list": pa.list_(pa.int64()),
    "list of firm structs": pa.list_(pa.struct([firm("a", pa.int64())])),
    "map": pa.map_(pa.string(), pa.int64()),
    "struct": pa.struct([firm("x", pa.string()), pa.field("y", pa.float64())]),
}
KINDS = {name: pa.struct([firm("part", kind), pa.field("other", pa.int32())]) for name, kind in PARTS.items()}
KINDS["firm part deep inside"] = pa.struct([pa.field("soft", pa.struct([firm("x", pa.int64())]))])
KINDS["firm parts in a list"] = pa.list_(pa.struct([firm("a", pa.int64())]))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_filler__a_struct_with_parts_that_are_never_null__is_null_and_no_part_of_it_is(kind):
    (field,) = make_schema(pa.schema([("s", kind)]), None).fields
    found = filler(field, 3)
    found.validate(full=True)
    assert found.type == kind
    assert found.to_pylist() == [None] * 3
    assert filler(field, 0).to_pylist() == []
    for chunk in found.chunks:
        check_firm(chunk)


def check_firm(values):
    """No part that is never null is null, whatever is around it."""
    if pa.types.is_struct(values.type):
        for place in range(values.type.num_fields):
            part = values.field(place)
            assert values.type.field(place).nullable or not part.null_count
            check_firm(part)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_add_column__struct_with_parts_that_are_never_null__older_rows_can_be_rewritten(kind):
    table = ss.create(f"memory://{uuid.uuid4().hex}", schema=SCHEMA, key="id")
    table.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    table.append([{"id": 3, "n": 3}])
    table.add_column("s", kind)
    table.update({"n": "n + 1"}, where="id = 1")
    table.delete("id = 2")
    table.compact()
    assert table.scan(["id", "n", "s"]).to_arrow().to_pylist() == [
        {"id": 1, "n": 2, "s": None},
        {"id": 3, "n": 3, "s": None},
    ]


@pytest.mark.parametrize("flushes", [True, False], ids=["flushed", "in the WAL"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_merge_shards__such_a_column_was_added_since_rows_were_put__they_are_merged_with_null(kind, flushes):
    table = ss.create(f"memory://{uuid.uuid4().hex}", schema=SCHEMA, key="id", shards=1)
    with table.shard(0).writer() as writer:
        writer.put([{"id": 1, "n": 1}])
        if flushes:
            writer.freeze()
            writer.flush_memtables()
        table.add_column("s", kind)
        writer.put([{"id": 2, "n": 2}])
        expected = [{"id": 1, "n": 1, "s": None}, {"id": 2, "n": 2, "s": None}]
        assert sorted(table.scan(fresh=True).to_arrow().to_pylist(), key=lambda row: row["id"]) == expected
    table.merge_shards()
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == expected


def test_filler__a_default__is_that():
    field = Field(id=1, name="n", type="int64", default=7)
    assert filler(field, 2).to_pylist() == [7, 7]
