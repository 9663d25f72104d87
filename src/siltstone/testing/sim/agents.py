"""Users of a log, as scenarios employ them: writers, readers, collectors.

What must hold: an agent behaves as the documentation tells users to. It keeps the op id of an unfinished
operation, runs it again only with that id, and looks it up where the outcome is not known. Its notes survive
its process, which may die at any request and come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from siltstone.errors import InvalidInputError, NotFoundError, SiltstoneError, TruncatedError
from siltstone.log import Mark
from siltstone.testing.sim.ledger import ALARMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.log import Entry, Log
    from siltstone.store.base import Store
    from siltstone.testing.sim.scenario import Scenario
    from siltstone.testing.sim.world import Process

FOLD = "fold"
LIVES_MAX = 4
TRIES_MAX = 4
OPENINGS_MAX = 12


class Fold(msgspec.Struct, frozen=True):
    """What the users keep of entries that they folded: every operation, and the mark up to which."""

    end: Mark
    ops: dict[str, Mark]


class Agent:
    """Someone with a task, in one process after another."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        self.scenario = scenario
        self.world = scenario.world
        self.ledger = scenario.ledger
        self.name = name
        self.lives = 0

    def employ(self, *, delay: float = 0.0) -> None:
        """Start a process that goes on with the task."""
        self.lives += 1
        name = f"{self.name}.{self.lives}" if self.lives > 1 else self.name
        self.world.start(name, self.live, delay=delay, died=self._died)

    def _died(self) -> None:
        if self.lives < LIVES_MAX:
            self.employ(delay=self.world.between(0.01, 30))

    def live(self, process: Process) -> None:
        """Do what is left of the task."""
        raise NotImplementedError

    def think(self, process: Process, longest: float = 0.2) -> None:
        """Let some time pass."""
        process.wait(self.world.random.random() * longest)

    def open(self, process: Process, root: str = "log/") -> Log | None:
        """The log, after as many tries as it takes; None where it can't be had."""
        for _ in range(OPENINGS_MAX):
            try:
                return self.scenario.open(process, root)
            except ALARMS as error:
                self.ledger.alarm(error)
                return None
            except SiltstoneError as error:
                self.world.note(f"{process.name} can't open: {error.kind}")
                self.think(process, 2.0)
        return None


# -- writers -------------------------------------------------------------------------------------


class Writer(Agent):
    """Adds operations, one after the other, wherever the log ends."""

    def __init__(self, scenario: Scenario, name: str, count: int) -> None:
        super().__init__(scenario, name)
        self.todo = [f"{self.world.random.getrandbits(128):032x}" for _ in range(count)]
        self.tries = 0
        self.mark: Mark | None = None

    def live(self, process: Process) -> None:
        self.mark = None
        log = self.open(process)
        while log is not None and self.todo:
            if self.scenario.pause_s:
                process.wait(self.world.between(0.01, self.scenario.pause_s))
            self.tries += 1
            if self._try(log, self.todo[0]) or self.tries > TRIES_MAX:
                del self.todo[0]
                self.tries = 0
            elif self.world.random.random() < 0.2:
                log = self.open(process)
        if log is not None:
            self._close(log)

    def _try(self, log: Log, op: str) -> bool:
        """Whether there is nothing more to do about an operation."""
        operation = self.ledger.trying(op)
        draw = self.world.random.random()
        try:
            if operation.doubt and draw < self.scenario.looking_up:
                end = self._look_up(log, op)
                if end is None:
                    operation.trying = False
                    return False
            elif not operation.doubt and draw < self.scenario.holding:
                held = self.mark if self.world.random.random() < 0.5 else None
                end = log.append(op.encode(), after=held or log.tip(self.mark), op=op)
            else:
                end = log.add(op.encode(), op=op)
        except SiltstoneError as error:
            behind = error.facts.get("end")
            self.mark = behind if isinstance(behind, Mark) else self.mark
            told = self.ledger.told(op, error)
            return told == "failed" and self.world.random.random() < 0.5
        self.ledger.acknowledged(op, end)
        self.mark = end
        return True

    def _look_up(self, log: Log, op: str) -> Mark | None:
        """The log first, then what was folded out of it: what the floor passed in between is in the newer state."""
        found = log.find(op)
        return found.end if found is not None else look_up(log.store, op)

    def _close(self, log: Log) -> None:
        try:
            log.close()
        except ALARMS as error:
            self.ledger.alarm(error)
        except SiltstoneError as error:
            self.world.note(f"{self.name} can't check its last receipt: {error.kind}")


# -- readers -------------------------------------------------------------------------------------


class Reader(Agent):
    """Reads again and again, from the floor or from where it was."""

    def __init__(self, scenario: Scenario, name: str, count: int) -> None:
        super().__init__(scenario, name)
        self.left = count

    def live(self, process: Process) -> None:
        log = self.open(process)
        mark: Mark | None = None
        while log is not None and self.left > 0:
            self.left -= 1
            process.wait(self.world.between(0.02, self.scenario.reader_pause_s))
            began_with = self.ledger.known_tip
            try:
                start = log.first() if mark is None else mark
                entries = list(log.entries(start))
            except ALARMS as error:
                self.ledger.alarm(error)
                return
            except SiltstoneError as error:
                self.world.note(f"{process.name} can't read: {error.kind}")
                mark = None if isinstance(error, TruncatedError) else mark
                continue
            end = entries[-1].end if entries else start
            self.ledger.read(entries, began_with=began_with, end=end.position)
            mark = self.world.random.choice((None, start, end))


# -- collectors ----------------------------------------------------------------------------------


class Collector(Agent):
    """Folds entries into state that carries their op ids, then truncates the log."""

    def __init__(self, scenario: Scenario, name: str, count: int, *, keep: int = 2) -> None:
        super().__init__(scenario, name)
        self.left = count
        self.keep = keep  # entries that stay in the log at most

    def live(self, process: Process) -> None:
        log = self.open(process)
        while log is not None and self.left > 0:
            self.left -= 1
            process.wait(self.world.between(0.05, self.scenario.collector_pause_s))
            try:
                fold = read_fold(log.store) or Fold(log.start, {})
                entries = list(log.entries(fold.end))
                keep = self.world.random.choice((0, 0, 0, 1, 2))
                collect(log, fold, entries[: len(entries) - min(keep, self.keep)])
            except ALARMS as error:
                self.ledger.alarm(error)
                return
            except InvalidInputError as error:  # another collector was here
                self.world.note(f"{process.name} can't truncate: {error.message}")
            except SiltstoneError as error:
                self.world.note(f"{process.name} can't collect: {error.kind}")


def collect(log: Log, fold: Fold, entries: Sequence[Entry]) -> Fold:
    """Fold entries that follow ``fold`` and truncate the log behind them; the state goes first."""
    if entries:
        ops = fold.ops | {entry.op: entry.end for entry in entries if entry.kind == "data" and not entry.dead}
        fold = Fold(entries[-1].end, ops)
        log.store.put(f"{FOLD}/{fold.end.position:08d}", msgspec.json.encode(fold))
    if fold.end.position:
        log.truncate(fold.end)
    return fold


def read_fold(store: Store) -> Fold | None:
    """The newest state."""
    names = [info.key for info in store.list(FOLD)]
    return msgspec.json.decode(store.get(names[-1]), type=Fold) if names else None


def look_up(store: Store, op: str) -> Mark | None:
    """The mark behind an operation that was folded."""
    try:
        fold = read_fold(store)
    except NotFoundError:
        return None
    return None if fold is None else fold.ops.get(op)
