"""The demo's second half: what keeps rows where a store lies or a writer dies, below every table.

What must hold: each step counts what it claims, and leaves nothing behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.check import check_store
from siltstone.cli.demo_steps import Check
from siltstone.cli.demo_writers import Target, Writer, missing, write_together
from siltstone.errors import UnsafeStoreError
from siltstone.log import open_log
from siltstone.testing.s3server import Faults, FaultServer
from siltstone.verify import repair, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WRITERS = 4
ENTRIES_EACH = 10
ENTRIES_BEFORE_THE_KILL = 5


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


STORE_STEPS: tuple[tuple[str, Callable[[Path], Iterator[Check]]], ...] = (
    ("an S3 server that ignores If-None-Match is refused", _refuse_a_lie),
    ("the same server with the check switched off", _survive_a_lie),
    (f"the same server, SQLite deciding, {WRITERS} processes", _decide_elsewhere),
    ("a writer is killed in the middle", _kill),
)
