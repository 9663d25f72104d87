"""Keys compared as columns say the same as keys compared one by one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.errors import InvalidInputError
from siltstone.table.keys import (
    as_integers,
    check_batch_keys,
    duplicates,
    key_array,
    last_of_each,
    match,
    show_keys,
    sort_order,
)

COLUMNS = {
    "int8": (pa.int8(), st.integers(-3, 3)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 3)),
    "string": (pa.string(), st.text(max_size=6) | st.sampled_from(["", "\0", "\0\0", "a", "a\0", "\0a"])),
    "binary": (pa.binary(), st.binary(max_size=4) | st.sampled_from([b"", b"\0", b"\x01\0\0\0\0\0\0\0"])),
    "fixed binary": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "date": (pa.date32(), st.dates(dt.date(1960, 1, 1), dt.date(1960, 1, 4))),
    "timestamp": (pa.timestamp("us", "UTC"), st.integers(-3, 3)),
    "time": (pa.time64("ns"), st.integers(0, 3)),
    "decimal": (pa.decimal128(38, 2), st.integers(-3, 3).map(lambda n: Decimal(n).scaleb(-2))),
}


@st.composite
def key_columns(draw):
    """A few key columns of drawn types, and their rows as Python sees them."""
    chosen = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(COLUMNS[name][1] for name in chosen)), max_size=30))
    return [COLUMNS[name][0] for name in chosen], rows


def table_of(types, rows, *, chunks=1):
    names = [f"k{place}" for place in range(len(types))]
    table = pa.table([pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)], names=names)
    step = max(1, -(-len(rows) // chunks))
    return pa.concat_tables([table.slice(start, step) for start in range(0, max(1, len(rows)), step)]), names


def plain(scalar):
    """A value as it is stored; Python's own times have no nanoseconds."""
    return scalar.value if hasattr(scalar, "value") else scalar.as_py()


@settings(deadline=None)
@given(key_columns())
def test_key_array__keys_of_any_types__are_equal_where_the_keys_are(drawn):
    types, rows = drawn
    keys = [plain(key) for key in key_array(*table_of(types, rows, chunks=3))]
    assert len(keys) == len(rows)
    assert len(set(keys)) == len(set(rows))
    assert len(set(zip(keys, rows, strict=True))) == len(set(rows))


@pytest.mark.parametrize(
    "rows",
    [
        [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc")],
        [("\0", ""), ("", "\0"), ("\0\0", ""), ("", "\0\0"), ("", "")],
        [("a", "\x01"), ("a\x01", ""), ("\x01\0\0\0\0\0\0\0a", ""), ("", "\x01\0\0\0\0\0\0\0a")],
    ],
)
def test_key_array__strings_whose_ends_could_be_mistaken__differ(rows):
    keys = key_array(*table_of([pa.string(), pa.string()], rows))
    assert len(set(keys.to_pylist())) == len(rows)


def test_key_array__one_column__is_that_column_without_a_copy():
    table = pa.table({"id": pa.array([3, 1, 2]), "v": pa.array(["a", "b", "c"])})
    keys = key_array(table, ["id"])
    assert keys.buffers()[1].address == table["id"].chunk(0).buffers()[1].address


def test_key_array__no_rows__is_empty():
    for types in ([pa.int64()], [pa.string(), pa.int32()]):
        keys = key_array(*table_of(types, []))
        assert len(keys) == 0
        assert list(duplicates(keys)) == list(last_of_each(keys)) == list(match(keys, keys)) == []


def test_key_array__same_key_in_slices_and_chunks__is_the_same_key():
    rows = [(n, f"text {n}") for n in range(40)]
    types = [pa.int32(), pa.string()]
    whole = key_array(*table_of(types, rows))
    table, names = table_of(types, rows, chunks=7)
    assert key_array(table, names).to_pylist() == whole.to_pylist()
    assert key_array(table.slice(13, 9), names).to_pylist() == whole.to_pylist()[13:22]


@pytest.mark.parametrize(("columns", "row"), [(["a"], 3), (["a", "b"], 1)])
def test_check_batch_keys__a_null_in_any_part__names_the_first_row_and_the_columns(columns, row):
    table = pa.table({"a": pa.array([1, 2, 3, None]), "b": pa.array(["x", None, "y", None])})
    with pytest.raises(InvalidInputError, match=f"row {row} has null") as raised:
        check_batch_keys(key_array(table, columns), columns=columns)
    assert all(f"'{name}'" in str(raised.value) for name in columns)
    assert raised.value.hint


def test_check_batch_keys__no_null__passes():
    check_batch_keys(pa.array([1, 2]), columns=["a"])


@settings(deadline=None)
@given(key_columns())
def test_duplicates__any_keys__are_the_rows_whose_key_came_before(drawn):
    types, rows = drawn
    seen, expected = set(), []
    for number, row in enumerate(rows):
        if row in seen:
            expected.append(number)
        seen.add(row)
    assert duplicates(key_array(*table_of(types, rows))).tolist() == expected


@settings(deadline=None)
@given(key_columns())
def test_last_of_each__any_keys__are_the_last_rows_in_order(drawn):
    types, rows = drawn
    expected = sorted({row: number for number, row in enumerate(rows)}.values())
    assert last_of_each(key_array(*table_of(types, rows))).tolist() == expected


@settings(deadline=None)
@given(key_columns(), st.data())
def test_match__any_keys__gives_the_place_of_the_equal_one(drawn, data):
    types, rows = drawn
    unique = list(dict.fromkeys(rows))
    if data.draw(st.booleans(), label="sorted"):
        unique.sort()
    wanted = data.draw(st.lists(st.sampled_from(rows), max_size=40)) if rows else []
    places = {row: number for number, row in enumerate(unique)}
    known = unique[: data.draw(st.integers(0, len(unique)))]
    found = match(key_array(*table_of(types, known)), key_array(*table_of(types, wanted)))
    assert found.dtype == np.int64
    assert found.tolist() == [places[row] if row in known else -1 for row in wanted]


def test_match__null_is_wanted__is_no_match():
    assert match(pa.array(["a", "b", "c"]), pa.array(["c", None])).tolist() == [2, -1]
    assert match(pa.array(["a"]), pa.array([None, "a", None])).tolist() == [-1, 0, -1]
    assert match(pa.array([1, 2, 3]), pa.array([3, None])).tolist() == [2, -1]


@settings(deadline=None)
@given(key_columns())
def test_sort_order__any_keys__is_that_of_their_values(drawn):
    types, rows = drawn
    table, names = table_of(types, rows, chunks=2)
    values = [tuple(plain(column[number]) for column in table.columns) for number in range(table.num_rows)]
    order = sort_order(table, names)
    if order is None:
        assert values == sorted(values)
    else:
        assert sorted(order.tolist()) == list(range(len(rows)))
        assert [values[number] for number in order] == sorted(values)


def test_show_keys__many_and_long_ones__are_cut_and_escaped():
    keys = pa.array(["plain", "new\nline", "ü\x1b[31m", "x" * 500, "e", "f", "g"])
    text = show_keys(keys, np.arange(7))
    assert text.startswith(r"'plain', 'new\nline', '\xfc\x1b[31m', 'xxx")
    assert text.endswith("'e' and 2 more")
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 200


def test_show_keys__a_composite_key__shows_its_parts():
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    assert show_keys(table, [1]) == "(2, 'y')"


def test_show_keys__times_with_nanoseconds__are_shown_whole():
    assert show_keys(pa.array([1], pa.timestamp("ns")), [0]) == "'1970-01-01 00:00:00.000000001'"
    assert show_keys(pa.array([1], pa.timestamp("ns", "Nowhere/Land")), [0]) == "1"


def test_as_integers__dates_and_times__are_their_stored_numbers():
    stamps = pa.array([5, -7], pa.timestamp("ns", "UTC"))
    assert as_integers(stamps).tolist() == [5, -7]
    assert as_integers(pa.array([dt.date(1970, 1, 3)], pa.date32())).tolist() == [2]
    assert as_integers(pa.array([2**64 - 1], pa.uint64())).tolist() == [2**64 - 1]
    assert as_integers(pa.array(["a"])) is None
    assert as_integers(pa.array([1, None])) is None
