"""What anyone was told, and whether it was true.

What must hold, on an honest store:
- An operation that was acknowledged is in the history exactly once; no operation is there twice.
- An operation that failed for certain is not in the history.
- No position ever shows two contents, and no reader goes back behind what was known before it began.
- A fenced writer is not acknowledged behind the fence, and a writer that is acknowledged knew all before it.
- Nobody cries.

On a store that lies, or with a commit store that forgets, an acknowledged operation may be lost, but never
silently: verification names it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from siltstone.errors import (
    CommitUnknownError,
    CorruptionError,
    InternalError,
    SiltstoneError,
    UnsafeStoreError,
    UnsupportedFormatError,
    WrongCommitStoreError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.log.marks import Entry, Mark
    from siltstone.testing.sim.world import World

ALARMS = (UnsafeStoreError, CorruptionError, InternalError, UnsupportedFormatError, WrongCommitStoreError)
Told = Literal["unknown", "alarm", "failed"]


@dataclass
class Operation:
    """One user operation and what its user knows of it."""

    op: str
    trying: bool = False
    doubt: bool = False
    failed: bool = False
    acks: list[tuple[int, int]] = field(default_factory=list)  # position, epoch
    known: tuple[str, ...] | None = None  # what its writer knew to stand before it

    @property
    def settled(self) -> bool:
        """Whether its user has nothing left to do."""
        return bool(self.acks)


class Ledger:
    """All that was said in one world."""

    def __init__(self, world: World, *, honest: bool, one_ack_a_place: bool = True) -> None:
        self.world = world
        self.honest = honest
        self.one_ack_a_place = one_ack_a_place
        self.operations: dict[str, Operation] = {}
        self.violations: list[str] = []
        self.alarms: list[str] = []
        self.seen: dict[int, str] = {}
        self.known_tip = 0
        self.fences: list[tuple[int, int]] = []  # position, epoch
        self.logs: list[str] = []  # uuids that openers were given
        self.receipts: list[Mark] = []

    def violation(self, text: str) -> None:
        """Something that must not be."""
        self.world.note(f"VIOLATION {text}")
        self.violations.append(text)

    def opened(self, uuid: str) -> None:
        """Someone opened the log and was told its uuid."""
        if uuid not in self.logs:
            self.logs.append(uuid)
        if len(self.logs) > 1 and self.honest:
            self.violation(f"the log has the uuids {self.logs}")

    # -- operations ------------------------------------------------------------------------------

    def trying(self, op: str) -> Operation:
        """Its user runs an operation, for the first time or again."""
        operation = self.operations.setdefault(op, Operation(op))
        operation.doubt = operation.doubt or operation.trying  # a life that ended in the middle
        operation.trying = True
        operation.failed = False
        return operation

    def acknowledged(self, op: str, end: Mark, *, known: Sequence[str] | None = None) -> None:
        """Its user was told: done."""
        operation = self.operations[op]
        operation.trying = False
        position = end.position - 1
        self.world.note(f"user: {op[:6]} acknowledged at {position}")
        self.world.counters["acknowledged"] += 1
        if operation.acks and operation.acks[0][0] != position and self.honest:
            self.violation(f"operation {op} was acknowledged at {operation.acks[0][0]} and at {position}")
        operation.acks.append((position, end.epoch))
        operation.known = None if known is None else tuple(known)
        for other in self.operations.values():
            if self.one_ack_a_place and other is not operation and any(at == position for at, _ in other.acks):
                self.violation(f"position {position} was acknowledged to {other.op} and to {op}")
        for fence, epoch in self.fences:
            if fence < position and epoch > end.epoch:
                self.violation(f"{op} of epoch {end.epoch} was acknowledged at {position}, behind the fence at {fence}")
        self.receipts.append(end)
        self.see(position, end.digest)
        self.known_tip = max(self.known_tip, end.position)

    def told(self, op: str, error: SiltstoneError) -> Told:
        """Its user was told otherwise."""
        operation = self.operations[op]
        operation.trying = False
        self.world.note(f"user: {op[:6]} {error.kind}: {error.message}")
        if isinstance(error, ALARMS):
            operation.doubt = True
            self.alarm(error)
            return "alarm"
        if isinstance(error, CommitUnknownError):
            operation.doubt = True
            return "unknown"
        operation.failed = not operation.doubt
        self.world.counters["failed"] += operation.failed
        return "failed"

    def alarm(self, error: SiltstoneError) -> None:
        """Somebody was told loudly that something is wrong."""
        self.alarms.append(f"{error.kind}: {error.message}")
        self.world.counters["alarms"] += 1
        if self.honest:
            self.violation(f"alarm without a cause: {error.kind}: {error.message}")

    # -- readers ---------------------------------------------------------------------------------

    def see(self, position: int, digest: str) -> None:
        """Someone saw what stands at a position."""
        before = self.seen.setdefault(position, digest)
        if before != digest and self.honest:
            self.violation(f"position {position} changed from {before[:12]} to {digest[:12]}")

    def read(self, entries: Sequence[Entry], *, began_with: int, end: int) -> None:
        """A reader has read up to ``end``; it began when ``began_with`` was known to be there."""
        for entry in entries:
            self.see(entry.position, entry.digest)
        if self.honest and end < began_with:
            self.violation(f"a reader saw the log end at {end} when {began_with} was known before it began")
        self.known_tip = max(self.known_tip, end)
        self.check_chain(entries)

    def check_chain(self, entries: Sequence[Entry]) -> None:
        """Whether what a reader was shown hangs together, also where the store lies."""
        for one, two in itertools.pairwise(entries):
            if two.prev != one.digest or two.position != one.position + 1:
                self.violation(f"a reader was shown entry {two.position}, which does not follow entry {one.position}")

    def fenced(self, end: Mark, known: Sequence[str]) -> None:
        """A writer put a fence and knows what stands before it."""
        self.fences.append((end.position - 1, end.epoch))
        for operation in self.operations.values():
            for position, epoch in operation.acks:
                if epoch < end.epoch and position < end.position and operation.op not in known:
                    self.violation(f"the writer of epoch {end.epoch} does not know {operation.op} at {position}")
                if epoch < end.epoch and position >= end.position:
                    self.violation(
                        f"{operation.op} of epoch {epoch} is at {position}, behind the fence at {end.position - 1}"
                    )

    # -- the end ---------------------------------------------------------------------------------

    def judge(self, history: Sequence[str], *, lost_and_named: Sequence[str] = ()) -> None:
        """Compare what was said with the history that a last reader saw."""
        for op in dict.fromkeys(history):
            times = history.count(op)
            if times > 1 and (self.honest or not self.alarms):
                self.violation(f"operation {op} is {times} times in the history")
            if op not in self.operations:
                self.violation(f"operation {op} is in the history, and nobody ran it")
        for operation in self.operations.values():
            there = operation.op in history
            if operation.acks and not there and operation.op not in lost_and_named:
                self.violation(f"operation {operation.op} was acknowledged and is not in the history")
            if operation.failed and not operation.trying and there and (self.honest or not self.alarms):
                self.violation(f"operation {operation.op} was reported failed and is in the history")
            if operation.known is not None and there and self.honest:
                before = tuple(history[: history.index(operation.op)])
                if before != operation.known:
                    self.violation(
                        f"the writer of {operation.op} knew {len(operation.known)} operations before it, "
                        f"there are {len(before)}"
                    )
