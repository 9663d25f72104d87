"""The functions of ``siltstone.spark`` that write: what they do, what they refuse, and what others do meanwhile."""

from __future__ import annotations

import itertools
import time

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.api.staging import Staging

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64()), ("note", pa.string())])


@pytest.fixture
def table(tmp_path):
    return ss.create(tmp_path / "table", schema=SCHEMA, key="id")


def rows(first: int, end: int, *, note: str = "n", step: int = 1) -> pa.Table:
    ids = list(range(first, end, step))
    return pa.table({"id": ids, "x": [n % 10 for n in ids], "note": [note] * len(ids)}, schema=SCHEMA)


def frame(spark, first: int, end: int, *, note: str = "n", step: int = 1, parts: int = 3):
    return spark.range(first, end, step, parts).selectExpr("id", "id % 10 as x", f"'{note}' as note")


def sorted_rows(table) -> list[dict]:
    return table.scan().to_arrow().sort_by("id").to_pylist()


@pytest.fixture
def rival(monkeypatch):
    """What another does between the tasks' work and the commit."""
    commit = Staging.commit

    def set_rival(work):
        def committed(self, works):
            monkeypatch.setattr(Staging, "commit", commit)
            work()
            return commit(self, works)

        monkeypatch.setattr(Staging, "commit", committed)

    return set_rival


# -- append and overwrite --------------------------------------------------------------------------


def test_append__rows__are_one_version(spark, table):
    version = ss.spark.append(frame(spark, 0, 100), table, message="first")
    assert (version.version, version.operation, version.inserted, version.message) == (1, "append", 100, "first")
    assert sorted_rows(table) == rows(0, 100).to_pylist()


def test_append__keys_that_are_there__are_refused_and_nothing_is_changed(spark, table):
    table.append(rows(50, 51))
    with pytest.raises(ss.errors.DuplicateKeyError, match="50"):
        ss.spark.append(frame(spark, 0, 100), table)
    assert table.version == 1


def test_append__a_key_twice_in_different_tasks__is_refused(spark, table):
    twice = frame(spark, 0, 100).union(frame(spark, 99, 120)).repartition(4, "note")
    with pytest.raises(ss.errors.DuplicateKeyError, match="99"):
        ss.spark.append(twice.repartition(5), table)
    assert table.version == 0


def test_append__no_rows__makes_no_version_and_with_once_it_is_noted(spark, table):
    assert ss.spark.append(frame(spark, 0, 0), table).operation == "none"
    ss.spark.append(frame(spark, 0, 0), table, once="empty")
    assert ss.spark.append(frame(spark, 0, 10), table, once="empty").operation == "none"
    assert table.count() == 0


def test_append__another_changes_columns_meanwhile__is_told_or_done(spark, table, rival):
    rival(lambda: table.add_column("extra", pa.int64(), default=5))
    ss.spark.append(frame(spark, 0, 3), table)
    assert [row["extra"] for row in sorted_rows(table)] == [5, 5, 5]
    rival(lambda: table.drop_column("note"))
    with pytest.raises(ss.errors.ConflictError, match="columns"):
        ss.spark.append(table_frame(spark, table, 10), table)
    assert table.count() == 3


def table_frame(spark, table, id_: int):
    extra = spark.range(id_, id_ + 1).selectExpr("id", "id as x", "'n' as note", "1L as extra")
    return extra.select(*table.schema.names)


def test_append__one_and_the_same_once_by_two_jobs__one_of_them_counts(spark, table, rival):
    rival(lambda: ss.spark.append(frame(spark, 0, 10), ss.open(table.uri), once="job"))
    assert ss.spark.append(frame(spark, 0, 10), table, once="job").operation == "none"
    assert table.count() == 10


def test_overwrite__rows__are_all_there_is(spark, table):
    table.append(rows(0, 10))
    version = ss.spark.overwrite(frame(spark, 5, 8), table)
    assert (version.deleted, version.inserted) == (10, 3)
    assert sorted_rows(table) == rows(5, 8).to_pylist()


# -- upsert ----------------------------------------------------------------------------------------


def test_upsert__rows_of_several_fragments__are_replaced(spark, table):
    for start in range(0, 1000, 100):
        table.append(rows(start, start + 100))
    table.delete("id = 10")
    version = ss.spark.upsert(frame(spark, 0, 1200, note="up", step=10), table)
    assert (version.updated, version.inserted) == (99, 21)
    expected = {row["id"]: row for row in rows(0, 1000).to_pylist()}
    expected |= {row["id"]: row for row in rows(0, 1200, note="up", step=10).to_pylist()}
    assert sorted_rows(table) == [expected[id_] for id_ in sorted(expected)]


def test_upsert__another_upserts_the_same_keys_meanwhile__each_key_is_there_once(spark, table, rival):
    table.append(rows(0, 100))
    rival(lambda: table.upsert(rows(90, 130, note="rival")))
    version = ss.spark.upsert(frame(spark, 95, 140, note="mine"), table)
    assert (version.updated, version.inserted) == (35, 10)
    notes = [row["note"] for row in sorted_rows(table)]
    assert notes == ["n"] * 90 + ["rival"] * 5 + ["mine"] * 45


def test_upsert__another_compacts_meanwhile__no_row_is_doubled(spark, table, rival):
    for start in range(0, 100, 10):
        table.append(rows(start, start + 10))
    rival(table.compact)
    ss.spark.upsert(frame(spark, 0, 100, note="up", step=3), table)
    assert table.count() == 100
    assert table.count("note = 'up'") == 34


def test_upsert__composite_keys_of_text__are_matched_whole(spark, tmp_path):
    schema = pa.schema(
        [pa.field("a", pa.string(), nullable=False), pa.field("b", pa.int32(), nullable=False), ("v", pa.int64())]
    )
    table = ss.create(tmp_path / "pairs", schema=schema, key=["a", "b"])
    table.append([{"a": f"key-with-a-long-prefix-{n % 7}", "b": n, "v": 0} for n in range(200)])
    changed = spark.range(0, 300, 2).selectExpr(
        "concat('key-with-a-long-prefix-', id % 7) as a", "cast(id as int) as b", "id + 1 as v"
    )
    assert ss.spark.upsert(changed, table).updated == 100
    assert table.count() == 250
    assert table.count("v = b + 1") == 150


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda spark: spark.range(3), ss.errors.SchemaMismatchError, "'x'"),
        (lambda spark: spark.range(3).selectExpr("id as other"), ss.errors.InvalidInputError, "no column 'id'"),
        (lambda spark: frame(spark, 0, 3).union(frame(spark, 2, 4)), ss.errors.DuplicateKeyError, "2"),
        (lambda spark: frame(spark, 0, 3).selectExpr("nullif(id, 1) id", "x", "note"), ss.errors.SiltstoneError, "nul"),
        (lambda _: [{"id": 1}], ss.errors.InvalidInputError, "DataFrame"),
    ],
)  # fmt: skip
def test_upsert__bad_rows__are_refused_and_nothing_is_changed(spark, table, make, error, words):
    with pytest.raises(error, match=words):
        ss.spark.upsert(make(spark), table)
    assert table.version == 0


def test_upsert__no_key__is_refused(spark, tmp_path):
    table = ss.create(tmp_path / "plain", schema=SCHEMA)
    with pytest.raises(ss.errors.InvalidInputError, match="needs a key"):
        ss.spark.upsert(frame(spark, 0, 3), table)


# -- delete and update -----------------------------------------------------------------------------


def test_delete__another_appends_rows_that_match_meanwhile__they_go_too(spark, table, rival):
    table.append(rows(0, 100))
    rival(lambda: table.append(rows(100, 200)))
    assert ss.spark.delete(spark, table, "x = 3").deleted == 20
    assert table.count("x = 3") == 0


def test_delete__all__leaves_none(spark, table):
    table.append(rows(0, 10))
    assert ss.spark.delete(spark, table, None).deleted == 10
    assert table.count() == 0


def test_update__another_deletes_and_appends_meanwhile__is_as_if_it_came_last(spark, table, rival):
    table.append(rows(0, 100))

    def rival_work():
        table.delete("id < 10")
        table.append(rows(200, 210))
        table.compact()

    rival(rival_work)
    assert ss.spark.update(spark, table, {"note": "concat(note, '+')"}, "x < 5").updated == 50
    assert table.count() == 100
    assert table.count("note = 'n+'") == 50


def test_update__the_clock__is_one_time_in_all_tasks_and_in_what_came_meanwhile(spark, table, rival):
    for first in range(0, 40, 10):
        table.append(rows(first, first + 10))
    rival(lambda: table.append(rows(100, 110)))
    for _ in range(2):
        before = time.time_ns()
        values = {"note": "CAST(CAST(now() AS BIGINT) AS VARCHAR)"}
        assert ss.spark.update(spark, table, values).updated == 50
        [told] = {row["note"] for row in sorted_rows(table)}
        assert before <= int(told) <= time.time_ns()


@pytest.mark.parametrize(
    ("values", "where", "words"),
    [
        ({"id": "1"}, None, "part of the key"),
        ({"nope": "1"}, None, "'nope'"),
        ({"x": "'text'"}, None, "'x'"),
        ({"x": "1"}, "nope = 1", "nope"),
        ({}, None, "map columns to expressions"),
    ],
)
def test_update__bad_input__is_told_before_a_job_starts(spark, table, values, where, words):
    with pytest.raises(ss.errors.InvalidInputError, match=words):
        ss.spark.update(spark, table, values, where)
    assert table.version == 0


def test_update__a_value_that_does_not_fit__is_told_as_locally(spark, table):
    table.append(rows(0, 10))
    with pytest.raises(ss.errors.InvalidInputError, match="x"):
        ss.spark.update(spark, table, {"x": "x / (x - 3)"}, None)
    assert table.version == 1


# -- compact ---------------------------------------------------------------------------------------


def test_compact__overlapping_fragments__are_clustered_sorted_and_sized(spark, table):
    for start in range(5):
        table.append(rows(start, 100_000, step=5))
    before = sorted_rows(table)
    version = ss.spark.compact(spark, table, rows_target=20_000)
    assert version.operation == "compact"
    lives = list(table._state.fragments)
    ranges = sorted((live.fragment.bounds["1"].low, live.fragment.bounds["1"].high) for live in lives)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))
    assert max(live.rows for live in lives) <= 20_000
    assert sorted_rows(table) == before
    assert ss.spark.compact(spark, table, rows_target=20_000).operation == "none"


def test_compact__another_deletes_and_upserts_meanwhile__that_stays_so(spark, table, rival):
    for start in range(5):
        table.append(rows(start, 5_000, step=5))

    def rival_work():
        table.delete("x = 3")
        table.upsert(rows(0, 100, note="rival"))

    rival(rival_work)
    ss.spark.compact(spark, table, rows_target=1_000)
    assert table.count() == 4_500 + 10
    assert table.count("note = 'rival'") == 100
    assert table.count("x = 3") == 10


def test_compact__another_compacts_meanwhile__rows_stay_as_they_are(spark, table, rival):
    for start in range(5):
        table.append(rows(start, 1_000, step=5))
    before = sorted_rows(table)
    rival(table.compact)
    with pytest.raises(ss.errors.ConflictError):
        ss.spark.compact(spark, table)
    assert sorted_rows(table) == before


# -- what all of them refuse -----------------------------------------------------------------------


def test_jobs__a_table_in_memory__is_refused(spark):
    table = ss.create("memory://spark-jobs", schema=SCHEMA, key="id", exist_ok=True)
    for work in (
        lambda: ss.spark.append(frame(spark, 0, 1), table),
        lambda: ss.spark.upsert(frame(spark, 0, 1), table),
        lambda: ss.spark.delete(spark, table, None),
        lambda: ss.spark.compact(spark, table),
    ):
        with pytest.raises(ss.errors.InvalidInputError, match="memory of this process"):
            work()


def test_jobs__a_pinned_version__is_refused_before_a_job_starts(spark, table):
    table.append(rows(0, 3))
    seen = spark.sparkContext.accumulator(0)

    def count(batches):
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    watched = frame(spark, 10, 20).mapInArrow(count, "id long, x long, note string")
    with pytest.raises(ss.errors.InvalidInputError, match="pinned"):
        ss.spark.append(watched, table.at(version=0))
    assert seen.value == 0


@pytest.mark.parametrize("wrong", [None, "local[2]"])
def test_jobs__no_session__is_told_by_each(table, wrong):
    for work in (
        lambda: ss.spark.delete(wrong, table, "x = 1"),
        lambda: ss.spark.update(wrong, table, {"x": "1"}),
        lambda: ss.spark.compact(wrong, table),
        lambda: ss.spark.read(wrong, table),
    ):
        with pytest.raises(ss.errors.InvalidInputError, match="must be a SparkSession"):
            work()


# -- options of the format -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "x"}, "option key says"),
        ({"operation": "merge"}, "option operation is"),
        ({"onec": "job"}, "no option 'onec'"),
        ({"storage.account_key": "hush"}, "may be a secret"),
        ({"storage.service_account_key": "hush"}, "may be a secret"),
        ({"storage.region": "a", "storage_secret.region": "b"}, "given twice"),
        ({"commits": "postgresql://me:hush@host/db"}, "holds a password"),
        ({"commits": "postgresql://me:hu/sh@host/db"}, "holds a password"),
        ({"commits": "postgresql://host/db?password=hush"}, "holds a password"),
        ({"commits": "sqlite:a", "commits_secret": "sqlite:b"}, "both given"),
    ],
)
def test_save__bad_option__is_told_and_nothing_is_written(spark, table, options, words):
    with pytest.raises(Exception, match=words) as caught:
        frame(spark, 0, 3).write.format("siltstone").mode("append").options(**options).save(table.uri)
    assert "hush" not in str(caught.value)
    assert table.version == 0


def test_read__a_default_above_javas_longest__is_the_same_both_ways(spark, table):
    table.append(rows(0, 3))
    table.add_column("u", pa.uint64(), default=2**64 - 1)
    for plan in ("native", "python"):
        found = ss.spark.read(spark, table, ["id", "u"], plan=plan).collect()
        assert [int(row.u) for row in found] == [2**64 - 1] * 3
