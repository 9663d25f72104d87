"""Arrow input of other types: what becomes exactly the table's, and what is refused by type or by row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.errors import InvalidInputError, SchemaMismatchError, UnsupportedTypeError
from siltstone.table.rows import batches
from siltstone.table.schema import arrow_schema, make_schema

DAY_MS = 86_400_000


def read(array, kind, *, nullable=True, key=None):
    """The column "c" that the rows have afterwards, as one array of the table's type."""
    schema = make_schema(pa.schema([pa.field("c", kind, nullable=nullable)]), key)
    made = list(batches(pa.table({"c": array}), schema))
    assert all(one.schema.equals(arrow_schema(schema), check_metadata=True) for one in made)
    for one in made:
        one.validate(full=True)
    return pa.concat_tables(made)["c"].combine_chunks()


def raw(numbers, kind):
    width = {32: np.int32, 64: np.int64}[kind.bit_width]
    return pa.array(np.array(numbers, width)).view(kind)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1, None, -128], pa.int8()), pa.int64()),
        (pa.array([2**31 - 1, -(2**31)], pa.int32()), pa.int64()),
        (pa.array([255, None], pa.uint8()), pa.int16()),
        (pa.array([2**32 - 1], pa.uint32()), pa.uint64()),
        (pa.array([0.1, None], pa.float32()), pa.float64()),
        (pa.array([1.5, None], pa.float16()), pa.float32()),
        (pa.array(["a", None, "\u00e9\0\U0001f600\u05d0"], pa.large_string()), pa.string()),
        (pa.array(["a", None, "longer than twelve bytes"], pa.string_view()), pa.string()),
        (pa.array([b"\xff", None], pa.large_binary()), pa.binary()),
        (pa.array([b"\xff" * 20, None], pa.binary_view()), pa.binary()),
        (pa.array(["a", "b", None, "a"]).dictionary_encode(), pa.string()),
        (pa.array([1, 2, None, 1], pa.int8()).dictionary_encode(), pa.int64()),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None], pa.string_view())), pa.string()),
        (pa.array([Decimal("1.20"), None], pa.decimal128(5, 2)), pa.decimal128(10, 2)),
        (pa.array([Decimal("1.20")], pa.decimal128(5, 2)), pa.decimal128(10, 4)),
        (pa.array([Decimal("1.20")], pa.decimal128(38, 2)), pa.decimal128(3, 2)),
        (pa.array([Decimal("1.20")], pa.decimal32(5, 2)), pa.decimal128(5, 2)),
        (pa.array([Decimal("1.20")], pa.decimal256(50, 2)), pa.decimal128(5, 2)),
        (pa.array([Decimal("1.20")], pa.decimal128(5, 2)), pa.decimal256(50, 2)),
        (raw([1, -1], pa.timestamp("s")), pa.timestamp("us")),
        (raw([5_000, -7_000], pa.timestamp("ns")), pa.timestamp("us")),
        (raw([5], pa.timestamp("ms", "Etc/UTC")), pa.timestamp("us", "UTC")),
        (raw([0, DAY_MS, -DAY_MS], pa.date64()), pa.date32()),
        (raw([5, 86_399], pa.time32("s")), pa.time64("us")),
        (raw([5_000_000_000], pa.time64("ns")), pa.time32("s")),
        (raw([5], pa.duration("s")), pa.duration("ns")),
        (raw([5_000], pa.duration("us")), pa.duration("ms")),
        (pa.nulls(3), pa.int64()),
        (pa.nulls(3), pa.list_(pa.struct([("a", pa.int8())]))),
        (pa.array([[1], None, []], pa.large_list(pa.int8())), pa.list_(pa.int64())),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), pa.list_(pa.int8())),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8())), pa.list_(pa.int16(), 2)),
        (pa.array([None, None], pa.list_(pa.int8())), pa.list_(pa.int16(), 2)),
        (pa.array([["a"], None, [None, "a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))), pa.list_(pa.string())),
        (pa.array([[1]], pa.list_(pa.field("element", pa.int64(), metadata={"k": "v"}))), pa.list_(pa.int64())),
        (
            pa.array(
                [{"b": 1, "a": "x"}, None, {"b": None, "a": None}],
                pa.struct([("b", pa.int8()), ("a", pa.string_view())]),
            ),
            pa.struct([("a", pa.string()), ("b", pa.int64())]),
        ),
        (
            pa.array([[("k", 1)], None, []], pa.map_(pa.large_string(), pa.int8())),
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
    ids=lambda one: str(one.type if isinstance(one, pa.Array) else one),
)  # fmt: skip
def test_batches__type_that_fits__keeps_each_value(array, kind):
    made = read(array, kind)
    expected = array.cast(pa.timestamp("us", "UTC")) if str(array.type).endswith("tz=Etc/UTC]") else array

    def plain(value):  # a struct's order of fields is the table's
        return dict(sorted(value.items())) if isinstance(value, dict) else value

    assert [plain(value) for value in made.to_pylist()] == [plain(value) for value in expected.to_pylist()]
    for start in range(len(array)):
        assert read(array.slice(start, 1), kind).to_pylist() == made.slice(start, 1).to_pylist()
    joined = read(pa.chunked_array([array, array.slice(0, 1), array]), kind)
    assert joined.to_pylist() == [*made.to_pylist(), made[0].as_py(), *made.to_pylist()]


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (pa.int64(), pa.int32(), "not all values of int64 fit; cast it to int32 first, or widen the column"),
        (pa.int8(), pa.uint8(), "cast it to uint8"),
        (pa.uint64(), pa.int64(), "not all values"),
        (pa.string(), pa.int64(), "cast it to int64 first"),
        (pa.int64(), pa.string(), "cast it to string"),
        (pa.int32(), pa.float64(), "cast it to double"),
        (pa.float64(), pa.float32(), "cast it to float"),
        (pa.float64(), pa.int64(), "cast it to int64"),
        (pa.bool_(), pa.int8(), "cast it to int8"),
        (pa.string(), pa.binary(), "cast it to binary"),
        (pa.binary(), pa.string(), "cast it to string"),
        (pa.binary(3), pa.binary(4), "fixed_size_binary[4]"),
        (pa.timestamp("us"), pa.date32(), "date32"),
        (pa.date32(), pa.timestamp("us"), "timestamp[us]"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), "no time zone and the time zone 'UTC'"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "the time zone 'UTC' and no time zone"),
        (pa.timestamp("us", "Europe/Vienna"), pa.timestamp("us", "UTC"), "'Europe/Vienna' and the time zone 'UTC'"),
        (pa.list_(pa.string()), pa.list_(pa.int8()), "'c.item' is string"),
        (pa.list_(pa.int8()), pa.int8(), "list<item: int8>"),
        (pa.int8(), pa.list_(pa.int8()), "is int8"),
        (pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8()), "struct<a: int8>"),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.int8())]), "'c.a' is string"),
        (pa.struct([("b", pa.int8())]), pa.struct([("a", pa.int8())]), "lack 'a' and have 'b'"),
        (pa.map_(pa.int8(), pa.int8()), pa.map_(pa.string(), pa.int8()), "'c.key' is int8"),
        (pa.list_view(pa.int8()), pa.list_(pa.int8()), "list_view"),
        (pa.run_end_encoded(pa.int32(), pa.int8()), pa.int8(), "run_end_encoded"),
    ],
    ids=str,
)  # fmt: skip
def test_batches__type_that_does_not_fit__is_refused_even_where_values_would(given, kind, words):
    with pytest.raises(SchemaMismatchError, match=r"column 'c|in column 'c'") as caught:
        list(batches(pa.table({"c": pa.array([], given)}), make_schema(pa.schema([("c", kind)]), None)))
    assert words in str(caught.value)


def test_batches__extension_type__says_the_storage_type():
    with pytest.raises(UnsupportedTypeError, match=r"'c' has the extension type .*storage type, string"):
        read(pa.array(["{}"], pa.json_()), pa.string())


PAD = 100_000  # rows before the culprit, over several batches


@pytest.mark.parametrize(
    ("array", "kind", "words"),
    [
        (raw([1000, 1001], pa.timestamp("ns")), pa.timestamp("us"), "is no timestamp[us] without a change"),
        (raw([0, 1], pa.timestamp("ms")), pa.timestamp("s"), "is no timestamp[s]"),
        (raw([0, 2**62], pa.timestamp("s")), pa.timestamp("us"), "is no timestamp[us]"),
        (raw([0, 2**62], pa.timestamp("s")), pa.timestamp("s"), "4611686018427387904 s is out of range"),
        (raw([0, -(2**62)], pa.timestamp("ms")), pa.timestamp("ms"), "out of range"),
        (raw([0, 5], pa.duration("us")), pa.duration("ms"), "is no duration[ms]"),
        (raw([0, 5], pa.time64("us")), pa.time32("ms"), "is no time32[ms]"),
        (
            pa.array([Decimal("1.00"), Decimal("123456789.00")], pa.decimal128(38, 2)),
            pa.decimal128(10, 2),
            "123456789.00 is no decimal128(10, 2)",
        ),
        (pa.array([Decimal("1.20"), Decimal("1.25")], pa.decimal128(5, 2)), pa.decimal128(5, 1), "1.25 is no"),
        (pa.array([[0], [0, 5]], pa.list_(pa.timestamp("us"))), pa.list_(pa.timestamp("ms")), "is no timestamp[ms]"),
        (pa.array([[1, 2], [3]], pa.list_(pa.int8())), pa.list_(pa.int8(), 2), "a list of 1 values, not 2"),
    ],
)
def test_batches__value_that_does_not_fit__names_its_row_in_the_whole_input(array, kind, words):
    good, bad = pa.table({"c": array.slice(0, 1).take(pa.array(np.zeros(PAD, np.int64)))}), pa.table({"c": array})
    schema = make_schema(pa.schema([("c", kind)]), None)
    with pytest.raises(SchemaMismatchError, match=rf"column 'c', row {2 * PAD + 1} \(counting from 0\)") as caught:
        list(batches(iter([good, good, bad]), schema))
    assert words in str(caught.value)
    assert (caught.value.facts["column"], caught.value.facts["row"]) == ("c", 2 * PAD + 1)


@pytest.mark.parametrize(
    ("array", "kind", "words"),
    [
        (pa.array([1, None]), pa.int64(), "null, and the column is not nullable"),
        (pa.nulls(2), pa.int64(), "null, and the column is not nullable"),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])), pa.string(), "null"),
    ],
)
def test_batches__null_in_a_column_that_has_none__names_the_row(array, kind, words):
    row = 0 if array.type == pa.null() else 1
    with pytest.raises(SchemaMismatchError, match=rf"column 'c', row {row} .*nullable=True") as caught:
        read(array, kind, nullable=False)
    assert words in str(caught.value)


def test_batches__null_in_the_key__names_the_row():
    with pytest.raises(SchemaMismatchError, match=r"column 'c', row 1 .*null in a key \(give each row its key\)"):
        read(pa.array([1, None]), pa.int64(), key="c")


X = pa.struct([("x", pa.int64())])
NEVER = pa.struct([pa.field("x", pa.int64(), nullable=False)])
NEVER_TEXT = pa.struct([pa.field("x", pa.struct([pa.field("t", pa.string(), nullable=False)]), nullable=False)])


@pytest.mark.parametrize(
    ("values", "given", "kind"),
    [
        ([{"x": 1}, {"x": None}], X, NEVER),
        ([{"x": 1}, {"x": None}], NEVER, NEVER),
        ([[{"x": 1}], [{"x": 2}, {"x": None}]], pa.list_(X), pa.list_(NEVER)),
        ([[1], [2, None]], pa.list_(pa.int8()), pa.list_(pa.field("item", pa.int8(), nullable=False))),
        ([[1], [None]], pa.list_(pa.int8(), 1), pa.list_(pa.field("item", pa.int8(), nullable=False), 1)),
        ([[("a", 1)], [("b", None)]], pa.map_(pa.string(), pa.int8()),
         pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False))),
    ],
)  # fmt: skip
def test_batches__null_in_a_part_that_has_none__names_the_part_and_the_row(values, given, kind):
    with pytest.raises(SchemaMismatchError, match=r"column 'c', row 1 .*null in 'c\.[a-z.]+', which is not nullable"):
        read(pa.array(values, given), kind)


@pytest.mark.parametrize(
    ("values", "given", "kind"),
    [
        ([{"x": 1}, None, {"x": 3}], X, NEVER),
        ([None, None], X, NEVER),
        ([{"x": {"t": "a"}}, None], pa.struct([("x", pa.struct([("t", pa.string())]))]), NEVER_TEXT),
        ([[{"x": 1}, None], None, [None]], pa.list_(X), pa.list_(NEVER)),
        ([[1, 2], None], pa.list_(pa.int8(), 2), pa.list_(pa.field("item", pa.int16(), nullable=False), 2)),
        ([None], pa.list_(pa.bool_(), 2), pa.list_(pa.field("item", pa.bool_(), nullable=False), 2)),
        ([None, {"x": dt.date(2020, 1, 1)}], pa.struct([("x", pa.date32())]),
         pa.struct([pa.field("x", pa.date32(), nullable=False)])),
        ([None, {"x": [("k", 1)]}], pa.struct([("x", pa.map_(pa.string(), pa.int8()))]),
         pa.struct([pa.field("x", pa.map_(pa.string(), pa.int8()), nullable=False)])),
        ([None, {"x": Decimal("1.5")}], pa.struct([("x", pa.decimal128(2, 1))]),
         pa.struct([pa.field("x", pa.decimal128(2, 1), nullable=False)])),
        ([[{"x": [1]}], [None]], pa.list_(pa.struct([("x", pa.list_(pa.int8()))])),
         pa.list_(pa.struct([pa.field("x", pa.list_(pa.int8()), nullable=False)]))),
    ],
)  # fmt: skip
def test_batches__null_parent_of_a_part_that_has_none__is_kept_and_can_be_written(values, given, kind):
    made = read(pa.array(values, given), kind)
    assert made.to_pylist() == values
    file = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": made}), file)
    assert pq.read_table(pa.BufferReader(file.getvalue()))["c"].to_pylist() == values


def test_batches__nan_inf_and_signed_zero__stay_bit_for_bit_but_for_the_bits_of_nan():
    bits = np.array([0x7FF8000000000001, 0xFFF8DEADBEEF0000, 0x7FF0000000000000, 0x8000000000000000, 1], np.uint64)
    made = read(pa.array(bits).view(pa.float64()), pa.float64()).view(pa.uint64()).to_pylist()
    assert made == [0x7FF8000000000000] * 2 + bits.tolist()[2:]
    nested = pa.ListArray.from_arrays(pa.array([0, 5], pa.int32()), pa.array(bits).view(pa.float64()))
    made = read(nested.cast(pa.large_list(pa.float64())), pa.list_(pa.float64()))
    assert made.flatten().view(pa.uint64()).to_pylist() == bits.tolist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_batches__invalid_utf8__names_column_and_row(kind):
    layout = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[kind]
    array = pa.array([b"ok"] * 5 + [b"\xff\xfe is longer than a view holds"], layout).view(kind)
    with pytest.raises(
        InvalidInputError, match=r"column 'c', row 5 \(counting from 0\) is not valid UTF-8.*binary column"
    ):
        read(array, pa.string())


def test_batches__invalid_utf8_inside__names_the_column():
    texts = pa.array([b"\xff"]).view(pa.string())
    for array, kind in (
        (pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), texts), pa.list_(pa.string())),
        (pa.DictionaryArray.from_arrays(pa.array([0]), texts), pa.string()),
    ):
        with pytest.raises(InvalidInputError, match="column 'c' is not"):
            read(array, kind)


def offsets(*numbers):
    return pa.py_buffer(np.array(numbers, np.int32))


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.Array.from_buffers(pa.string(), 2, [None, offsets(0, 99, 5), pa.py_buffer(b"hello")]), pa.string()),
        (pa.Array.from_buffers(pa.binary(), 3, [None, offsets(0, 5, 3, 5), pa.py_buffer(b"hello")]), pa.binary()),
        (
            pa.Array.from_buffers(
                pa.list_(pa.int8()), 2, [None, offsets(0, 77, 1)], children=[pa.array([1], pa.int8())]
            ),
            pa.list_(pa.int8()),
        ),
        (pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a"]), safe=False), pa.string()),
        (raw([86_400], pa.time32("s")), pa.time32("s")),
        (raw([5], pa.date64()), pa.date32()),
    ],
)
def test_batches__broken_array__is_refused_before_it_is_followed(array, kind):
    with pytest.raises(
        InvalidInputError, match=r"column 'c'.* is not a valid Arrow array.*build it with pyarrow\.array"
    ):
        read(array, kind)


def test_batches__broken_array_inside_a_dict_of_arrays__is_refused():
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets(0, 99, 5), pa.py_buffer(b"hello")])
    with pytest.raises(InvalidInputError, match="column 'c', row 0"):
        list(batches({"c": broken}, make_schema(pa.schema([("c", pa.string())]), None)))


def test_batches__dictionaries_that_are_too_many_for_one_index__are_decoded_apart():
    parts = [pa.array([f"{part}-{number}" for number in range(100)]) for part in range(3)]
    small = [pa.DictionaryArray.from_arrays(pa.array(np.arange(100, dtype=np.int8)), part) for part in parts]
    made = read(pa.chunked_array(small), pa.string())
    assert made.to_pylist() == pa.concat_arrays(parts).to_pylist()
