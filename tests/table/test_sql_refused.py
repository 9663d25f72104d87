"""A query can do nothing but read its tables, and says what is wrong with it."""

from __future__ import annotations

import pytest

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.table.sql import run_sql
from sql_parts import Parts, ask, numbers


@pytest.fixture
def source():
    return Parts(*(numbers(first) for first in range(0, 50, 10)))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   -- nothing",
        "DROP TABLE t",
        "CREATE TABLE u AS SELECT * FROM t",
        "CREATE VIEW u AS SELECT * FROM t",
        "CREATE EXTERNAL TABLE u STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE FUNCTION f() RETURNS INT RETURN 1",
        "INSERT INTO t VALUES (1, 2, 'a', true)",
        "UPDATE t SET id = 1",
        "DELETE FROM t",
        "TRUNCATE TABLE t",
        "COPY t TO '{out}' STORED AS CSV",
        "COPY (SELECT 1) TO '{out}' STORED AS CSV",
        "EXPLAIN COPY t TO '{out}' STORED AS CSV",
        "EXPLAIN ANALYZE COPY t TO '{out}' STORED AS CSV",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1, 2, 'a', true)",
        "EXPLAIN CREATE TABLE u AS SELECT 1",
        "WITH q AS (INSERT INTO t VALUES (1, 2, 'a', true)) SELECT * FROM q",
        "SET datafusion.execution.batch_size = 1",
        "SHOW TABLES",
        "DESCRIBE t",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "BEGIN",
        "LOAD '/tmp/x.so'",
        "USE t",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE t",
        "from t",
        "(((DROP TABLE t)))",
        "/* SELECT */ DROP TABLE t",
        "SELECT * INTO u FROM t",
    ],
)
def test_run_sql__anything_but_one_query__is_refused(source, tmp_path, query):
    out = tmp_path / "out.csv"
    with pytest.raises(InvalidInputError) as caught:
        ask(query.replace("{out}", str(out)), t=source)
    assert caught.value.hint
    assert not out.exists()
    assert source.read == []


@pytest.mark.parametrize(
    "place",
    [
        "'{file}'", '"{file}"', "'file://{file}'", "'s3://bucket/key.parquet'", "'http://127.0.0.1:9/x.csv'",
        "read_csv('{file}')", "read_parquet('{file}')", "read_json('{file}')", "csv_scan('{file}')", "glob('{file}')",
        "parquet_metadata('{file}')", "information_schema.tables", "datafusion.information_schema.df_settings",
        "metadata_cache()", "statistics_cache()", "list_files_cache()", '"0 t"', '"?table?"',
    ],
)  # fmt: skip
def test_run_sql__files_and_other_places__cannot_be_reached(source, tmp_path, place):
    file = tmp_path / "secret.csv"
    file.write_text("secret\n42\n")
    with pytest.raises(InvalidInputError, match=r"not there|not found|can't be evaluated"):
        ask(f"SELECT * FROM {place.replace('{file}', str(file))}", t=source)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM T", "names table 'T', which is not there (did you mean 't'?)"),
        ("SELECT * FROM customers", "names table 'customers', which is not there (tables are 't')"),
        ("SELECT name FROM t", "names column 'name', which is not there (did you mean 'Name'?"),
        ("SELECT t.nope FROM t", "names column 't.nope'"),
        ('SELECT id FROM t WHERE Name = "n1"', "names column 'n1'"),
        ("SELECT no_such(id) FROM t", "Invalid function 'no_such'"),
        ("SELECT id FROM t WHERE", "is not SQL"),
        ("SELECT 'open", "left open"),
        ("SELECT id FROM t WHERE id = $1", "$1"),
        ("SELECT sum(Name) FROM t", "sum"),
        ("SELECT id FROM t GROUP BY Name", "id"),
        (5, "sql must be SQL in a str, got int"),
        (None, "sql must be SQL in a str"),
    ],
)
def test_run_sql__wrong_query__says_what_is_wrong(source, query, told):
    with pytest.raises(InvalidInputError) as caught:
        ask(query, t=source)
    assert told in str(caught.value)
    assert str(caught.value).startswith("sql ")
    assert caught.value.hint


@pytest.mark.parametrize("query", ["SELECT 1 / 0", "SELECT 1 / (id - 5) FROM t", "SELECT CAST(Name AS INT) FROM t"])
def test_to_arrow__row_that_cannot_be_evaluated__is_an_error_of_siltstone(source, query):
    with pytest.raises(InvalidInputError, match="can't be evaluated"):
        ask(query, t=source)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT " + "1+" * 20_000 + "1",
        "SELECT " + "(" * 100 + "1" + ")" * 100,
        "SELECT " + "NOT (" * 30 + "1 1" + ")" * 30,
        "SELECT '" + "x" * 2**20 + "'",
    ],
)
def test_run_sql__text_that_is_too_much__is_refused(source, query):
    with pytest.raises(LimitExceededError):
        ask(query, t=source)


@pytest.mark.parametrize("value", [0, -1, 1.5, "1GB", True])
def test_run_sql__memory_that_is_no_size__is_refused(source, value):
    with pytest.raises(InvalidInputError, match="memory_bytes_max"):
        run_sql("SELECT 1", {"t": source}, memory_bytes_max=value)
