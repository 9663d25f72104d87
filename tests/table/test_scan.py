from __future__ import annotations

import datetime as dt

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from scan_cases import FILTERS, GRP, ID, only, parse, scan, some_table, threads
from siltstone.errors import MissingObjectError
from siltstone.format.table import Bounds
from siltstone.table import evolve, layout
from siltstone.table.scan import matching
from siltstone.table.schema import arrow_schema
from state_tables import StateTable, rows_of

# -- the rows ---------------------------------------------------------------------------------------


def test_to_arrow__fragments_with_deleted_rows__gives_those_left_in_order(sizes):
    table = some_table()
    found = scan(table).to_arrow()
    assert found.schema.equals(arrow_schema(table.state.schema))
    assert found.equals(table.rows)
    found.validate(full=True)


@pytest.mark.parametrize(("where", "expected"), FILTERS, ids=[where for where, _ in FILTERS])
def test_to_arrow__filter__gives_what_pyarrow_gives(sizes, where, expected):
    table = some_table()
    wanted = table.rows.filter(expected) if where != "true" else table.rows
    assert scan(table, where=where).to_arrow().equals(wanted)
    assert scan(table, where=where, columns=["name", "id"]).to_arrow().equals(wanted.select(["name", "id"]))
    assert scan(table, where=where).count() == wanted.num_rows


@pytest.mark.parametrize("limit", [0, 1, 99, 1000, 10_000])
@pytest.mark.parametrize("offset", [0, 7, 1500])
@pytest.mark.parametrize("where", [None, "grp < 5"])
def test_to_arrow__limit_and_offset__are_a_slice(sizes, limit, offset, where):
    table = some_table()
    wanted = (table.rows.filter(GRP < 5) if where else table.rows).slice(offset, limit)
    found = scan(table, where=where, limit=limit, offset=offset)
    assert found.to_arrow().equals(wanted)
    assert found.count() == wanted.num_rows


def test_to_batches__many_rows__are_in_batches_of_at_most_that_many(sizes):
    table = some_table()
    found = list(scan(table, batch_rows=128).to_batches())
    assert max(batch.num_rows for batch in found) <= 128
    assert min(batch.num_rows for batch in found) > 0
    assert pa.Table.from_batches(found).equals(table.rows)


def test_to_batches__small_fragments__come_joined():
    table = StateTable()
    for number in range(40):
        table.add(rows_of(range(10 * number, 10 * number + 10), seed=number))
    (batch,) = scan(table).to_batches()
    assert pa.Table.from_batches([batch]).equals(table.rows)


def test_to_arrow__run_again_while_others_commit__sees_its_version():
    table = some_table()
    rows, found = table.rows, scan(table)
    assert found.to_arrow().equals(rows)
    table.add(rows_of(range(9000, 9100)))
    assert found.to_arrow().equals(rows)
    assert found.count() == rows.num_rows
    assert scan(table).count() == rows.num_rows + 100


def test_to_arrow__no_fragment__has_no_rows():
    table = StateTable()
    for found in (scan(table), scan(table, where="id > 3"), scan(table, columns=["name"])):
        assert found.to_arrow().num_rows == 0
        assert found.to_arrow().schema.equals(found.schema)
        assert found.count() == 0


def test_to_arrow__nested_and_odd_types__come_back(sizes):
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("x", pa.float32()), ("y", pa.float32())])),
            ("seen", pa.map_(pa.string(), pa.int64())),
            ("day", pa.date32()),
            ("raw", pa.binary()),
            ("price", pa.decimal128(10, 2)),
            ("took", pa.duration("us")),
        ]
    )
    rows = pa.Table.from_pylist(
        [
            {
                "id": one,
                "tags": ["a"] * (one % 4) if one % 5 else None,
                "place": {"x": one, "y": None},
                "seen": [("k", one)],
                "day": dt.date(2026, 1, 1) + dt.timedelta(days=one),
                "raw": bytes([one % 256]) * (one % 3),
                "price": None,
                "took": dt.timedelta(microseconds=one),
            }
            for one in range(900)
        ],
        schema=columns,
    )
    table = StateTable(columns, "id").add(rows).delete(0, range(0, 900, 9))
    kept = table.rows
    assert scan(table).to_arrow().equals(kept)
    sevens = [place for place, one in enumerate(kept["id"].to_pylist()) if one % 7 == 0]
    assert scan(table, where="id % 7 = 0").to_arrow().equals(kept.take(pa.array(sevens)))
    assert (
        scan(table, where="day >= date '2026-05-01'", columns=["tags", "day"])
        .to_arrow()
        .equals(kept.filter(pc.field("day") >= dt.date(2026, 5, 1)).select(["tags", "day"]))
    )


def test_to_arrow__deleted_rows_of_a_column_of_lists__are_left_out_by_run_and_by_row():
    columns = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    rows = pa.table({"id": range(50_000), "tags": [["a", "b"][: n % 3] for n in range(50_000)]}, schema=columns)
    for gone in (range(100, 30_000), range(0, 50_000, 10), [3, 4, 40_000]):
        table = StateTable(columns, "id").add(rows).delete(0, gone)
        assert scan(table).to_arrow().equals(table.rows)


# -- statistics --------------------------------------------------------------------------------------


def test_count__no_filter__reads_nothing():
    table = some_table().fresh()
    assert scan(table).count() == table.rows.num_rows == 2400
    assert scan(table, limit=10).count() == 10
    assert scan(table, limit=10_000, offset=2000).count() == 400
    assert table.store.usage().total == 0


def test_to_arrow__filter_on_a_key_range__opens_only_fragments_that_may_match():
    table = StateTable()
    for number in range(20):
        table.add(rows_of(range(100 * number, 100 * number + 100)))
    table.fresh()
    assert scan(table, where="id between 550 and 560").to_arrow()["id"].to_pylist() == list(range(550, 561))
    assert table.store.usage().requests == {"get": 1}
    assert scan(table, where="id = -1").count() == 0
    assert table.store.usage().total == 1


def test_to_arrow__filter_rules_out_row_groups_and_pages__reads_few_bytes(monkeypatch):
    monkeypatch.setattr(layout, "GROUP_ROWS", 20_000)
    monkeypatch.setattr(layout, "PAGE_ROWS", 500)
    monkeypatch.setattr(layout, "_BATCH_ROWS", 500)
    table = StateTable().add(rows_of(range(100_000))).fresh()
    size = next(iter(table.state.fragments)).fragment.bytes
    assert scan(table, where="id between 50000 and 50010").to_arrow().num_rows == 11
    assert table.store.usage().bytes_in < size / 5
    table.fresh()
    assert scan(table, where="id between 40000 and 59999").to_arrow().num_rows == 20_000
    assert table.store.usage().bytes_in < size / 2


def test_to_arrow__few_rows_match__other_columns_are_read_by_page(monkeypatch):
    monkeypatch.setattr(layout, "PAGE_ROWS", 500)
    monkeypatch.setattr(layout, "_BATCH_ROWS", 500)
    rows = rows_of(range(50_000))
    flag = np.zeros(50_000, np.int32)
    flag[20_000:20_010] = 77
    table = StateTable().add(rows.set_column(3, "grp", pa.array(flag))).fresh()
    size = next(iter(table.state.fragments)).fragment.bytes
    assert scan(table, where="grp = 77").to_arrow()["id"].to_pylist() == list(range(20_000, 20_010))
    assert table.store.usage().bytes_in < size / 4


def test_count__filter__reads_only_what_it_tests():
    table = StateTable().add(rows_of(range(50_000))).fresh()
    scan(table, where="grp = 3").count()
    counted = table.store.usage().bytes_in
    table.fresh()
    scan(table, where="grp = 3").to_arrow()
    assert counted < table.store.usage().bytes_in / 4


def test_to_arrow__limit_without_filter__reads_only_the_first_row_groups(large):
    table = StateTable()
    for number in range(5):
        table.add(rows_of(range(1000 * number, 1000 * number + 1000)))
    table.lose(1).fresh()
    assert scan(table, limit=5).to_arrow()["id"].to_pylist() == [0, 1, 2, 3, 4]
    assert scan(table, limit=1000).to_arrow().num_rows == 1000
    assert table.store.usage().requests == {"get": 1}
    with pytest.raises(MissingObjectError):
        scan(table, limit=1001).to_arrow()


def test_to_arrow__offset_without_filter__opens_no_fragment_before_it(large):
    table = StateTable()
    for number in range(5):
        table.add(rows_of(range(1000 * number, 1000 * number + 1000)))
    table.lose(0).lose(1).fresh()
    assert scan(table, offset=2000, limit=3).to_arrow()["id"].to_pylist() == [2000, 2001, 2002]
    assert table.store.usage().requests == {"get": 1}


def test_to_arrow__limit_with_filter__stops_at_the_row_group_that_has_enough(large):
    table = StateTable()
    for number in range(50):
        table.add(rows_of(range(1000 * number, 1000 * number + 1000)))
    table.fresh()
    assert scan(table, where="grp >= 0", limit=5).to_arrow().num_rows == 5
    assert table.store.usage().bytes_in < 2 * next(iter(table.state.fragments)).fragment.bytes
    assert threads() == []


def test_to_arrow__most_rows_side_by_side_are_gone__their_pages_are_not_read(monkeypatch):
    monkeypatch.setattr(layout, "GROUP_ROWS", 20_000)
    table = StateTable().add(rows_of(range(80_000))).delete(0, range(5_000, 75_000)).fresh()
    assert scan(table).to_arrow().equals(table.rows)
    assert table.store.usage().bytes_in < next(iter(table.state.fragments)).fragment.bytes / 2


def test_to_arrow__nan_above_all_bounds_of_the_file__is_found(sizes):
    scores = np.arange(3000, dtype=float)
    scores[1234] = np.nan
    rows = rows_of(range(3000)).set_column(2, "score", pa.array(scores))
    table = StateTable().add(rows)
    # NaN is above every number, and Parquet's own bounds leave it out.
    assert scan(table, where="score > 5000").to_arrow()["id"].to_pylist() == [1234]
    assert scan(table, where="score > 2998").to_arrow()["id"].to_pylist() == [1234, 2999]
    assert matching(table.tools, *only(table), parse("score > 5000", table), table.state.schema).tolist() == [1234]


def test_to_arrow__log_bounds_missing__reads_all_the_same(sizes):
    table = some_table()
    lives = [
        live._replace(fragment=msgspec.structs.replace(live.fragment, bounds={"1": Bounds(None, None, 0)}))
        for live in table.state.fragments
    ]
    bare = StateTable(store=table.store)
    bare.apply(operation="append", add=tuple(live.fragment for live in lives))
    bare.apply(operation="delete", mask={one.fragment.name: one.vector for one in lives if one.vector is not None})
    assert scan(bare, where="id > 2500").to_arrow().equals(table.rows.filter(ID > 2500))


# -- columns that changed ----------------------------------------------------------------------------


def test_to_arrow__column_added_renamed_widened_and_dropped__old_fragments_follow(sizes):
    table = StateTable().add(rows_of(range(1000))).delete(0, range(0, 1000, 3))
    schema = evolve.add_column(table.state.schema, pa.field("lang", pa.string()), "en")
    schema = evolve.add_column(schema, pa.field("note", pa.string()))
    schema = evolve.rename_column(schema, "name", to="title")
    schema = evolve.widen_column(schema, "grp", pa.int64())
    schema = evolve.drop_column(schema, "score")

    def follow(part):
        return pa.table(
            {
                "id": part["id"],
                "title": part["name"],
                "grp": part["grp"].cast(pa.int64()),
                "lang": pa.array(["en"] * part.num_rows),
                "note": pa.nulls(part.num_rows, pa.string()),
            },
            schema=arrow_schema(schema),
        )

    table.evolve(schema, follow)
    new = follow(rows_of(range(1000, 1500))).set_column(3, "lang", pa.array(["fr"] * 500))
    table.add(new)
    rows = table.rows
    assert scan(table).to_arrow().equals(rows)
    for where, expected in (
        ("lang = 'en' and grp = 3", (pc.field("lang") == "en") & (pc.field("grp") == 3)),
        ("lang = 'fr'", pc.field("lang") == "fr"),
        ("note is null and id > 900", pc.field("note").is_null() & (ID > 900)),
        ("title like 'name 9%'", pc.starts_with(pc.field("title"), "name 9")),
    ):
        assert scan(table, where=where).to_arrow().equals(rows.filter(expected))
        assert scan(table, where=where).count() == rows.filter(expected).num_rows
    assert (
        scan(table, columns=["lang", "note"], where="grp > 5")
        .to_arrow()
        .equals(rows.filter(pc.field("grp") > 5).select(["lang", "note"]))
    )
