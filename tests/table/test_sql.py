"""Queries: streamed from sources, pruned by what is seen in their plan."""

from __future__ import annotations

import os
import threading

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from siltstone.errors import CorruptionError, ForkedError, LimitExceededError, MissingDependencyError, UnavailableError
from siltstone.table import frames, lanes
from siltstone.table.predicate import parse_predicate
from siltstone.table.sql import run_sql
from sql_parts import Parts, ask, numbers


@pytest.fixture
def source():
    return Parts(*(numbers(first) for first in range(0, 50, 10)))


def numbers_read(source):
    return sorted({number for number, _ in source.read})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) AS n FROM t", [{"n": 50}]),
        ("SELECT id FROM t WHERE id > 47 ORDER BY id", [{"id": 48}, {"id": 49}]),
        (
            "SELECT Name, count(*) AS n FROM t WHERE id < 8 GROUP BY Name ORDER BY n DESC LIMIT 1",
            [{"Name": "n0", "n": 2}],
        ),
        ("WITH few AS (SELECT id FROM t LIMIT 3) SELECT count(*) AS n FROM few", [{"n": 3}]),
        ("VALUES (1, 'a')", [{"column1": 1, "column2": "a"}]),
        ("SELECT a.id FROM t a JOIN t b ON a.id = b.id * 2 WHERE b.id = 5", [{"id": 10}]),
        ("(SELECT max(id) AS m FROM t)", [{"m": 49}]),
        ("-- a comment\nSELECT 1 AS one;", [{"one": 1}]),
        ("SELECT id FROM t WHERE id = (SELECT max(id) FROM t WHERE id < 20)", [{"id": 19}]),
        ("SELECT count(*) AS n FROM t WHERE x > 20", [{"n": 14}]),
        ("SELECT count(*) AS n FROM t WHERE x = 'NaN'", [{"n": 5}]),
        ("SELECT count(*) AS n FROM t WHERE NOT x <= 20", [{"n": 14}]),
        ("SELECT id FROM t WHERE x BETWEEN 1 AND 1.5 ORDER BY id", [{"id": 2}, {"id": 3}]),
        ("SELECT sum(id) OVER (ORDER BY id) AS s FROM t WHERE id < 3 ORDER BY s", [{"s": 0}, {"s": 1}, {"s": 3}]),
        ("SELECT id FROM t WHERE false", []),
    ],
)
def test_run_sql__queries__are_answered(source, query, expected):
    assert ask(query, t=source) == expected


def test_run_sql__explain__shows_the_plan(source):
    assert "DatasetExec" in str(ask("EXPLAIN SELECT id FROM t WHERE id > 3", t=source))
    assert "output_rows" in str(ask("EXPLAIN ANALYZE SELECT id FROM t WHERE id > 3", t=source))


def test_run_sql__two_tables_with_odd_names__are_joined(source):
    other = Parts(pa.table({"id": [1, 2], "label": ["one", "two"]}))
    query = 'SELECT o.label FROM "Odd ""name""" o JOIN T2 ON T2.id = o.id ORDER BY 1'
    found = run_sql(query, {'Odd "name"': other, "T2": source}).to_arrow()
    assert found.column("label").to_pylist() == ["one", "two"]


def test_run_sql__table_without_rows__gives_none():
    empty = Parts(numbers(0).slice(0, 0))
    assert ask("SELECT * FROM t", t=empty) == []
    assert ask("SELECT count(*) AS n FROM t", t=empty) == [{"n": 0}]
    none = Parts(numbers(0))
    none.tables = ()
    assert ask("SELECT count(id) AS n FROM t", t=none) == [{"n": 0}]


# -- what is read --------------------------------------------------------------------------------


def test_run_sql__planned__reads_nothing_yet(source):
    run_sql("SELECT * FROM t", {"t": source})
    assert source.read == []


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT id FROM t", ("id",)),
        ("SELECT Name FROM t WHERE id >= 0", ("id", "Name")),
        ("SELECT count(*) FROM t", ("small",)),
        ("SELECT sum(x) FROM t", ("x",)),
        ("SELECT DISTINCT Name FROM t", ("Name",)),
    ],
)
def test_run_sql__columns_that_are_not_used__are_not_read(source, query, columns):
    ask(query, t=source)
    assert source.read == [(number, columns) for number, _ in source.read]
    assert numbers_read(source) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("SELECT * FROM t WHERE id = 15", [1]),
        ("SELECT * FROM t AS other WHERE other.id = 15", [1]),
        ("SELECT count(*) FROM t WHERE id BETWEEN 15 AND 25", [1, 2]),
        ("SELECT * FROM (SELECT id AS i, Name FROM t) WHERE i > 41", [4]),
        ("WITH q AS (SELECT * FROM t) SELECT * FROM q WHERE id < 3", [0]),
        ("SELECT * FROM t WHERE id = 15 OR id = 35", [1, 3]),
        ("SELECT * FROM t WHERE id = 5 UNION ALL SELECT * FROM t WHERE id = 45", [0, 4]),
        ("SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.id = 5", [0]),
        ("SELECT a.id FROM t a CROSS JOIN t b WHERE a.id = 5 AND b.id = 45", [0, 4]),
        ("SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id AND b.id = 45 WHERE a.id = 5", [0]),
        ("SELECT a.id FROM t a LEFT JOIN t b ON b.id = 45 WHERE a.id = 5", [0, 4]),
        ("SELECT * FROM t WHERE id = 5 AND EXISTS (SELECT 1 FROM t b WHERE b.id = 45)", [0, 4]),
        ("SELECT * FROM t WHERE id = 5 AND Name IN (SELECT Name FROM t WHERE id = 15)", [0, 1]),
        ("SELECT * FROM t WHERE id = 99", []),
        # These read all of it: something needs rows that the filter does not choose.
        ("SELECT * FROM t", [0, 1, 2, 3, 4]),
        ("SELECT * FROM t WHERE id = 5 AND id < (SELECT max(id) FROM t)", [0, 1, 2, 3, 4]),
        ("SELECT (SELECT max(id) FROM t) FROM t WHERE id = 5", [0, 1, 2, 3, 4]),
        ("SELECT count(*) FILTER (WHERE id = 5) FROM t", [0, 1, 2, 3, 4]),
        ("SELECT * FROM t WHERE id = 5 OR Name = 'n1'", [0, 1, 2, 3, 4]),
        ("SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id WHERE b.id = 5 OR b.id IS NULL", [0, 1, 2, 3, 4]),
        ("SELECT * FROM (SELECT *, row_number() OVER (ORDER BY id) AS r FROM t) WHERE id = 45", [0, 1, 2, 3, 4]),
        ("SELECT * FROM (SELECT * FROM t LIMIT 45) WHERE id = 5", None),
    ],
)
def test_run_sql__filters__leave_out_parts_that_no_scan_needs(source, query, parts):
    everything = Parts(*source.tables, prunes=False)
    # As text: NaN is not equal to itself.
    assert sorted(map(str, ask(query, t=source))) == sorted(map(str, ask(query, t=everything))) or parts is None
    if parts is not None:
        assert numbers_read(source) == parts


def test_run_sql__query_with_a_text_like_a_plan__is_pruned_no_further(source):
    found = ask("SELECT id, 'TableScan: t' AS s FROM t WHERE id = 5 OR Name = 'TableScan: x'", t=source)
    assert [one["id"] for one in found] == [5]


def test_to_batches__limit__ends_the_reading_of_an_endless_source():
    class Endless:
        schema = pa.schema([("n", pa.int64())])

        def __init__(self):
            self.ended = threading.Event()

        def parts(self, where):
            def rows(columns):
                try:
                    while True:
                        yield pa.record_batch({"n": np.arange(1_000)})
                finally:
                    self.ended.set()

            return [rows]

    endless = Endless()
    assert len(ask("SELECT n FROM t LIMIT 5", t=endless)) == 5
    result = run_sql("SELECT n FROM t WHERE n % 2 = 0", {"t": endless}).to_batches()
    endless.ended.clear()
    assert next(result).num_rows > 0
    result.close()
    assert endless.ended.wait(60)


def test_to_batches__slow_reader__is_not_read_far_ahead_of():
    made = []

    class Long:
        schema = pa.schema([("n", pa.int64())])

        def parts(self, where):
            def rows(columns):
                for number in range(2_000):
                    made.append(number)
                    yield pa.record_batch({"n": np.full(8_192, number)})

            return [rows]

    batches = run_sql("SELECT n + 1 AS m FROM t WHERE n >= 0", {"t": Long()}).to_batches()
    taken = sum(next(batches).num_rows for _ in range(20))
    assert len(made) < taken / 8_192 + 100
    batches.close()


def test_run_sql__source_that_uses_the_engine_itself__works(source):
    where = parse_predicate("id % 2 = 0", source.schema)

    class Filtered(Parts):
        def _part(self, number):
            def rows(columns):
                yield from (
                    self.tables[number].filter(where.mask(self.tables[number])).select(list(columns)).to_batches()
                )

            return rows

    assert ask("SELECT count(*) AS n, sum(id) AS s FROM t", t=Filtered(*source.tables)) == [{"n": 25, "s": 600}]


@pytest.mark.parametrize("query", ["SELECT * FROM t", "SELECT Name, sum(id) FROM t GROUP BY Name ORDER BY 2 LIMIT 1"])
def test_to_arrow__error_of_a_source__is_raised_as_it_is(source, query):
    class Broken(Parts):
        def _part(self, number):
            def rows(columns):
                yield from self.tables[number].select(list(columns)).to_batches()
                raise CorruptionError("data/7.parquet is cut", object="data/7.parquet")

            return rows

    with pytest.raises(CorruptionError, match=r"data/7\.parquet is cut"):
        ask(query, t=Broken(*source.tables))


def test_to_arrow__error_while_parts_are_planned__is_raised_as_it_is(source):
    class Away(Parts):
        def parts(self, where):
            raise UnavailableError("the store does not answer")

    with pytest.raises(UnavailableError, match="does not answer"):
        ask("SELECT * FROM t", t=Away(*source.tables))


def test_to_arrow__many_threads__all_get_the_whole_answer(source):
    result = run_sql("SELECT Name, sum(id) AS s FROM t GROUP BY Name", {"t": source})
    sums = []
    threads = [threading.Thread(target=lambda: sums.append(sum(result.to_arrow()["s"].to_pylist()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [1225] * 6


# -- answers -------------------------------------------------------------------------------------


def test_result__each_form__holds_the_rows(source):
    result = run_sql("SELECT id, Name FROM t WHERE id < 3 ORDER BY id", {"t": source})
    assert result.schema.names == ["id", "Name"]
    assert result.to_arrow().column("id").to_pylist() == [0, 1, 2]
    assert sum(batch.num_rows for batch in result.to_batches()) == 3
    assert result.to_pandas()["Name"].tolist() == ["n0", "n1", "n2"]
    assert result.to_polars()["id"].to_list() == [0, 1, 2]
    assert pa.table(result).num_rows == 3
    assert pl.DataFrame(result).height == 3
    assert pa.RecordBatchReader.from_stream(result).read_all().num_rows == 3
    assert "SELECT id" in repr(result)


def test_result__views_of_strings__are_plain_strings(source):
    query = (
        "SELECT arrow_cast(Name, 'Utf8View') AS a, [arrow_cast(Name, 'Utf8View')] AS b, "
        "named_struct('c', arrow_cast('x', 'BinaryView')) AS d, CAST(id AS VARCHAR) AS e FROM t WHERE id = 1"
    )
    found = run_sql(query, {"t": source}).to_arrow()
    assert found.schema.field("a").type == pa.string()
    assert found.schema.field("b").type.value_type == pa.string()
    assert found.schema.field("d").type.field("c").type == pa.binary()
    assert found.schema.field("e").type == pa.string()
    assert found.to_pylist() == [{"a": "n1", "b": ["n1"], "d": {"c": b"x"}, "e": "1"}]


def test_result__no_rows__keeps_its_schema(source):
    found = run_sql("SELECT id, Name FROM t WHERE id < 0", {"t": source}).to_arrow()
    assert found.schema.types == [pa.int64(), pa.string()]
    assert found.num_rows == 0


@pytest.mark.parametrize("form", ["to_pandas", "to_polars"])
def test_result__package_that_is_not_installed__is_named(source, monkeypatch, form):
    monkeypatch.setattr(frames, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=form.removeprefix("to_")):
        getattr(run_sql("SELECT 1", {"t": source}), form)()


def shuffled(rows, parts=8):
    generator = np.random.default_rng(3)
    return Parts(*(
        pa.table({"n": generator.integers(0, 2**60, rows // parts), "pad": ["x" * 50] * (rows // parts)})
        for _ in range(parts)
    ))  # fmt: skip


def test_to_batches__sort_that_outgrows_its_memory__goes_on_with_temporary_files():
    rows = 400_000
    result = run_sql("SELECT n, pad FROM t ORDER BY n", {"t": shuffled(rows)}, memory_bytes_max=24 * 2**20)
    last, seen = -1, 0
    for batch in result.to_batches():
        found = batch.column("n").to_numpy()
        assert found[0] >= last
        assert (np.diff(found) >= 0).all()
        last, seen = found[-1], seen + len(found)
    assert seen == rows


def test_to_batches__join_that_outgrows_its_memory__says_so():
    big = shuffled(800_000)
    query = "SELECT count(*) FROM t a JOIN t b ON a.n = b.n AND a.pad = b.pad"
    with pytest.raises(LimitExceededError, match="memory"):
        run_sql(query, {"t": big}, memory_bytes_max=16 * 2**20).to_arrow()


def test_run_sql__in_a_forked_child__is_refused_at_once(source):
    assert ask("SELECT count(*) AS n FROM t", t=source) == [{"n": 50}]
    child = os.fork()
    if child == 0:
        try:
            ask("SELECT count(*) AS n FROM t", t=source)
        except ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_lanes__filter_handed_down__is_refused(source):
    one = lanes.Lanes(source, source.schema, lanes_max=2, run=lanes.Run())
    with pytest.raises(Exception, match="filter"):
        one.scanner(filter=object())
