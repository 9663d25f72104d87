"""Starting the demo's writers together, and reading what they were acknowledged.

What must hold: no process outlives the call that started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from siltstone.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from siltstone.log import Log

SECONDS_MAX = 60.0
WORKER = "siltstone.cli.demo_worker"


class Acknowledged(NamedTuple):
    """An entry that a writer was told is there for good."""

    position: int
    digest: str


class Target(NamedTuple):
    """The log that writers write to."""

    uri: str
    commits: str = ""
    storage_options: Mapping[str, str] = {}


class Writer:
    """One child process; use it as a context manager."""

    def __init__(self, target: Target, *, name: str, entries: int) -> None:
        source = str(Path(__file__).parents[2])
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        # A fresh interpreter, not a fork: connections to object stores do not survive one.
        self._process = subprocess.Popen(  # noqa: S603 - the module named above
            [sys.executable, "-P", "-m", WORKER],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._limit = threading.Timer(SECONDS_MAX, self._process.kill)
        self._limit.start()
        self._name = name
        self.acknowledged: list[Acknowledged] = []
        orders = {
            **target._asdict(),
            "storage_options": dict(target.storage_options),
            "writer": name,
            "entries": entries,
        }
        self._send(json.dumps(orders))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def wait_ready(self) -> None:
        """Return when the writer has opened the log."""
        self._expect("ready")

    def begin(self) -> None:
        """Let it write."""
        self._send("go")

    def read(self, count: int) -> None:
        """Take note of the next ``count`` acknowledgements."""
        for _ in range(count):
            fact = self._expect("position")
            self.acknowledged.append(Acknowledged(fact["position"], fact["digest"]))

    def read_all(self) -> None:
        """Take note of everything until the writer is done."""
        while "done" not in (fact := self._next()):
            self.acknowledged.append(Acknowledged(fact["position"], fact["digest"]))

    def kill(self) -> None:
        """End it with SIGKILL, in the middle of whatever it does, and read what it had said before."""
        self._limit.cancel()
        if self._process.stdout is None or self._process.stdout.closed:
            return
        self._process.kill()
        self._process.wait()
        for line in self._process.stdout:
            if line.endswith("\n") and "position" in (fact := json.loads(line)):
                self.acknowledged.append(Acknowledged(fact["position"], fact["digest"]))
        self._process.stdout.close()
        if self._process.stdin is not None:
            # What is left to write goes nowhere.
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                return

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        line = self._process.stdout.readline()
        fact: dict[str, Any] = json.loads(line) if line else {"message": "it ended without a word"}
        if "message" in fact:
            raise UnavailableError(f"{self._name} failed: {fact['message']}")
        return fact

    def _expect(self, name: str) -> dict[str, Any]:
        fact = self._next()
        if name not in fact:
            raise UnavailableError(f"{self._name} said {fact} instead of {name!r}")
        return fact


def write_together(target: Target, *, writers: int, entries: int) -> list[Acknowledged]:
    """Let several processes append at once; everything they were acknowledged."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(Writer(target, name=f"writer-{number}", entries=entries)) for number in range(writers)
        ]
        for writer in started:
            writer.wait_ready()
        for writer in started:
            writer.begin()
        for writer in started:
            writer.read_all()
        return [entry for writer in started for entry in writer.acknowledged]


def missing(log: Log, acknowledged: list[Acknowledged]) -> list[Acknowledged]:
    """Acknowledged entries that are not in the log."""
    there = {(entry.position, entry.digest) for entry in log.entries()}
    return [entry for entry in acknowledged if tuple(entry) not in there]
