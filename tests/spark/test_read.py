"""Reading as a DataFrame: both ways of reading give what the table's own scan gives."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import siltstone as ss
from siltstone.errors import (
    CorruptionError,
    InvalidInputError,
    MissingObjectError,
    NotFoundError,
    UnsupportedTypeError,
)
from siltstone.spark.types import spark_schema
from spark_reads import TABLES, expected, plain_rows, plain_table, shown

TRANSLATED = [
    "id < 10",
    "id between 3 and 45",
    "id in (1, 5, 44, 900)",
    "id not in (1, 2)",
    "7 > i and small >= 250",
    "i <> -2",
    "small = 300",
    "s = 'row 10'",
    "s > 'row 4' and s <= 'Äz'",
    "s like 'row 1%'",
    "flag",
    "not flag or i is null",
    "flag is not true",
    "s is not null",
    "day >= date '2026-01-02'",
    "at < timestamp '2026-01-02T00:00:00.000011'",
    "zoned >= timestamp '2026-01-02T12:00:00+01:00'",
    "(id < 5 or s is null) and not (i = 2)",
    '"a.b `c` D" in (20, 1000)',
    "id = 12345678901",
    "true",
]
NOT_TRANSLATED = [
    "x > 0.5",
    "x = 0.0",
    "x = -0.0",
    "x <> 0.5",
    "price > 1.6",
    "length(s) > 6",
    "id % 2 = 0",
    "s like '%1_'",
    "i in (1, null)",
    "id < 100 and x is not null and x < 1e9",
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Tables by name, each made once; tests here only read them."""
    made = {}

    def find(name):
        if name not in made:
            made[name] = TABLES[name](str(tmp_path_factory.mktemp("tables") / "it"))
        return made[name]

    return find


def explained(frame):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(True)
    return out.getvalue()


@pytest.mark.parametrize("plan", ["auto", "native", "python"])
@pytest.mark.parametrize("name", TABLES)
def test_read__any_table_either_way__rows_and_types_of_the_scan(spark, tables, name, plan):
    table = tables(name)
    if plan == "native" and name == "every type":
        pytest.skip("durations and nanoseconds are not Spark's own")

    frame = ss.spark.read(spark, table, plan=plan)

    assert frame.schema == spark_schema(table.schema)
    assert shown(frame.toArrow()) == expected(table)
    assert frame.count() == table.count() == len(frame.collect())


def test_read__every_type_that_spark_reads_itself__rows_of_the_scan(spark, tables):
    table = tables("every type")
    columns = [name for name in table.schema.names if name not in {"took", "span", "nanos"}]

    frame = ss.spark.read(spark, table, columns, plan="native")

    assert frame.schema == spark_schema(pa.schema([table.schema.field(name) for name in columns]))
    assert shown(frame.toArrow()) == expected(table, columns)


@pytest.mark.parametrize("where", TRANSLATED)
def test_read__filter_that_both_engines_know__rows_of_the_scan(spark, tables, where):
    table = tables("masked")

    found = {plan: ss.spark.read(spark, table, ["id", "s"], where=where, plan=plan) for plan in ("native", "python")}

    assert "MapInArrow" not in explained(found["native"])
    rows = expected(table, ["id", "s"], where=where)
    assert {plan: shown(frame.toArrow()) for plan, frame in found.items()} == {"native": rows, "python": rows}


def test_read__filters_that_may_mean_something_else_there__rows_of_the_scan(spark, tables):
    table = tables("masked")
    for where in NOT_TRANSLATED:
        with pytest.raises(InvalidInputError, match="filter may mean something else"):
            ss.spark.read(spark, table, where=where, plan="native")

        frame = ss.spark.read(spark, table, ["id", "x"], where=where)

        assert shown(frame.toArrow()) == expected(table, ["id", "x"], where=where), where


@pytest.mark.parametrize("plan", ["native", "python"])
def test_read__filter_on_an_evolved_table__rows_of_the_scan(spark, tables, plan):
    table = tables("evolved")
    for where in ("old > 12", "gone = 'none'", "u < 25 and new <> 'y'", "empty is null", "t is not null"):
        frame = ss.spark.read(spark, table, ["id", "zero", "old"], where=where, plan=plan)

        assert shown(frame.toArrow()) == expected(table, ["id", "zero", "old"], where=where), where


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_read__session_in_another_zone__same_moments(spark, tables, zone):
    table = tables("masked")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        where = "zoned >= timestamp '2026-01-02T12:00:00+01:00' and at > timestamp '2026-01-02T12:00:00'"
        for plan in ("native", "python"):
            frame = ss.spark.read(spark, table, ["id"], where=where, plan=plan)
            assert shown(frame.toArrow()) == expected(table, ["id"], where=where)
            micros = ss.spark.read(spark, table, plan=plan).selectExpr("id", "unix_micros(zoned) z", "string(at) t")
            assert micros.orderBy("id").first() == (1, 1767272400000000, "2026-01-01 13:00:00.000001")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_read__version_tag_and_handle__that_version_for_ever(spark, tmp_path):
    table = plain_table(str(tmp_path / "t"), appends=1)
    table.tag("first")
    frames = {
        plan: [
            ss.spark.read(spark, table, ["id"], plan=plan),
            ss.spark.read(spark, table.uri, ["id"], version=1, plan=plan),
            ss.spark.read(spark, table, ["id"], tag="first", plan=plan),
            ss.spark.read(spark, table.at(version=1), ["id"], plan=plan),
        ]
        for plan in ("native", "python")
    }
    table.append(plain_rows(1000))
    table.delete("id < 10")

    counts = {frame.select("id").count() for some in frames.values() for frame in some}

    assert counts == {40}
    assert ss.spark.read(spark, table).count() == 70


def test_read__empty_table_or_all_ruled_out__no_rows_of_the_right_types(spark, tables, tmp_path):
    empty = ss.create(str(tmp_path / "t"), schema=tables("plain").schema)
    for frame in (ss.spark.read(spark, empty), ss.spark.read(spark, tables("plain"), where="id < 0")):
        assert frame.schema == spark_schema(empty.schema)
        assert frame.collect() == []
        assert frame.count() == 0


def test_count__no_filter__comes_from_the_log(spark, tmp_path):
    table = plain_table(str(tmp_path / "t"), appends=1)
    frame = ss.spark.read(spark, table, plan="python")
    for path in Path(tmp_path / "t" / "data").iterdir():
        path.unlink()

    assert frame.count() == 40
    with pytest.raises(PySparkException, match="MissingObjectError"):
        frame.select("id").distinct().count()
    with pytest.raises(PySparkException, match="MissingObjectError"):
        frame.cache().count()


@pytest.mark.parametrize("directory", ["with space", "per%20cent", "comma,dir", "#hash&=key=1", "ünï", "{a,b}*[x]?"])
def test_read__directory_of_any_name__rows_of_the_scan(spark, tmp_path, directory):
    table = plain_table(str(tmp_path / directory), appends=1)
    table.delete("id = 7")

    assert shown(ss.spark.read(spark, table, ["id", "s"]).toArrow()) == expected(table, ["id", "s"])


def test_read__bad_arguments__errors_that_name_them(spark, tables, tmp_path):
    table = tables("plain")
    read = partial(ss.spark.read, spark, table)
    cases = [
        (lambda: ss.spark.read(spark, 3), "Table or a URI"),
        (lambda: ss.spark.read(table, table), "SparkSession"),
        (lambda: read(["nope"]), "'nope'"),
        (lambda: read(["id", "id"]), "twice"),
        (lambda: read([]), "no column"),
        (lambda: read(where="id ="), "not SQL"),
        (lambda: read(where="nope = 1"), "'nope'"),
        (lambda: read(plan="fast"), "'fast'"),
        (lambda: read(version=1, tag="x"), "are given"),
        (lambda: read(fresh=True, version=1), "fresh"),
        (lambda: read(fresh="yes"), "fresh"),
    ]
    for call, word in cases:
        with pytest.raises(InvalidInputError, match=word):
            call()
    with pytest.raises(NotFoundError, match="no version 99"):
        read(version=99)
    with pytest.raises(NotFoundError, match="no table"):
        ss.spark.read(spark, str(tmp_path / "nowhere"))


def test_read__table_in_memory__refused(spark):
    table = ss.create("memory://spark-read", schema=pa.schema([("id", pa.int64())]))

    with pytest.raises(InvalidInputError, match="memory of this process"):
        ss.spark.read(spark, table)


def test_read__type_that_spark_lacks__refused_by_name_unless_left_out(spark, tmp_path):
    table = ss.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("clock", pa.time64("us"))]))
    table.append(pa.table({"id": [1], "clock": pa.array([5], pa.time64("us"))}))

    with pytest.raises(UnsupportedTypeError, match="'clock' has the type time64"):
        ss.spark.read(spark, table)
    assert ss.spark.read(spark, table, ["id"]).collect() == [(1,)]


def test_read__moment_between_two_microseconds__error_that_names_the_column(spark, tmp_path):
    table = ss.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns"))]))
    table.append(pa.table({"id": [1], "at": pa.array([1001], pa.timestamp("ns"))}))

    with pytest.raises(PySparkException, match=r"InvalidInputError: column 'at' holds timestamp\[ns\] values"):
        ss.spark.read(spark, table).collect()


def test_read__file_gone_or_of_another_size__error_that_names_it(spark, tmp_path):
    table = plain_table(str(tmp_path / "t"), appends=2)
    ss.spark.read(spark, table)
    first, second = sorted((tmp_path / "t" / "data").iterdir())
    first.unlink()

    with pytest.raises(MissingObjectError, match=first.name):
        ss.spark.read(spark, table)
    with pytest.raises(PySparkException, match=f"MissingObjectError: .*{first.name}"):
        ss.spark.read(spark, table, plan="python").collect()

    first.write_bytes(second.read_bytes() + b"x")
    with pytest.raises(CorruptionError, match=first.name):
        ss.spark.read(spark, table)


@pytest.mark.services
def test_read__table_on_s3__rows_of_the_scan_and_no_secret_anywhere(spark, places):
    place = places.store("faulty")
    options = {**place.options, "aws_secret_access_key": "sesame-open-this"}
    table = ss.create(place.uri, schema=plain_rows(0).schema, key="id", storage_options=options)
    table.append(plain_rows(0))
    table.delete("id = 4")

    frame = ss.spark.read(spark, table, where="x <> 0.5")

    assert shown(frame.toArrow()) == expected(table, where="x <> 0.5")
    assert ss.spark.read(spark, table).count() == 39
    assert "sesame" not in explained(frame) + str(frame) + repr(frame)
    with pytest.raises(InvalidInputError, match="files of a disk") as refused:
        ss.spark.read(spark, table, plan="native")
    assert "sesame" not in str(refused.value)
    table.append(plain_rows(100))  # no worker keeps this one from before
    store = ss.open_store(place.uri, options)
    store.delete([info.key for info in store.list("data")])
    with pytest.raises(PySparkException, match="MissingObjectError") as gone:
        ss.spark.read(spark, table).collect()
    assert "sesame" not in str(gone.value)


def test_read__through_spark_connect__rows_of_the_scan(connect, tables):
    for name in ("masked", "evolved"):
        table = tables(name)
        for plan in ("native", "python"):
            frame = ss.spark.read(connect, table, where="id > 5", plan=plan)
            assert shown(frame.toArrow()) == expected(table, where="id > 5")
            assert ss.spark.read(connect, table, plan=plan).count() == table.count()
