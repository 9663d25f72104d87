"""Writers that race for the versions of one table, in virtual time: the real protocol code on a simulated store.

What must hold:
- Writers are real handles: every request, wait and retry is what the package's own code does. Only the store and the
  clock are simulated, and computing takes no time, so that what comes out is the store's share alone.
- A request takes the store's latency, give or take a fifth; reads of several objects travel together.
- A seed decides everything.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

import siltstone as ss
from scale_server import CREATE, GET, HEAD, LIST, PUT
from siltstone.errors import ConflictError, InternalError, SiltstoneError
from siltstone.store.base import OBJECT_BYTES_MAX
from siltstone.testing.sim.store import SimBucket, SimStore
from siltstone.testing.sim.world import Process, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from siltstone.testing.sim.faults import Kind

T = TypeVar("T")
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
PATIENCE_S = 30.0  # as tables have it where nobody says otherwise
SPREAD = 0.2  # of a latency
OPENING_ROUNDS = 50


@dataclass(frozen=True)
class Race:
    """What came of a race."""

    writers: int
    appends_each: int
    latency_ms: float
    commits: int
    gave_up: int
    virtual_s: float
    requests: dict[str, int]
    commit_ms_p50: float
    commit_ms_p99: float

    @property
    def commits_per_s(self) -> float:
        """Versions that the table got in a second."""
        return self.commits / self.virtual_s

    @property
    def rounds_per_commit(self) -> float:
        """Latencies of the store that pass for one version, all writers together."""
        return self.virtual_s * 1000 / self.latency_ms / max(self.commits, 1)

    @property
    def requests_per_commit(self) -> float:
        """Requests of all writers for one version."""
        return sum(self.requests.values()) / max(self.commits, 1)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **asdict(self),
            "commits_per_s": self.commits_per_s,
            "rounds_per_commit": self.rounds_per_commit,
            "requests_per_commit": self.requests_per_commit,
        }


class Room(World):
    """A world without a trace and without an end of patience of its own: a thousand writers make many events."""

    def note(self, text: str) -> None:
        """Nobody reads it."""

    def make_process(self, name: str, main: Callable[[Process], None], died: Callable[[], None]) -> Process:
        """One that is not further from the store than others."""
        return _Caller(self, name, main, died)

    def run(self, *, until_over: bool = False) -> None:
        """Until nothing is left to do."""
        del until_over
        while self._heap:
            self.now, _, action = heapq.heappop(self._heap)
            self.events += 1
            action()


class _Caller(Process):
    def ask(self, kind: Kind, what: str, effect: Callable[[], T]) -> T:
        del kind
        turn = self._next_turn()
        self.world.at(self._way(), lambda: self._arrive(turn, what, effect))
        return self._pause()  # type: ignore[no-any-return]

    def _arrive(self, turn: int, what: str, effect: Callable[[], Any]) -> None:
        del what
        answer, failure = None, None
        try:
            answer = effect()
        except SiltstoneError as error:
            failure = error
        self.world.at(self._way(), lambda: self._resume(turn, answer, failure))

    def _way(self) -> float:
        """Half a latency, more or less."""
        return self.world.latency / 2 * self.world.random.uniform(1 - SPREAD, 1 + SPREAD)


class FarStore(SimStore):
    """A process's connection that counts its requests."""

    def __init__(self, process: Process, bucket: SimBucket, counts: Counter[str]) -> None:
        super().__init__(process, bucket)
        self._counts = counts

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        self._counts[GET] += 1
        return super().get(key, limit=limit)

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        del limit
        wanted = list(keys)
        self._counts[GET] += len(wanted)
        if not wanted:
            return iter(())

        def effect() -> Sequence[bytes | None]:
            found = (self.bucket.objects.read(key) for key in wanted)
            return [None if one is None else one[0] for one in found]

        return iter(self._process.ask("read", "get many", effect))

    def head(self, key: str) -> Any:
        self._counts[HEAD] += 1
        return super().head(key)

    def create(self, key: str, data: bytes) -> None:
        self._counts[CREATE] += 1
        super().create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._counts[PUT] += 1
        super().put(key, data)

    def list(self, prefix: str = "", *, after: str = "") -> Any:
        self._counts[LIST] += 1
        return super().list(prefix, after=after)


class _Tally:
    """What the writers of a race note down."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.took_s: list[float] = []
        self.gave_up = 0
        self.ended_s = 0.0


def race(*, writers: int, appends_each: int, latency_ms: float, patience_s: float = PATIENCE_S, seed: int = 1) -> Race:
    """Let writers append rows to one table, all at once, each one after the other."""
    room = Room(seed)
    room.latency = latency_ms / 1000
    room.patience_s = patience_s
    bucket = SimBucket(room, cheap_probes=False)
    tally = _Tally()

    def found(process: Process) -> None:
        ss.create(SimStore(process, bucket), schema=SCHEMA, guard="receipt", probe=False, env=process.env).close()

    room.start("founder", found)
    room.run()
    start_s = room.now + OPENING_ROUNDS * room.latency

    def write(number: int, process: Process) -> None:
        table = ss.open(FarStore(process, bucket, tally.counts), probe=False, env=process.env)
        _ = table.version
        process.wait(start_s - room.now)
        _append_all(room, table, number, appends_each, tally)

    for number in range(writers):
        room.start(f"writer {number}", partial(write, number))
    # Opening is not part of the race: everyone has done so before the first of them begins.
    room.at(start_s - room.now - room.latency, tally.counts.clear)
    room.run()
    if room.surprises:
        raise InternalError(f"a writer ended with {room.surprises[0]}")
    took = sorted(tally.took_s)
    return Race(
        writers=writers,
        appends_each=appends_each,
        latency_ms=latency_ms,
        commits=len(took),
        gave_up=tally.gave_up,
        virtual_s=tally.ended_s - start_s,
        requests=dict(tally.counts),
        commit_ms_p50=quantile(took, 0.5) * 1000,
        commit_ms_p99=quantile(took, 0.99) * 1000,
    )


def _append_all(room: Room, table: Any, number: int, count: int, tally: _Tally) -> None:
    for turn in range(count):
        rows = pa.table({"id": [number * count + turn], "name": ["x"]}, schema=SCHEMA)
        began = room.now
        try:
            table.append(rows)
        except ConflictError:
            tally.gave_up += 1
        else:
            tally.took_s.append(room.now - began)
        tally.ended_s = room.now


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of all is at or below; 0 of nothing."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
