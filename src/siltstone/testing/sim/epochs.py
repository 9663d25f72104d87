"""Logs with one writer at a time: epochs, fences, replays.

A second log, ``manifest/``, hands out the epochs: whoever adds an entry there has the entry's number as epoch,
and has it until another one is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import CommitUnknownError, FencedError, SiltstoneError
from siltstone.testing.sim.agents import TRIES_MAX, Agent, Fold, collect, read_fold
from siltstone.testing.sim.ledger import ALARMS

if TYPE_CHECKING:
    from siltstone.log import Entry, Log, Mark
    from siltstone.testing.sim.scenario import Scenario
    from siltstone.testing.sim.world import Process

REIGNS_MAX = 3


class EpochWriter(Agent):
    """Takes the log over, replays it, appends one entry at a time; begins anew where it was fenced."""

    def __init__(self, scenario: Scenario, name: str, count: int) -> None:
        super().__init__(scenario, name)
        self.todo = [f"{self.world.random.getrandbits(128):032x}" for _ in range(count)]
        self.reigns = 0

    def live(self, process: Process) -> None:
        while self.todo and self.reigns < REIGNS_MAX:
            self.reigns += 1
            manifest, log = self.open(process, "manifest/"), self.open(process)
            if manifest is None or log is None:
                return
            try:
                Reign(self, process, manifest, log).last()
            except ALARMS as error:
                self.ledger.alarm(error)
                return
            except FencedError as error:
                self.world.note(f"{process.name} is fenced: {error.message}")
            except SiltstoneError as error:
                self.world.note(f"{process.name} stops: {error.kind}: {error.message}")
            process.wait(self.world.between(0.05, self.scenario.pause_s or 1.0))


class Reign:
    """One epoch of a writer, from its claim to its end."""

    def __init__(self, agent: EpochWriter, process: Process, manifest: Log, log: Log) -> None:
        self.agent = agent
        self.process = process
        self.world = agent.world
        self.ledger = agent.ledger
        self.manifest = manifest
        self.log = log
        self.known: list[str] = []
        self.folded: Fold | None = None
        self.entries: list[Entry] = []

    def last(self) -> None:
        """Claim an epoch, fence, replay, append."""
        epoch = self._claim()
        mark = self.log.fence(epoch, confirm=lambda: self.manifest.tip().position == epoch)
        self._replay(mark)
        self.ledger.fenced(mark, self.known)
        for op in list(self.agent.todo):
            if op in self.known:  # an earlier life of ours, or an answer that was lost
                self.ledger.trying(op)
                self.ledger.acknowledged(op, self._end_of(op))
            else:
                mark = self._append(op, mark, epoch)
            self.agent.todo.remove(op)
            if self.world.random.random() < self.agent.scenario.flushing:
                self._flush(mark)
            self.agent.think(self.process, self.agent.scenario.pause_s or 0.1)

    def _claim(self) -> int:
        op = self.process.env.ids.new()
        for _ in range(TRIES_MAX):
            try:
                return self.manifest.add(b"", op=op).position
            except CommitUnknownError:
                continue
        return self.manifest.add(b"", op=op).position

    def _replay(self, mark: Mark) -> None:
        self.folded = read_fold(self.log.store)
        start = self.folded.end if self.folded else self.log.start
        began_with = self.ledger.known_tip
        self.entries = list(self.log.entries(start, until=mark)) if start.position < mark.position else []
        self.known = list(self.folded.ops) if self.folded else []
        self.known += [entry.op for entry in self.entries if entry.kind == "data" and not entry.dead]
        self.ledger.read(
            self.entries, began_with=min(began_with, mark.position), end=max(start.position, mark.position)
        )

    def _end_of(self, op: str) -> Mark:
        found = next((entry.end for entry in self.entries if entry.op == op), None)
        if found is not None:
            return found
        assert self.folded is not None
        return self.folded.ops[op]

    def _append(self, op: str, mark: Mark, epoch: int) -> Mark:
        for number in range(TRIES_MAX):
            self.ledger.trying(op)
            try:
                end = self.log.append(op.encode(), after=mark, epoch=epoch, op=op)
            except SiltstoneError as error:
                if self.ledger.told(op, error) != "unknown" or number == TRIES_MAX - 1:
                    raise
            else:
                self.ledger.acknowledged(op, end, known=self.known)
                self.known.append(op)
                return end
        raise AssertionError("the loop returns or raises")

    def _flush(self, mark: Mark) -> None:
        fold = self.folded or Fold(self.log.start, {})
        if fold.end.position < mark.position:
            self.folded = collect(self.log, fold, list(self.log.entries(fold.end, until=mark)))
