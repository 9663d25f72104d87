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
from siltstone.testing.sim.faults import NO_FAULT, Faults, draw_faults
from siltstone.testing.sim.ledger import ALARMS, Ledger
from siltstone.testing.sim.registry import SimRegistry, SimService
from siltstone.testing.sim.store import SimBucket, SimStore
from siltstone.verify.inspect import check_receipts, report, walk

if TYPE_CHECKING:
    from siltstone.log import Mark
    from siltstone.log.open import Guard
    from siltstone.testing.sim.world import Process, World
    from siltstone.verify.report import LogReport


class Scenario:
    """A cast and its stage. Subclasses draw both from the world's seed."""

    name: ClassVar[str] = ""
    honest: ClassVar[bool] = True  # nothing has a cause to cry
    loses_nothing: ClassVar[bool] = False  # though not all is honest, no loss is excused
    one_ack_a_place: ClassVar[bool] = True
    crashes: ClassVar[bool] = True
    keeps_receipts: ClassVar[bool] = False  # verification is given every receipt
    pause_s = 0.0
    reader_pause_s = 5.0
    collector_pause_s = 5.0
    flushing = 0.0
    looking_up = 0.3  # how often a writer only looks up what it is in doubt about
    holding = 0.3  # how often a writer appends behind the mark it holds, instead of looking for the tip
    guard: Guard = "receipt"
    trust_ms = 1000

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Ledger(world, honest=self.honest, one_ack_a_place=self.one_ack_a_place)
        draw = world.random
        world.latency = world.between(0.002, 0.2)
        world.patience_s = draw.choice((0.0, 0.3, 2.0, 5.0))
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
        if root == "log/":
            self.ledger.opened(log.identity.log)
        return log

    def cast(self) -> None:
        """Employ everyone."""
        raise NotImplementedError

    def faults(self) -> Faults:
        """What goes wrong."""
        return draw_faults(self.world, crashes=self.crashes)

    # -- the play --------------------------------------------------------------------------------

    def play(self) -> None:
        """Everything, from the first request to the verdict."""
        self.world.faults = self.faults()
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
        findings = walk(log)
        if self.keeps_receipts:
            check_receipts(log, findings, self.ledger.receipts)
        found = report(log, findings)
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
        cause = self.must_refuse(log)
        self.ledger.trying(op)
        try:
            self.ledger.acknowledged(op, log.add(op.encode(), op=op))
            if cause:
                self.ledger.violation(f"a newcomer was served, though {cause}")
        except (CommitStoreBehindError, WrongCommitStoreError) as error:
            self.ledger.told(op, error)
        except SiltstoneError as error:
            if self.ledger.told(op, error) != "alarm":
                self.ledger.violation(f"the log is stuck: {error.kind}: {error.message}")

    def must_refuse(self, log: Log) -> str:
        """Why nothing may be added: the commit store does not know the newest published entry, nor what is behind."""
        if self.service is None:
            return ""
        keys = [paths.parse_entry(log.root, key) for key in self.bucket.objects.objects]
        newest = max((parsed[0] for parsed in keys if parsed), default=-1)
        memory = self.service.memory
        claims = memory.claims.get(log.identity.log, {})
        below = memory.ranges[log.identity.log].below if log.identity.log in memory.ranges else 0
        if newest >= below and newest not in claims and newest + 1 not in claims and newest >= 0:
            return f"the commit store has forgotten entry {newest}"
        return ""

    def history(self, log: Log) -> list[str]:
        """Every operation, as the real reader shows them: folded ones, then those in the log."""
        fold = read_fold(log.store) or Fold(log.start, {})
        entries = list(log.entries(fold.end))
        self.ledger.read(entries, began_with=self.ledger.known_tip, end=entries[-1].position + 1 if entries else 0)
        return [*fold.ops, *(entry.op for entry in entries if entry.kind == "data" and not entry.dead)]

    def remains(self, log: Log) -> list[str]:
        """Every operation that is anywhere, where the log can't be read through."""
        fold = read_fold(log.store)
        ops = list(fold.ops) if fold else []
        for key, (data, _) in self.bucket.objects.objects.items():
            if paths.parse_entry(log.root, key) is not None:
                header, _ = decode_entry(data, name=key)
                ops.append(header.op)
        return list(dict.fromkeys(ops))

    def named(self, found: LogReport) -> list[str]:
        """Operations whose loss verification tells: by name, by place, or because the log itself was overwritten."""
        if self.honest or self.loses_nothing:
            return []
        if len(self.ledger.logs) > 1 and found.problems:
            return list(self.ledger.operations)
        ops = {problem.op for problem in found.problems}
        places = {problem.position for problem in found.problems if problem.fault == "receipt"}
        operations = self.ledger.operations.values()
        return [one.op for one in operations if one.op in ops or any(at in places for at, _ in one.acks)]
