"""Starting writers in processes of their own and collecting what they were told."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

WORKER = Path(__file__).parent / "log" / "worker.py"
ROOT = Path(__file__).parent.parent


@dataclass
class Told:
    """What the writers of a crowd were told."""

    acknowledged: list[dict] = field(default_factory=list)
    errors: list[dict] = field(default_factory=list)

    @property
    def ends(self) -> list[tuple[int, str]]:
        return sorted((line["position"], line["digest"]) for line in self.acknowledged)


def start(asked: dict, *, worker: Path = WORKER, **settings) -> subprocess.Popen:
    paths = [str(ROOT / "src"), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, str(worker), json.dumps(asked)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        **settings,
    )


@contextlib.contextmanager
def started(asked: dict, count: int):
    """Writers that opened the log and wait for a word; none outlives the block."""
    writers = [start(asked) for _ in range(count)]
    try:
        for writer in writers:
            assert json.loads(writer.stdout.readline())["ready"]
        yield writers
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdin.close()
            writer.stdout.close()


def run(asked: dict, *, writers: int) -> Told:
    """Let writers add at the same time, all the way, and say what they were told."""
    told = Told()
    with started(asked, writers) as running:
        for writer in running:
            writer.stdin.write(b"go\n")
            writer.stdin.flush()
        for writer in running:
            for line in writer.stdout.read().splitlines():
                facts = json.loads(line)
                (told.errors if "error" in facts else told.acknowledged).append(facts)
            assert writer.wait() == 0
    return told
