"""Numbers that are compared with decimals are what is written, in filters and in queries."""

from __future__ import annotations

import operator
import random
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import InvalidInputError
from siltstone.table.decimals import as_written

PRICES = ["16.49", "1234567.89", "-0.01", "0.10", "3.50", "999999.99", "-16.49", "0.00"]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("p", pa.decimal128(12, 2)),
        ("wide", pa.decimal256(50, 4)),
        ("f", pa.float64()),
    ]
)
COMPARED = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.fixture
def prices():
    made = ss.create(f"memory://{uuid.uuid4().hex}", schema=SCHEMA, key="id", probe=False)
    rows = [{"id": n, "p": Decimal(one), "wide": Decimal(one), "f": float(one)} for n, one in enumerate(PRICES)]
    made.append(rows)
    return made


def ids(table, where):
    """What a filter and a query find, which is the same."""
    scanned = sorted(table.scan(["id"], where=where).to_arrow()["id"].to_pylist())
    asked = table.sql(f'select id from "{table.name}" where {where} order by id').to_arrow()["id"].to_pylist()
    assert scanned == asked
    return scanned


def matching(holds):
    return [n for n, one in enumerate(PRICES) if holds(Decimal(one))]


@pytest.mark.parametrize("column", ["p", "wide"])
@pytest.mark.parametrize("sign", COMPARED)
@pytest.mark.parametrize("number", [*PRICES, "16.495", "16.485", "1e3", ".1", "3.", "0.0000001"])
def test_where__a_number_with_a_point__is_compared_as_it_is_written(prices, column, sign, number):
    holds = COMPARED[sign]
    assert ids(prices, f"{column} {sign} {number}") == matching(lambda one: holds(one, Decimal(number)))
    assert ids(prices, f"{number} {sign} {column}") == matching(lambda one: holds(Decimal(number), one))


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("p in (16.49, -0.01, 3.567)", lambda one: one in {Decimal("16.49"), Decimal("-0.01")}),
        ("p not in (16.49, 0.1)", lambda one: one not in {Decimal("16.49"), Decimal("0.1")}),
        ("p between -0.01 and 0.1", lambda one: Decimal("-0.01") <= one <= Decimal("0.1")),
        ("p not between -0.01 and 16.48 and f = 16.49", lambda one: one == Decimal("16.49")),
        ("p is not distinct from 16.49", lambda one: one == Decimal("16.49")),
        ('"p" = 16.49 or p = - 0.01', lambda one: one in {Decimal("16.49"), Decimal("-0.01")}),
        ("p = 16.49 and f = 16.49", lambda one: one == Decimal("16.49")),
        ("case when p = 16.49 then f = 16.49 else false end", lambda one: one == Decimal("16.49")),
    ],
)
def test_where__numbers_in_lists_and_ranges__are_compared_as_they_are_written(prices, where, holds):
    assert ids(prices, where) == matching(holds)


def test_where__any_price__finds_just_its_rows():
    chance = random.Random(7)
    found = sorted({f"{chance.randrange(10 ** chance.randrange(3, 11)) / 100:.2f}" for _ in range(300)})
    schema = pa.schema([("p", pa.decimal128(12, 2))])
    table = ss.create(f"memory://{uuid.uuid4().hex}", schema=schema, probe=False)
    table.append(pa.table({"p": [Decimal(one) for one in found]}, schema=schema))
    for one in chance.sample(found, 60):
        assert table.scan(where=f"p = {one}").to_arrow()["p"].to_pylist() == [Decimal(one)]
        assert table.scan(where=f"p < {one}").count() == found_below(found, one)


def found_below(found, one):
    return sum(Decimal(each) < Decimal(one) for each in found)


def test_delete__a_price__goes(prices):
    assert prices.delete("p = 16.49").deleted == 1
    assert prices.update({"f": "0.0"}, where="p = 1234567.89").updated == 1


@pytest.mark.parametrize("where", ["p + 1 = 17.49", "p * 2 = 32.98", "17.49 = p + 1", "coalesce(p + 1, 0) in (17.49)"])
def test_where__a_number_that_would_be_another_one__is_refused_with_what_to_write(prices, where):
    with pytest.raises(InvalidInputError, match="is a double there") as caught:
        prices.scan(where=where)
    assert "CAST('" in caught.value.hint
    with pytest.raises(InvalidInputError, match="is a double there"):
        prices.sql(f'select id from "{prices.name}" where {where}')


def test_where__what_the_hint_says__finds_the_row(prices):
    assert ids(prices, "p + 1 = CAST('17.49' AS DECIMAL(4, 2))") == [0]
    assert ids(prices, "p + 1 > 10.5") == matching(lambda one: one + 1 > Decimal("10.5"))


@pytest.mark.parametrize(
    "text",
    [
        "f = 16.49",
        "f * p = 16.49",
        "p = 16.49 * f",
        "16.49 < p * f",
        "p::double = 16.49",
        "'p = 16.49'",
        "x -- p = 16.49",
        "2.5 - 1.5 = p",
        "a - 1.5 < p",
        "t.p.q = 1.5",
        "p = 16",
        "p in (1.5 * f)",
        "p = 1." + "1" * 40,
    ],
)
def test_as_written__what_is_no_number_beside_a_decimal__stays(text):
    assert as_written(text, frozenset({"p"})) == text


# -- zeros and NaN ---------------------------------------------------------------------------------

FLOATS = pa.schema([("id", pa.int64()), ("d", pa.float64()), ("s", pa.float32())])


@pytest.fixture(params=["memory", "file"])
def floats(request, tmp_path):
    uri = f"memory://{uuid.uuid4().hex}" if request.param == "memory" else tmp_path
    table = ss.create(uri, schema=FLOATS, probe=False, sync=False)
    values = np.array([-0.0, 0.0, 5.0, 9.0] * 5_000)
    table.append(pa.table([np.arange(len(values)), values, values.astype(np.float32)], schema=FLOATS))
    return table


@pytest.mark.parametrize("column", ["d", "s"])
@pytest.mark.parametrize(
    "where",
    [
        "{0} in (0.0, 5.0, 6.0, 7.0)",
        "{0} = 0.0 or {0} = 5.0 or {0} = 6.0 or {0} = 7.0",
        "{0} in (-0.0, 5)",
        "{0} in (7, -0.0, -0., 5, 6)",
    ],
)
def test_where__a_list_with_zero__finds_zeros_of_both_signs(floats, column, where):
    assert floats.scan(where=where.format(column)).count() == 15_000
    assert len(floats.scan(["id"], where=where.format(column)).to_arrow()) == 15_000
    assert floats.scan(where=f"not ({where.format(column)})").count() == 5_000
    assert floats.delete(where.format(column)).deleted == 15_000


def test_append__nan_with_a_sign__is_above_every_number_as_any_other(floats):
    nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)
    assert np.signbit(nan[0])
    rows = pa.table([[-1], nan, nan.astype(np.float32)], schema=FLOATS)
    floats.append(rows)
    floats.append([{"id": -2, "d": nan[0], "s": nan[0]}])
    floats.update({"d": "0.0 / (d - d)"}, where="id = 2")
    for where in ("d > 5000", "d = CAST('NaN' AS DOUBLE)"):
        assert sorted(floats.scan(["id"], where=where).to_arrow()["id"].to_pylist()) == [-2, -1, 2]
    assert sorted(floats.scan(["id"], where="s > 5000").to_arrow()["id"].to_pylist()) == [-2, -1]
    assert floats.scan(where="d < 0 or s < 0").count() == 0
