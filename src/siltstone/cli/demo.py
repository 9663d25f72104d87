"""``demo``: a pipeline on Spark, and the promises below it, kept before your eyes on this machine without a network.

What must hold: each step counts what it claims; a wrong count makes the exit code 1. Nothing stays behind but
the directory given with ``--keep``, in which the demo can be run again.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.cli.demo_pipeline import FILE, FILE_NAME, play
from siltstone.cli.demo_steps import Check, Step
from siltstone.cli.demo_stores import STORE_STEPS
from siltstone.cli.errors import DONE, FAILED
from siltstone.cli.output import clean
from siltstone.cli.pipeline import watch
from siltstone.cli.progress import Progress
from siltstone.errors import InvalidInputError, SiltstoneError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from siltstone.cli.output import Output


def run_demo(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``demo``."""
    began = time.monotonic()
    steps: list[Step] = []
    with _directory(arguments.keep) as directory, tempfile.TemporaryDirectory(prefix="siltstone-demo-") as scratch:
        for part in PARTS:
            steps += part(directory, Path(scratch), output)
    _summary(steps, time.monotonic() - began, output)
    return DONE if all(step.ok for step in steps) else FAILED


def _pipeline(directory: Path, _: Path, output: Output) -> list[Step]:
    output.note("A pipeline on Spark")
    with Progress(output, "demo", unit="steps") as bar:
        watched = watch(output, bar, total=FILE.count("  - id: "))
        return play(directory, watched, _teller(output), lambda text: output.note(f"        {text}"))


def _stores(_: Path, scratch: Path, output: Output) -> list[Step]:
    output.note("What every table stands on")
    steps = []
    for number, (name, run) in enumerate(STORE_STEPS, 1):
        output.note(f"[{number}/{len(STORE_STEPS)}] {name}")
        with Progress(output, name):
            steps.append(_run(name, run, scratch, _teller(output)))
    return steps


def _run(name: str, run: Callable[[Path], Iterator[Check]], scratch: Path, told: Callable[[Check], None]) -> Step:
    began = time.monotonic()
    checks = []
    try:
        for check in run(scratch):
            told(check)
            checks.append(check)
    except SiltstoneError as error:
        checks.append(Check(f"ended with {error.kind}: {error.message}", ok=False))
        told(checks[-1])
    return Step(name, tuple(checks), round(time.monotonic() - began, 2))


def _teller(output: Output) -> Callable[[Check], None]:
    return lambda check: output.note(f"          {'ok' if check.ok else 'NO'}  {check.what}")


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="siltstone-demo-") as name:
            yield Path(name)
        return
    if not (keep / FILE_NAME).is_file():
        try:
            keep.mkdir(parents=True)
        except OSError as error:
            raise InvalidInputError(
                f"{keep} can't be made: {error.strerror}",
                hint="name a directory that is not there yet, or one that a demo made",
            ) from None
    yield keep


def _summary(steps: Sequence[Step], seconds: float, output: Output) -> None:
    ok = all(step.ok for step in steps)
    documents = [{"ok": step.ok} | asdict(step) for step in steps]
    output.result({"ok": ok, "seconds": round(seconds, 2), "steps": documents})
    table = [(step.name, step.says, _held(step), f"{step.seconds:.1f} s") for step in steps]
    output.line()
    output.table(("step", "did", "held", "took"), table, right=frozenset({"held", "took"}))
    for step in steps:
        if step.lines:
            output.line()
            output.line(f"{step.name}: {step.says}, the best of them with their scores:")
            for line in step.lines:
                output.line(clean(f"  {line}"))
    output.line()
    if ok:
        output.line(output.paint(f"Everything held, in {seconds:.0f} s.", "green"))
    for step in steps:
        for check in step.checks:
            if not check.ok:
                output.line(output.paint(f"Did not hold: {step.name}: {check.what}", "red"))


def _held(step: Step) -> str:
    return f"{sum(check.ok for check in step.checks)}/{len(step.checks)}" if step.checks else ""


PARTS: tuple[Callable[[Path, Path, Output], list[Step]], ...] = (_pipeline, _stores)
