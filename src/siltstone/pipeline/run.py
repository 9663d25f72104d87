"""Running a pipeline: each step once, in order, and after a crash from where it stopped.

What must hold:
- Whether a step was applied is asked of the tables' own logs, and of nothing else. Its mark, the ``once`` of the one
  commit that applied it, names the pipeline, the run, the step and a digest of what it says.
- Steps that were applied are the beginning of the file as it is now. A file in which they are changed, or are not
  the first, is refused: nobody could say what a mixture of two files has done.
- What comes from the environment is in no message.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from siltstone import spark as on_spark
from siltstone.api import open_table
from siltstone.api.staging import Staging
from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.pipeline.failures import explained
from siltstone.pipeline.kinds import Done, Task
from siltstone.store.options import parse_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from siltstone.pipeline.file import Pipeline, Step

State = Literal["done", "before", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """A step and what became of it: done now, applied before, or skipped since one behind it was applied."""

    number: int
    id: str
    kind: str
    target: str
    state: State
    says: str
    rows: int = 0
    versions: int = 0
    version: int | None = None
    seconds: float = 0.0
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """A run that came to its end."""

    name: str
    run: str
    steps: tuple[Outcome, ...]
    seconds: float

    @property
    def did(self) -> int:
        """How many steps were done now."""
        return sum(step.state == "done" for step in self.steps)


@dataclass
class Watch:
    """Who is told how far a run is; every method may be replaced."""

    begins: Callable[[Step], None] = field(default=lambda _: None)
    says: Callable[[Step, str], None] = field(default=lambda *_: None)
    ended: Callable[[Outcome], None] = field(default=lambda _: None)


def run_pipeline(
    pipeline: Pipeline, *, master: str | None = None, spark: SparkSession | None = None, watch: Watch | None = None
) -> Report:
    """Do what a pipeline says, from the first step that was not applied yet.

    Without ``spark`` a session is started when a step needs it, and stopped at the end. Raises what the step that
    failed raised, with the step in its message; steps before it stay applied.
    """
    began, watch, outcomes = time.monotonic(), watch or Watch(), []
    applied = find_applied(pipeline)
    session = Session(spark, app="siltstone pipeline", master=master or pipeline.master, config=pipeline.config)
    try:
        for step in pipeline.steps:
            outcome = _before(step, applied)
            if outcome is None:
                watch.begins(step)
                outcome = _do(pipeline, step, session, watch)
            watch.ended(outcome)
            outcomes.append(outcome)
    finally:
        session.stop()
    return Report(pipeline.name, pipeline.run, tuple(outcomes), round(time.monotonic() - began, 2))


def mark_of(pipeline: Pipeline, step: Step) -> str:
    """The id under which a step is applied once."""
    return f"{_prefix(pipeline)}{step.id}#{step.digest}"


def find_applied(pipeline: Pipeline) -> dict[int, int | None]:
    """The steps that are behind us, by number, with the version in which each was applied.

    A step that leaves no mark is behind us where a later one was applied. Raises InvalidInputError where the steps
    that were applied are not those of the file.
    """
    tables = _marks(pipeline)
    marked = {step.number: (step, uri) for step in pipeline.steps if (uri := _marked_in(step)) is not None}
    applied: dict[int, int | None] = {
        number: tables[uri][mark_of(pipeline, step)]
        for number, (step, uri) in marked.items()
        if mark_of(pipeline, step) in tables.get(uri, {})
    }
    _check_known(pipeline, tables, {mark_of(pipeline, step) for step, _ in marked.values()})
    last = max(applied, default=0)
    for number, (step, _) in marked.items():
        if number < last and number not in applied:
            raise InvalidInputError(
                f"{step.label} was not applied in run {pipeline.run!a}, and {_label(pipeline, last)} behind it was",
                hint="a step was put in between, or its table was made anew; begin another run with --run",
            )
    for step in pipeline.steps:
        if step.number < last:
            applied.setdefault(step.number, None)
    return applied


def _marked_in(step: Step) -> str | None:
    uri = step.kind.marked_in(step.settings)
    return None if uri is None else str(parse_uri(uri))


def _marks(pipeline: Pipeline) -> dict[str, dict[str, int]]:
    """The marks of this run by table; a table that is not there has none."""
    found: dict[str, dict[str, int]] = {}
    for step in pipeline.steps:
        uri = _marked_in(step)
        if uri is None or uri in found:
            continue
        found[uri] = {}
        with explained(step, pipeline.secrets), suppress(NotFoundError):
            found[uri] = _marks_of(step, _prefix(pipeline))
    return found


def _marks_of(step: Step, prefix: str) -> dict[str, int]:
    commits, storage = step.settings.get("commits"), step.settings.get("storage")
    with open_table(step.settings[step.kind.marks], commits=commits, storage_options=storage) as table:
        return {mark: version for mark, version in Staging(table).state.once.items() if mark.startswith(prefix)}


def _check_known(pipeline: Pipeline, tables: Mapping[str, Mapping[str, int]], known: set[str]) -> None:
    for uri, marks in tables.items():
        for mark, version in marks.items():
            if mark not in known:
                step = mark.removeprefix(_prefix(pipeline)).partition("#")[0]
                raise InvalidInputError(
                    f"run {pipeline.run!a} of {pipeline.name!a} applied a step {step!a} in version {version} of {uri}, "
                    "that is not in this file or says something else there",
                    hint="put that step back as it was, with its number or id, or begin another run with --run",
                )


def _prefix(pipeline: Pipeline) -> str:
    return f"pipeline/{pipeline.name}/{pipeline.run}/"


def _label(pipeline: Pipeline, number: int) -> str:
    return pipeline.steps[number - 1].label


def _before(step: Step, applied: Mapping[int, int | None]) -> Outcome | None:
    if step.number not in applied:
        return None
    version = applied[step.number]
    state: State = "skipped" if version is None else "before"
    says = "one behind it was applied" if version is None else f"applied before, in version {version}"
    return Outcome(step.number, step.id, step.kind.name, step.target, state, says, version=version)


def _do(pipeline: Pipeline, step: Step, session: Session, watch: Watch) -> Outcome:
    began = time.monotonic()
    with explained(step, pipeline.secrets):
        done = step.kind.run(make_task(pipeline, step, session.connect, say=lambda text: watch.says(step, text)))
    seconds = round(time.monotonic() - began, 2)
    return _outcome(step, done, seconds)


def make_task(
    pipeline: Pipeline, step: Step, connect: Callable[[], SparkSession], *, say: Callable[[str], None] = lambda _: None
) -> Task:
    """A step, ready to be run."""
    return Task(
        settings=step.settings,
        connect=connect,
        once=mark_of(pipeline, step),
        message=f"pipeline {pipeline.name}, run {pipeline.run}: {step.id}",
        say=say,
    )


def _outcome(step: Step, done: Done, seconds: float) -> Outcome:
    return Outcome(
        step.number, step.id, step.kind.name, step.target, "done", done.says, done.rows, done.versions, done.version,
        seconds, done.lines,
    )  # fmt: skip


class Session:
    """Spark, started when it is first asked for; what was started here is stopped here."""

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        app: str,
        master: str | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._app = app
        self._master = master
        self._config = config
        self._ours = False

    def connect(self) -> SparkSession:
        """The session."""
        if self._spark is None:
            self._ours = not _runs()
            self._spark = on_spark.session(master=self._master, app=self._app, config=self._config)
        return self._spark

    def stop(self) -> None:
        """Stop it, if it was started here."""
        if self._ours and self._spark is not None:
            with suppress(Exception):  # it may be what broke the step
                self._spark.stop()


def _runs() -> bool:
    """Whether this process has a session already."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None
