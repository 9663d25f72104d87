"""Writers of one table whose versions a commit store decides; each can be killed, and another goes on in its place.

Each line of its input is a command in JSON: ``{"uri", "options", "commits", "told": directory}`` comes first;
``{"start": number}`` forks a writer and says ``{"child": its id}``; ``{"wait": its id}`` says ``{"ended": status}``
when it is gone. A writer appends one row after another, each under a ``once`` id of its own, until there is a file
``stop`` in the directory. What it is not told the end of it runs again, under the same id, however often; so does
whoever goes on in its place, from what is in the file with its number: a line for each row that it tries, and one for
each that it was acknowledged.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import traceback
from pathlib import Path

import pyarrow as pa

import siltstone as ss
from children import fork, say
from siltstone.env import Env
from siltstone.errors import CommitUnknownError, ConflictError, UnavailableError

pa.array([0])  # loads what pyarrow loads at first use, so that no child has to; starts no thread
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("writer", pa.int64())])
OWN = 1_000_000  # ids of one writer
PATIENCE_S = 2  # shorter than a server takes to come back, so that writers are told of it too
REST_S = 0.05
REST_AFTER_ERROR_S = 0.25


class Writer:
    def __init__(self, job: dict, number: int) -> None:
        self._number = number
        path = Path(job["told"]) / str(number)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        tried = {line["tries"] for line in lines if "tries" in line}
        done = {line["acknowledged"] for line in lines if "acknowledged" in line}
        self._again = len(tried) > len(done)  # the one before was cut off
        self._next = len(done)
        self._stop = Path(job["told"]) / "stop"
        self._job = job

    def note(self, **facts) -> None:
        # One write for one line: a kill leaves a line whole or out.
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def live(self) -> None:
        try:
            self._live()
        except BaseException:
            self.note(failed=self._next, error=traceback.format_exc())
            raise

    def _live(self) -> None:
        table = self._opened()
        while self._again or not self._stop.exists():
            self.note(tries=self._next)
            while not self._append(table, self._next):
                threading.Event().wait(REST_AFTER_ERROR_S)
            self._next, self._again = self._next + 1, False
            threading.Event().wait(REST_S)
        with contextlib.suppress(UnavailableError):
            table.close()

    def _opened(self):
        job = self._job
        reach = {"storage_options": job["options"] or None, "commits": job["commits"]}
        while True:
            try:
                return ss.open(job["uri"], env=Env(patience_s=PATIENCE_S), probe=False, **reach)
            except UnavailableError as error:
                self.note(again=self._next, error=error.kind)
            threading.Event().wait(REST_AFTER_ERROR_S)

    def _append(self, table, number: int) -> bool:
        """Whether it was acknowledged; False where it has to be run again."""
        row = pa.table({"id": [self._number * OWN + number], "writer": [self._number]}, schema=SCHEMA)
        try:
            with table.transaction(once=f"{self._number}-{number}") as transaction:
                transaction.append(row)
        except (UnavailableError, CommitUnknownError, ConflictError) as error:
            self.note(again=number, error=error.kind)
            return False
        self.note(acknowledged=number)
        return True


def live(job: dict, number: int) -> None:
    Writer(job, number).live()


def main() -> None:
    job: dict = {}
    while line := sys.stdin.readline():
        asked = json.loads(line)
        if "start" in asked:
            say(child=fork(live, job, asked["start"]))
        elif "wait" in asked:
            say(ended=os.waitpid(asked["wait"], 0)[1])
        else:
            job = asked


main()
