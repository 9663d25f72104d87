"""Writers of tables, each a process of its own (``tests/table/worker.py``) that takes one job after another."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from pathlib import Path

import crowd
import figures
from replay import Told, read_told

WORKER = Path(__file__).parent / "table" / "worker.py"


class Member:
    """One of them."""

    def __init__(self) -> None:
        self._process = crowd.start({}, worker=WORKER)

    def say(self, line: str) -> None:
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, word: str) -> int:
        """The next word it says, which must be this one."""
        line = self._process.stdout.readline()
        assert line, "a writer ended by itself; what it said of that is above"
        facts = json.loads(line)
        assert word in facts, facts
        return facts[word]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class Crew:
    """As many writers as a test asks for. They stay for the next test: starting one takes a second."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._members: list[Member] = []
        self._parent: Member | None = None  # it does nothing itself, so that its children may be forked from it
        self._jobs = 0

    def run(self, jobs: list[dict], *, rounds: int = 1) -> list[Told]:
        """Give one job to each of some writers, let all begin each round together, and say what they were told."""
        while len(self._members) < len(jobs):
            self._members.append(Member())
        members = self._members[: len(jobs)]
        jobs = [{"number": number, "rounds": rounds, "told": self._file(), **job} for number, job in enumerate(jobs)]
        for member, job in zip(members, jobs, strict=True):
            member.say(json.dumps(job))
        for member in members:
            member.hear("ready")
        for _ in range(rounds):
            for member in members:
                member.say("go")
            for member in members:
                member.hear("did")
        figures.record("processes", len(jobs))
        return [one for job in jobs for one in read_told(Path(job["told"]), worker=job["number"])]

    def run_and_kill(self, job: dict, *, after_s: float) -> list[Told]:
        """Let a fresh process begin a job, kill it (SIGKILL) after a time, and say what it was told until then."""
        if self._parent is None:
            self._parent = Member()
        told = self._file()
        self._parent.say(json.dumps({"number": 0, **job, "told": told, "fork": True}))
        child = self._parent.hear("ready")
        death = threading.Timer(after_s, os.kill, (child, signal.SIGKILL))
        self._parent.say("go")
        death.start()
        ended = self._parent.hear("ended")
        death.join()
        assert ended == signal.SIGKILL, f"it was to be killed, and ended by itself ({ended})"
        figures.record("kills")
        return read_told(Path(told), worker=job.get("number", 0))

    def _file(self) -> str:
        self._jobs += 1
        return str(self._directory / f"told-{self._jobs}")

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for member in [*self._members, *([self._parent] if self._parent else [])]:
                stack.callback(member.close)
