"""A small world for fault tests: one log in memory, time that stands still, and a book of what was said.

What must hold after anything: an acknowledged operation is in the log once, an operation that was refused for
good is not in it and never will be, no operation is in it twice, and the next writer can go on.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import CommitUnknownError, ConflictError, FencedError, SiltstoneError
from siltstone.ids import SystemIds
from siltstone.log import open_log
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.script import Crashed, Fault
from siltstone.testing.stores import FaultStore, Interleaves

MODES = ("conditional", "witness", "external", "fork")
FOR_EVER = 10**9
# What can happen to one call.
ONCE = (
    Fault.REFUSE,
    Fault.LOSE,
    Fault.FAIL_AFTER,
    Fault.EXISTS_OWN,
    Fault.EXISTS_NOTHING,
    Fault.CRASH_BEFORE,
    Fault.CRASH_AFTER,
    Fault.DELAY,
    Fault.DENY,
    Fault.FULL,
)
_numbers = itertools.count(1)


@dataclass
class World:
    """One log in one of the four ways to run it."""

    mode: str
    bucket: MemoryBucket = field(default_factory=MemoryBucket)
    service: MemoryService = field(default_factory=MemoryService)
    clock: ManualClock = field(default_factory=ManualClock)
    acknowledged: dict = field(default_factory=dict)
    unknown: set = field(default_factory=set)
    refused: dict = field(default_factory=dict)
    trust_ms: int = 0

    @property
    def external(self) -> bool:
        return self.mode in {"external", "fork"}

    def store(self):
        """A plain handle on the objects."""
        store = MemoryStore(bucket=self.bucket, clock=self.clock)
        if self.mode == "fork":
            store.traits = store.traits._replace(known_good=False)
        return store

    def fault_store(self) -> FaultStore:
        return FaultStore(self.store())

    def interleaves(self) -> Interleaves:
        return Interleaves(self.store())

    def registry(self) -> MemoryRegistry:
        return MemoryRegistry(self.service, ids=SystemIds())

    def fault_registry(self) -> FaultRegistry:
        return FaultRegistry(self.registry())

    def env(self, patience_s: float = 5.0):
        return manual_env(next(_numbers), clock=self.clock, patience_s=patience_s)

    def open(self, store=None, registry=None, **options):
        """A handle of a writer of its own."""
        settings = {
            "create": True,
            "probe": False,
            "trust_ms": self.trust_ms,
            "guard": "witness" if self.mode == "witness" else "auto",
            "env": self.env(),
            **options,
        }
        commits = (registry or self.registry()) if self.external else None
        return open_log(store or self.store(), commits=commits, **settings)

    def seeded(self, count: int = 3):
        """The world with some entries in its log."""
        log = self.open()
        for number in range(count):
            self.add(log, b"seed %d" % number)
        return self

    # -- the book ------------------------------------------------------------------------------------

    def note(self, op: str, call):
        """Run one operation and write down what its caller was told; Crashed means that nobody was."""
        try:
            mark = call()
        except (CommitUnknownError, Crashed) as error:
            self.unknown.add(op)
            return error
        except SiltstoneError as error:
            self.refused[op] = error
            return error
        self.acknowledged[op] = mark
        return mark

    def add(self, log, body: bytes = b"x", **options):
        op = self.new_op()
        return self.note(op, lambda: log.add(body, op=op, **options))

    def append(self, log, after, body: bytes = b"x", **options):
        op = self.new_op()
        return self.note(op, lambda: log.append(body, after=after, op=op, **options))

    def new_op(self) -> str:
        return f"{next(_numbers):032x}"

    # -- the verdict -----------------------------------------------------------------------------------

    def check(self):
        """What must hold, as a writer sees it that knows nothing of the past; returns the entries."""
        log = self.open(create=False)
        entries = list(log.entries())
        floor = log.first().position
        alive = [entry.op for entry in entries if not entry.dead]
        assert len(alive) == len(set(alive)), "an operation is in the log twice"
        for mark in self.acknowledged.values():
            if mark.position > floor:
                assert entries[mark.position - 1 - floor].end == mark, "an acknowledged operation is not in the log"
        for op, error in self.refused.items():
            assert op not in alive, f"an operation is in the log whose writer was told {error!r}"
        return entries

    def go_on(self) -> None:
        """Another writer goes on, and every unknown operation can be run again to its end."""
        log = self.open(create=False)
        for op in [*self.unknown, *self.refused]:
            mark = log.add(b"again", op=op)
            self.unknown.discard(op)
            self.refused.pop(op, None)
            self.acknowledged[op] = mark
        self.add(log, b"next")
        assert not self.refused
        assert not self.unknown
        self.check()


def each_call(workflow, world_of, place: str, fault: Fault, *, times: int = 1):
    """Worlds in which the n-th call of a workflow met a fault, for every n the workflow has.

    ``workflow`` gets a world, a store and a registry; ``place`` says whose calls are hit.
    """
    for nth in itertools.count(1):
        world = world_of()
        store, registry = world.fault_store(), world.fault_registry()
        hit = (store if place == "store" else registry).script
        hit.on("*", fault, nth=nth, times=times)
        result = None
        try:
            result = workflow(world, store, registry)
        except Crashed as error:
            result = error
        eligible = sum(hit.applies(fault, call.verb) for call in hit.calls)
        yield Met(world, store, registry, nth, result, reached=eligible >= nth)
        if eligible < nth:
            return


@dataclass
class Met:
    """What came of one fault."""

    world: World
    store: FaultStore
    registry: FaultRegistry
    nth: int
    result: object
    reached: bool

    @property
    def call(self):
        calls = [*self.store.calls, *self.registry.calls]
        return calls[self.nth - 1] if self.nth <= len(calls) else None


# -- workflows: what a writer does, from opening the log to its answer --------------------------------


def make(world, store, registry):
    try:
        return world.open(store, registry)
    except SiltstoneError as error:
        return error


def append(world, store, registry):
    log = attempt(lambda: world.open(store, registry))
    tip = attempt(log.tip) if not isinstance(log, SiltstoneError) else log
    return tip if isinstance(tip, SiltstoneError) else world.append(log, tip)


def add_twice(world, store, registry):
    log = attempt(lambda: world.open(store, registry))
    if isinstance(log, SiltstoneError):
        return log
    return world.add(log), world.add(log)


def fence(world, store, registry):
    log = attempt(lambda: world.open(store, registry))
    return log if isinstance(log, SiltstoneError) else attempt(lambda: log.fence(log.tip().epoch + 1))


def truncate(world, store, registry):
    log = attempt(lambda: world.open(store, registry))
    if isinstance(log, SiltstoneError):
        return log
    entries = attempt(lambda: list(log.entries()))
    return entries if isinstance(entries, SiltstoneError) else attempt(lambda: log.truncate(entries[1].end))


WORKFLOWS = {"append": append, "add_twice": add_twice, "fence": fence, "truncate": truncate}


def attempt(call, *arguments):
    """What a call returns or, where it is refused, raises."""
    try:
        return call(*arguments)
    except SiltstoneError as error:
        return error


def is_false_alarm(result) -> bool:
    """Whether a writer that is alone was told that there is another one."""
    results = result if isinstance(result, tuple) and not hasattr(result, "_fields") else (result,)
    return any(isinstance(one, ConflictError | FencedError) for one in results)
