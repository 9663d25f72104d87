from __future__ import annotations

import itertools
import threading

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from scan_cases import FILTERS, GRP, ID, only, parse, scan, some_table, threads
from siltstone.errors import CorruptionError, InvalidInputError, MissingObjectError
from siltstone.store.base import Traits
from siltstone.table.scan import matching
from siltstone.table.source import TableSource
from siltstone.table.sql import run_sql
from state_tables import StateTable, rows_of

# -- one fragment --------------------------------------------------------------------------------------


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
