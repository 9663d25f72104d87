"""Python values, numpy arrays and pandas columns go straight to the table's types, each value checked."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from siltstone.errors import SchemaMismatchError, UnsupportedTypeError
from siltstone.table.rows import batches
from siltstone.table.schema import arrow_schema, make_schema

UTC = dt.UTC
PLUS_TWO = dt.timezone(dt.timedelta(hours=2))


def at(*parts):
    return dt.datetime(*parts)  # noqa: DTZ001 - columns without a time zone take these


MOMENT = at(2024, 2, 29, 12, 30, 1, 250_000)
POINT = pa.struct([("x", pa.int64()), ("t", pa.list_(pa.string()))])


def table_of(data, kind, *, nullable=True):
    schema = make_schema(pa.schema([pa.field("c", kind, nullable=nullable)]), None)
    made = list(batches(data, schema))
    assert all(one.schema.equals(arrow_schema(schema), check_metadata=True) for one in made)
    for one in made:
        one.validate(full=True)
    return [value for one in made for value in one["c"].to_pylist()]


def read(values, kind, **options):
    """The same values by each way that Python values come in."""
    found = table_of([{"c": value} for value in values], kind, **options)
    assert repr(table_of({"c": values}, kind, **options)) == repr(found)
    assert repr(table_of(pd.DataFrame({"c": pd.Series(values, dtype=object)}), kind, **options)) == repr(found)
    return found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -128], pa.int8()),
        ([2**64 - 1, 0], pa.uint64()),
        ([np.int8(1), np.uint64(2)], pa.int64()),
        ([True, None, False], pa.bool_()),
        ([0.1, 1, None, math.inf, -0.0], pa.float64()),
        ([0.5, 2, None], pa.float32()),
        (["a", None, "", "\0\U0001f600\u05d0"], pa.string()),
        ([b"a", None, b"\xff"], pa.binary()),
        ([b"ab", None], pa.binary(2)),
        ([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
        ([MOMENT, None, at(1, 1, 1), at(9999, 12, 31)], pa.timestamp("us")),
        ([MOMENT, None], pa.timestamp("ms")),
        ([MOMENT.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        ([dt.time(23, 59, 59, 1), None], pa.time64("us")),
        ([dt.time(23, 59, 59), None], pa.time32("s")),
        ([dt.timedelta(days=-1, microseconds=1), None], pa.duration("us")),
        ([Decimal("1.20"), None, Decimal("-999.99")], pa.decimal128(5, 2)),
        ([Decimal(10) ** 60], pa.decimal256(76, 0)),
        ([[1, 2], None, [], [None]], pa.list_(pa.int16())),
        ([[0.5, 1.5], None, [2.0, 3]], pa.list_(pa.float32(), 2)),
        ([{"x": 1, "t": ["a", None]}, None, {"x": None, "t": None}], POINT),
        ([[{"x": 1, "t": []}], None], pa.list_(POINT)),
        ([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int8())),
        ([], pa.int64()),
        ([None, None], POINT),
    ],
    ids=lambda one: str(one) if isinstance(one, pa.DataType) else "",
)
def test_batches__python_values_that_fit__are_kept(values, kind):
    assert read(values, kind) == values


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([(1, 2), np.array([3])], pa.list_(pa.int8()), [[1, 2], [3]]),
        ([{"a": 1}, {}], pa.map_(pa.string(), pa.int8()), [[("a", 1)], []]),
        ([bytearray(b"a"), memoryview(b"b")], pa.binary(), [b"a", b"b"]),
        ([5, Decimal("1.5")], pa.decimal128(5, 2), [Decimal("5.00"), Decimal("1.50")]),
        ([MOMENT.replace(tzinfo=PLUS_TWO)], pa.timestamp("us", "UTC"), [MOMENT.replace(hour=10, tzinfo=UTC)]),
        ([np.float32(0.5), np.int8(1)], pa.float64(), [0.5, 1.0]),
        ([pd.Timestamp(MOMENT), pd.NaT], pa.timestamp("us"), [MOMENT, None]),
        ([pd.Timedelta(seconds=1), pd.NaT], pa.duration("ms"), [dt.timedelta(seconds=1), None]),
        ([np.str_("a"), "b"], pa.string(), ["a", "b"]),
        ([np.array([[1, 2], [3, 4]])], pa.list_(pa.list_(pa.int8(), 2)), [[[1, 2], [3, 4]]]),
    ],
)  # fmt: skip
def test_batches__python_values_of_near_types__become_the_tables(values, kind, expected):
    assert read(values, kind) == expected


@pytest.mark.parametrize(
    ("good", "bad", "kind", "words"),
    [
        (1, "2", pa.int64(), "'2' of type str is no int64 (give int, or None)"),
        (1, 2.0, pa.int64(), "2.0 of type float is no int64"),
        (1, True, pa.int64(), "True of type bool is no int64"),
        (1, 128, pa.int8(), "128 is no int8"),
        (1, -1, pa.uint8(), "-1 is no uint8"),
        (1, 2**64, pa.int64(), "is no int64"),
        (True, 1, pa.bool_(), "1 of type int is no bool"),
        (1.5, "x", pa.float64(), "of type str is no double"),
        (1.5, 2**53 + 1, pa.float64(), "is no double"),
        (1.5, 2**24 + 1, pa.float32(), "is no float"),
        (1.5, 1e300, pa.float32(), "1e+300 is too large for float"),
        ("a", 1, pa.string(), "1 of type int is no string (give str, or None)"),
        ("a", b"a", pa.string(), "of type bytes is no string"),
        ("a", "\ud800", pa.string(), "is no string"),
        (b"a", "a", pa.binary(), "of type str is no binary (give bytes, or None)"),
        (b"ab", b"abc", pa.binary(2), "is no fixed_size_binary[2]"),
        (dt.date(2020, 1, 1), MOMENT, pa.date32(), "of type datetime is no date32[day] (give date, or None)"),
        (dt.date(2020, 1, 1), "2020-01-01", pa.date32(), "of type str"),
        (MOMENT, 5, pa.timestamp("us"), "5 of type int is no timestamp[us] (give datetime, or None)"),
        (MOMENT, MOMENT.replace(tzinfo=UTC), pa.timestamp("us"), "has a time zone, and the column is timestamp[us]"),
        (MOMENT.replace(tzinfo=UTC), MOMENT, pa.timestamp("us", "UTC"), "has no time zone, and the column is"),
        (MOMENT, MOMENT.replace(microsecond=1), pa.timestamp("ms"), "is no timestamp[ms] without a change"),
        (MOMENT, pd.Timestamp(1), pa.timestamp("us"), "is no timestamp[us] without a change"),
        (MOMENT, at(2500, 1, 1), pa.timestamp("ns"), "is no timestamp[ns] without a change"),
        (dt.time(1), dt.time(1, tzinfo=UTC), pa.time64("us"), "has a time zone"),
        (dt.time(1), dt.time(1, 0, 0, 1), pa.time32("s"), "is no time32[s] without a change"),
        (dt.timedelta(1), dt.timedelta(microseconds=1), pa.duration("ms"), "is no duration[ms]"),
        (dt.timedelta(1), pd.Timedelta(1), pa.duration("us"), "is no duration[us]"),
        (Decimal("1.5"), Decimal("1.234"), pa.decimal128(5, 2), "Decimal('1.234') is no decimal128(5, 2)"),
        (Decimal("1.5"), Decimal(10000), pa.decimal128(5, 2), "is no decimal128(5, 2)"),
        (Decimal("1.5"), 1.5, pa.decimal128(5, 2), "1.5 of type float is no decimal128"),
        ([1], "ab", pa.list_(pa.int8()), "'ab' of type str is no list<item: int8>"),
        ([1], [1, "a"], pa.list_(pa.int8()), "'a' of type str is no int8"),
        ([1, 2], [1, 2, 3], pa.list_(pa.int8(), 2), "a list of 3 values, not 2"),
        ({"x": 1, "t": []}, {"x": 1}, POINT, "in 'c' it lacks 't'"),
        ({"x": 1, "t": []}, {"x": 1, "t": [], "z": 3}, POINT, "in 'c' it has 'z', which is not in the table"),
        ({"x": 1, "t": []}, {"x": "1", "t": []}, POINT, "'1' of type str is no int64"),
        ({"x": 1, "t": []}, [1], POINT, "[1] of type list is no struct"),
        ([("a", 1)], [("a", 1), ("b",)], pa.map_(pa.string(), pa.int8()), "('b',) is no pair of a key and a value"),
        ([("a", 1)], [(None, 1)], pa.map_(pa.string(), pa.int8()), "null as the key of a map"),
        ({"a": 1}, {"a": "x"}, pa.map_(pa.string(), pa.int8()), "'x' of type str is no int8"),
        (1, [1], pa.int64(), "[1] of type list"),
    ],
)
def test_batches__python_value_that_does_not_fit__names_its_row(good, bad, kind, words):
    count = 5_000  # over several steps of the conversion
    for data in ([{"c": good}] * count + [{"c": bad}], {"c": [good] * count + [bad]}):
        with pytest.raises(SchemaMismatchError, match=rf"column 'c', row {count} \(counting from 0\)") as caught:
            table_of(data, kind)
        assert words in str(caught.value), str(caught.value)
        assert caught.value.facts["row"] == count
        assert caught.value.hint


def test_batches__rows_after_a_batch__are_counted_on():
    data = [pa.table({"c": pa.array(range(10))}), [{"c": 1}], [{"c": 1}, {"c": "x"}]]
    with pytest.raises(SchemaMismatchError, match="column 'c', row 12 "):
        table_of(data, pa.int64())


def test_batches__null_in_a_column_that_has_none__names_the_row():
    for data in ([{"c": 1}, {"c": None}], {"c": [1, None]}, pd.DataFrame({"c": pd.array([1, None], "Int64")})):
        with pytest.raises(SchemaMismatchError, match=r"column 'c', row 1 .*not nullable"):
            table_of(data, pa.int64(), nullable=False)


def test_batches__long_value__is_cut_in_the_message():
    with pytest.raises(SchemaMismatchError) as caught:
        table_of([{"c": "\x1b" + "x" * 10_000_000}], pa.int64())
    assert len(str(caught.value)) < 300
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (np.array([1, 2]), pa.int8(), [1, 2]),
        (np.array([1.0, 2.0]), pa.int8(), [1, 2]),
        (np.array([1, 2]), pa.float32(), [1.0, 2.0]),
        (np.array([0.5, np.nan]), pa.float32(), [0.5, "nan"]),
        (np.array([0.5, np.nan]), pa.float64(), [0.5, "nan"]),
        (np.array(["a", "bc"]), pa.string(), ["a", "bc"]),
        (np.array([b"a"]), pa.binary(), [b"a"]),
        (np.array([True]), pa.bool_(), [True]),
        (np.array(["2020-01-01"], "datetime64[D]"), pa.date32(), [dt.date(2020, 1, 1)]),
        (np.array(["2020-01-01"], "datetime64[ns]"), pa.date32(), [dt.date(2020, 1, 1)]),
        (np.array(["2020-01-01", "NaT"], "datetime64[ns]"), pa.timestamp("us"), [at(2020, 1, 1), None]),
        (np.array([1], "timedelta64[s]"), pa.duration("us"), [dt.timedelta(seconds=1)]),
        (np.array([1, "a", None], object)[:1], pa.int64(), [1]),
        (np.array([[1, 2], [3, 4]]), pa.list_(pa.int8(), 2), [[1, 2], [3, 4]]),
    ],
)
def test_batches__numpy_array__goes_to_the_tables_type(values, kind, expected):
    found = table_of({"c": values}, kind)
    assert ["nan" if isinstance(one, float) and math.isnan(one) else one for one in found] == expected


@pytest.mark.parametrize(
    ("values", "kind", "row", "words"),
    [
        (np.array([1, 200]), pa.int8(), 1, "200 is no int8 without a change"),
        (np.array([1.0, 1.5]), pa.int64(), 1, "1.5 is no int64"),
        (np.array([1.0, np.nan]), pa.int64(), 1, "nan is no int64"),
        (np.array([1, 2**53 + 1]), pa.float64(), 1, "is no double"),
        (np.array([1.0, 1e300]), pa.float32(), 1, "too large for float"),
        (np.array(["2020-01-01T00", "2020-01-01T01"], "datetime64[ns]"), pa.date32(), 1, "is not a whole day"),
        (np.array([1 + 2j]), pa.float64(), 0, "complex128"),
        (np.array([[1, 2], [3, 400]]), pa.list_(pa.int8(), 2), 1, "400 is no int8"),
    ],
)
def test_batches__numpy_value_that_does_not_fit__names_its_row(values, kind, row, words):
    with pytest.raises(SchemaMismatchError, match=rf"column 'c', row {row} ") as caught:
        table_of({"c": values}, kind)
    assert words in str(caught.value)


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([True])], ids=["text", "bool"])
def test_batches__numpy_array_of_another_kind__is_refused_by_type(values):
    with pytest.raises(SchemaMismatchError, match=r"column 'c' is (string|bool), and int64 in the table"):
        table_of({"c": values}, pa.int64())


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pd.Series([1, 2]), pa.int8(), [1, 2]),
        (pd.Series([1.0, None]), pa.int64(), [1, None]),
        (pd.Series([1.5, None, math.inf]), pa.float64(), [1.5, None, math.inf]),
        (pd.Series([1, None], dtype="Int64"), pa.int32(), [1, None]),
        (pd.Series([True, None], dtype="boolean"), pa.bool_(), [True, None]),
        (pd.Series(["a", None, "b"], dtype="string"), pa.string(), ["a", None, "b"]),
        (pd.Series(["a", None, "a"], dtype="category"), pa.string(), ["a", None, "a"]),
        (pd.Series([1, 2, 1]).astype("category"), pa.int64(), [1, 2, 1]),
        (pd.Series(["a", None, float("nan"), pd.NA], dtype=object), pa.string(), ["a", None, None, None]),
        (pd.Series([Decimal("1.5"), None], dtype=object), pa.decimal128(5, 2), [Decimal("1.50"), None]),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), pa.date32(), [dt.date(2020, 1, 1), None]),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), pa.timestamp("s"), [at(2020, 1, 1), None]),
        (
            pd.Series(pd.to_datetime(["2020-01-01"])).dt.tz_localize("UTC"),
            pa.timestamp("us", "UTC"),
            [at(2020, 1, 1).replace(tzinfo=UTC)],
        ),
        (pd.Series([[1], None, [2, 3]]), pa.list_(pa.int8()), [[1], None, [2, 3]]),
        (pd.Series([1, 300], dtype=pd.ArrowDtype(pa.int64())), pa.int16(), [1, 300]),
    ],
)
def test_batches__pandas_column__goes_to_the_tables_type(values, kind, expected):
    assert table_of(pd.DataFrame({"c": values}), kind) == expected
    assert table_of({"c": values}, kind) == expected


def test_batches__pandas_nan_where_null_can_not_be__stays_nan():
    for values in (pd.Series([1.5, float("nan")]), pd.Series([1.5, float("nan")], dtype="float32")):
        found = table_of(pd.DataFrame({"c": values}), pa.float64(), nullable=False)
        assert found[0] == 1.5
        assert math.isnan(found[1])


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (pd.Series(["a", 1], dtype=object), pa.string(), "row 1 (counting from 0): 1 of type int is no string"),
        (pd.Series([1, "a"], dtype=object), pa.int64(), "row 1 (counting from 0): 'a' of type str is no int64"),
        (pd.Series([1, 300]), pa.int8(), "row 1 (counting from 0): 300 is no int8"),
        (pd.Series([1.0, 1.5]), pa.int64(), "row 1 (counting from 0): 1.5 is no int64"),
        (pd.Series([1, 300], dtype="Int64"), pa.int8(), "row 1 (counting from 0): 300 is no int8"),
        (pd.Series(pd.to_datetime([0, 1], unit="ns")), pa.timestamp("us"), "row 1 (counting from 0)"),
        (pd.Series(["a"]), pa.int64(), "'a' of type str is no int64"),
        (pd.Series(["a"], dtype="category"), pa.int64(), "column 'c' is string, and int64 in the table"),
        (pd.Series(pd.to_datetime(["2020"])).dt.tz_localize("Asia/Tokyo"), pa.timestamp("us", "UTC"), "'Asia/Tokyo'"),
        (pd.Series(pd.to_datetime(["2020"])), pa.timestamp("us", "UTC"), "no time zone and the time zone 'UTC'"),
        (pd.Series([1j]), pa.int64(), "complex128"),
    ],
)
def test_batches__pandas_value_that_does_not_fit__is_refused(values, kind, words):
    with pytest.raises(SchemaMismatchError, match="column 'c'") as caught:
        table_of(pd.DataFrame({"c": values}), kind)
    assert words in str(caught.value), str(caught.value)


def test_batches__pandas_periods__offer_the_storage_type():
    with pytest.raises(UnsupportedTypeError, match=r"column 'c' has the extension type .*period.*storage type, int64"):
        table_of(pd.DataFrame({"c": pd.period_range("2020", periods=2)}), pa.int64())


def test_batches__caller_changes_the_frame_afterwards__rows_of_python_values_stay():
    frame = pd.DataFrame({"c": pd.Series(["a", "b"], dtype=object)})
    found = next(batches(frame, make_schema(pa.schema([("c", pa.string())]), None)))
    frame.loc[0, "c"] = "changed"
    assert found["c"].to_pylist() == ["a", "b"]
