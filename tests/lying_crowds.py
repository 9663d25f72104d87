"""Crowds of processes on a store that may lie (``tests/faults/liar_worker.py``), and what became of what they wrote."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from pathlib import Path

import crowd
import figures

WORKER = Path(__file__).parent / "faults" / "liar_worker.py"
OWN = 1_000_000  # as the worker has it


@dataclass
class Told:
    """What writers were told, by writer and number of the operation."""

    acknowledged: dict[tuple[int, int], dict] = field(default_factory=dict)
    tried: set[tuple[int, int]] = field(default_factory=set)
    refused: dict[tuple[int, int], dict] = field(default_factory=dict)
    closing: dict[int, str] = field(default_factory=dict)  # what a writer was told when it closed
    killed: set[int] = field(default_factory=set)

    @property
    def alarms(self) -> list[str]:
        """The errors that say that the store, or what is on it, can't be trusted."""
        return [*(facts["error"] for facts in self.refused.values() if facts["loud"]), *self.closing.values()]

    @property
    def last(self) -> dict[int, int]:
        """The number of the last operation that each writer was acknowledged."""
        return dict(sorted(self.acknowledged))

    @property
    def receipts(self) -> list[list]:
        return [facts["receipt"] for facts in self.acknowledged.values()]


@dataclass
class Found:
    """What a newcomer finds: rows, or the error that it is told."""

    rows: list[tuple[int, int]]
    error: str = ""

    def lost(self, told: Told) -> set[tuple[int, int]]:
        """Operations that were acknowledged and whose row is not there, or whose count was taken back."""
        values = dict(self.rows)
        lost = {(writer, number) for writer, number in told.acknowledged if writer * OWN + number not in values}
        if any(id_ % OWN == 0 for id_ in values):
            lost |= {(writer, number) for writer, number in told.last.items() if values.get(writer * OWN, 0) < number}
        return lost

    @property
    def doubled(self) -> int:
        return len(self.rows) - len(dict(self.rows))

    def invented(self, told: Told) -> set[int]:
        """Rows that nobody tried to write."""
        tried = {writer * OWN + number for writer, number in told.tried}
        return {id_ for id_, _ in self.rows if id_ % OWN} - tried


def overwritten(told: Told, problems: list[tuple]) -> set[tuple[int, int]]:
    """Operations whose receipts ``verify`` found not to hold."""
    gone = {(position, detail.partition(".")[0]) for fault, position, _, detail in problems if fault == "receipt"}
    ends = {key: one["receipt"] for key, one in told.acknowledged.items()}
    return {key for key, (position, _, digest) in ends.items() if (position - 1, digest[:12]) in gone}


class LyingCrowd:
    """One table on one store, written to by processes and looked at by others."""

    def __init__(self, parent: Parent, job: dict, told: Path) -> None:
        self._parent = parent
        self._job = job
        self._told = told

    def ask(self, do: str, **more) -> dict:
        return self._parent.ask({**self._job, "do": do, **more})

    def write(self, *, between=lambda: None, kill_at: dict[int, int] | None = None, **more) -> Told:
        """Let all writers write; ``between`` is called when each has been acknowledged its first operation."""
        self._told.mkdir()
        kills = [(kill_at or {}).get(number, 0) for number in range(self._job["writers"])]
        ready = self.ask("write", told=str(self._told), kill_at=kills, **more)
        assert ready == {"ready": True}
        between()
        statuses = self._parent.ask("go")["done"]
        assert set(statuses) <= {0, signal.SIGKILL}, "a writer failed; what it said of that is above"
        figures.record("kills", statuses.count(signal.SIGKILL))
        told = Told(killed={number for number, status in enumerate(statuses) if status})
        for number in range(self._job["writers"]):
            for line in (self._told / str(number)).read_bytes().splitlines():
                self._note(told, number, json.loads(line))
        return told

    @staticmethod
    def _note(told: Told, writer: int, facts: dict) -> None:
        if "tries" in facts:
            told.tried.add((writer, facts["tries"]))
        elif "closing" in facts:
            told.closing[writer] = facts["closing"]
        elif "error" in facts:
            told.refused[writer, facts["n"]] = facts
        else:
            told.acknowledged[writer, facts["n"]] = facts

    def read(self) -> Found:
        answer = self.ask("read")
        if "error" in answer:
            assert answer["loud"], answer
        return Found([tuple(row) for row in answer.get("done", ())], answer.get("error", ""))

    def verify(self, receipts=()) -> list[tuple]:
        """Fault, position, op and detail of every problem."""
        return [tuple(one) for one in self.ask("verify", receipts=list(receipts))["done"]]


class Parent:
    """The process that all writers and readers are forked from; it never uses a store itself."""

    def __init__(self) -> None:
        self._process = crowd.start({}, worker=WORKER)

    def ask(self, job: dict | str) -> dict:
        line = job if isinstance(job, str) else json.dumps(job)
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the parent of the writers ended; what it said of that is above"
        facts = json.loads(answer)
        assert "failed" not in facts, facts["failed"]
        return facts

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
