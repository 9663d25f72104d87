"""Searching from Spark: the rows that ``table.search`` finds, in its order, as a DataFrame and in SQL."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone import query
from siltstone.pipeline.failures import from_spark
from spark_shards import flush
from spark_texts import QUERY, make, rows

EVERY = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("body", pa.large_string()),
        ("u", pa.uint64()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("place", pa.struct([("x", pa.float64()), ("y", pa.int8())])),
    ]
)


@pytest.fixture
def table(tmp_path):
    made = make(tmp_path / "table")
    made.create_text_index("body")
    return made


@pytest.fixture
def functions(spark):
    ss.spark.register_search(spark)
    return spark


def listed(frame) -> list[dict]:
    return frame.toArrow().to_pylist()


def refused(spark, text: str) -> ss.errors.SiltstoneError:
    with pytest.raises(Exception, match=r"siltstone\.errors\.") as caught:
        spark.sql(text).collect()
    return from_spark(caught.value)


# -- a DataFrame -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 3, None])
def test_search__text__is_what_the_table_finds_in_the_same_order(spark, table, limit):
    found = ss.spark.search(spark, table, "body", QUERY, limit=limit)
    wanted = table.search("body", QUERY, limit=limit).to_arrow()
    assert found.schema.simpleString() == "struct<id:bigint,body:string,stars:bigint,_score:float>"
    assert listed(found) == wanted.to_pylist()
    assert limit == 0 or wanted.num_rows > 2


def test_search__query_columns_filter_and_snippets__are_passed_on(spark, table):
    asked = {"columns": ["id"], "where": "stars = 2", "snippets": True, "limit": 4}
    found = ss.spark.search(spark, table.uri, query.Phrase("late delivery", column="body"), **asked)
    assert found.columns == ["id", "_score", "_snippet"]
    wanted = table.search(query.Phrase("late delivery", column="body"), **asked).to_arrow()
    assert listed(found) == wanted.to_pylist()
    assert wanted.num_rows


def test_search__fresh__sees_rows_that_are_in_shards(spark, tmp_path):
    table = make(tmp_path / "sharded", shards=2)
    with table.writer() as writer:
        writer.put(rows(5000, 8))
        flush(writer)
        writer.put(rows(6000, 8))
    for fresh in (False, True):
        found = {row["id"] for row in listed(ss.spark.search(spark, table, "body", "slow", limit=None, fresh=fresh))}
        assert {5000, 6000} <= found if fresh else max(found) < 5000


def test_search__bad_input__is_told_by_its_own_error(spark, table):
    for arguments in [("nobody", "slow"), ("body", '"slow'), ("stars", "slow"), ("body", None)]:
        with pytest.raises(ss.errors.InvalidInputError):
            ss.spark.search(spark, table, *arguments)
    with pytest.raises(ss.errors.InvalidInputError, match="SparkSession"):
        ss.spark.search("spark", table, "body", "slow")


# -- SQL -------------------------------------------------------------------------------------------


def test_sql__table_by_its_uri__has_its_columns_and_the_best_rows(functions, table):
    found = functions.sql(f"select * from siltstone_search('{table.uri}', 'body', 'slow delivery', 7)")
    assert found.columns == ["id", "body", "stars", "_score"]
    assert listed(found) == table.search("body", "slow delivery", limit=7).to_arrow().to_pylist()
    table.append(rows(5000))
    assert max(row["id"] for row in listed(found)) < 5000  # a query sees one version
    all_of_them = f"select count(*) n from siltstone_search('{table.uri}', 'body', 'slow', null)"
    assert listed(functions.sql(all_of_them)) == [{"n": table.search("body", "slow", limit=None).count()}]


def test_sql__named_arguments_and_a_query_for_each_row__are_taken(functions, table):
    text = f"""
        select asked.words, found.* from values ('slow'), ('refund'), ('nothing') as asked(words),
        lateral siltstone_search(uri => '{table.uri}', column => 'body', query => asked.words, limit => 2,
                                 where => 'stars > 1', columns => array('id'), snippets => true) as found
    """
    wanted = []
    for words in ("slow", "refund", "nothing"):
        best = table.search("body", words, limit=2, where="stars > 1", columns=["id"], snippets=True)
        wanted += [{"words": words, **row} for row in best.to_arrow().to_pylist()]
    assert listed(functions.sql(text)) == wanted
    assert len(wanted) == 4


def test_sql__values_of_every_kind__are_those_of_the_table(functions, tmp_path):
    table = ss.create(tmp_path / "every", schema=EVERY, key="id")
    there = {
        "id": 1, "body": "slow", "u": 2**63 + 1, "at": 1_000_001, "day": 3, "price": "1.25", "raw": b"\0x",
        "tags": ["a", None], "counts": [("k", 2), ("l", None)], "place": {"x": 0.5, "y": None},
    }  # fmt: skip
    arrays = [
        pa.array([there[one.name]]).cast(one.type) if one.name == "price" else pa.array([there[one.name]], one.type)
        for one in EVERY
    ]
    table.append(pa.table(arrays, schema=EVERY))
    table.append(pa.table({one.name: pa.array([2 if one.name == "id" else None], one.type) for one in EVERY}))
    table.update({"body": "'slow'"}, where="id = 2")
    ss.spark.register_search(functions, "search_every", table=table)
    wanted = ss.spark.search(functions, table, "body", "slow").toArrow()
    assert wanted.num_rows == 2
    for call in (f"siltstone_search('{table.uri}', 'body', 'slow')", "search_every('body', 'slow')"):
        assert functions.sql(f"select * from {call}").toArrow().equals(wanted), call


def test_sql__fresh__sees_rows_that_are_in_shards(functions, tmp_path):
    table = make(tmp_path / "sharded", shards=2)
    with table.writer() as writer:
        writer.put(rows(5000, 8))
    for fresh in (False, True):
        call = f"siltstone_search('{table.uri}', 'body', 'slow', null, fresh => {fresh})"
        found = {row["id"] for row in listed(functions.sql(f"select id from {call}"))}
        assert (5000 in found) == fresh


def test_sql__bad_input__is_told_in_our_words(functions, table):
    for call, kind, words in [
        (f"'{table.uri}-none', 'body', 'slow'", ss.errors.NotFoundError, "there is no table"),
        (f"'{table.uri}', 'nobody', 'slow'", ss.errors.InvalidInputError, "nobody"),
        (f"'{table.uri}', 'body', '\"slow'", ss.errors.InvalidInputError, "character"),
        (f"'{table.uri}', 'body', 'slow', -1", ss.errors.InvalidInputError, "limit"),
        (f"'{table.uri}', 'body', 'slow', columns => array('none')", ss.errors.InvalidInputError, "none"),
    ]:
        error = refused(functions, f"select * from siltstone_search({call})")
        assert isinstance(error, kind), call
        assert re.search(words, error.message), call
    lateral = f"lateral siltstone_search('{table.uri}', t.c, 'slow')"
    error = refused(functions, f"select * from values ('body') as t(c), {lateral}")
    assert "column is not the same for all rows" in error.message


# -- a table that the function knows ---------------------------------------------------------------


def test_register__table__is_searched_by_its_handle(spark, table):
    ss.spark.register_search(spark, "find_reviews", table=table)
    found = spark.sql("select * from find_reviews('body', 'slow delivery', 7, 'stars > 1')")
    assert found.columns == ["id", "body", "stars", "_score"]
    assert listed(found) == table.search("body", "slow delivery", limit=7, where="stars > 1").to_arrow().to_pylist()
    ss.spark.register_search(spark, "find_ids", table=table.at(version=1), columns=["id"])
    text = "select * from find_ids(column => 'body', query => 'slow', limit => null)"
    old = table.at(version=1).search("body", "slow", columns=["id"], limit=None).to_arrow().to_pylist()
    assert listed(spark.sql(text)) == old
    assert isinstance(refused(spark, "select * from find_ids('none', 'slow')"), ss.errors.InvalidInputError)


def test_register__bad_input__is_refused(spark, table):
    for wrong in [{"name": "no good"}, {"columns": ["id"]}, {"table": 3}, {"table": table, "columns": ["none"]}]:
        with pytest.raises(ss.errors.InvalidInputError):
            ss.spark.register_search(spark, **wrong)
    with pytest.raises(ss.errors.InvalidInputError, match="memory"):
        ss.spark.register_search(spark, "find_memory", table=make("memory://searched"))
