"""Steps that index and search texts: what they make, and that a second time they do no harm."""

from __future__ import annotations

import pytest

from siltstone.errors import AlreadyExistsError, InvalidInputError
from siltstone.pipeline import text
from siltstone.pipeline.kinds import CheckFailedError

CREATE = '  - create: {table: "${t}", key: id, shards: 2, schema: {id: int64 not null, stars: int32, body: string}}\n'
UPSERT = '  - upsert: {from: "${here}/in", format: json, into: "${t}"}\n'
MORE = '  - upsert: {from: "${here}/more", format: json, into: "${t}"}\n'
INGEST = '  - ingest: {from: "${here}/fresh", format: json, into: "${t}"}\n'
INDEX = '  - index: {table: "${t}", column: body, language: english, stem: true}\n'
SEARCH = '  - search: {table: "${t}", column: body, query: "late -refund", rows: 2}\n'
TAG = '  - tag: {table: "${t}", name: done}\n'


@pytest.fixture
def texts(yard):
    yard.rows("in", "a.json", 1, 2, body="late delivery")
    yard.rows("in", "b.json", 3, body="late refund")
    yard.rows("more", "a.json", 4, body="arrived late, late")
    yard.rows("fresh", "a.json", 5, body="late again")
    return yard


def test_run__index_and_search__show_the_best_rows_and_a_second_time_do_no_harm(texts, spark):
    report = texts.run(spark, CREATE + UPSERT + INDEX + SEARCH)
    index, search = report.steps[2:]
    assert (index.says, index.rows, index.versions) == ("indexed 3 rows in one item", 3, 1)
    assert (search.says, search.rows, search.versions) == ("2 rows match", 2, 0)
    assert [line.partition("  ")[2] for line in search.lines] == [
        "id: 1, body: late delivery",
        "id: 2, body: late delivery",
    ]
    table = texts.open()
    version = table.version
    assert (table.indexes()[0].indexed_rows, table.indexes()[0].unindexed_rows) == (3, 0)
    again = texts.run(spark, CREATE + UPSERT + INDEX + SEARCH)
    assert [step.state for step in again.steps] == ["skipped", "before", "done", "done"]
    assert again.steps[2].says == "nothing to do"
    assert again.steps[3].lines == search.lines
    assert texts.open().version == version


def test_run__index_step_that_was_stopped__is_gone_on_with(texts, spark):
    texts.run(spark, CREATE + UPSERT)
    left = texts.open().begin_text_index("body", language="english", stem=True)
    report = texts.run(spark, CREATE + UPSERT + INDEX + MORE + INDEX + TAG)
    assert [step.state for step in report.steps] == ["skipped", "before"] + ["done"] * 4
    assert left.missing() == []
    assert left.commit().version == report.steps[2].version
    table = texts.open()
    assert (table.indexes()[0].indexed_rows, table.indexes()[0].segments) == (4, 1)
    done = texts.run(None, CREATE + UPSERT + INDEX + MORE + INDEX + TAG)
    assert done.did == 0
    assert texts.open().version == table.version


def test_run__search_of_rows_in_shards__finds_them_where_they_are_asked_for(texts, spark):
    fresh = SEARCH.replace("rows: 2", "rows: 3, fresh: true, limit: 1, where: id > 1, columns: stars")
    report = texts.run(spark, CREATE + UPSERT + INDEX + MORE + INGEST + fresh.replace("rows: 3", "at_least: 3"))
    assert (report.steps[-1].rows, len(report.steps[-1].lines)) == (3, 1)
    assert report.steps[-1].lines[0].endswith("  stars: 3")


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        (SEARCH.replace("rows: 2", "rows: 7"), CheckFailedError, "2 rows that match 'late -refund', and rows says 7"),
        (SEARCH.replace("rows: 2", "at_most: 1"), CheckFailedError, "at_most says 1"),
        (SEARCH.replace("column: body", "column: stars"), InvalidInputError, "only texts"),
        (INDEX + INDEX.replace("english", "german"), AlreadyExistsError, "other options"),
        (INDEX.replace("column: body", "column: none"), InvalidInputError, "none"),
    ],
    ids=["rows", "at most", "no text", "other options", "no column"],
)
def test_run__what_does_not_hold__stops_there_and_says_why(texts, spark, steps, error, words):
    with pytest.raises(error, match=words) as caught:
        texts.run(spark, CREATE + UPSERT + steps)
    assert "in line" in caught.value.message


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (INDEX.replace("english", "klingon"), "klingon"),
        (INDEX.replace("stem: true", "tokenizer: raw, stem: true"), "raw"),
        (INDEX.replace("stem: true", "tokenizer: fancy"), "simple"),
        (INDEX.replace("stem: true", "name: no good"), "no good"),
        (SEARCH.replace("late -refund", "(late"), "character"),
        (SEARCH.replace("rows: 2", "limit: 1000"), "limit takes"),
    ],
    ids=["language", "options", "tokenizer", "name", "query", "limit"],
)
def test_load__settings_that_make_no_sense__are_refused_before_anything_is_run(yard, steps, words):
    with pytest.raises(InvalidInputError, match=words):
        yard.run(None, CREATE + steps)
    assert not (yard.root / "table").exists()


def test_line__long_values__are_cut():
    line = text._line({"id": 7, "body": "late " * 100, "_score": 1.25})
    assert line.startswith("1.250  id: 7, body: late late")
    assert len(line) < 2 * text.TEXT_CHARACTERS_MAX
