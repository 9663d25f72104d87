"""The format "siltstone": found by its name, pinned to one version, pruned by a schema."""

from __future__ import annotations

import contextlib
import io
import pickle

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader

import pyspark_siltstone
import siltstone as ss
from siltstone.spark.reader import TableReader
from siltstone.spark.source import SiltstoneSource
from siltstone.spark.types import spark_schema
from spark_reads import every_table, evolved_table, expected, masked_table, plain_rows, plain_table, shown


@pytest.mark.parametrize("make", [every_table, evolved_table, masked_table])
def test_load__any_table__rows_and_types_of_the_scan(spark, tmp_path, make):
    table = make(str(tmp_path / "t"))

    frame = spark.read.format("siltstone").load(table.uri)

    assert frame.schema == spark_schema(table.schema)
    assert shown(frame.toArrow()) == expected(table)


def test_load__committed_meanwhile__stays_at_its_version(spark, tmp_path):
    table = plain_table(str(tmp_path / "t"), appends=1)
    load = spark.read.format("siltstone")
    frames = [load.load(table.uri), load.schema("id bigint").load(table.uri)]
    assert frames[1].count() == 40  # with a schema, the first query looks for the version
    table.append(plain_rows(100))

    assert [frame.count() for frame in frames] == [40, 40]
    assert [frame.where("id = 3").count() for frame in frames] == [1, 1]
    assert [frame.count() for frame in frames] == [40, 40]
    assert spark.read.format("siltstone").load(table.uri).count() == 80


def test_load__version_tag_and_filter__those_rows(spark, tmp_path):
    table = plain_table(str(tmp_path / "t"), appends=2)
    table.tag("two")
    table.delete("id < 60")

    def load(**options):
        return spark.read.format("siltstone").options(**options).load(table.uri)

    assert load(version=1).count() == 40
    assert load(tag="two").count() == 80
    assert load(where="x = 0.5 and id >= 70").count() == table.count("x = 0.5 and id >= 70") > 0
    assert load(fresh=True).count() == 20
    view = f"CREATE OR REPLACE TEMPORARY VIEW seen USING siltstone OPTIONS (path '{table.uri}', version '1')"
    spark.sql(view)
    assert spark.sql("SELECT count(*) FROM seen WHERE id < 10").first() == (10,)


def test_load__schema_given__only_these_columns(spark, tmp_path):
    table = masked_table(str(tmp_path / "t"))

    frame = spark.read.format("siltstone").schema("s string, id bigint").load(table.uri)

    assert frame.columns == ["s", "id"]
    assert shown(frame.toArrow()) == expected(table, ["s", "id"])


@pytest.mark.parametrize(
    ("options", "schema", "told"),
    [
        ({"versoin": "3"}, None, "there is no option 'versoin'"),
        ({"version": "x"}, None, "not a whole number"),
        ({"version": "99"}, None, "99"),
        ({"tag": "x"}, None, "no tag 'x'"),
        ({"version": "1", "fresh": "true"}, None, "fresh"),
        ({"where": "nope = 1"}, None, "'nope'"),
        ({}, "nope int", "names column 'nope'"),
        ({}, "id string", "column 'id' as string, the table as bigint"),
        ({}, "id bigint not null", "column 'id', or a part of it, is never null"),
    ],
)
def test_load__bad_options_or_schema__error_says_which(spark, tmp_path, options, schema, told):
    table = plain_table(str(tmp_path / "t"), appends=1)
    load = spark.read.format("siltstone").options(**options)
    if schema is not None:
        load = load.schema(schema)

    with pytest.raises(PySparkException) as caught:
        load.load(table.uri).collect()
    assert told in str(caught.value)


def test_load__no_table__error_says_so(spark, tmp_path):
    with pytest.raises(PySparkException, match="NotFoundError: there is no table at"):
        spark.read.format("siltstone").load(str(tmp_path / "t"))
    with pytest.raises(PySparkException, match="no table is named"):
        spark.read.format("siltstone").load()


@pytest.mark.services
def test_load__storage_options__no_secret_in_plans_and_errors(spark, places):
    place = places.store("faulty")
    secret = "sesame-open-this"
    options = {**place.options, "aws_secret_access_key": secret}
    table = ss.create(place.uri, schema=plain_rows(0).schema, storage_options=options)
    table.append(plain_rows(0))
    load = spark.read.format("siltstone").options(**{f"storage.{name}": value for name, value in options.items()})

    frame = load.load(place.uri)

    assert frame.count() == 40
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(True)
        frame.explain("formatted")
    with pytest.raises(PySparkException) as caught:
        load.option("version", 99).load(place.uri)
    assert secret not in out.getvalue() + str(frame) + str(caught.value)


def test_source__found_by_spark__by_its_module():
    assert pyspark_siltstone.DefaultSource is SiltstoneSource
    assert SiltstoneSource.name() == "siltstone"
    # Filters that Spark pushes reach later queries of the same DataFrame.
    assert TableReader.pushFilters is DataSourceReader.pushFilters


def test_reader__pickled__carries_no_part_but_its_own(tmp_path):
    table = plain_table(str(tmp_path / "t"))
    reader = SiltstoneSource({"path": table.uri}).reader(spark_schema(table.schema))

    again = pickle.loads(pickle.dumps(reader))

    assert again.partitions() == []
    rows = [row for part in reader.partitions() for batch in again.read(part) for row in batch.to_pylist()]
    assert len(rows) == 120
