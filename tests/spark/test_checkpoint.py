"""Checkpoints on Spark: whoever reads, the rows are those of ``table.at(checkpoint=...)``."""

from __future__ import annotations

import pytest

import siltstone as ss
from shard_models import SCHEMA, plain, plain_rows, rows_of
from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.spark.source import SiltstoneSource

NAME = "before"
EXPECTED = plain({id_: int(id_ >= 5) for id_ in range(15) if id_ != 2})


@pytest.fixture(params=["all", "durable"])
def table(request, tmp_path):
    """A table at whose checkpoint some rows were merged, some in fragments of shards, and some in their WALs."""
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=2)
    table.append(rows_of(dict.fromkeys(range(10), 0)))
    with table.writer() as writer:
        writer.put(rows_of(dict.fromkeys(range(5, 10), 1)))
        for one in writer.writers:
            one.freeze()
            one.flush_memtables()
        writer.put(rows_of(dict.fromkeys(range(10, 15), 1)))
        writer.delete([2])
        table.checkpoint(NAME, scope=request.param)
        writer.put(rows_of(dict.fromkeys(range(20), 2)))
    table.merge_shards()
    return table


def test_read__a_checkpoint__has_its_rows_whoever_reads(spark, table):
    for plan in ("auto", "native", "python"):
        frame = ss.spark.read(spark, table, checkpoint=NAME, plan=plan)
        assert plain_rows(frame.toArrow()) == EXPECTED, plan
        assert frame.count() == len(EXPECTED)
    (made,) = table.checkpoints()
    some = ss.spark.read(spark, table.uri, ["id"], where="n = 1", checkpoint=made)
    assert sorted(row.id for row in some.collect()) == list(range(5, 15))


def test_read__a_handle_at_a_checkpoint__has_its_rows(spark, table):
    assert plain_rows(ss.spark.read(spark, table.at(checkpoint=NAME)).toArrow()) == EXPECTED


def test_format__option_checkpoint__has_its_rows(spark, table):
    frame = spark.read.format("siltstone").option("checkpoint", NAME).load(table.uri)
    assert plain_rows(frame.toArrow()) == EXPECTED
    assert plain_rows(frame.where("n >= 0").toArrow()) == EXPECTED


def test_format__another_checkpoint_has_the_name_by_now__is_refused(table):
    source = SiltstoneSource({"path": table.uri, "checkpoint": NAME})
    schema = source.schema()
    table.delete_checkpoint(NAME)
    with pytest.raises(NotFoundError, match="no checkpoint"):
        source.reader(schema)
    table.checkpoint(NAME)
    with pytest.raises(NotFoundError, match="another one has its name"):
        source.reader(schema)


@pytest.mark.parametrize("other", [{"version": "1"}, {"tag": "x"}, {"fresh": "true"}])
def test_format__option_checkpoint_and_another__is_refused(table, other):
    with pytest.raises(InvalidInputError, match="give one of them"):
        SiltstoneSource({"path": table.uri, "checkpoint": NAME, **other}).schema()


def test_read__a_checkpoint_and_something_else__is_refused(spark, table):
    for options in ({"version": 1}, {"tag": "x"}, {"fresh": True}):
        with pytest.raises(InvalidInputError, match="checkpoint="):
            ss.spark.read(spark, table, checkpoint=NAME, **options)
    with pytest.raises(NotFoundError, match="no checkpoint"):
        ss.spark.read(spark, table, checkpoint="other")
