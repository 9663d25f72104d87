"""Writers of one table on a store that may lie, each a process of its own, and whoever looks afterwards.

Each line of its input is a job in JSON, and is done by children, so that nothing (least of all what a probe found) is
remembered from one job to the next:

- ``{"do": "create", "uri", "options", "commits", "create": {...}}`` makes the table;
- ``{"do": "write", ..., "way", "writers", "operations", "told": directory, "kill_at": [...]}`` writes to it. Each
  writer is acknowledged one operation, all wait for each other (``{"ready"}``) and for a line, then go on. A writer
  that is told that the store can't be trusted stops. All wait for each other once more before they close.
- ``{"do": "read"}``, ``{"do": "verify", "receipts"}`` and ``{"do": "write once"}`` are what a newcomer does.

A line comes back: ``{"done": ...}``, or ``{"error": kind, "message"}``. What writers try and are told goes to files in
``told``, a line each, so that a kill loses none.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
import traceback
from pathlib import Path

import pyarrow as pa

import siltstone as ss
from children import fork, say
from siltstone.env import Env
from siltstone.errors import CorruptionError, FencedError, SiltstoneError, UnsafeStoreError
from siltstone.log import Mark
from siltstone.store.connect import open_store
from siltstone.testing.stores import _CallByCall

pa.array([0])  # loads what pyarrow loads at first use, so that no child has to; starts no thread
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("number", pa.int64())])
OWN = 1_000_000  # ids of one writer; its first one counts its operations
TAKE_OVERS_MAX = 300
TAKE_OVER_WAIT_S = 0.05
LOUD = (UnsafeStoreError, CorruptionError)  # what a writer must not go past


class Deadly(_CallByCall):
    """Ends the process at its n-th call, once it is armed."""

    def __init__(self, inner, kill_at: int) -> None:
        super().__init__(inner)
        self._left = kill_at
        self._lock = threading.Lock()
        self.armed = False

    def _around(self, verb, key, effect, special=None):
        if self.armed:
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        return effect()


def opened(job: dict, store=None):
    return ss.open(
        store or job["uri"],
        storage_options=None if store else job["options"],
        commits=job["commits"],
        probe=job.get("probe", True),
        env=Env(patience_s=60),
    )


def rows(writer: int, number: int, *, counted: bool) -> pa.Table:
    """A row that nobody else has; where rows are replaced, also the one that counts the writer's operations."""
    ids = [writer * OWN + number, *([writer * OWN] if counted else [])]
    return pa.table({"id": ids, "number": [number] * len(ids)}, schema=SCHEMA)


class Writer:
    def __init__(self, job: dict, number: int) -> None:
        self._job = job
        self.number = number
        self._file = os.open(Path(job["told"]) / str(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._dice = random.Random(number)
        kill_at = job["kill_at"][number]
        self.deadly = Deadly(open_store(job["uri"], job["options"]), kill_at) if kill_at else None
        self._table = opened(job, self.deadly)
        self._shard = None

    def note(self, **facts) -> None:
        # One write for one line: a kill leaves a line whole or out.
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def run(self, number: int) -> bool:
        """One operation; whether the writer may go on."""
        self.note(tries=number)
        try:
            facts = self._put(number) if self._job["way"] == "put" else self._commit(number)
        except SiltstoneError as error:
            self.note(n=number, error=error.kind, message=str(error), loud=isinstance(error, LOUD))
            return not isinstance(error, LOUD)
        self.note(n=number, **facts)
        return True

    def _commit(self, number: int) -> dict:
        way = self._job["way"]
        version = getattr(self._table, way)(rows(self.number, number, counted=way == "upsert"))
        return {"op": version.op, "receipt": list(self._table._log._last)}

    def _put(self, number: int) -> dict:
        for _ in range(TAKE_OVERS_MAX):
            try:
                if self._shard is None:
                    self._shard = self._table.shard(0).writer()
                self._shard.put(rows(self.number, number, counted=True))
            except FencedError:  # rows have keys: they may be put again
                self._shard = None
                threading.Event().wait(self._dice.random() * TAKE_OVER_WAIT_S)
            else:
                return {"op": ""}
        raise AssertionError(f"fenced {TAKE_OVERS_MAX} times")

    def close(self) -> None:
        for handle in filter(None, (self._shard, self._table)):
            try:
                handle.close()
            except SiltstoneError as error:
                self.note(closing=error.kind, loud=isinstance(error, LOUD))


class Meeting:
    """Children wait here for each other and for their parent; one that died keeps nobody waiting."""

    def __init__(self) -> None:
        self._there, self._arrive = os.pipe()
        self._go, self._let_go = os.pipe()

    def child(self) -> None:
        """In a child: once, before it waits."""
        os.close(self._there)
        os.close(self._let_go)

    def wait(self) -> None:
        os.close(self._arrive)
        os.read(self._go, 1)

    def all_there(self) -> None:
        """In the parent: all have come, or died."""
        os.close(self._arrive)
        os.read(self._there, 1)

    def go(self) -> None:
        os.close(self._let_go)


def live(job: dict, number: int, begin: Meeting, end: Meeting) -> None:
    begin.child()
    end.child()
    writer = Writer(job, number)
    going = writer.run(1)
    begin.wait()
    if writer.deadly:
        writer.deadly.armed = True
    for operation in range(2, job["operations"] + 1):
        going = going and writer.run(operation)
    end.wait()
    writer.close()


def write(job: dict) -> None:
    begin, end = Meeting(), Meeting()
    children = [fork(live, job, number, begin, end) for number in range(job["writers"])]
    begin.all_there()
    say(ready=True)
    sys.stdin.readline()
    begin.go()
    end.all_there()
    end.go()
    say(done=[os.waitpid(child, 0)[1] for child in children])


def create(job: dict) -> list:
    ss.create(
        job["uri"],
        schema=SCHEMA,
        storage_options=job["options"],
        commits=job["commits"],
        probe=job.get("probe", True),
        **job["create"],
    ).close()
    return []


def read(job: dict) -> list:
    found = opened(job).scan(fresh=job["way"] == "put").to_arrow()
    return list(zip(found["id"].to_pylist(), found["number"].to_pylist(), strict=True))


def verify(job: dict) -> list:
    receipts = [Mark(*one) for one in job.get("receipts", ())]
    reports = ss.verify(job["uri"], storage_options=job["options"], commits=job["commits"], receipts=receipts)
    return [[one.fault, one.position, one.op, one.detail] for report in reports for one in report.problems]


def write_once(job: dict) -> list:
    table = opened({**job, "probe": True})
    number = rows(job["writers"], 1, counted=False)
    if job["way"] == "put":
        with table.shard(0).writer() as writer:
            writer.put(number)
    else:
        table.append(number)
    return []


CALLS = {"create": create, "read": read, "verify": verify, "write once": write_once}


def answer(job: dict) -> None:
    try:
        say(done=CALLS[job["do"]](job))
    except SiltstoneError as error:
        say(error=error.kind, message=str(error), loud=isinstance(error, LOUD))
    except BaseException:
        say(failed=traceback.format_exc())


def main() -> None:
    while line := sys.stdin.readline():
        job = json.loads(line)
        if job["do"] == "write":
            write(job)
        else:
            os.waitpid(fork(answer, job), 0)


with contextlib.suppress(KeyboardInterrupt):
    main()
