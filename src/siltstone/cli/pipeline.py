"""``pipeline``: run the steps of a file on Spark, each once, or see whether the file is right.

What must hold: a file that is wrong anywhere is refused before the first step; what a run says of its steps comes
from the steps themselves.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from siltstone.cli.errors import DONE
from siltstone.cli.options import add_group, add_verb
from siltstone.cli.output import clean
from siltstone.pipeline import load_pipeline, run_pipeline
from siltstone.pipeline.file import FIRST_RUN
from siltstone.pipeline.run import Watch
from siltstone.pipeline.variables import parse_set

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output
    from siltstone.pipeline import Outcome, Pipeline, Report
    from siltstone.pipeline.file import Step

RUN_SHAPE = ("name", "run", "did", "seconds", "steps")
CHECK_SHAPE = ("name", "run", "master", "steps")

_TEACHES = """\
A file names the steps: files that arrive are streamed in, corrections are upserted, rows are deleted and updated,
tables are tagged, compacted, asked and checked. docs/pipeline.md has every key.

Examples:
  siltstone pipeline check nightly.yaml
  siltstone pipeline run nightly.yaml --run 2026-11-14
"""
_RUN = """\
Steps that were applied before in the same run are not applied again: after a crash, or after mending the step that
failed, the same command goes on where it stopped. The tables' own logs know what was applied. For new work, such as
the next night, give --run another name.

Examples:
  siltstone pipeline run nightly.yaml --run 2026-11-14
  siltstone pipeline run nightly.yaml --run 2026-11-14 --master spark://host:7077 --set root=s3://lake/reviews
"""
_CHECK = """\
Nothing is opened or changed: only the file is read, and its variables filled in.

Example:
  siltstone pipeline check nightly.yaml --set root=s3://lake/reviews
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs of ``pipeline``."""
    inside = add_group(
        verbs, "pipeline", inside=("run", "check"), says="Run the steps of a file on Spark.", teaches=_TEACHES
    )
    run = add_verb(inside, "run", _run, says="Run a pipeline, or go on with it.", teaches=_RUN, shape=RUN_SHAPE)
    _add_file(run)
    run.add_argument("--master", metavar="URL", help="the Spark master, such as local[2]; wins over the file's")
    check = add_verb(inside, "check", _check, says="Is this file right?", teaches=_CHECK, shape=CHECK_SHAPE)
    _add_file(check)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the pipeline, in YAML")
    parser.add_argument(
        "--run", dest="run_id", default=FIRST_RUN, metavar="NAME", help=f"the name of the run (default {FIRST_RUN})"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable; wins over the file's; repeatable"
    )


def _load(arguments: argparse.Namespace) -> Pipeline:
    return load_pipeline(arguments.file, run=arguments.run_id, values=parse_set(arguments.set))


def _check(arguments: argparse.Namespace, output: Output) -> int:
    pipeline = _load(arguments)
    steps = [
        {"number": step.number, "id": step.id, "kind": step.kind.name, "line": step.line, "target": step.target}
        for step in pipeline.steps
    ]
    output.result({"name": pipeline.name, "run": pipeline.run, "master": pipeline.master, "steps": steps})
    heads = ("number", "kind", "target", "line")
    output.table(("step", *heads[1:]), [[step[head] for head in heads] for step in steps], right=frozenset({"step"}))
    output.line()
    output.line(output.paint(f"The file is right: {len(steps)} steps.", "green"))
    return DONE


def _run(arguments: argparse.Namespace, output: Output) -> int:
    pipeline = _load(arguments)
    report = run_pipeline(pipeline, master=arguments.master, watch=watch(output))
    output.result(
        {
            "name": report.name,
            "run": report.run,
            "did": report.did,
            "seconds": report.seconds,
            "steps": [asdict(step) for step in report.steps],
        }
    )
    _summary(report, output)
    return DONE


def watch(output: Output) -> Watch:
    """A line for every step, and on a terminal how far the present one is."""
    began = {0: time.monotonic()}

    def begins(step: Step) -> None:
        began[step.number] = time.monotonic()
        says(step, "")

    def says(step: Step, text: str) -> None:
        seconds = time.monotonic() - began[step.number]
        output.progress(f"{step.label} {text} ({seconds:.0f} s)")

    return Watch(begins, says, lambda outcome: output.note(step_line(outcome)))


def step_line(outcome: Outcome) -> str:
    """What a step did, in one line."""
    at = "" if outcome.version is None or outcome.state != "done" else f", version {outcome.version}"
    took = f"  {outcome.seconds:.1f} s" if outcome.state == "done" else ""
    return clean(f"[{outcome.number:>2}] {outcome.kind:<9}  {outcome.says}{at}{took}")


def _summary(report: Report, output: Output) -> None:
    rest = len(report.steps) - report.did
    if not report.did:
        output.line(f"Nothing to do: every step of run {report.run} of {report.name} was applied before.")
        output.line("Another run begins with --run NAME.")
        return
    before = f", {rest} were applied before" if rest else ""
    text = f"Done: {report.did} steps of run {report.run} of {report.name}{before}; {report.seconds:.1f} s."
    output.line(output.paint(text, "green"))
