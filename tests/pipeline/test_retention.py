"""Steps that keep, clone and collect: what they make, and that a second time they do no harm."""

from __future__ import annotations

import pytest

from siltstone.errors import AlreadyExistsError, InvalidInputError

CREATE = '  - create: {table: "${t}", key: id, shards: 2, schema: {id: int64 not null, stars: int32, body: string}}\n'
INGEST = '  - ingest: {from: "${here}/in", format: json, into: "${t}"}\n'
KEEP = '  - checkpoint: {table: "${t}", name: kept, keep_days: 3}\n'
CLONE = '  - clone: {table: "${t}", at: kept, into: "${here}/copy", where: id < 6}\n'
CHANGE = '  - update: {table: "${here}/copy", set: {stars: stars * 20}}\n'
COLLECT = '  - gc: {table: "${t}", keep_days: 0}\n'


def test_run__checkpoint_clone_and_gc__are_done_and_a_second_time_do_no_harm(yard, spark):
    yard.rows("in", "a.json", *range(10))
    steps = CREATE + INGEST + KEEP + CLONE + CHANGE + COLLECT
    report = yard.run(spark, steps)
    assert [step.state for step in report.steps] == ["done"] * 6
    table, copy = yard.open(), yard.open("copy")
    assert table.at(checkpoint="kept").count() == 10  # what was durable in shards is in it
    assert sorted(row["id"] for row in copy.scan().to_arrow().to_pylist()) == [*range(6)]
    assert (copy.count("stars = 60"), table.count("stars = 3")) == (6, 10)
    versions = table.version, copy.version
    again = yard.run(None, steps)
    assert again.did <= 1  # nothing is behind the collection: it looks again, and finds nothing
    assert (yard.open().version, yard.open("copy").version) == versions
    assert yard.open().at(checkpoint="kept").count() == 10

    another = yard.run(spark, KEEP + CLONE, run="2")  # they are there, the clone changed since
    assert [step.says for step in another.steps] == [f"kept is there, of version {table.at(checkpoint='kept').version}",
                                                     f"it is there, at version {copy.version}"]  # fmt: skip


def test_run__clone_where_another_table_is__fails_and_leaves_it(yard, spark):
    yard.rows("in", "a.json", 1)
    other = CREATE.replace('"${t}"', '"${here}/copy"')
    with pytest.raises(AlreadyExistsError):
        yard.run(spark, CREATE + INGEST + KEEP + other + CLONE)
    assert yard.open("copy").count() == 0


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (KEEP.replace("kept", "no good"), "no good"),
        (CLONE.replace('"${here}/copy"', '"${t}"'), "into is the table itself"),
        (KEEP.replace("keep_days: 3", "scope: some"), "all"),
        (COLLECT.replace("keep_days: 0", "keep_days: soon"), "keep_days"),
    ],
    ids=["name", "itself", "scope", "days"],
)
def test_load__settings_that_make_no_sense__are_refused_before_anything_is_run(yard, steps, words):
    with pytest.raises(InvalidInputError, match=words):
        yard.run(None, CREATE + steps)
    assert not (yard.root / "table").exists()
