"""What processes that are killed tried and were told, in a file that no kill spoils; see ``retain/mortal.py``."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def ids_of(table) -> list[int]:
    return sorted(table.scan(["id"]).to_arrow().column("id").to_pylist())


def digest_of(ids: list[int]) -> str:
    return hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]


class Told:
    """What everyone tried and was told, in the order of its lines."""

    def __init__(self, home: Path) -> None:
        self._file = os.open(home / "told", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._path = home / "told"

    def say(self, **facts) -> None:
        # One write for one line: a kill leaves a line whole or out.
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self._path.read_bytes().splitlines()]

    def acknowledged(self) -> set[int]:
        return {id_ for line in self.lines() for id_ in line.get("acknowledged", ())}

    def held(self, word: str) -> dict[str, dict]:
        """What is there by name (``kept`` checkpoints or ``cloned`` tables), and nobody began to take away."""
        found: dict[str, dict] = {}
        for line in self.lines():
            if word in line:
                found[line[word]] = line
            found.pop(line.get("takes", ""), None)
        return found
