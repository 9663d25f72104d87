"""Crowds of writers behind a commit store (``tests/commit/restart_worker.py``), and rows taken out of commit stores."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import psycopg
import pymysql
import redis
import urllib3

import crowd

WORKER = Path(__file__).parent / "commit" / "restart_worker.py"
OWN = 1_000_000  # as the worker has it
WAIT_S = 600.0
LOOK_S = 0.05


class CommitCrowd:
    """Writers of one table, by number; one that is killed is followed by another with its number."""

    def __init__(self, job: dict, writers: int) -> None:
        self._told = Path(job["told"])
        self._told.mkdir()
        self._parent = crowd.start({}, worker=WORKER)
        self._say(job)
        self._children = {number: self._start(number) for number in range(writers)}
        self.kills = 0

    def _say(self, asked: dict) -> None:
        self._parent.stdin.write(json.dumps(asked).encode() + b"\n")
        self._parent.stdin.flush()

    def _hear(self, word: str) -> int:
        line = self._parent.stdout.readline()
        assert line, "the parent of the writers ended; what it said of that is above"
        return json.loads(line)[word]

    def _start(self, number: int) -> int:
        self._say({"start": number})
        return self._hear("child")

    def _wait(self, number: int) -> int:
        self._say({"wait": self._children[number]})
        return self._hear("ended")

    def kill(self, numbers) -> None:
        """Kill writers (SIGKILL), all at once, and let others go on in their places."""
        numbers = list(numbers)
        for number in numbers:
            os.kill(self._children[number], signal.SIGKILL)
        for number in numbers:
            status = self._wait(number)
            assert status == signal.SIGKILL, (status, self.lines("failed"))
            self._children[number] = self._start(number)
            self.kills += 1

    def lines(self, word: str) -> list[dict]:
        """What writers noted that has a word in it, each line with its writer's number."""
        found = []
        for number in self._children:
            path = self._told / str(number)
            for line in path.read_bytes().splitlines() if path.exists() else ():
                facts = json.loads(line)
                if word in facts:
                    found.append({"writer": number, **facts})
        return found

    def ids(self, word: str) -> set[int]:
        return {line["writer"] * OWN + line[word] for line in self.lines(word)}

    def wait_for(self, more: int) -> None:
        """Wait until so many more rows were acknowledged."""
        enough = len(self.ids("acknowledged")) + more
        until = time.monotonic() + WAIT_S
        while len(self.ids("acknowledged")) < enough:
            assert not self.lines("failed"), self.lines("failed")
            assert time.monotonic() < until, f"nobody got on for {WAIT_S} s: {self.lines('again')[-5:]}"
            time.sleep(LOOK_S)

    def stop(self) -> None:
        """Let all writers end what they are at."""
        (self._told / "stop").touch()
        assert [self._wait(number) for number in self._children] == [0] * len(self._children), self.lines("failed")

    def close(self) -> None:
        self._parent.stdin.close()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._parent.kill()
        self._parent.wait()
        self._parent.stdout.close()


def forget(kind: str, uri: str, scope: str, position: int) -> None:
    """Take one claim out of a commit store, as nobody may."""
    match kind:
        case "sqlite":
            with contextlib.closing(sqlite3.connect(uri.removeprefix("sqlite://"), timeout=60)) as database, database:
                gone = database.execute(_DELETE.format(mark="?"), (scope, position)).rowcount
        case "postgresql":
            with psycopg.connect(uri) as database:
                gone = database.execute(_DELETE.format(mark="%s"), (scope, position)).rowcount
        case "mysql":
            place = urllib3.util.parse_url(uri)
            reach = {"host": place.host, "port": place.port, "user": "root", "database": place.path.strip("/")}
            with contextlib.closing(pymysql.connect(**reach, autocommit=True)) as database:
                gone = database.cursor().execute(_DELETE.format(mark="%s"), (scope, position))
        case "redis":
            with redis.Redis.from_url(uri) as client:
                gone = client.hdel(f"siltstone:9:siltstone:{len(scope)}:{scope}", f"{position:019d}")
        case "etcd":
            key = base64.b64encode(f"siltstone/claim/{len(scope)}:{scope}/{position:019d}".encode()).decode()
            url = uri.replace("etcd://", "http://") + "/v3/kv/deleterange"
            with urllib3.PoolManager() as http:
                gone = int(http.request("POST", url, json={"key": key}).json().get("deleted", 0))
    assert gone == 1, f"{kind} had {gone} such rows"


_DELETE = "DELETE FROM siltstone_claims WHERE scope = {mark} AND position = {mark}"
