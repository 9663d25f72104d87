"""Which fragments Spark's own reader reads, and which filters it evaluates."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import CorruptionError
from siltstone.spark import native, parts
from siltstone.spark.sparksql import quoted, translate
from siltstone.table.predicate import parse_predicate
from spark_reads import PLAIN, evolved_table, expected, masked_table, plain_rows, plain_table, same_size_table, shown


def chosen(table, columns=None):
    fields = [one for one in table._now().schema.fields if columns is None or one.name in columns]
    return native.choose(table._tools, table._now().fragments.select(None), fields)


def test_choose__columns_changed__files_of_the_same_columns_together(tmp_path):
    choice = chosen(evolved_table(str(tmp_path / "t")))

    names = [[None if kept is None else kept.name for kept in shape] for shape in choice.native]
    assert not choice.rest
    assert len(choice.native) == 4
    assert ["id", "old", "n", "f", "u", "d", "t", "l", None, None, None] in names
    assert ["id", "new", "n", "f", "u", "d", "t", "l", "gone", "empty", "zero"] in names


def test_choose__same_columns_throughout__one_scan(tmp_path):
    choice = chosen(plain_table(str(tmp_path / "t")))

    assert [len(lives) for lives in choice.native.values()] == [3]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.duration("us"), pa.list_(pa.duration("s")), pa.struct([("a", pa.timestamp("ns"))])]
)
def test_choose__type_that_spark_reads_in_another_way__left_to_the_table(tmp_path, kind):
    table = ss.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("odd", kind)]))
    table.append(pa.table({"id": [1], "odd": pa.nulls(1, kind)}))

    assert len(chosen(table).rest) == 1
    assert not chosen(table, {"id"}).rest


def test_choose__none_of_the_columns_in_a_file__left_to_the_table(spark, tmp_path):
    table = plain_table(str(tmp_path / "t"), appends=1)
    table.add_column(pa.field("late", pa.int64()), default=5)
    table.append(plain_rows(40).append_column("late", pa.array([6] * 40)))

    choice = chosen(table, {"late"})
    frame = ss.spark.read(spark, table, ["late"])

    assert (len(choice.rest), len(choice.native)) == (1, 1)
    assert sorted(frame.toArrow()["late"].to_pylist()) == [5] * 40 + [6] * 40


def test_choose__file_that_is_no_parquet_file__corruption_that_names_it(tmp_path):
    table = plain_table(str(tmp_path / "t"), appends=1)
    (path,) = (tmp_path / "t" / "data").iterdir()
    path.write_bytes(b"x" * path.stat().st_size)

    with pytest.raises(CorruptionError, match=path.name):
        chosen(table)


def test_read__fragments_of_one_size_with_other_rows_gone__each_loses_its_own(spark, tmp_path):
    table = same_size_table(str(tmp_path / "t"))
    sizes = {live.fragment.bytes for live in table._now().fragments}
    assert len(sizes) == 1

    frame = ss.spark.read(spark, table, plan="native")

    assert shown(frame.toArrow()) == expected(table)


@pytest.mark.parametrize(("limit", "value"), [("MASKED_ROWS_MAX", 2), ("SCANS_MAX", 1)])
def test_read__more_than_spark_is_given__the_table_reads_the_rest(spark, tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(native, limit, value)
    for make in (masked_table, same_size_table, evolved_table):
        table = make(str(tmp_path / make.__name__))

        frame = ss.spark.read(spark, table)

        assert shown(frame.toArrow()) == expected(table)


def test_read__column_called_metadata__not_taken_for_sparks(spark, tmp_path):
    table = ss.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("_metadata", pa.string())]))
    table.append(pa.table({"id": [1, 2, 3], "_metadata": ["a", "b", "c"]}))
    table.delete("id = 2")

    assert shown(ss.spark.read(spark, table).toArrow()) == expected(table)
    assert shown(ss.spark.read(spark, table, where="_metadata <> 'a'").toArrow()) == expected(table, where="id = 3")


def test_parts__fragments_cut_and_joined__each_row_once(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES_LEAST", 500_000)
    count = 300_000
    table = ss.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("s", pa.string())]))
    table.append(pa.table({"id": range(count), "s": [f"{n * 7919 % count:x}" for n in range(count)]}))
    for number in range(5):
        table.append(pa.table({"id": [count + number], "s": ["small"]}))
    table.delete("id in (5, 131072, 262144)")
    frame = ss.spark.read(spark, table, plan="python")

    assert frame.rdd.getNumPartitions() == 3
    found = frame.selectExpr("count(*)", "count(distinct id)", "sum(id)").first()
    ids = sum(range(count + 5)) - 5 - 131072 - 262144
    assert found == (count + 2, count + 2, ids)
    some = ss.spark.read(spark, table, where="length(s) = 1 or s = 'small'", plan="python")
    assert some.select("id").distinct().count() == table.count("length(s) = 1 or s = 'small'") > 16


@pytest.mark.parametrize(
    "where",
    [
        "x > 1",
        "price = 1",
        "price = 1.5",
        "i + 1 = 2",
        "i = 1.5",
        "abs(i) = 1",
        "s || 'a' = 'b'",
        "s like '%a'",
        "s like 'a_%'",
        "s ilike 'a%'",
        "i = id",
        "id in (1, null)",
        "cast(s as int) = 1",
        "try_cast(s as int) = 1",
        "cast(at as date) = date '2026-01-01'",
        "at = zoned",
        "case when flag then true else false end",
    ],
)
def test_translate__what_engines_may_see_differently__none(spark, where):
    assert translate(parse_predicate(where, PLAIN)) is None


def test_quoted__any_name__what_spark_reads_back(spark):
    frame = spark.createDataFrame([(1,)], "`a.b ``c`` D` int")

    assert frame.select(quoted("a.b `c` D")).columns == ["a.b `c` D"]
