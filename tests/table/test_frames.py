"""Rows as frames of pandas and polars: what they can't hold is an error that names the column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from every_type import TABLE
from siltstone.api import create_table
from siltstone.errors import UnsupportedTypeError
from siltstone.table import frames

MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
INDIAN = pa.timestamp("us", "+05:30")
LAST_DAY = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
REFUSED = {
    "decimal256": ("to_polars", pa.array([Decimal(1)], pa.decimal256(50, 2)), "decimal256(50, 2)"),
    "decimal256 in a list": ("to_polars", pa.array([[Decimal(1)]], pa.list_(pa.decimal256(50, 2))), "decimal256"),
    "offset": ("to_polars", pa.array([MOMENT], INDIAN), "tz=+05:30"),
    "offset in a struct": ("to_polars", pa.array([{"x": MOMENT}], pa.struct({"x": INDIAN})), "tz=+05:30"),
    "last day": ("to_pandas", LAST_DAY, "date32[day]"),
    "last day in a list": ("to_pandas", pa.ListArray.from_arrays([0, 1], LAST_DAY), "date32[day]"),
}  # fmt: skip


class Given:
    """Rows that are there."""

    def __init__(self, table):
        self.schema = table.schema
        self.to_arrow = lambda: table


@pytest.fixture(params=["scan", "sql", "changes"])
def rows(request, tmp_path):
    """``rows(column)`` gives a table's only row, read in one of the ways there are."""

    def made(column):
        schema = pa.schema([("n", pa.int64()), ("odd col", column.type)])
        table = create_table(tmp_path / "t", schema=schema)
        table.append(pa.table([pa.array([1]), column], schema=schema))
        if request.param == "sql":
            return table.sql("select * from t")
        return table.scan() if request.param == "scan" else table.changes(0)

    return made


@pytest.mark.parametrize("case", REFUSED)
def test_frame__type_or_value_that_it_can_not_hold__error_names_column_and_way_out(case, rows, capfd):
    call, column, kind = REFUSED[case]
    found = rows(column)
    with pytest.raises(UnsupportedTypeError) as caught:
        getattr(found, call)()
    assert caught.value.facts["column"] == "odd col"
    assert "column 'odd col'" in caught.value.message
    assert kind in caught.value.message
    assert call.removeprefix("to_") in caught.value.message
    assert "to_arrow()" in caught.value.hint
    assert "panicked" not in capfd.readouterr().err
    assert found.to_arrow().column("odd col").combine_chunks().equals(column)


def test_frame__all_types__hold_the_rows(tmp_path):
    with create_table(tmp_path / "t", schema=TABLE.schema) as table:
        table.append(TABLE)
        for found in (table.scan(), table.sql("select * from t")):
            assert found.to_pandas().shape == TABLE.shape
            assert found.to_polars().shape == TABLE.shape
            assert found.to_polars()["s"].to_list() == TABLE["s"].to_pylist()


def test_frame__library_that_panics_at_a_type_not_known_to_do_so__typed_error(monkeypatch):
    monkeypatch.setattr(frames, "_lacks", lambda *_: False)
    with pytest.raises(UnsupportedTypeError, match="column 'v' of type decimal256"):
        frames.to_polars(Given(pa.table({"n": [1], "v": pa.array([Decimal(1)], pa.decimal256(50, 2))})))


def test_frame__failure_that_no_column_has_alone__says_what_the_library_said():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(UnsupportedTypeError, match=r"polars can't hold these rows: .*a"):
        frames.to_polars(Given(twice))
