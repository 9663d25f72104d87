"""Four writers of shards, a merger and a reader for minutes, each a process whose store fails one call in a hundred.

The argument is a job in JSON: ``{"home", "seconds", "seed", "lock"}``; the last is a file that is held for as long as
it runs. What each of them tries and is told goes to a file of its own in ``home/told``, a line each, written at once.
When all are done, ``home/ended`` says how they ended. All end when the input ends, and ``home`` is removed, unless it
is of a load that ended and whose test did not pass.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa

import siltstone as ss
from children import fork
from memory_used import settled_bytes, use_system_memory
from siltstone.errors import CommitUnknownError, ConflictError, UnavailableError, WriterStoppedError
from siltstone.store.connect import open_store
from siltstone.testing.script import Fault
from siltstone.testing.stores import _CallByCall

use_system_memory()
pa.array([0])  # loads what pyarrow loads at first use, so that no child has to; starts no thread
LOADED = (ss.open, ss.create, ss.ShardWriterConfig)
SHARDS = ("a", "b", "c", "d")
OWN = 1_000_000_000  # ids of one shard
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
FAULTS = (Fault.REFUSE, Fault.LOSE, Fault.FAIL_AFTER)
FAULT_RATE = 0.01
PUT_EVERY_S = 0.1
ROUND_EVERY_S = 5.0  # of the merger and the reader
COLLECTS_EVERY = 4  # rounds
KEPT_VERSIONS = 50  # nobody reads for as long as it takes to make so many
WITH_ID_EVERY = 10  # puts: these are put again until they are acknowledged
MEMTABLE_ROWS = 100  # few entries of a WAL are left to be read at once: a merge begins anew where one read fails
PAUSE_S = 0.1  # before something is tried again
GRACE_S = 300  # for what was begun within the time
LOOKS = (0.1, 0.20, 0.22, 0.24, 0.26, 0.28, 0.4, 0.5, 0.6, 0.7, 0.8, 0.90, 0.92, 0.94, 0.96, 0.98)  # at its memory
MAY = (CommitUnknownError, ConflictError, UnavailableError, WriterStoppedError)  # each says what to do


class Unsteady(_CallByCall):
    """A store that fails by chance: refused, applied with the answer lost, or applied and answered with a 503."""

    def __init__(self, inner, chance: random.Random) -> None:
        super().__init__(inner)
        self._chance = chance
        self._lock = threading.Lock()
        self.calls = 0
        self.met = dict.fromkeys(FAULTS, 0)

    def _around(self, verb, key, effect, special=None):
        with self._lock:
            self.calls += 1
            fault = self._chance.choice(FAULTS) if self._chance.random() < FAULT_RATE else None
            if fault is not None:
                self.met[fault] += 1
        if fault is Fault.REFUSE:
            raise UnavailableError(f"{verb} {key}: by chance", object=key)
        done = effect()
        if fault is not None:
            status = "503" if fault is Fault.FAIL_AFTER else ""
            raise UnavailableError(f"{verb} {key}: by chance, after the effect", object=key, status=status)
        return done


class Role:
    """One process: its store, its table, and what it was told."""

    def __init__(self, job: dict, name: str) -> None:
        self.home, self.name = Path(job["home"]), name
        self.chance = random.Random(f"{job['seed']} {name}")
        self.store = Unsteady(open_store(self.home / "table", sync=False), self.chance)
        self._told = os.open(self.home / "told" / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._parent = os.getppid()
        self._begun, self._seconds = time.monotonic(), job["seconds"]
        self._looks = iter(LOOKS)
        self._look = next(self._looks)

    def note(self, **facts) -> None:
        # One write for one line: nothing stays in a buffer.
        os.write(self._told, json.dumps(facts).encode() + b"\n")

    def live(self) -> None:
        try:
            self.table = self.tried(lambda: ss.open(self.store, probe=False))
            self.work()
        except BaseException:
            self.note(broken=f"{self.name}: {traceback.format_exc()}")
            raise
        finally:
            met = {fault.name: count for fault, count in self.store.met.items()}
            self.note(calls=self.store.calls, met=met)

    def work(self) -> None:
        raise NotImplementedError

    def tried(self, call):
        """What a call gives in the end: one that failed is made again, as a user does."""
        while True:
            try:
                return call()
            except MAY as error:
                self.note(raised=error.kind, message=str(error))
                assert not self.is_over(grace_s=GRACE_S), "it did not get through"
                time.sleep(PAUSE_S)

    def turns(self, every_s: float):
        """A turn every so many seconds until the time is over; one that comes late puts the others off."""
        due = time.monotonic()
        while not self.is_over():
            yield
            self._look_at_memory()
            due = max(due + every_s, time.monotonic())
            while not self.is_over() and (left := due - time.monotonic()) > 0:
                time.sleep(min(left, 1.0))

    def is_over(self, *, grace_s: float = 0.0) -> bool:
        if os.getppid() != self._parent:
            os._exit(1)
        return time.monotonic() > self._begun + self._seconds + grace_s

    def _look_at_memory(self) -> None:
        part = (time.monotonic() - self._begun) / self._seconds
        if part >= self._look:
            self.note(at=self._look, resident=settled_bytes())
            self._look = next((one for one in self._looks if one > part), 2.0)


class Writer(Role):
    """Puts rows that nobody else has into its shard."""

    def work(self) -> None:
        self._again: tuple[list[int], str] | None = None  # a put with an id that is not acknowledged yet
        self._ids = itertools.count(SHARDS.index(self.name) * OWN)
        self._turns = enumerate(self.turns(PUT_EVERY_S))
        while not self.is_over() or self._again:
            writer = self.tried(self._open)
            try:
                self._put_all(writer)
            except MAY as error:
                self.note(raised=error.kind, message=str(error))
            self.tried(writer.close)

    def _open(self):
        config = ss.ShardWriterConfig(max_memtable_rows=MEMTABLE_ROWS)
        return self.table.shard(self.name).writer(config, name=f"load {self.name}")

    def _put_all(self, writer) -> None:
        if self._again:
            self._put(writer, *self._again)
        for number, _ in self._turns:
            ids = list(itertools.islice(self._ids, 1 + number % 3))
            self._put(writer, ids, f"{self.name}-{number}" if number % WITH_ID_EVERY == 0 else None)

    def _put(self, writer, ids: list[int], once: str | None) -> None:
        self._again = (ids, once) if once else None
        self.note(tries=ids)
        writer.put(pa.table({"id": ids, "note": ["x" * 20] * len(ids)}, schema=SCHEMA), once=once)
        self.note(acknowledged=ids)
        self._again = None


class Merger(Role):
    """Takes what is in the shards into the table, and now and then clears away."""

    def work(self) -> None:
        for number, _ in enumerate(self.turns(ROUND_EVERY_S), 1):
            self.note(merged=self.tried(self.table.merge_shards).version)
            if number % COLLECTS_EVERY == 0:
                self.tried(self.table.compact)
                self.note(collected=self.tried(self._collect).version)

    def _collect(self):
        return self.table.gc(keep_days=0, keep_versions=KEPT_VERSIONS)


class Reader(Role):
    """Looks whether all that was acknowledged before a fresh read is in it, and nothing twice."""

    def work(self) -> None:
        self._read = dict.fromkeys(SHARDS, 0)
        self._acknowledged = np.array([], np.int64)
        for _ in self.turns(ROUND_EVERY_S):
            self._acknowledged = np.concatenate([self._acknowledged, *map(self._acknowledged_since, SHARDS)])
            found = self.tried(lambda: self.table.scan(["id"], fresh=True).to_arrow())["id"].to_numpy()
            there = np.unique(found)
            lost = np.setdiff1d(self._acknowledged, there, assume_unique=True)
            if len(lost) or len(there) != len(found):
                self.note(broken=f"a fresh read lost {lost[:5]}, and has {len(found) - len(there)} rows twice")
            self.note(seen=len(found), acknowledged_before=len(self._acknowledged))

    def _acknowledged_since(self, shard: str) -> np.ndarray:
        path = self.home / "told" / shard
        if not path.exists():
            return np.array([], np.int64)
        with path.open("rb") as file:
            file.seek(self._read[shard])
            lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
        self._read[shard] += sum(map(len, lines))
        return np.array([one for line in lines for one in json.loads(line).get("acknowledged", ())], np.int64)


ROLES = {**dict.fromkeys(SHARDS, Writer), "merger": Merger, "reader": Reader}


def make_table(job: dict) -> None:
    ss.create(str(Path(job["home"]) / "table"), schema=SCHEMA, sync=False)


def run(job: dict) -> None:
    """Let all of them work, until they are done or the input ends."""
    home = Path(job["home"])
    (home / "told").mkdir()
    assert os.waitpid(fork(make_table, job), 0)[1] == 0
    children = {}

    def live(name: str) -> None:
        os.close(job["lock"])
        ROLES[name](job, name).live()

    for name in ROLES:
        children[fork(live, name)] = name
    ended: dict[str, int] = {}
    while len(ended) < len(children):
        if select.select([sys.stdin], [], [], 1.0)[0]:
            for child in children.keys() - {child for child, name in children.items() if name in ended}:
                os.kill(child, signal.SIGKILL)
            return
        for child, name in children.items():
            if name not in ended and (found := os.waitpid(child, os.WNOHANG))[0]:
                ended[name] = found[1]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = {"statuses": ended, "processor_s": round(used.ru_utime + used.ru_stime, 1)}
    (home / "ended.part").write_text(json.dumps(facts), encoding="utf-8")
    (home / "ended.part").rename(home / "ended")
    select.select([sys.stdin], [], [])


def main() -> None:
    job = json.loads(sys.argv[1])
    home = Path(job["home"])
    os.nice(5)
    output = os.open(home / "output", os.O_WRONLY | os.O_APPEND)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    run(job)
    if not (home / "ended").exists() or (home / "passed").exists():
        shutil.rmtree(home, ignore_errors=True)


main()
