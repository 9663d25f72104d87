"""Someone who works with a table and its clones, and is killed (SIGKILL) again and again.

Its argument is a job in JSON: ``{"role", "home", "seconds", "seed"}``. One child after another does the role's work
until it is killed, after a time of chance; then the next one goes on. What they try and are told goes to files of
``home``, a line each: a kill loses none. ``home`` has the table, ``home/clones`` its clones.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import pyarrow as pa

import figures
import siltstone as ss
from siltstone.errors import (
    AlreadyExistsError,
    BackpressureError,
    CommitUnknownError,
    ConflictError,
    FencedError,
    MissingObjectError,
    NotFoundError,
    UnavailableError,
    WriterStoppedError,
)
from told_lines import Told, digest_of, ids_of

# What is loaded at first use is loaded here, so that no child has to; starts no thread.
pa.array([0])
LOADED = (ss.open, ss.drop)
LIFE_S = (0.5, 6.0)
FAST = {"sync": False}  # a kill leaves what the system has taken; only a machine that fails needs more
ROWS = 3
NAMES_MAX = 4
CLONES_MAX = 3
# What anyone may be told whose versions are collected and whose clones are dropped under them.
MAY = (
    AlreadyExistsError,
    BackpressureError,
    CommitUnknownError,
    ConflictError,
    FencedError,
    NotFoundError,
    UnavailableError,
    WriterStoppedError,
)


class Mortal:
    """One life in one role."""

    def __init__(self, job: dict, life: int) -> None:
        self.home = Path(job["home"])
        self.told = Told(self.home)
        self.chance = random.Random(f"{job['seed']} {life}")
        self.uri = str(self.home / "table")
        self._next = (job["seed"] * 10_000 + life) * 10_000
        self.table = ss.open(self.uri, **FAST)

    def new_rows(self) -> list[dict]:
        self._next += ROWS
        return [{"id": self._next - number, "note": "x"} for number in range(ROWS)]

    def live(self, role: str) -> None:
        while True:
            try:
                getattr(self, role)()
            except MAY as error:
                if isinstance(error, NotFoundError) or self.chance.random() < 0.2:
                    self.table = ss.open(self.uri, **FAST)

    def _put(self, put, rows: list[dict]) -> None:
        ids = [row["id"] for row in rows]
        self.told.say(tries=ids)
        put(rows)
        self.told.say(acknowledged=ids)

    # -- roles -------------------------------------------------------------------------------------

    def shard_writer(self) -> None:
        with self.table.writer() as writer:
            for _ in range(self.chance.randint(1, 20)):
                self._put(writer.put, self.new_rows())

    def upserter(self) -> None:
        self._put(self.table.upsert, self.new_rows())
        if self.chance.random() < 0.2:
            self.table.tag(self.chance.choice("ab"))
        if self.chance.random() < 0.1:
            self.table.compact()

    def merger(self) -> None:
        self.table.merge_shards()

    def collector(self) -> None:
        self.table.gc(keep_days=0, keep_versions=self.chance.choice((1, 1, 3)))
        for uri in self.told.held("cloned"):
            if self.chance.random() < 0.3:
                ss.open(uri, **FAST).gc(keep_days=0)

    def keeper(self) -> None:
        held = self.told.held("kept")
        if len(held) < NAMES_MAX:
            before = self.told.acknowledged()
            scope = self.chance.choice(("all", "durable"))
            made = self.table.checkpoint(f"cp{self.chance.randrange(10**9)}", scope=scope)
            ids = ids_of(self.table.at(checkpoint=made))
            if lost := before - set(ids):
                self.told.say(broken=f"checkpoint {made.name} of {scope} has not {sorted(lost)[:5]}")
            self.told.say(kept=made.name, digest=digest_of(ids))
        elif self.chance.random() < 0.5:
            name = self.chance.choice(sorted(held))
            self.told.say(takes=name)
            self.table.delete_checkpoint(name)
        for name, one in held.items():
            self._check(f"checkpoint {name}", lambda name=name: self.table.at(checkpoint=name), one, "kept", name)

    def cloner(self) -> None:
        held, kept = self.told.held("cloned"), self.told.held("kept")
        if kept and len(held) < CLONES_MAX:
            name = self.chance.choice(sorted(kept))
            uri = str(self.home / "clones" / f"{self.chance.randrange(10**9)}")
            self.told.say(begins=uri)
            clone = self.table.clone(uri, at=name, **FAST)
            ids = ids_of(clone)
            if digest_of(ids) != kept[name]["digest"]:
                self.told.say(broken=f"the clone of {name} at {uri} is another one")
            self.told.say(cloned=uri, digest=digest_of(ids))
        elif held:
            uri = self.chance.choice(sorted(held))
            if self.chance.random() < 0.5:
                ss.open(uri, **FAST).detach()
            else:
                self.told.say(takes=uri)
                ss.drop(uri, **FAST)
        for uri, one in held.items():
            self._check(f"the clone at {uri}", lambda uri=uri: ss.open(uri, **FAST), one, "cloned", uri)

    def reader(self) -> None:
        before = self.told.acknowledged()
        try:
            found = set(self.table.scan(["id"], fresh=True).to_arrow().column("id").to_pylist())
        except MissingObjectError:  # the version was collected while it was read
            return
        if lost := before - found:
            self.told.say(broken=f"a fresh read has not {sorted(lost)[:5]}")

    def _check(self, what, look, line, word, name) -> None:
        """Read something that is kept, unless someone took it away meanwhile."""
        try:
            found = digest_of(ids_of(look()))
        except (NotFoundError, MissingObjectError) as error:
            found = f"{type(error).__name__}: {error}"
        if found != line["digest"] and name in self.told.held(word):
            self.told.say(broken=f"{what} is {found}, and was {line['digest']}")


def main() -> None:
    job = json.loads(sys.argv[1])
    end, chance = time.monotonic() + job["seconds"], random.Random(job["seed"])
    lives = 0
    while time.monotonic() < end:
        lives += 1
        life_s = min(chance.uniform(*LIFE_S), max(end - time.monotonic(), 0.1))
        child = os.fork()
        if not child:
            try:
                Mortal(job, lives).live(job["role"])
            except BaseException:
                Told(Path(job["home"])).say(broken=f"{job['role']}: {traceback.format_exc()}")
            os._exit(1)
        death = threading.Timer(life_s, os.kill, (child, signal.SIGKILL))
        death.start()
        figures.record("kills", os.waitpid(child, 0)[1] == signal.SIGKILL)
        death.cancel()
        death.join()
    print(json.dumps({"lives": lives}), flush=True)


if __name__ == "__main__":
    main()
