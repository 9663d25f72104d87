"""Files that are older than the table's columns are read as the table is now."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from parquet_files import ROWS, Place, opened
from siltstone.errors import CorruptionError
from siltstone.format.table import Field
from siltstone.table.schema import arrow_field


@pytest.fixture(scope="module", params=[True, False], ids=["sealed", "plain"])
def place(request):
    return opened(sealed=request.param)


def test_read__columns_that_the_file_lacks__are_their_default_or_null(place):
    new = [
        Field(id=90, name="later", type="string"),
        Field(id=91, name="name", type="int64", default=5),
        Field(id=92, name="text", type="string", nullable=False, default="none"),
    ]
    found = place.file.read(4, [new[0], place.fields["id"], *new[1:]])
    assert found.column_names == ["later", "id", "name", "text"]
    assert found["later"].null_count == 300
    assert found["name"].to_pylist() == [5] * 300
    assert found["text"].to_pylist() == ["none"] * 300
    assert place.file.read(4, new).num_rows == 300
    taken = place.file.take(np.array([3, 1003]), [new[2], place.fields["id"]])
    assert taken.to_pylist() == [{"text": "none", "id": 9}, {"text": "none", "id": 3009}]


def test_find__a_column_that_the_file_lacks__matches_its_default(place):
    field = Field(id=91, name="n", type="int64", default=5)
    found, which = place.file.find(pa.array([4, 5]), field)
    assert (found.tolist(), set(which.tolist())) == (list(range(ROWS)), {1})
    assert len(place.file.find(pa.array([4]), field)[0]) == 0
    assert len(place.file.find(pa.array([4]), Field(id=92, name="n", type="int64"))[0]) == 0
    assert place.file.lookup(pa.array([5]), field, [field, place.fields["id"]])[2].num_rows == ROWS


def test_read__renamed_columns__are_found_by_their_id(place):
    field = Field(id=place.fields["name"].id, name="title", type="string")
    assert place.file.read(0, [field])["title"].to_pylist() == place.table["name"].slice(0, 1000).to_pylist()


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int8(), "int64"), (pa.int32(), "int64"), (pa.uint16(), "int32"), (pa.uint32(), "uint64"),
        (pa.float32(), "double"), (pa.timestamp("ms"), "timestamp[us]"), (pa.timestamp("s"), "timestamp[ms]"),
        (pa.decimal128(9, 2), "decimal128(20, 2)"),
    ],
)  # fmt: skip
def test_read__columns_that_were_widened__have_the_wide_type(narrow, wide):
    values = pa.array([*range(1, 120)], pa.int64())
    plain = pa.types.is_integer(narrow) or pa.types.is_floating(narrow)
    values = pa.array([decimal.Decimal(n) for n in range(1, 120)], narrow) if pa.types.is_decimal(narrow) else values
    table = pa.table({"a": values.cast(narrow) if plain or pa.types.is_decimal(narrow) else values.view(narrow)})
    place = Place(table, bloom_filter_options={"a": True})
    field = Field(id=1, name="a", type=wide)
    expected = table["a"].cast(arrow_field(field).type)
    assert place.file.read(0, [field])["a"].equals(expected)
    assert place.file.take(np.array([7]), [field])["a"].equals(expected.slice(7, 1))
    keys = expected.slice(100, 2).combine_chunks()
    assert place.file.find(keys, field)[0].tolist() == [100, 101]


@pytest.mark.parametrize("kind", ["string", "int32", "float", "date32[day]", "binary", "timestamp[us]"])
def test_read__columns_of_quite_another_type__are_corrupt(place, kind):
    field = Field(id=place.fields["id"].id, name="id", type=kind)
    with pytest.raises(CorruptionError, match="'id'"):
        place.file.read(0, [field])


@pytest.mark.parametrize(
    "kind",
    [
        pa.duration("s"), pa.duration("us"), pa.time32("s"), pa.time32("ms"), pa.time64("ns"), pa.timestamp("s"),
        pa.timestamp("ns", "Europe/Vienna"), pa.list_(pa.int16(), 2), pa.map_(pa.string(), pa.int32()),
        pa.decimal256(50, 3), pa.struct([("a", pa.duration("ms")), ("b", pa.map_(pa.string(), pa.list_(pa.int8())))]),
    ],
    ids=str,
)  # fmt: skip
def test_read__types_that_parquet_has_no_word_for__come_back(kind):
    plain = pa.types.is_nested(kind) is False
    if plain:
        values = pa.array([1, None, 86], pa.int64() if kind.bit_width == 64 else pa.int32())
        values = values.cast(kind) if pa.types.is_decimal(kind) else values.view(kind)
    elif pa.types.is_struct(kind):
        values = pa.array([{"a": dt.timedelta(seconds=1), "b": [("x", [1])]}, None, {"a": None, "b": []}], kind)
    elif pa.types.is_map(kind):
        values = pa.array([[("a", 1)], None, []], kind)
    else:
        values = pa.array([[1, 2], None, [3, None]], kind)
    place = Place(pa.table({"a": values}))
    found = place.file.read(0, place["a"])
    assert found["a"].type == kind or not plain
    assert found["a"].to_pylist() == values.to_pylist()
    assert place.file.take(np.array([0, 2]), place["a"])["a"].to_pylist() == [values[0].as_py(), values[2].as_py()]


def test_read__parts_of_structs__are_found_by_id_and_may_be_added_and_dropped():
    table = pa.table({"s": [{"a": 1, "b": "x", "c": [{"d": 1, "e": 2}]}, None]})
    place = Place(table)
    whole = place.fields["s"]
    a, b, c = whole.children
    renamed = Field(id=b.id, name="a", type="string")
    fresh = Field(id=99, name="b", type="int64")
    inner = c.children[0]
    shorter = Field(id=inner.id, name="item", type="struct", children=(inner.children[1],))
    cut = Field(id=c.id, name="c", type="list", children=(shorter,))
    field = Field(id=whole.id, name="s", type="struct", children=(renamed, fresh, cut))
    found = place.file.read(0, [field])["s"].to_pylist()
    assert found == [{"a": "x", "b": None, "c": [{"e": 2}]}, None]
    assert a.name == "a"


def test_read__a_struct_with_none_of_its_parts__has_nulls():
    place = Place(pa.table({"s": [{"a": 1}, None]}))
    field = Field(id=1, name="s", type="struct", children=(Field(id=50, name="z", type="string"),))
    assert place.file.read(0, [field])["s"].to_pylist() == [{"z": None}, None]
