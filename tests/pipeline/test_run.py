"""Running pipelines on Spark: each step once, whatever is run again, and files that changed are not mixed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from siltstone.api.staging import Staging
from siltstone.errors import (
    DuplicateKeyError,
    InvalidInputError,
    NotFoundError,
    SiltstoneError,
    UnavailableError,
    WrongCommitStoreError,
)
from siltstone.pipeline import load_pipeline, parse_pipeline, run_pipeline
from siltstone.pipeline.kinds import CheckFailedError
from siltstone.pipeline.run import find_applied
from siltstone.testing.s3server import Faults, FaultServer

SECRET = "canary-93be"
CREATE = '  - create: {table: "${t}", key: id, schema: {id: int64 not null, stars: int32, body: string}}\n'
STREAM = '  - stream: {from: "${here}/in", format: json, into: "${t}", checkpoint: "${here}/cp"}\n'
CORRECT = '  - upsert: {from: "${here}/fix", format: json, into: "${t}"}\n'
DELETE = '  - delete: {table: "${t}", where: stars = 1}\n'
UPDATE = '  - update: {table: "${t}", set: {stars: stars + 1}}\n'


def states(report):
    return "".join(step.state[0] for step in report.steps)


def test_run__every_kind_of_step__does_it_and_a_second_time_nothing(yard, spark):
    yard.rows("in", "a.json", *range(10))
    yard.rows("in", "b.json", *range(10, 20), stars=1)
    yard.rows("fix", "a.json", 5, 30, body="mended")
    steps = (
        CREATE + STREAM + '  - check: {table: "${t}", rows: 20}\n  - tag: {table: "${t}", name: written}\n'
        + CORRECT + DELETE + UPDATE
        + '  - append: {from: "${t}", format: siltstone, into: "${t}", where: id = 30, '
        'select: ["id + 1 as id", stars, body]}\n'
        '  - compact: {table: "${t}"}\n'
        '  - check: {table: "${t}", tag: written, where: stars = 1, rows: 10, at_least: 10, at_most: 10}\n'
        '  - create: {table: "${here}/sums", schema: {stars: int32, n: int64}}\n'
        '  - sql:\n      tables: {now: "${t}"}\n      query: select stars, count(*) as n from now group by stars\n'
        '      into: "${here}/sums"\n'
        '  - sql:\n      tables: {s: "${here}/sums", old: {table: "${t}", tag: written}}\n'
        "      query: select s.stars, n, (select count(*) from old) from s\n      expect: [[4, 12, 20]]\n"
        '  - overwrite: {from: "${here}/fix", format: json, into: "${here}/sums", columns: "id bigint", '
        'select: ["cast(id as int) as stars", "id as n"]}\n'
    )  # fmt: skip
    report = yard.run(spark, steps)
    assert states(report) == "d" * 14
    assert [step.rows for step in report.steps] == [0, 20, 20, 0, 2, 10, 11, 1, 0, 10, 0, 1, 1, 2]
    rows = yard.open().scan().to_arrow().sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == [*range(10), 30, 31]
    assert {row["stars"] for row in rows} == {4}
    assert [row["id"] for row in rows if row["body"] == "mended"] == [5, 30, 31]
    assert sorted(row["n"] for row in yard.open("sums").scan().to_arrow().to_pylist()) == [5, 30]

    versions = yard.open().version, yard.open("sums").version
    again = yard.run(None, steps)  # no Spark is needed to find out
    assert (again.did, states(again)) == (0, "sbsbbbbbsssbsb")
    assert (yard.open().version, yard.open("sums").version) == versions

    another = yard.run(spark, CREATE + STREAM + UPDATE, run="2")
    assert states(another) == "ddd"
    assert yard.open().count("stars = 5") == 12


def test_run__files_arrive_between_runs__are_taken_by_the_next_run_alone(yard, spark):
    yard.rows("in", "a.json", 1, 2)
    yard.run(spark, CREATE + STREAM)
    yard.rows("in", "b.json", 3)
    assert yard.run(spark, CREATE + STREAM).did == 0
    assert yard.open().count() == 2
    report = yard.run(spark, CREATE + STREAM, run="2")
    assert report.steps[1].rows == 1
    assert yard.open().count() == 3


def test_run__a_step_fails__says_which_and_goes_on_there_when_it_was_mended(yard, spark):
    yard.rows("in", "a.json", 1, 2)
    yard.rows("more", "a.json", 2, 3)
    more = '  - append: {from: "${here}/more", format: json, into: "${t}"}\n'
    with pytest.raises(DuplicateKeyError, match=r"^step 4 \(append\) in line 7: ") as caught:
        yard.run(spark, CREATE + STREAM + UPDATE + more)
    assert "goes on here" in caught.value.hint
    yard.rows("more", "a.json", 3)
    report = yard.run(spark, CREATE + STREAM + UPDATE + more)
    assert states(report) == "sbbd"
    assert sorted(row["stars"] for row in yard.open().scan().to_arrow().to_pylist()) == [3, 4, 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("stars = 1", "stars = 2"), "applied a step '2-delete'"),
        (lambda text: text.replace(DELETE, UPDATE), "applied a step '2-delete'"),
        (lambda text: text.replace(DELETE, UPDATE + DELETE), "applied a step '2-delete'"),
        (lambda text: text.replace(DELETE, ""), "applied a step '2-delete'"),
    ],
    ids=["changed", "replaced", "put in between", "left out"],
)
def test_find_applied__a_step_that_was_applied_is_no_longer_as_it_was__is_refused(yard, spark, change, words):
    steps = CREATE + DELETE
    yard.run(spark, steps)
    version = yard.open().version
    with pytest.raises(InvalidInputError, match=words) as caught:
        yard.run(None, change(steps) + '  - tag: {table: "${t}", name: x}\n')
    assert "--run" in caught.value.hint
    assert yard.open().version == version
    assert yard.run(spark, steps + UPDATE).steps[-1].state == "done"  # what is put behind them is done


def test_find_applied__the_table_of_an_earlier_step_is_gone__is_refused(yard, spark, tmp_path):
    other = CREATE.replace("${t}", "${here}/other")
    steps = CREATE + other + DELETE + DELETE.replace("${t}", "${here}/other")
    yard.run(spark, steps)
    (tmp_path / "table").rename(tmp_path / "moved")
    with pytest.raises(
        InvalidInputError, match=r"step 3 \(delete\) was not applied .* step 4 \(delete\) behind it was"
    ):
        yard.run(None, steps)


def test_run__a_delete_that_found_nothing__is_not_done_when_rows_came_later(yard, spark):
    yard.rows("in", "a.json", 1, 2, stars=1)
    steps = CREATE + DELETE + STREAM + '  - check: {table: "${t}", rows: 7}\n'
    for _ in range(2):
        with pytest.raises(CheckFailedError, match="there are 2 rows, and rows says 7"):
            yard.run(spark, steps)
    assert yard.open().count() == 2


def test_run__a_tag_whose_run_goes_on__stays_where_it_was(yard, spark):
    steps = CREATE + '  - tag: {table: "${t}", name: before}\n' + DELETE
    yard.run(spark, steps)
    yard.open().append([{"id": 1, "stars": 2, "body": None}])
    yard.run(spark, steps + UPDATE)
    assert yard.open().tags == {"before": 0}


SHARDED = CREATE.replace("key: id,", "key: id, shards: 2,")
INTO_SHARDS = STREAM.replace("into:", "operation: ingest, files_per_batch: 1, into:")
INGEST = CORRECT.replace("upsert", "ingest")
MERGE = '  - merge: {table: "${t}"}\n'


def test_run__through_shards__rows_are_durable_then_merged_and_a_second_time_nothing(yard, spark):
    yard.rows("in", "a.json", *range(10))
    yard.rows("in", "b.json", *range(10, 20), stars=1)
    yard.rows("fix", "a.json", 5, 30, body="mended")
    steps = (
        SHARDED + INTO_SHARDS + '  - check: {table: "${t}", rows: 20, fresh: true}\n'
        '  - check: {table: "${t}", rows: 0}\n' + MERGE + '  - check: {table: "${t}", rows: 20}\n'
        + INGEST + '  - check: {table: "${t}", where: body = \'mended\', rows: 2, fresh: true}\n' + DELETE + MERGE
        + UPDATE
    )  # fmt: skip
    report = yard.run(spark, steps)
    assert states(report) == "d" * 11
    assert [step.rows for step in report.steps] == [0, 20, 20, 0, 20, 20, 2, 2, 10, 0, 11]
    assert report.steps[1].says == "put 20 rows into shards in 2 batches"
    assert report.steps[9].says == "nothing to do"  # the delete took with it what was in shards
    again = yard.run(None, steps)
    assert (again.did, states(again)) == (0, "sbssssbsbsb")
    yard.rows("in", "c.json", 40)
    assert yard.run(spark, SHARDED + INTO_SHARDS + INGEST + MERGE, run="2").steps[1].rows == 1
    found = {row["id"]: (row["stars"], row["body"]) for row in yard.open().scan().to_arrow().to_pylist()}
    assert found == {
        **dict.fromkeys(range(10), (4, "x")),
        5: (3, "mended"),
        30: (3, "mended"),
        40: (3, "x"),
    }


def test_run__ended_between_what_was_put_and_its_mark__is_put_once(yard, spark, monkeypatch):
    yard.rows("fix", "a.json", 1, 2, stars=3)
    steps = SHARDED + INGEST + UPDATE
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "commit", _interrupted)
        with pytest.raises(UnavailableError, match="ended here"):
            yard.run(spark, steps)
    with yard.open().writer() as writer:
        writer.put([{"id": 2, "stars": 7, "body": "newer"}])
    report = yard.run(spark, steps)
    assert states(report) == "ddd"
    assert yard.open().scan(["id", "stars"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "stars": 4},
        {"id": 2, "stars": 8},
    ]


def _interrupted(self, works):
    raise UnavailableError("ended here")


FAILURES = {
    "no table": ('  - delete: {table: "${here}/none", where: id = 1}\n', NotFoundError, "there is no table"),
    "no files": ('  - append: {from: "${here}/none", format: json, into: "${t}"}\n', InvalidInputError, "none"),
    "no row of JSON": ('  - append: {from: "${here}/bad", format: json, into: "${t}"}\n', SiltstoneError, ""),
    "stream of no JSON": (STREAM.replace("/in", "/bad"), SiltstoneError, ""),
    "stream refused in a task": (
        STREAM.replace("format", "select: [id, stars], format"), InvalidInputError, "body",
    ),
    "ingest without shards": (INGEST, InvalidInputError, "has no shards"),
    "stream into no shards": (INTO_SHARDS, InvalidInputError, "has no shards"),
    "wrong filter": ('  - delete: {table: "${t}", where: nothing = 1}\n', InvalidInputError, "nothing"),
    "wrong query": ('  - sql: {tables: {a: "${t}"}, query: select no from a}\n', InvalidInputError, "Spark refuses"),
    "wrong answer": ('  - sql: {tables: {a: "${t}"}, query: select 8, expect: 7}\n', CheckFailedError, "says [[7]]"),
    "too few": ('  - check: {table: "${t}", at_least: 1}\n', CheckFailedError, "at_least says 1"),
    "too many": ('  - check: {table: "${t}", where: id > 0, at_most: 1, version: 1}\n', CheckFailedError, "says 1"),
    "no version": ('  - tag: {table: "${t}", name: x, version: 9}\n', NotFoundError, "there is no version 9"),
    "other columns": (CREATE.replace(", body: string", ""), SiltstoneError, "other columns"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILURES)
def test_run__a_step_can_not_be_done__is_an_error_of_ours_and_changes_nothing(yard, spark, what):
    step, kind, words = FAILURES[what]
    yard.rows("in", "a.json", 1, 2)
    yard.rows("fix", "a.json", 1)
    (yard.root / "bad").mkdir()
    (yard.root / "bad" / "a.json").write_text("{this is no row\n")
    yard.run(spark, CREATE + DELETE)
    if what == "too many":
        yard.open().append([{"id": n, "stars": 1, "body": ""} for n in (1, 2)])
        step = step.replace("version: 1", "version: 2")
    version = yard.open().version
    with pytest.raises(kind) as caught:
        yard.run(spark, CREATE + DELETE + step)
    assert caught.value.message.startswith("step 3 (")
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert yard.open().version == version


def test_run__on_s3_that_lies_with_a_commit_store__works_and_shows_no_secret(yard, spark, monkeypatch):
    yard.rows("in", "a.json", 1, 2, stars=1)
    yard.rows("fix", "a.json", 2, 3, stars=4)
    with FaultServer(Faults(lie="always"), in_thread=True) as server:
        options = {**server.storage_options, "aws_secret_access_key": "${env:LAKE_KEY}"}
        monkeypatch.setenv("LAKE_KEY", server.storage_options["aws_secret_access_key"])
        head = f"commits: 'sqlite://{yard.root}/claims.db'\nstorage: {options}\n"
        steps = (CREATE + STREAM + CORRECT + DELETE + '  - check: {table: "${t}", rows: 2}\n').replace(
            "${t}", "s3://bkt/reviews"
        )
        assert states(yard.run(spark, steps, head=head)) == "ddddd"
        assert yard.run(spark, steps, head=head).did == 1  # the check at the end
        update = UPDATE.replace("${t}", "s3://bkt/reviews")
        with pytest.raises(WrongCommitStoreError) as caught:
            yard.run(spark, steps + update, head=head.partition("\n")[2])
        assert server.storage_options["aws_secret_access_key"] not in str(caught.value)
        assert caught.value.message.startswith("step 6 (update) in line 10: ")


def test_run__an_error_with_a_value_of_the_environment__does_not_show_it(yard, spark, monkeypatch):
    monkeypatch.setenv("TOKEN", SECRET)
    steps = CREATE + '  - delete: {table: "${t}", where: "${env:TOKEN} = 1"}\n'
    with pytest.raises(InvalidInputError) as caught:
        yard.run(spark, steps)
    assert SECRET not in f"{caught.value} {caught.value.facts} {caught.value.__cause__}"
    assert "***" in caught.value.message
    sql = CREATE + '  - sql: {tables: {a: "${t}"}, query: "select `${env:TOKEN}` from a"}\n'
    with pytest.raises(InvalidInputError) as caught:
        yard.run(spark, sql)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


def test_find_applied__no_table_yet__finds_none(tmp_path):
    text = f"name: a\nsteps:\n  - delete: {{table: '{tmp_path}/t', where: id = 1}}\n"
    assert find_applied(parse_pipeline(text)) == {}
    assert list(tmp_path.iterdir()) == []


def test_run__a_session_of_its_own__is_left_running_where_it_ran_before(yard, spark):
    report = run_pipeline(parse_pipeline((yard.write(CREATE + DELETE)).read_bytes(), here=yard.root))
    assert states(report) == "dd"
    assert spark.range(3).count() == 3


def test_run__two_runners_at_once__apply_every_step_once(yard, spark):
    yard.rows("more", "a.json", 1, 2, 3)
    steps = '  - create: {table: "${t}", schema: {id: int64, stars: int32, body: string}}\n' + (
        '  - append: {from: "${here}/more", format: json, into: "${t}"}\n' + UPDATE
    )
    pipeline = load_pipeline(yard.write(steps))
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: run_pipeline(pipeline, spark=spark), range(2)))
    assert [report.did for report in reports] == [3, 3]
    assert yard.open().scan(["id", "stars"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": one, "stars": 4} for one in (1, 2, 3)
    ]
    assert sorted(step.versions for report in reports for step in report.steps[1:]) == [0, 0, 1, 1]
