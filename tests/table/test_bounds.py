"""Statistics bound every value, whatever is in the column."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.format.table import Bounds
from siltstone.table.bounds import BYTES_MAX, CHARACTERS_MAX, COLUMNS_MAX, bounds_of
from siltstone.table.schema import make_schema

# Each kind: its Arrow type, its values, and how a value compares with a bound.
KINDS = {
    "bool": (pa.bool_(), st.booleans(), int),
    "int8": (pa.int8(), st.integers(-128, 127), int),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1), int),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1), int),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False), float),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False), float),
    "string": (pa.string(), st.text(max_size=40), str),
    "long string": (pa.string(), st.text(st.sampled_from("\U0010ffff\ud7ffa"), min_size=14, max_size=40), str),
    "binary": (pa.binary(), st.binary(max_size=40), bytes.hex),
    "high binary": (pa.binary(), st.lists(st.sampled_from([b"\xff", b"\xfe"]), max_size=40).map(b"".join), bytes.hex),
    "fixed binary": (pa.binary(20), st.binary(min_size=20, max_size=20), bytes.hex),
    "date": (pa.date32(), st.dates(), lambda day: (day - dt.date(1970, 1, 1)).days),
    "time": (pa.time32("ms"), st.integers(0, 86_399_999), int),
    "timestamp": (pa.timestamp("ns", "UTC"), st.integers(-(2**63) + 1, 2**63 - 1), int),
    "duration": (pa.duration("us"), st.integers(-(2**63) + 1, 2**63 - 1), int),
}


def bounds_for(values, kind, *, chunks=1):
    column = pa.chunked_array([pa.array(values[start::chunks], kind) for start in range(chunks)], kind)
    table = pa.table({"c": column})
    found = bounds_of(table, make_schema(table.schema, None))["1"]
    assert msgspec.json.decode(msgspec.json.encode(found), type=Bounds) == found
    return found


@settings(deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_bounds_of__any_values__lie_between_low_and_high(name, data):
    kind, values, as_bound = KINDS[name]
    drawn = data.draw(st.lists(st.none() | values, max_size=12))
    found = bounds_for(drawn, kind)
    present = [as_bound(value) for value in drawn if value is not None]
    assert found.nulls == len(drawn) - len(present)
    assert found == bounds_for(drawn, kind, chunks=3)
    if not present:
        assert (found.low, found.high) == (None, None)
        return
    assert found.low is not None
    assert found.low <= min(present)
    if found.high is not None:
        assert max(present) <= found.high
    if kind in {pa.string(), pa.binary(), pa.binary(20)}:
        assert found.low == min(present)[: len(found.low)]
    else:
        assert (found.low, found.high) == (min(present), max(present))


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.5, float("nan"), 2.5], None, None),
        ([float("nan")], None, None),
        ([-math.inf, 1.0], None, 1.0),
        ([1.0, math.inf, None], 1.0, None),
        ([5.0, 5e-324], 5e-324, 5.0),
    ],
)
@pytest.mark.parametrize("kind", [pa.float64()])
def test_bounds_of__floats_that_json_or_order_lacks__are_not_known(values, low, high, kind):
    found = bounds_for(values, kind)
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0], [0.0], [-0.0]])
def test_bounds_of__a_zero__bounds_both_zeros(values):
    found = bounds_for(values, pa.float64())
    assert math.copysign(1, found.low) == -1
    assert math.copysign(1, found.high) == 1


@pytest.mark.parametrize(
    ("text", "high"),
    [
        ("a" * CHARACTERS_MAX, "a" * CHARACTERS_MAX),
        ("a" * (CHARACTERS_MAX + 1), "a" * (CHARACTERS_MAX - 1) + "b"),
        ("ä" * 30, "ä" * (CHARACTERS_MAX - 1) + "å"),
        ("a" * (CHARACTERS_MAX - 1) + "\ud7ffz", "a" * (CHARACTERS_MAX - 1) + "\ue000"),
        ("a" + "\U0010ffff" * 30, "b"),
        ("\U0010ffff" * 30, None),
        ("\U0010ffff" * CHARACTERS_MAX, "\U0010ffff" * CHARACTERS_MAX),
        ("x" * 10_000_000, "x" * (CHARACTERS_MAX - 1) + "y"),
    ],
)
def test_bounds_of__strings__are_cut_and_the_high_one_is_raised(text, high):
    found = bounds_for([text], pa.string())
    assert found == Bounds(text[:CHARACTERS_MAX], high, 0)


@pytest.mark.parametrize(
    ("data", "high"),
    [
        (b"\x01" * BYTES_MAX, "01" * BYTES_MAX),
        (b"\x01" * (BYTES_MAX + 1), "01" * (BYTES_MAX - 1) + "02"),
        (b"\x01" + b"\xff" * 30, "02"),
        (b"\xff" * 30, None),
        (b"\xff" * BYTES_MAX, "ff" * BYTES_MAX),
        (b"", ""),
    ],
)
def test_bounds_of__bytes__are_cut_and_the_high_one_is_raised(data, high):
    assert bounds_for([data], pa.binary()) == Bounds(data[:BYTES_MAX].hex(), high, 0)


def test_bounds_of__a_string_that_is_not_utf8__is_not_known():
    broken = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    table = pa.table({"c": broken})
    assert bounds_of(table, make_schema(table.schema, None))["1"] == Bounds(None, None, 0)


def test_bounds_of__decimals_and_nested_columns__count_nulls_only():
    table = pa.table(
        {
            "d": pa.array([Decimal("1.5"), None], pa.decimal128(5, 2)),
            "l": pa.array([[1], None]),
            "s": pa.array([None, {"x": 1}]),
            "m": pa.array([None, None], pa.map_(pa.string(), pa.int64())),
        }
    )
    found = bounds_of(table, make_schema(table.schema, None))
    assert sorted(bounds.nulls for bounds in found.values()) == [1, 1, 1, 2]
    assert all(bounds.low is None and bounds.high is None for bounds in found.values())


def test_bounds_of__many_columns__are_those_of_the_first_and_of_the_key():
    table = pa.table({f"c{n}": [n] for n in range(COLUMNS_MAX + 10)})
    schema = make_schema(table.schema, f"c{COLUMNS_MAX + 5}")
    found = bounds_of(table, schema)
    assert sorted(map(int, found)) == [*range(1, COLUMNS_MAX + 1), COLUMNS_MAX + 6]
    assert found[str(COLUMNS_MAX + 6)] == Bounds(COLUMNS_MAX + 5, COLUMNS_MAX + 5, 0)


def test_bounds_of__a_slice__looks_at_its_rows_only():
    table = pa.table({"c": np.arange(100), "t": [f"{n:03d}" for n in range(100)]}).slice(10, 5)
    assert bounds_of(table, make_schema(table.schema, None)) == {"1": Bounds(10, 14, 0), "2": Bounds("010", "014", 0)}
