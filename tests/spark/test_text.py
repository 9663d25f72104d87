"""Text indexes that tasks build: the same files as those of a local build, whoever ends it and however often."""

from __future__ import annotations

import shutil

import pytest

import siltstone as ss
from siltstone.spark import text
from siltstone.testing.s3server import Faults, FaultServer
from spark_texts import EACH, FRAGMENTS, ITEMS, QUERY, finals, hits, make, rows


@pytest.fixture
def table(tmp_path):
    return make(tmp_path / "table")


def index_of(table):
    [found] = table.indexes()
    return found


def twin(table, tmp_path):
    """The same table with the same builds at another place."""
    place = tmp_path / "twin"
    shutil.copytree(table.uri.removeprefix("file://"), place)
    return ss.open(place)


def test_build__a_plan_that_was_begun__files_are_those_of_a_local_build(spark, table, tmp_path):
    before = hits(table)
    begun = table.begin_text_index("body", items=ITEMS)
    local = twin(table, tmp_path)
    done = ss.spark.build_text_index(spark, table, "body")
    assert (done.index, done.build, done.items) == ("body", begun.name, begun.items)
    assert done.rows == FRAGMENTS * EACH
    assert done.version == table.version == begun._build.plan.version + 1
    local.index_build(begun.name).run_all()
    assert finals(table.uri, begun.name) == finals(local.uri, begun.name)
    assert hits(table) == hits(local) == before
    assert len(finals(table.uri, begun.name)) == begun.items + 1


def test_build__new_index__has_its_items_and_options(spark, table):
    done = ss.spark.build_text_index(spark, table, "body", name="words", items=ITEMS, language="german", stem=False)
    index = index_of(table)
    assert (index.name, index.column, index.analyzer.language, index.analyzer.stem) == (
        "words",
        "body",
        "german",
        False,
    )
    assert index.parts == done.items >= ITEMS
    assert (index.indexed_rows, index.unindexed_rows) == (FRAGMENTS * EACH - 3, 0)


def test_build__index_that_is_there__takes_in_what_is_new_and_then_does_nothing(spark, table):
    first = ss.spark.build_text_index(spark, table, "body")
    assert first.items == 1  # there is little to do
    again = ss.spark.build_text_index(spark, table, "body")
    assert (again.build, again.rows, again.items, again.version) == (None, 0, 0, first.version)
    table.append(rows(1000))
    table.delete("id < 10")
    before = hits(table)
    more = ss.spark.build_text_index(spark, table.uri, "body", language="english")
    assert more.build not in {None, first.build}
    assert more.version == table.version
    assert (index_of(table).unindexed_rows, index_of(table).segments) == (0, 1)
    assert hits(table) == before


def test_optimize__rows_that_came__are_indexed_and_segments_become_one(spark, table):
    ss.spark.build_text_index(spark, table, "body", items=ITEMS)
    table.append(rows(1000))
    before = hits(table)
    done = ss.spark.optimize_text_index(spark, table, "body", whole=True)
    assert done.rows == (FRAGMENTS + 1) * EACH
    assert (index_of(table).segments, index_of(table).unindexed_rows) == (1, 0)
    assert hits(table) == before
    assert ss.spark.optimize_text_index(spark, table, "body").build is None


def test_build__half_of_an_older_one_is_there__goes_on_with_it_and_takes_in_the_rest(spark, table):
    begun = table.begin_text_index("body", items=ITEMS)
    staged = begun.run(1)
    table.append(rows(1000))
    before = hits(table)
    done = ss.spark.build_text_index(spark, table, "body")
    assert done.items > begun.items
    assert done.build != begun.name  # another one took in the new rows, and the small parts
    assert begun._build.staged()[1] == staged
    assert index_of(table).unindexed_rows == 0
    assert hits(table) == before


def test_build__older_ones_of_other_columns_options_or_fragments__are_left_alone(spark, table):
    others = [
        table.begin_text_index("body", name="other"),
        table.begin_text_index("body", language="german"),
        table.begin_text_index("body"),
    ]
    table.compact()  # the fragments of all of them are gone
    done = ss.spark.build_text_index(spark, table, "body")
    assert done.build not in {one.name for one in others}
    assert all(one.missing() for one in others)
    assert index_of(table).unindexed_rows == 0


def test_build__optimization_of_a_killed_driver__is_gone_on_with_once(spark, table):
    ss.spark.build_text_index(spark, table, "body")
    table.append(rows(1000))
    left = table.begin_optimize_index("body")
    left.run(0)
    done = ss.spark.build_text_index(spark, table, "body")
    assert done.build == left.name
    assert (index_of(table).segments, index_of(table).unindexed_rows) == (1, 0)
    version = table.version
    assert left.commit().version == version  # whoever comes late changes nothing
    assert table.version == version


def test_build__what_was_staged_is_lost__is_made_anew(spark, table):
    left = table.begin_text_index("body", items=ITEMS)
    for item in range(left.items):
        left.run(item)
    root = table.uri.removeprefix("file://")
    shutil.rmtree(f"{root}/indexes/{left.name}/staging")
    before = hits(table)
    done = ss.spark.build_text_index(spark, table, "body")
    assert done.build != left.name
    assert index_of(table).unindexed_rows == 0
    assert hits(table) == before


def test_build__another_optimizes_the_same_meanwhile__is_done_again(spark, table, monkeypatch):
    ss.spark.build_text_index(spark, table, "body")
    table.append(rows(1000))
    run_tasks = text.run_tasks

    def overtaken(*arguments):
        monkeypatch.setattr(text, "run_tasks", run_tasks)
        table.optimize_index("body")
        table.append(rows(2000))
        return run_tasks(*arguments)

    monkeypatch.setattr(text, "run_tasks", overtaken)
    done = ss.spark.build_text_index(spark, table, "body")
    assert done.version == table.version
    assert index_of(table).unindexed_rows == 0
    assert len(hits(table, "late")) == table.count("body like '%late%'")


def test_build__table_without_rows__has_an_index(spark, tmp_path):
    table = ss.create(tmp_path / "empty", schema=rows(0).schema, key="id")
    done = ss.spark.build_text_index(spark, table, "body")
    assert (done.rows, done.items, index_of(table).parts) == (0, 0, 0)
    table.append(rows(0))
    assert hits(table, "slow")


def test_build__bad_input__is_told_and_nothing_is_begun(spark, table):
    ss.spark.build_text_index(spark, table, "body")
    version = table.version
    for wrong, error, words in [
        ({"column": "stars"}, ss.errors.InvalidInputError, "only texts"),
        ({"column": "nobody"}, ss.errors.InvalidInputError, "nobody"),
        ({"column": "body", "language": "klingon"}, ss.errors.InvalidInputError, "klingon"),
        ({"column": "body", "speed": 3}, ss.errors.InvalidInputError, "speed"),
        ({"column": "body", "items": 0}, ss.errors.InvalidInputError, "items"),
        ({"column": "body", "name": "no good"}, ss.errors.InvalidInputError, "no good"),
        ({"column": "body", "language": "german"}, ss.errors.AlreadyExistsError, "other options"),
    ]:
        with pytest.raises(error, match=words):
            ss.spark.build_text_index(spark, table, **wrong)
    with pytest.raises(ss.errors.NotFoundError, match="other"):
        ss.spark.optimize_text_index(spark, table, "other")
    with pytest.raises(ss.errors.InvalidInputError, match="SparkSession"):
        ss.spark.build_text_index(None, table, "body")
    with pytest.raises(ss.errors.InvalidInputError, match="memory"):
        ss.spark.build_text_index(spark, make("memory://texts"), "body")
    assert table.version == version


def test_build__index_of_another_column__is_refused(spark, table):
    table.add_column(rows(0).schema.field("body").with_name("title"))
    ss.spark.build_text_index(spark, table, "title", name="words")
    with pytest.raises(ss.errors.AlreadyExistsError, match="another column"):
        ss.spark.build_text_index(spark, table, "body", name="words")


def test_build__a_file_is_gone__is_told_by_its_own_error(spark, table, tmp_path):
    next((tmp_path / "table" / "data").iterdir()).unlink()
    with pytest.raises(ss.errors.SiltstoneError):
        ss.spark.build_text_index(spark, table, "body")
    assert table.indexes() == []


def test_build__on_s3_that_lies_with_a_commit_store__tasks_reach_it_by_the_handle(spark, tmp_path):
    with FaultServer(Faults(lie="always"), in_thread=True) as server:
        reach = {"commits": f"sqlite://{tmp_path}/claims.db", "storage_options": server.storage_options}
        table = make("s3://bkt/indexed", **reach)
        before = hits(table)
        done = ss.spark.build_text_index(spark, table, "body", items=ITEMS)
        assert (done.rows, index_of(table).unindexed_rows) == (FRAGMENTS * EACH, 0)
        assert hits(table, indexed_only=True) == before
        ss.spark.register_search(spark, "search_s3", table=table)
        found = spark.sql(f"select id, _score from search_s3('body', '{QUERY}', null)").toArrow()
        assert list(zip(*(one.to_pylist() for one in found.columns), strict=True)) == before


def test_task_slots__local_session__are_its_cores(spark):
    assert text.task_slots(spark) == 2


def test_search__index_built_by_tasks__finds_what_texts_say(spark, table):
    plain = hits(table, QUERY, where="stars > 1")
    ss.spark.build_text_index(spark, table, "body", items=ITEMS)
    assert hits(table, QUERY, where="stars > 1", indexed_only=True) == plain
