"""``pipeline``: run the steps of a file on Spark, each once, or see whether the file is right.

What must hold: a file that is wrong anywhere is refused before the first step; what a run says of its steps comes
from the steps themselves.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from siltstone.cli.errors import DONE
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress
from siltstone.pipeline import load_pipeline, run_pipeline
from siltstone.pipeline.run import Watch
from siltstone.pipeline.variables import parse_set

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.output import Output
    from siltstone.pipeline import Outcome, Pipeline, Report
    from siltstone.pipeline.file import Step


def _load(arguments: argparse.Namespace) -> Pipeline:
    return load_pipeline(arguments.file, run=arguments.run_id, values=parse_set(arguments.set))


def run_check(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``check``."""
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


def run_run(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``run``."""
    pipeline = _load(arguments)
    with Progress(output, f"pipeline {clean(pipeline.name)}", unit="steps") as bar:
        report = run_pipeline(pipeline, master=arguments.master, watch=watch(output, bar, total=len(pipeline.steps)))
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


def watch(output: Output, bar: Progress, *, total: int) -> Watch:
    """A line for every step, and on a terminal how far the present one is, and all of them."""
    began = {0: time.monotonic()}

    def begins(step: Step) -> None:
        began[step.number] = time.monotonic()
        says(step, "")

    def says(step: Step, text: str) -> None:
        bar.say(f"{step.label} {text}".rstrip(), since=began[step.number])

    def ended(outcome: Outcome) -> None:
        bar.done(min(outcome.number, total), total)
        output.note(step_line(outcome))
        for line in outcome.lines:
            output.note(clean(f"        {line}"))

    return Watch(begins, says, ended)


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
