"""What every scenario shares: a bucket, maybe a commit store, a cast, and the audit at the end.

What must hold: when the faults are over and everyone has gone home, a newcomer can append and read, and
verification has nothing to say; where the store lies or the commit store forgot, it says what was lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from siltstone import paths
from siltstone.errors import CommitStoreBehindError, SiltstoneError, WrongCommitStoreError
from siltstone.format.records import decode_entry
from siltstone.log import Log, open_log
from siltstone.testing.sim.agents import Fold, look_up, read_fold
from siltstone.testing.sim.faults import NO_FAULT, draw_faults
from siltstone.testing.sim.ledger import ALARMS, Ledger
from siltstone.testing.sim.registry import SimRegistry, SimService
from siltstone.testing.sim.store import SimBucket, SimStore
from siltstone.verify.inspect import report, walk

if TYPE_CHECKING:
    from siltstone.log import Mark
    from siltstone.log.open import Guard
    from siltstone.testing.sim.world import Process, World
    from siltstone.verify.report import LogReport


class Scenario:
    """A cast and its stage. Subclasses draw both from the world's seed."""

    name: ClassVar[str] = ""
    honest: ClassVar[bool] = True
    check_receipts = False
    pause_s = 0.0
    reader_pause_s = 5.0
    collector_pause_s = 5.0
    flushing = 0.0
    guard: Guard = "receipt"
    trust_ms = 1000

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Ledger(world, honest=self.honest)
        draw = world.random
        world.latency = world.between(0.002, 0.2)
        world.patience_s = draw.choice((0.5, 2.0, 5.0))
        self.bucket = SimBucket(
            world,
            cheap_probes=draw.random() < 0.5,
            page=draw.choice((1, 3, 1000, 1000)),
            delete_page=draw.choice((1, 2, 1000)),
        )
        self.service: SimService | None = None

    # -- the stage -------------------------------------------------------------------------------

    def open(self, process: Process, root: str) -> Log:
        """The log, as a user opens it; the first one makes it."""
        store = SimStore(process, self.bucket)

        def folded(op: str) -> Mark | None:
            return look_up(store, op)

        log = open_log(
            store,
            root=root,
            commits=SimRegistry(process, self.service) if self.service else None,
            create=True,
            guard=self.guard,
            probe=False,
            trust_ms=self.trust_ms,
            writer=process.name,
            lookup=folded if root == "log/" else None,
            env=process.env,
        )
        if root == "log/" and self.honest:
            self.ledger.log_uuid = self.ledger.log_uuid or log.identity.log
            if self.ledger.log_uuid != log.identity.log:
                self.ledger.violation(f"two identities: {self.ledger.log_uuid} and {log.identity.log}")
        return log

    def cast(self) -> None:
        """Employ everyone."""
        raise NotImplementedError

    # -- the play --------------------------------------------------------------------------------

    def play(self) -> None:
        """Everything, from the first request to the verdict."""
        self.world.faults = draw_faults(self.world)
        self.cast()
        self.world.run(until_over=True)
        self.world.faults = NO_FAULT
        self.world.run()  # what is still under way lands now
        if self.service:
            self.service.down_until = 0.0
        self.world.note("audit")
        self.world.start("auditor", self.audit)
        self.world.run()

    def audit(self, process: Process) -> None:
        """A newcomer, without any fault: append, read, verify, judge."""
        try:
            log = self.open(process, "log/")
        except ALARMS as error:
            self.ledger.alarm(error)
            return
        self._newcomer(log, process.env.ids.new())
        found = report(log, walk(log))
        for problem in found.problems:
            self.world.note(f"verify: {problem.fault} {problem.detail}")
            if self.honest:
                self.ledger.violation(f"verification finds fault without a cause: {problem.fault}: {problem.detail}")
        try:
            history = self.history(log)
        except ALARMS as error:
            self.ledger.alarm(error)
            history = self.remains(log)
        self.ledger.judge(history, lost_and_named=self.named(found))

    def _newcomer(self, log: Log, op: str) -> None:
        """After all faults the log must go on; or say why not, where something was lost."""
        self.ledger.trying(op)
        try:
            self.ledger.acknowledged(op, log.add(op.encode(), op=op))
        except (CommitStoreBehindError, WrongCommitStoreError) as error:
            self.ledger.told(op, error)
        except SiltstoneError as error:
            if self.ledger.told(op, error) != "alarm":
                self.ledger.violation(f"the log is stuck: {error.kind}: {error.message}")

    def history(self, log: Log) -> list[str]:
        """Every operation, as the real reader shows them: folded ones, then those in the log."""
        fold = read_fold(log.store) or Fold(log.start, {})
        entries = list(log.entries(fold.end))
        self.ledger.read(entries, began_with=self.ledger.known_tip, end=entries[-1].position + 1 if entries else 0)
        return [*fold.ops, *(entry.op for entry in entries if entry.kind == "data" and not entry.dead)]

    def remains(self, log: Log) -> list[str]:
        """Every operation that is anywhere, where the log can't be read through."""
        ops = []
        for key, (data, _) in self.bucket.objects.objects.items():
            if paths.parse_entry(log.root, key) is not None:
                header, _ = decode_entry(data, name=key)
                ops.append(header.op)
        return list(dict.fromkeys(ops))

    def named(self, found: LogReport) -> list[str]:
        """Operations whose loss verification reports by name; on an honest store no loss is excused."""
        return [] if self.honest else [problem.op for problem in found.problems if problem.op]
