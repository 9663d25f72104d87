"""``demo``: the promises of logs and tables, kept before your eyes, on this machine and without a network.

What must hold: each step counts what it claims; a wrong count makes the exit code 1. Nothing stays behind but
the directory given with ``--keep``.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.check import check_store
from siltstone.cli.demo_steps import Check, Step
from siltstone.cli.demo_tables import TABLE_STEPS
from siltstone.cli.demo_writers import Target, Writer, missing, write_together
from siltstone.cli.errors import DONE, FAILED
from siltstone.cli.options import add_verb
from siltstone.errors import FencedError, InvalidInputError, SiltstoneError, UnsafeStoreError
from siltstone.log import open_log
from siltstone.testing.s3server import Faults, FaultServer
from siltstone.verify import repair, verify

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output

WRITERS = 4
ENTRIES_EACH = 10
ENTRIES_BEFORE_THE_KILL = 5

_SHAPE = ("ok", "seconds", "steps")
_TEACHES = """\
Writes with several processes at once to a directory and to an S3 server that lies, kills a writer, fences
another; then makes a table, lets processes append to it at once, corrects, deletes, looks back, compacts and reads
what changed; and counts after each step. Takes some seconds; needs nothing but this package.

Examples:
  siltstone demo
  siltstone demo --keep demo-files
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``demo``."""
    parser = add_verb(
        verbs, "demo", _demo, says="See siltstone at work on this machine.", teaches=_TEACHES, shape=_SHAPE
    )
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="leave logs and tables in this directory, which must be new"
    )


def _demo(arguments: argparse.Namespace, output: Output) -> int:
    started = time.monotonic()
    steps = []
    with _directory(arguments.keep) as directory:
        for name, run in STEPS:
            output.note(f"- {name}")
            step = _run(name, run, directory)
            for check in step.checks:
                output.note(f"    {'ok' if check.ok else 'NO'}  {check.what}")
            steps.append(step)
    _summary(steps, time.monotonic() - started, output)
    return DONE if all(step.ok for step in steps) else FAILED


def _run(name: str, run: Callable[[Path], Iterator[Check]], directory: Path) -> Step:
    began = time.monotonic()
    try:
        checks = tuple(run(directory))
    except SiltstoneError as error:
        checks = (Check(f"ended with {error.kind}: {error.message}", ok=False),)
    return Step(name, checks, round(time.monotonic() - began, 2))


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="siltstone-demo-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True)
    except OSError as error:
        raise InvalidInputError(
            f"{keep} can't be made: {error.strerror}", hint="name a directory that is not there yet"
        ) from None
    yield keep


def _summary(steps: Sequence[Step], seconds: float, output: Output) -> None:
    ok = all(step.ok for step in steps)
    documents = [{"ok": step.ok} | asdict(step) for step in steps]
    output.result({"ok": ok, "seconds": round(seconds, 2), "steps": documents})
    rows = [
        (step.name, f"{sum(check.ok for check in step.checks)}/{len(step.checks)}", f"{step.seconds:.1f} s")
        for step in steps
    ]
    output.table(("step", "held", "took"), rows, right=frozenset({"held", "took"}))
    output.line()
    if ok:
        output.line(output.paint("Everything held.", "green"))
    for step in steps:
        for check in step.checks:
            if not check.ok:
                output.line(output.paint(f"Did not hold: {step.name}: {check.what}", "red"))


# -- steps ---------------------------------------------------------------------------------------


def _check(directory: Path) -> Iterator[Check]:
    report = check_store(directory / "checked")
    yield Check("a directory creates an object only once, so tables are safe there", report.safe)
    yield Check("logs there are guarded by receipts", report.guard == "receipt")


def _write_locally(directory: Path) -> Iterator[Check]:
    uri = str(directory / "local")
    open_log(uri, create=True).close()
    yield from _count(Target(uri))


def _count(target: Target) -> Iterator[Check]:
    """Several processes at once, then everything counted."""
    acknowledged = write_together(target, writers=WRITERS, entries=ENTRIES_EACH)
    total = WRITERS * ENTRIES_EACH
    yield Check(f"{WRITERS} processes appended {ENTRIES_EACH} entries each, none failed", len(acknowledged) == total)
    options = dict(target.storage_options) or None
    with open_log(target.uri, commits=target.commits or None, storage_options=options) as log:
        yield Check(f"the log has exactly {total} entries", log.tip().position == total)
        yield Check("every acknowledged entry is in its place", not missing(log, acknowledged))
    [report] = verify(target.uri, commits=target.commits or None, storage_options=options)
    yield Check("verify finds nothing wrong", report.ok and report.entries == total)


def _refuse_a_lie(_: Path) -> Iterator[Check]:
    with FaultServer(Faults(lie="always")) as server:
        options = server.storage_options
        report = check_store("s3://bkt", storage_options=options)
        yield Check("check-store says: not safe", not report.safe)
        try:
            open_log("s3://bkt/refused", create=True, storage_options=options)
            refused = False
        except UnsafeStoreError:
            refused = True
        yield Check("a log is refused there", refused)
        yield Check("nothing was left on the server", not server.objects())


def _survive_a_lie(_: Path) -> Iterator[Check]:
    """Two writers, one place, a store that lets both win: what the probe is there to prevent."""
    with FaultServer(Faults(lie="always")) as server:
        options = server.storage_options
        uri = "s3://bkt/forced"
        first = open_log(uri, create=True, probe=False, storage_options=options, writer="first")
        second = open_log(uri, probe=False, storage_options=options, writer="second")
        acknowledged = first.append(b"from the first", after=first.start)
        try:
            second.append(b"from the second", after=second.start)
            told = False
        except UnsafeStoreError:
            told = True
        yield Check("the writer that overwrote another is told so and not acknowledged", told)
        before = next(iter(verify(uri, receipts=[acknowledged], storage_options=options)))
        lost = [problem for problem in before.problems if problem.fault == "lost"]
        yield Check("verify names the lost operation, which can be mended", len(lost) == 1 and lost[0].repairable)
        [after] = repair(uri, storage_options=options)
        yield Check("repair leaves nothing wrong", after.ok)
        with open_log(uri, probe=False, storage_options=options) as log:
            bodies = sorted(entry.body for entry in log.entries())
        yield Check("both operations are in the log, each once", bodies == [b"from the first", b"from the second"])


def _decide_elsewhere(directory: Path) -> Iterator[Check]:
    commits = f"sqlite://{(directory / 'claims.db').resolve()}"
    with FaultServer(Faults(lie="always")) as server:
        options = server.storage_options
        report = check_store("s3://bkt", commits, options)
        yield Check("check-store says: safe with SQLite deciding", report.safe and not report.store_safe)
        open_log("s3://bkt/decided", create=True, commits=commits, storage_options=options).close()
        yield from _count(Target("s3://bkt/decided", commits, options))


def _kill(directory: Path) -> Iterator[Check]:
    uri = str(directory / "killed")
    open_log(uri, create=True).close()
    with Writer(Target(uri), name="doomed", entries=100_000) as writer:
        writer.wait_ready()
        writer.begin()
        writer.read(ENTRIES_BEFORE_THE_KILL)
        writer.kill()
        acknowledged = writer.acknowledged
    with open_log(uri) as log:
        tip = log.tip()
        yield Check("every entry acknowledged before kill -9 is there", not missing(log, acknowledged))
        # It may have died between the write and the word.
        surplus = tip.position - len(acknowledged)
        yield Check("at most one more entry is there", surplus in {0, 1})
        end = log.add(b"life goes on")
        yield Check("the next writer goes on behind it", end.position == tip.position + 1)
    [report] = verify(uri)
    yield Check("verify finds nothing wrong", report.ok)


def _fence(directory: Path) -> Iterator[Check]:
    uri = str(directory / "fenced")
    old = open_log(uri, create=True, writer="old")
    mark = old.fence(1)
    mark = old.append(b"before", after=mark, epoch=1)
    with open_log(uri, writer="new") as new:
        new.fence(2)
        try:
            old.append(b"too late", after=mark, epoch=1)
            fenced = False
        except FencedError:
            fenced = True
        yield Check("the old writer gets no acknowledgement any more", fenced)
        new.add(b"after", epoch=2)
        bodies = [entry.body for entry in new.entries() if entry.kind == "data" and not entry.dead]
    yield Check("readers see what both wrote in their time, and nothing else", bodies == [b"before", b"after"])


STEPS: tuple[tuple[str, Callable[[Path], Iterator[Check]]], ...] = (
    ("check a directory", _check),
    (f"{WRITERS} processes append to one log", _write_locally),
    ("an S3 server that ignores If-None-Match is refused", _refuse_a_lie),
    ("the same server with the check switched off", _survive_a_lie),
    ("the same server with a SQLite commit store", _decide_elsewhere),
    ("a writer is killed in the middle", _kill),
    ("an old writer is fenced", _fence),
    *TABLE_STEPS,
)
