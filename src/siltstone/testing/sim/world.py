"""The simulated machine room: one virtual clock, one random source, processes that take turns.

What must hold:
- A seed decides everything: the order of events, every delay, every fault, every id. Nothing asks the
  real time, the operating system or a thread.
- A request has an effect at one virtual instant, and its answer comes at a later one, or never. The effect
  may come after its process has died.
- A killed process does nothing more: not even the clean-up that its own code would like to do.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from siltstone.env import Env
from siltstone.errors import (
    AlreadyExistsError,
    MissingDependencyError,
    PermissionDeniedError,
    SiltstoneError,
    UnavailableError,
)
from siltstone.testing.sim.faults import NO_FAULT, Faults, Kind

try:
    from greenlet import getcurrent, greenlet
except ImportError as error:
    raise MissingDependencyError("the simulator needs greenlet", hint="pip install 'siltstone[testing]'") from error

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
YEAR_MS = 365 * 86_400_000
EPOCH_MS = 1_700_000_000_000
EVENTS_MAX = 60_000  # a world that goes on longer is stuck
TIMEOUT_S = 0.5
FAILURES: dict[str, type[SiltstoneError]] = {
    "refused": UnavailableError,
    "denied": PermissionDeniedError,
    "lost": UnavailableError,
    "late": UnavailableError,
    "nobody": AlreadyExistsError,
    "own": AlreadyExistsError,
}
UNDONE = ("refused", "denied", "nobody")


class Killed(BaseException):
    """The process is gone. No error of siltstone's, so that no handler takes it for one."""


class Later(NamedTuple):
    """What an effect returns that takes a second step: the window of a gateway that checks, then puts."""

    delay: float
    effect: Callable[[], Any]


class World:
    """Everything that one seed makes happen."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.events = 0
        self.trace: list[str] = []
        self.counters: Counter[str] = Counter()
        self.surprises: list[str] = []
        self.faults: Faults = NO_FAULT
        self.latency = 0.02
        self.patience_s = 5.0
        self.hub = getcurrent()
        self.processes: list[Process] = []
        self.living = 0  # processes that are not over
        self.skew_ms = 0  # how far off the clock is that is furthest off
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def note(self, text: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.now:.4f} {text}")

    def trace_hash(self) -> str:
        """What tells two runs apart that differ in anything."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def between(self, low: float, high: float) -> float:
        """A time between the two, as often near the one as near the other by orders of magnitude."""
        return float(low * (high / low) ** self.random.random())

    def at(self, delay: float, action: Callable[[], None]) -> None:
        """Let something happen after a while."""
        heapq.heappush(self._heap, (self.now + delay, next(self._numbers), action))

    def skip(self, seconds: float) -> None:
        """Let so much time pass at once: everyone stands still, and what is under way takes so much longer."""
        self.note(f"{seconds:.0f} s pass")
        self.now += seconds
        self._heap = [(due + seconds, number, action) for due, number, action in self._heap]

    def start(
        self,
        name: str,
        main: Callable[[Process], None],
        *,
        delay: float = 0.0,
        died: Callable[[], None] = lambda: None,
    ) -> Process:
        """Start a process; ``died`` is called where it was killed."""
        process = self.make_process(name, main, died)
        self.processes.append(process)
        self.living += 1
        self.at(delay, process.run)
        return process

    def make_process(self, name: str, main: Callable[[Process], None], died: Callable[[], None]) -> Process:
        """A process of this world, not started; a world of others overrides it."""
        return Process(self, name, main, died)

    def run(self, *, until_over: bool = False) -> None:
        """Let things happen until nothing is left to do (or, with ``until_over``, until every process has ended)."""
        while self._heap:
            if until_over and not self.living:
                return
            self.now, _, action = heapq.heappop(self._heap)
            self.events += 1
            if self.events > EVENTS_MAX:
                self.surprises.append(f"more than {EVENTS_MAX} events: some process never ends")
                return
            action()

    def close(self) -> None:
        """Kill what still runs, so that nothing of it is left behind."""
        self._heap.clear()
        for process in self.processes:
            process.kill()


class SimClock:
    """A clock with its own start, speed and idea of the date."""

    def __init__(self, process: Process) -> None:
        draw = process.world.random
        self._process = process
        self._rate = 1 + draw.uniform(-0.01, 0.01)
        self._start = draw.uniform(0, 1e6)
        self._skew_ms = draw.randint(-YEAR_MS, YEAR_MS)
        process.world.skew_ms = max(process.world.skew_ms, abs(self._skew_ms))

    def wall_ms(self) -> int:
        return EPOCH_MS + self._skew_ms + int(self._process.world.now * 1000)

    def monotonic(self) -> float:
        return self._start + self._process.world.now * self._rate

    def sleep(self, seconds: float) -> None:
        self._process.wait(seconds / self._rate)


class SimIds:
    """Ids of one process, drawn from the seed."""

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def new(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


class Process:
    """One life of a simulated process: real code in a greenlet, which hands over at every request."""

    def __init__(
        self, world: World, name: str, main: Callable[[Process], None], died: Callable[[], None] = lambda: None
    ) -> None:
        self.world = world
        self.name = name
        self._died = died
        self.over = False
        self.killed = False
        self.env = Env(SimClock(self), SimIds(random.Random(world.random.getrandbits(64))), world.patience_s)
        self._main = main
        self._turn = 0
        self._answer: Any = None
        self._failure: BaseException | None = None
        self._greenlet = greenlet(self._live, world.hub)

    def run(self) -> None:
        """Begin; called by the world."""
        if not self.killed:
            self._greenlet.switch()

    def _live(self) -> None:
        try:
            self._main(self)
        except Killed:
            self.world.note(f"{self.name} is dead")
            self._died()
        except Exception as error:  # anything that a scenario did not expect is a finding
            self.world.note(f"{self.name} ends with {type(error).__name__}: {error}")
            self.world.surprises.append(f"{self.name}: unexpected {type(error).__name__}: {error}")
        finally:
            self._end()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            self.world.living -= 1

    def kill(self) -> None:
        """End the process where it stands; called by the world."""
        if self.over or self.killed:
            return
        self.killed = True
        if self._greenlet:
            self._greenlet.throw(Killed())
        self._end()

    # -- turns -----------------------------------------------------------------------------------

    def wait(self, delay: float) -> None:
        """Let virtual time pass."""
        turn = self._next_turn()
        self.world.at(delay, partial(self._resume, turn, None, None))
        self._pause()

    def ask(self, kind: Kind, what: str, effect: Callable[[], T]) -> T:
        """One request: its effect happens later, its answer later still, and what can go wrong may."""
        turn = self._next_turn()
        world = self.world
        there = world.random.random() * world.latency
        fault = world.faults.draw(kind, world)
        if not fault:
            world.at(there, partial(self._land, turn, what, effect))
        else:
            world.counters[fault] += 1
            world.counters["faults"] += 1
            world.note(f"{self.name} {what}: {fault}")
            self._misfortune(fault, turn, what, effect, there)
        return self._pause()  # type: ignore[no-any-return]

    def _misfortune(self, fault: str, turn: int, what: str, effect: Callable[[], Any], there: float) -> None:
        world = self.world
        late = world.between(0.01, world.faults.late_s)
        if fault in {"die_before", "die_under_way"}:
            if fault == "die_under_way":
                world.at(late, lambda: self._land(0, what, effect))
            self.killed = True
            raise Killed
        if fault == "die_after":
            world.at(there, lambda: self._land(0, what, effect, then=self.kill))
        elif fault == "slow":
            world.at(late, lambda: self._land(turn, what, effect))
        elif fault == "echo":
            world.at(there, lambda: self._land(turn, what, effect))
            world.at(there + late, lambda: self._land(0, f"{what} (again)", effect))
        elif fault == "stall":
            world.at(there, lambda: self._land(turn, what, effect, stall=world.between(0.5, world.faults.stall_s)))
        else:
            if fault not in UNDONE:
                world.at(late if fault == "late" else there, lambda: self._land(0, what, effect))
            told = FAILURES[fault](f"{what}: {fault}")
            world.at(there + world.random.random() * TIMEOUT_S, lambda: self._resume(turn, None, told))

    def _land(
        self,
        turn: int,
        what: str,
        effect: Callable[[], Any],
        *,
        stall: float = 0.0,
        then: Callable[[], None] | None = None,
    ) -> None:
        """The effect of a request; turn 0 where nobody waits for the answer."""
        world = self.world
        answer: Any = None
        failure: SiltstoneError | None = None
        try:
            answer = effect()
        except SiltstoneError as error:
            failure = error
        if isinstance(answer, Later):
            second = answer
            world.at(second.delay, lambda: self._land(turn, what, second.effect, stall=stall, then=then))
            return
        world.note(f"{self.name} {what} -> {failure.kind if failure else 'ok'}{'' if turn else ' (unheard)'}")
        if then is not None:
            then()
        elif turn:
            back = world.random.random() * world.latency + stall
            world.at(back, partial(self._resume, turn, answer, failure))

    def _next_turn(self) -> int:
        if self.killed:
            raise Killed
        self._turn += 1
        return self._turn

    def _pause(self) -> Any:
        self.world.hub.switch()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return self._answer

    def _resume(self, turn: int, answer: Any, failure: BaseException | None) -> None:
        if self.over or turn != self._turn:
            return
        self._answer, self._failure = answer, failure
        self._greenlet.switch()
