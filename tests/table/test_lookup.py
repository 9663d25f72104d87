from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from siltstone.errors import CorruptionError, InvalidInputError, MissingObjectError
from siltstone.store.base import Traits
from siltstone.table import evolve, layout
from siltstone.table.lookup import candidates, find_keys, get, key_rows, match_keys
from siltstone.table.scan import Scan
from state_tables import COLUMNS, StateTable, rows_of

PAIRS = pa.schema([("shop", pa.string()), ("day", pa.date32()), ("sold", pa.int64())])


@pytest.fixture(autouse=True)
def pages(monkeypatch):
    """Several row groups in a fragment of a thousand rows, and several pages in each."""
    monkeypatch.setattr(layout, "GROUP_ROWS", 400)
    monkeypatch.setattr(layout, "PAGE_ROWS", 50)
    monkeypatch.setattr(layout, "_BATCH_ROWS", 50)


def upserted():
    """Keys 0, 2, 4, ... up to 4000 in two fragments, of which those that divide by 10 moved to a third."""
    table = StateTable()
    table.add(rows_of(range(0, 2000, 2), seed=1)).add(rows_of(range(2000, 4000, 2), seed=2))
    table.add(rows_of(range(0, 4000, 10), seed=3))
    return table.delete(0, range(0, 1000, 5)).delete(1, range(0, 1000, 5))


def rows_by_key(table, keys, columns=None):
    """What ``get`` must give, by looking at every row."""
    rows = table.rows
    names = [field.name for field in rows.schema if field.name in ("shop", "day")] or ["id"]
    places = {tuple(row.values()): place for place, row in enumerate(rows.select(names).to_pylist())}
    wanted = [places[key] for key in dict.fromkeys(keys) if key in places]
    found = rows.take(pa.array(wanted, pa.int64()))
    return found.select(columns) if columns else found


def ask(table, keys, **options):
    return get(table.tools, table.state, keys, **options)


@pytest.mark.parametrize(
    "keys",
    [
        [4],
        [10],
        [3998, 0, 10, 2],
        list(range(-5, 4010)),
        list(range(3999, 0, -7)),
        [1, 3, 5],
        [],
        [6, 6, 10, 6, 10],
        [2**62, -(2**62)],
    ],
)
def test_get__keys_of_several_fragments__come_in_the_order_asked_for(keys):
    table = upserted()
    found = ask(table, keys)
    assert found.equals(rows_by_key(table, [(key,) for key in keys]))
    assert found.schema.equals(table.rows.schema)


def test_get__key_in_every_form__is_the_same():
    table = upserted()
    wanted = rows_by_key(table, [(20,), (6,)])
    for keys in (
        [20, 6],
        (20, 6),
        np.array([20, 6]),
        np.array([20, 6], np.int16),
        pa.array([20, 6]),
        pa.chunked_array([[20], [6]]),
        pa.array([20, 6], pa.int8()),
        pd.Series([20, 6]),
        pl.Series([20, 6]),
        pa.table({"id": [20, 6]}),
        pd.DataFrame({"id": [20, 6]}),
        pl.DataFrame({"id": [20, 6]}),
        {"id": [20, 6]},
        [{"id": 20}, {"id": 6}],
        (key for key in (20, 6)),
        {20: None, 6: None}.keys(),
    ):
        assert ask(table, keys).equals(wanted), type(keys)
    for key in (20, np.int64(20), pa.scalar(20), [20], {"id": 20}, np.array(20)):
        assert ask(table, key).equals(wanted.slice(0, 1)), type(key)


def test_get__columns__come_as_asked_for():
    table = upserted()
    assert ask(table, [6, 20], columns=["grp", "name"]).equals(rows_by_key(table, [(6,), (20,)], ["grp", "name"]))
    assert ask(table, [7], columns=["grp"]).schema.names == ["grp"]
    with pytest.raises(InvalidInputError, match="did you mean 'name'"):
        ask(table, [6], columns=["nmae"])


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("7", "id"),
        (7.0, "id"),
        ([1, None], "row 1"),
        (None, "row 0"),
        (True, "id"),
        (float("nan"), "id"),
        ([1, "x"], "row 1"),
        (2**63, "row 0"),
        (np.array([1.5]), "id"),
        (pa.array(["a"]), "id"),
        (pa.array([1, None]), "row 1"),
        ([(1, 2)], "id"),
        ({"no": [1]}, "no"),
        (pa.table({"id": [1], "more": [2]}), "more"),
        (b"7", "id"),
        (object(), "id"),
    ],
)
def test_get__keys_of_another_type__are_refused(keys, words):
    with pytest.raises(InvalidInputError, match=words):
        ask(upserted(), keys)


def test_get__table_without_a_key__is_refused():
    table = StateTable(COLUMNS, None).add(rows_of(range(10)))
    with pytest.raises(InvalidInputError, match="has no key"):
        ask(table, [1])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), [f"{'long' * (n % 9)}-{n}-\U0001f600" for n in range(3000)]),
        (pa.binary(), [bytes([n % 256, n // 256]) * (1 + n % 20) for n in range(3000)]),
        (pa.binary(4), [n.to_bytes(4, "big") for n in range(3000)]),
        (pa.uint64(), [2**64 - 1 - 1000 * n for n in range(3000)]),
        (pa.int8(), list(range(-128, 128))),
        (pa.date32(), [dt.date(1960, 1, 1) + dt.timedelta(days=n) for n in range(3000)]),
        (
            pa.timestamp("us", "UTC"),
            [dt.datetime(1969, 12, 1, n % 24, tzinfo=dt.UTC) + dt.timedelta(n) for n in range(3000)],
        ),
        (pa.time64("us"), [dt.time(n // 3600, n // 60 % 60, n % 60, n) for n in range(3000)]),
        (pa.decimal128(10, 2), [decimal.Decimal(n) / 4 for n in range(-1500, 1500)]),
    ],
    ids=str,
)
def test_get__keys_of_every_type__are_found(kind, values):
    columns = pa.schema([("id", kind), ("n", pa.int64())])
    rows = pa.table({"id": pa.array(values, kind), "n": range(len(values))}, schema=columns)
    table = StateTable(columns)
    half = len(values) // 2
    for part in (rows.slice(0, half), rows.slice(half)):
        table.add(part.sort_by("id"))
    for chosen in ([0], [half, 3, 1, half + 1], range(0, len(values), 3)):
        assert ask(table, [values[one] for one in chosen])["n"].to_pylist() == list(chosen)
    assert ask(table, values)["n"].to_pylist() == list(range(len(values)))
    assert ask(table, values[7])["n"].to_pylist() == [7]


def test_get__composite_key__compares_all_parts():
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(200)]
    table = StateTable(PAIRS, ["shop", "day"])
    for shops in (["a", "ab", "b"], ["c", "d"]):
        rows = pa.table(
            {
                "shop": [shop for shop in shops for _ in days],
                "day": days * len(shops),
                "sold": range(len(shops) * len(days)),
            },
            schema=PAIRS,
        )
        table.add(rows)
    table.delete(0, range(0, 600, 4))
    keys = [("d", days[3]), ("ab", days[1]), ("a", days[0]), ("a", days[5]), ("x", days[1]), ("b", dt.date(2030, 1, 1))]
    wanted = rows_by_key(table, keys)
    assert wanted.num_rows == 3
    assert ask(table, keys).equals(wanted)
    assert ask(table, [{"day": day, "shop": shop} for shop, day in keys]).equals(wanted)
    assert ask(table, {"day": [day for _, day in keys], "shop": [shop for shop, _ in keys]}).equals(wanted)
    assert ask(table, pa.table({"shop": [one for one, _ in keys], "day": [day for _, day in keys]})).equals(wanted)
    assert ask(table, keys[0]).equals(wanted.slice(0, 1))
    assert ask(table, {"shop": "d", "day": days[3]}).equals(wanted.slice(0, 1))
    assert ask(table, []).num_rows == 0
    for bad in (["a"], [("a",)], [("a", days[0], 1)], "a", [("a", None)], [(None, days[0])], [("a", "2026-01-01")]):
        with pytest.raises(InvalidInputError):
            ask(table, bad)


def test_get__column_added_and_key_renamed_and_widened__follows():
    columns = pa.schema([("id", pa.int32()), ("n", pa.int64())])
    table = StateTable(columns).add(pa.table({"id": range(1000), "n": range(1000)}, schema=columns))
    schema = evolve.add_column(table.state.schema, pa.field("lang", pa.string()), "en")
    schema = evolve.widen_column(evolve.rename_column(schema, "id", to="number"), "number", pa.int64())
    table.apply(operation="schema", schema=schema)
    assert ask(table, [700, 2**40, 3]).to_pylist() == [
        {"number": 700, "n": 700, "lang": "en"},
        {"number": 3, "n": 3, "lang": "en"},
    ]


def test_get__one_key__opens_only_the_fragment_that_may_hold_it():
    table = StateTable()
    for number in range(20):
        table.add(rows_of(range(100 * number, 100 * number + 100)))
    table.fresh()
    assert ask(table, 1234).num_rows == 1
    assert table.store.usage().requests == {"get": 1}
    assert ask(table, 10**6).num_rows == 0
    assert ask(table, []).num_rows == 0
    assert table.store.usage().total == 1


def test_get__key_in_the_newest_fragment__older_ones_are_not_opened():
    table = upserted().fresh()
    table.lose(0).lose(1)
    assert ask(table, [30])["id"].to_pylist() == [30]
    with pytest.raises(MissingObjectError):
        ask(table, [32])


def test_get__vector_is_damaged__is_told():
    table = upserted()
    (key,) = [info.key for info in table.store.list("vectors")][:1]
    data = bytearray(table.store.get(key))
    data[-1] ^= 1
    table.store.put(key, bytes(data))
    table.fresh()
    with pytest.raises(CorruptionError):
        ask(table, [12, 2012, 0])


def test_get__store_behind_a_network__gives_the_same():
    table = upserted()
    table.store.traits = Traits(kind="s3", known_good=True, cheap_probes=False)
    table.fresh()
    keys = list(range(0, 4000, 3))
    assert ask(table, keys).equals(rows_by_key(table, [(key,) for key in keys]))


def test_get__one_key_at_a_time__gives_the_same_as_all():
    table = upserted()
    for key in [*range(0, 4000, 37), -1, 4001, 2**63 - 1, -(2**63)]:
        assert ask(table, key).equals(rows_by_key(table, [(key,)]))
        assert ask(table, [key], columns=["name"]).equals(rows_by_key(table, [(key,)], ["name"]))


def test_get__one_key_whose_row_was_deleted__is_not_there():
    table = StateTable().add(rows_of(range(0, 2000, 2))).delete(0, [3, 700])
    assert [ask(table, key).num_rows for key in (4, 6, 8, 1398, 1400, 1402)] == [1, 0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str
)
def test_get__one_whole_number_at_the_ends_of_its_type__is_found(kind):
    info = np.iinfo(kind.to_pandas_dtype())
    low, high = int(info.min), int(info.max)
    columns = pa.schema([("id", kind), ("n", pa.int64())])
    table = StateTable(columns)
    for part in ([low, low + 1, 7], [high // 2 + 1, high - 1, high]):
        table.add(pa.table({"id": pa.array(part, kind), "n": range(3)}, schema=columns))
    found = [ask(table, key)["id"].to_pylist() for key in (low, 7, 8, high // 2 + 1, high)]
    assert found == [[low], [7], [], [high // 2 + 1], [high]]
    with pytest.raises(InvalidInputError):
        ask(table, high + 1)


def test_get__every_key_of_a_scan__gives_the_scan():
    table = upserted()
    rows = Scan(table.tools, table.state).to_arrow()
    assert ask(table, rows["id"]).equals(rows)


# -- which rows have keys --------------------------------------------------------------------------------


def test_candidates__keys_between_the_fragments__none_is_chosen():
    table = StateTable()
    for number in range(10):
        table.add(rows_of(range(1000 * number, 1000 * number + 100)))
    gaps = pa.table({"id": [number * 1000 + 500 for number in range(10)]})
    assert candidates(table.state, gaps) == []
    some = pa.table({"id": [500, 3050, 9999, 7000]})
    assert [live.fragment.name for live in candidates(table.state, some)] == [table.names[3], table.names[7]]
    assert candidates(table.state, gaps.slice(0, 0)) == []


def test_candidates__more_texts_than_are_compared_one_by_one__range_decides():
    columns = pa.schema([("id", pa.string()), ("n", pa.int64())])
    table = StateTable(columns)
    for start in "amz":
        table.add(pa.table({"id": [f"{start}{n:05}" for n in range(100)], "n": range(100)}, schema=columns))
    many = pa.table({"id": [f"b{n:06}" for n in range(20_000)] + ["m1"]})
    assert [live.fragment.name for live in candidates(table.state, many)] == [table.names[1]]
    few = pa.table({"id": ["b", "n"]})
    assert candidates(table.state, few) == []


def test_match_keys__deleted_rows__are_found_too():
    table = StateTable().add(rows_of(range(1000))).delete(0, [5, 6])
    (live,) = table.state.fragments
    rows, which = match_keys(table.tools, live, pa.table({"id": [999, 6, 5000, 4]}), table.state.schema)
    assert dict(zip(rows.tolist(), which.tolist(), strict=True)) == {4: 3, 6: 1, 999: 0}


def test_match_keys__composite__needs_all_parts():
    table = StateTable(PAIRS, ["shop", "day"])
    day = dt.date(2026, 1, 1)
    rows = pa.table(
        {"shop": ["a", "a", "b"], "day": [day, day + dt.timedelta(1), day], "sold": [1, 2, 3]}, schema=PAIRS
    )
    (live,) = table.add(rows).state.fragments
    keys = key_rows(table.state.schema, [("b", day + dt.timedelta(1)), ("a", day + dt.timedelta(1)), ("b", day)])
    found, which = match_keys(table.tools, live, keys, table.state.schema)
    assert (found.tolist(), which.tolist()) == ([1, 2], [1, 2])


def test_find_keys__many_keys__gives_each_fragment_that_has_some():
    table = upserted()
    keys = pa.table({"id": np.arange(0, 4000, 4)})
    found = {
        one.live.fragment.name: (one.rows, one.which)
        for one in find_keys(table.tools, candidates(table.state, keys), keys, table.state.schema)
    }
    assert list(found) == table.names
    for name, ids in zip(table.names, (range(0, 2000, 2), range(2000, 4000, 2), range(0, 4000, 10)), strict=True):
        rows, which = found[name]
        assert np.array(ids)[rows].tolist() == keys["id"].to_numpy()[which].tolist()
        assert len(rows) == len(set(ids) & set(range(0, 4000, 4)))
    nothing = pa.table({"id": [1, 3]})
    assert list(find_keys(table.tools, table.state.fragments, nothing, table.state.schema)) == []
