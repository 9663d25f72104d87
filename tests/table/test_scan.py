from __future__ import annotations

import datetime as dt
import itertools
import threading

import duckdb
import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from siltstone.errors import CorruptionError, InvalidInputError, MissingObjectError
from siltstone.format.table import Bounds
from siltstone.store.base import Traits
from siltstone.table import evolve, layout, tasks
from siltstone.table.predicate import parse_predicate
from siltstone.table.scan import Scan, matching
from siltstone.table.schema import arrow_schema
from siltstone.table.source import TableSource
from siltstone.table.sql import run_sql
from state_tables import COLUMNS, StateTable, rows_of

ID, NAME, SCORE, GRP = (pc.field(name) for name in COLUMNS.names)
FILTERS = [
    ("id between 400 and 900", (ID >= 400) & (ID <= 900)),
    ("id = 777", ID == 777),
    ("grp = 3", GRP == 3),
    ("grp <> 3", GRP != 3),
    ("score > 0.9 and id < 1500", (SCORE > 0.9) & (ID < 1500)),
    ("score is null", SCORE.is_null()),
    ("name like 'name 1%'", pc.starts_with(NAME, "name 1")),
    ("id < 0", ID < 0),
    ("true", pc.scalar(True)),
]


@pytest.fixture(params=["row groups", "pages", "small fragments"])
def sizes(request, monkeypatch):
    """Fragments of a few thousand rows are many row groups, or many pages, or small ones that are read together."""
    if request.param != "small fragments":
        monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
        monkeypatch.setattr(layout, "GROUP_ROWS", 250 if request.param == "row groups" else 4000)
        monkeypatch.setattr(layout, "PAGE_ROWS", 50)
        monkeypatch.setattr(layout, "_BATCH_ROWS", 50)
    return request.param


@pytest.fixture
def large(monkeypatch):
    """No fragment is small, and row groups have 100 rows."""
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(layout, "GROUP_ROWS", 100)


def some_table():
    """Three fragments: one with rows deleted here and there, one with a long gap, one whole."""
    table = StateTable()
    for number in range(3):
        table.add(rows_of(range(1000 * number, 1000 * number + 1000), seed=number))
    table.delete(0, np.random.default_rng(5).choice(1000, 100, replace=False))
    return table.delete(1, range(200, 700))


def scan(table, *args, **options):
    return Scan(table.tools, table.state, *args, **options)


def threads():
    return [one for one in threading.enumerate() if one.name.startswith("siltstone")]


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


# -- one fragment --------------------------------------------------------------------------------------


def only(table):
    (live,) = table.state.fragments
    return (live,)


def parse(where, table):
    return parse_predicate(where, arrow_schema(table.state.schema))


@pytest.mark.parametrize(("where", "expected"), FILTERS, ids=[where for where, _ in FILTERS])
def test_matching__filter__gives_row_numbers_of_the_file_deleted_ones_too(sizes, where, expected):
    rows = rows_of(range(2000))
    table = StateTable().add(rows).delete(0, range(500, 800))
    found = matching(table.tools, *only(table), parse(where, table), table.state.schema)
    wanted = rows.append_column("n", pa.array(range(2000))).filter(expected)["n"] if where != "true" else range(2000)
    assert found.dtype == np.int64
    assert found.tolist() == list(wanted if where == "true" else wanted.to_pylist())


# -- what goes wrong -----------------------------------------------------------------------------------


def test_to_batches__a_file_in_the_middle_is_damaged__rows_before_it_come_and_the_error_names_it(sizes):
    table = StateTable()
    for number in range(3):
        table.add(rows_of(range(20_000 * number, 20_000 * number + 20_000)))
    table.damage(1).fresh()
    found = []
    with pytest.raises(CorruptionError) as caught:
        found.extend(scan(table).to_batches())
    assert table.names[1] in caught.value.facts["object"]
    assert sum(batch.num_rows for batch in found) <= 40_000
    assert threads() == []


def test_to_arrow__a_file_is_gone__names_it(sizes):
    table = some_table().lose(2).fresh()
    with pytest.raises(MissingObjectError) as caught:
        scan(table).to_arrow()
    assert table.names[2] in caught.value.facts["object"]
    assert scan(table, where="id < 1000").to_arrow().num_rows == 900
    assert threads() == []


def test_to_arrow__filter_fails_on_a_row__says_so(sizes):
    table = some_table()
    with pytest.raises(InvalidInputError, match="1 / "):
        scan(table, where="1 / (id - 5) > 0").to_arrow()
    assert threads() == []


def test_to_batches__given_up_early__no_thread_stays(large):
    table = StateTable()
    for number in range(4):
        table.add(rows_of(range(3000 * number, 3000 * number + 3000)))
    batches = scan(table, batch_rows=10).to_batches()
    next(batches)
    batches.close()
    assert threads() == []
    reader = scan(table).to_reader()
    reader.read_next_batch()
    del reader
    assert threads() == []


def test_to_arrow__small_table__starts_no_thread(monkeypatch):
    table = StateTable().add(rows_of(range(100))).add(rows_of(range(100, 150)))
    started = []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    assert scan(table).to_arrow().num_rows == 150
    assert scan(table, columns=["id"]).to_arrow().num_rows == 150
    assert started == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([], "names no column"),
        (["id", "id"], "twice"),
        (["nmae"], "did you mean 'name'"),
        ("id", "list of names"),
        ([3], "must be a string"),
        (5, "list of names"),
    ],
)
def test_scan__columns_that_can_not_be__refuses(columns, words):
    with pytest.raises(InvalidInputError, match=words):
        scan(some_table(), columns=columns)


@pytest.mark.parametrize("value", [-1, True, 1.0, "7", 2**63, float("nan")])
@pytest.mark.parametrize("name", ["limit", "offset", "batch_rows"])
def test_scan__numbers_that_can_not_be__refuses(name, value):
    with pytest.raises(InvalidInputError, match=name):
        scan(some_table(), **{name: value})


def test_scan__numpy_limit__is_a_number():
    assert scan(some_table(), limit=np.int64(3)).to_arrow().num_rows == 3


def test_scan__filter_on_an_unknown_column__suggests_near_names():
    with pytest.raises(InvalidInputError, match="did you mean 'score'"):
        scan(some_table(), where="scroe > 1")


# -- other ways out --------------------------------------------------------------------------------------


def test_scan__other_libraries__read_it():
    table = some_table()
    rows = table.rows
    found = scan(table, where="grp = 3")
    wanted = rows.filter(GRP == 3)
    assert isinstance(found.to_pandas(), pd.DataFrame)
    assert len(found.to_pandas()) == wanted.num_rows
    assert found.to_polars().equals(pl.from_arrow(wanted))
    assert pl.DataFrame(found).equals(pl.from_arrow(wanted))
    assert pa.table(found).equals(wanted)
    assert found.to_reader().read_all().equals(wanted)
    assert sum(batch.num_rows for batch in found) == wanted.num_rows
    with duckdb.connect() as engine:
        engine.register("rows", found.to_reader())
        assert engine.execute("select count(*) from rows").fetchall() == [(wanted.num_rows,)]


def test_explain__filter__tells_what_is_read(large):
    table = some_table()
    text = scan(table, columns=["id"], where="id between 100 and 199", limit=7).explain()
    assert "fragments  1 of 3 are read, 2 are ruled out" in text
    assert "row groups 1 of 10" in text
    assert "id between 100 and 199" in text
    assert "1 of 4" in text
    assert "limit      7" in text
    assert text.startswith("scan of version")


def test_repr__a_scan__is_one_line():
    text = repr(scan(some_table(), columns=["id"], where="id > 1\n", limit=3))
    assert text == "Scan(version -1, id, where 'id > 1\\n', limit 3)"


# -- behind a network, and SQL -----------------------------------------------------------------------------


def test_to_arrow__store_behind_a_network__gives_the_same(sizes):
    table = some_table()
    table.store.traits = Traits(kind="s3", known_good=True, cheap_probes=False)
    table.fresh()
    assert scan(table).to_arrow().equals(table.rows)
    assert scan(table, where="grp = 3").to_arrow().equals(table.rows.filter(GRP == 3))
    assert scan(table, where="grp = 3", limit=3).to_arrow().equals(table.rows.filter(GRP == 3).slice(0, 3))
    assert threads() == []


def test_table_source__query__reads_the_version(sizes):
    table = some_table()
    rows = table.rows
    source = TableSource(table.tools, table.state)
    found = run_sql(
        "select grp, count(*) as n, sum(id) as s from t where id > 300 group by grp order by grp", {"t": source}
    )
    wanted = rows.filter(ID > 300).group_by("grp").aggregate([([], "count_all"), ("id", "sum")]).sort_by("grp")
    assert found.to_arrow()["n"].to_pylist() == wanted["count_all"].to_pylist()
    assert found.to_arrow()["s"].to_pylist() == wanted["id_sum"].to_pylist()
    parts = source.parts(None)
    assert 1 <= len(parts) <= 3
    read = pa.Table.from_batches(itertools.chain.from_iterable(part(["id"]) for part in parts))
    assert read.equals(rows.select(["id"]))


def test_table_source__query_on_a_key_range__opens_only_fragments_that_may_match():
    table = StateTable()
    for number in range(20):
        table.add(rows_of(range(100 * number, 100 * number + 100)))
    table.fresh()
    found = run_sql("select id from t where id between 550 and 560", {"t": TableSource(table.tools, table.state)})
    assert sorted(found.to_arrow()["id"].to_pylist()) == list(range(550, 561))
    assert table.store.usage().requests == {"get": 1}
