"""A writer of tables in a process of its own, which takes one job after another.

A job is a line of JSON on its input: ``{"uri", "options", "commits", "role", "number", "told": path, ...}``. It opens
the table, says ``{"ready"}``, and for each "go" line runs one round of its role and says ``{"did"}``. What it tries and
what it is told goes to the file ``told``, a line when an operation begins and one when it ends: a kill loses neither.
With ``"fork"`` a child does the job, which can be killed alone (its id is in ``ready``).
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import sys
import time
import traceback

import roles
from siltstone.api import open_table
from siltstone.env import Env
from siltstone.errors import SiltstoneError


def say(**facts) -> None:
    os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


def note(file, **facts) -> None:
    # One write for one line: a kill leaves a line whole or out, and nothing stays in a buffer.
    os.write(file, json.dumps({**facts, "at": time.monotonic()}).encode() + b"\n")


class Book:
    """Runs operations and writes down what was told of them. Threads may share it."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._numbers = itertools.count(1)

    def __call__(self, table, operation: dict) -> dict:
        """Perform an operation; what came of it is returned and noted, errors too."""
        number = next(self._numbers)
        note(self._file, n=number, operation=operation)
        try:
            facts = roles.perform(table, operation)
        except SiltstoneError as error:
            facts = {"error": error.kind, "message": str(error), "trace": traceback.format_exc()}
        except Exception as error:
            facts = {"error": f"bare {type(error).__name__}", "message": str(error), "trace": traceback.format_exc()}
        note(self._file, n=number, **facts)
        return facts


def run(job: dict) -> None:
    file = os.open(job["told"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    table = open_table(
        job["uri"],
        storage_options=job.get("options") or None,
        commits=job.get("commits"),
        env=Env(patience_s=job.get("patience_s", 60)),
        **job.get("open", {}),
    )
    role = functools.partial(getattr(roles, job["role"]), table, Book(file), job, random.Random(job.get("seed", 0)))
    say(ready=os.getpid())
    for number in range(job.get("rounds", 1)):
        if not sys.stdin.readline():
            return
        role(number)
        say(did=number)
    table.close()
    os.close(file)


def main() -> None:
    while line := sys.stdin.readline():
        if line == "go\n":  # to a child that was killed before it read it
            continue
        job = json.loads(line)
        if not job.get("fork"):
            run(job)
        elif child := os.fork():
            say(ended=os.waitpid(child, 0)[1])
        else:
            run(job)
            os._exit(0)


main()
