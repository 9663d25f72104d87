"""The demo's pipeline: reviews arrive and become a table on Spark, and after every step the rows are counted.

Later parts of the pipeline are more steps in ``FILE`` and more checks in ``CHECKS``, by the step's id.

What must hold:
- A check looks at the version that its step made, so that it holds however often the demo is run in one directory.
- What is expected comes from the rows that were made up, never from a table.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from siltstone import spark as on_spark
from siltstone.api import open_table
from siltstone.cli import demo_rows as rows
from siltstone.cli.demo_steps import Check, Step
from siltstone.cli.table_check import check_tables
from siltstone.errors import SiltstoneError, UnavailableError
from siltstone.paths import DATA
from siltstone.pipeline import load_pipeline, run_pipeline
from siltstone.pipeline.run import Session, Watch, make_task
from siltstone.pipeline.streams import start_stream
from siltstone.store.connect import open_store
from siltstone.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.pipeline import Outcome, Pipeline
    from siltstone.pipeline.file import Step as FileStep

FILE_NAME = "pipeline.yaml"
BATCH_SECONDS_MAX = 120.0
LOOK_EVERY_S = 0.1
FILE = """\
# What `siltstone demo` runs. `siltstone pipeline run` on this file goes on with the same run: nothing is applied twice.
name: demo
spark:
  master: local[2]
vars:
  table: ${{here}}/reviews
steps:
  - id: create
    create:
      table: ${{table}}
      key: id
      shards: 2
      schema:
        id: int64 not null
        product: string
        stars: int32
        lang: string
        body: string
        time: timestamp[us, UTC]
  - id: arrive
    stream:
      from: ${{here}}/incoming
      format: json
      into: ${{table}}
      operation: ingest
      checkpoint: ${{here}}/checkpoints/arrive
      files_per_batch: 2
  - id: fresh
    check: {{table: "${{table}}", rows: {written}, fresh: true}}
  - id: merge
    merge: {{table: "${{table}}"}}
  - id: tag
    tag: {{table: "${{table}}", name: as-written}}
  - id: correct
    upsert: {{from: "${{here}}/corrections", format: parquet, into: "${{table}}"}}
  - id: delete
    delete: {{table: "${{table}}", where: "{delete}"}}
  - id: update
    update: {{table: "${{table}}", set: {{lang: "'en'"}}, where: lang is null}}
  - id: compact
    compact: {{table: "${{table}}"}}
  - id: index
    index: {{table: "${{table}}", column: body, language: english}}
  - id: search
    search: {{table: "${{table}}", column: body, query: '{query}', rows: {matches}}}
  - id: checkpoint
    checkpoint: {{table: "${{table}}", name: before-migration}}
  - id: trial
    clone: {{table: "${{table}}", at: before-migration, into: "${{here}}/trial"}}
  - id: migrate
    update: {{table: "${{here}}/trial", set: {{stars: stars * 20}}}}
  - id: collect
    gc: {{table: "${{here}}/trial", keep_days: 0}}
  - id: look-back
    check: {{table: "${{table}}", tag: as-written, rows: {written}}}
  - id: ask
    sql:
      tables: {{reviews: "${{table}}"}}
      query: select lang, sum(stars) from reviews group by lang order by lang
      expect: {stars}
  - id: finish
    tag: {{table: "${{table}}", name: finished}}
"""


@dataclass
class Scene:
    """Where the demo plays."""

    directory: Path
    spark: SparkSession
    pipeline: Pipeline
    note: Callable[[str], None]
    stopped_at: int = -1  # how many rows were in when the stream was stopped
    steps: list[Step] = field(default_factory=list)

    @property
    def uri(self) -> str:
        return str(self.directory / "reviews")


def play(directory: Path, watch: Watch, told: Callable[[Check], None], note: Callable[[str], None]) -> list[Step]:
    """Run the pipeline, with checks after every step; stops at the first step that fails."""
    began = time.monotonic()
    _prepare(directory)
    pipeline = load_pipeline(directory / FILE_NAME)
    note("starting Spark on this machine")
    session = Session(app="siltstone demo", master=pipeline.master)
    scene = Scene(directory, session.connect(), pipeline, note)
    note(f"{rows.ROWS:,} reviews lie in {rows.FILES} files; {time.monotonic() - began:.1f} s")

    def begins(step: FileStep) -> None:
        if step.id == "arrive":
            _interrupt(scene, step)
        watch.begins(step)

    def ended(outcome: Outcome) -> None:
        watch.ended(outcome)
        scene.steps.append(_checked(scene, outcome, told))

    try:
        run_pipeline(pipeline, spark=scene.spark, watch=Watch(begins, watch.says, ended))
    except SiltstoneError as error:
        failed = Check(f"ended with {error.kind}: {error.message}", ok=False)
        told(failed)
        scene.steps.append(Step("the pipeline", (failed,), 0.0))
    finally:
        session.stop()
    return scene.steps


def _prepare(directory: Path) -> None:
    rows.write_arrivals(directory / "incoming")
    (directory / "corrections").mkdir(exist_ok=True)
    if not (directory / FILE_NAME).exists():
        pq.write_table(rows.corrections(), directory / "corrections" / "corrections.parquet")
        stars = [list(row) for row in rows.stars_by_language()]
        text = FILE.format(
            delete=rows.DELETE, written=rows.ROWS, stars=stars, query=rows.QUERY, matches=len(rows.matching())
        )
        (directory / FILE_NAME).write_text(text, encoding="utf-8")


def _interrupt(scene: Scene, step: FileStep) -> None:
    """Stop the stream behind its first batch: the step that follows must go on where it was."""
    task = make_task(scene.pipeline, step, lambda: scene.spark)
    with task.table("into") as table:
        began = time.monotonic()
        query = start_stream(task, table, every="1 hour")
        try:
            while query.isActive and query.lastProgress is None:
                if time.monotonic() - began > BATCH_SECONDS_MAX:
                    raise UnavailableError(f"the stream's first batch took more than {BATCH_SECONDS_MAX:.0f} s")
                time.sleep(LOOK_EVERY_S)
        finally:
            query.stop()
        scene.stopped_at = table.count(fresh=True)
        seconds = time.monotonic() - began
        scene.note(f"a stream was stopped with {scene.stopped_at:,} of {rows.ROWS:,} rows in; {seconds:.1f} s")


def _put(scene: Scene, outcome: Outcome) -> Iterator[Check]:
    """Rows are in no version before they are merged: what is looked at is the moment right behind the step."""
    if outcome.id != "arrive" or outcome.state != "done":
        return
    with open_table(scene.uri) as table:
        entries = sum(one.wal_lag for one in table.shards())
        yield Check(
            f"all {rows.ROWS:,} rows are durable in {entries} entries of WALs, and the table has none of them yet",
            table.count(fresh=True) == rows.ROWS and table.count() == 0 and entries > 0,
        )


def _beside(scene: Scene, outcome: Outcome) -> Iterator[Check]:
    """Checks of steps whose rows are in no version of the table: those in shards, and those of its clone."""
    if outcome.id in CLONE_CHECKS:
        with open_table(scene.directory / "trial") as trial, open_table(scene.uri) as table:
            yield from CLONE_CHECKS[outcome.id](table, trial)
    else:
        yield from _put(scene, outcome)


def _checked(scene: Scene, outcome: Outcome, told: Callable[[Check], None]) -> Step:
    checks = []
    for check in _beside(scene, outcome):
        told(check)
        checks.append(check)
    if outcome.id in CHECKS and outcome.version is not None:
        with open_table(scene.uri, version=outcome.version) as table:
            for check in CHECKS[outcome.id](scene, table):
                told(check)
                checks.append(check)
    name = f"{outcome.kind}: {outcome.id}" if outcome.id != outcome.kind else outcome.kind
    return Step(name, tuple(checks), outcome.seconds, outcome.says, outcome.rows, outcome.versions, outcome.lines)


# -- checks --------------------------------------------------------------------------------------


def _merged(scene: Scene, table: Table) -> Iterator[Check]:
    ids = table.scan(["id"]).to_arrow()["id"]
    count, keys = len(ids), pc.count_distinct(ids).as_py()
    stopped = "" if scene.stopped_at < 0 else ", though the stream was stopped in the middle and started again"
    yield Check(f"{rows.ROWS:,} rows with as many keys are there{stopped}", count == keys == rows.ROWS)
    yield Check("they are the rows of the files", _same(table.scan().to_arrow(), rows.written()))
    yield Check("nothing is left in the shards", all(not (one.wal_lag or one.fragments) for one in table.shards()))


def _corrected(_: Scene, table: Table) -> Iterator[Check]:
    wanted = rows.corrected()
    yield Check(
        f"{rows.CORRECTED:,} rows were replaced and {rows.ADDED:,} added: {len(wanted):,} rows",
        table.count() == len(wanted) and table.count("body like 'corrected:%'") == rows.CORRECTED + rows.ADDED,
    )


def _deleted(_: Scene, table: Table) -> Iterator[Check]:
    wanted = len(rows.deleted())
    yield Check(
        f"{len(rows.corrected()) - wanted:,} rows are gone, {wanted:,} are left",
        table.count() == wanted and table.count(rows.DELETE) == 0,
    )


def _updated(_: Scene, table: Table) -> Iterator[Check]:
    english = len(rows.finished().filter(pc.field("lang") == "en"))
    yield Check(
        f"{rows.unnamed():,} rows without a language have one now, {english:,} are in English",
        table.count("lang is null") == 0 and table.count("lang = 'en'") == english,
    )


def _compacted(scene: Scene, table: Table) -> Iterator[Check]:
    same = _same(on_spark.read(scene.spark, table).toArrow(), rows.finished())
    yield Check(f"all {len(rows.finished()):,} rows are as they must be, read by executors", same)


def _indexed(_: Scene, table: Table) -> Iterator[Check]:
    [index] = table.indexes()
    yield Check(
        f"the words of all {index.indexed_rows:,} rows are in an index of {index.bytes:,} bytes, made by executors",
        (index.indexed_rows, index.unindexed_rows) == (len(rows.finished()), 0),
    )


def _searched(scene: Scene, table: Table) -> Iterator[Check]:
    wanted = rows.matching()
    found = on_spark.search(scene.spark, table, "body", rows.QUERY, limit=None).toArrow()
    yield Check(
        f"a search finds the {len(wanted):,} rows that a scan of all texts finds", _same(found.drop("_score"), wanted)
    )
    best = found.slice(0, rows.BEST)["body"]
    yield Check("the best rows have what need not be there, too", all(rows.PHRASE in text for text in best.to_pylist()))


def _cloned(table: Table, trial: Table) -> Iterator[Check]:
    copied = sum(info.size for info in open_store(trial.uri).list(DATA))
    yield Check(
        f"the clone has the {trial.count():,} rows of the checkpoint, and its own {copied} bytes of data",
        trial.count() == table.at(checkpoint="before-migration").count() == len(rows.finished()),
    )


def _migrated(table: Table, trial: Table) -> Iterator[Check]:
    wanted = pc.sum(rows.finished()["stars"]).as_py()
    found, kept = (pc.sum(one.scan(["stars"]).to_arrow()["stars"]).as_py() for one in (trial, table))
    yield Check(
        "its stars are of another scale now, the table's are as they were", (found, kept) == (wanted * 20, wanted)
    )


def _collected(table: Table, trial: Table) -> Iterator[Check]:
    same = _same(table.at(checkpoint="before-migration").scan().to_arrow(), rows.finished())
    yield Check(
        "what the checkpoint keeps is all there, and so is the clone", same and trial.count() == len(rows.finished())
    )


def _finished(scene: Scene, table: Table) -> Iterator[Check]:
    old = on_spark.read(scene.spark, scene.uri, tag="as-written").toArrow()
    yield Check(
        f"the version as-written still has its {rows.ROWS:,} rows, every value as it was", _same(old, rows.written())
    )
    yield Check("the newest rows are as they must be", _same(table.scan().to_arrow(), rows.finished()))
    reports = verify(scene.uri)
    [found] = check_tables(scene.uri, reports, deep=True, commits=None, storage_options={}, progress=lambda *_: None)
    yield Check("verify --deep finds nothing wrong", all(report.ok for report in reports) and found.ok)


def _same(found: pa.Table, wanted: pa.Table) -> bool:
    """Whether tables have the same rows, in whatever order."""
    found = found.select(wanted.column_names).cast(wanted.schema)
    return bool(found.sort_by("id").equals(wanted.sort_by("id")))


CHECKS: dict[str, Callable[[Scene, Table], Iterator[Check]]] = {
    "merge": _merged,
    "correct": _corrected,
    "delete": _deleted,
    "update": _updated,
    "compact": _compacted,
    "index": _indexed,
    "search": _searched,
    "finish": _finished,
}
CLONE_CHECKS: dict[str, Callable[[Table, Table], Iterator[Check]]] = {
    "trial": _cloned,
    "migrate": _migrated,
    "collect": _collected,
}
