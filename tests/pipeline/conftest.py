"""Files that arrive, and a pipeline that takes them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

import figures
import siltstone
from siltstone.pipeline import load_pipeline, run_pipeline
from sources import ROOT
from spark_cluster import processes, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.pipeline import Report


RUN_SECONDS_MAX = 400


class Yard(NamedTuple):
    """A directory with files for a pipeline, which is written and run there."""

    root: Path

    def write(self, steps: str, *, name: str = "yard.yaml", head: str = "") -> Path:
        path = self.root / name
        path.write_text(f"name: yard\n{head}vars: {{t: '${{here}}/table'}}\nsteps:\n{steps}", encoding="utf-8")
        return path

    def rows(self, directory: str, file: str, *ids: int, stars: int = 3, body: str = "x") -> None:
        (self.root / directory).mkdir(exist_ok=True)
        lines = [json.dumps({"id": one, "stars": stars, "body": body}) + "\n" for one in ids]
        (self.root / directory / file).write_text("".join(lines), encoding="utf-8")

    def run(self, spark: SparkSession | None, steps: str, *, run: str = "1", head: str = "") -> Report:
        return run_pipeline(load_pipeline(self.write(steps, head=head), run=run), spark=spark)

    def open(self, name: str = "table") -> Table:
        return siltstone.open(self.root / name)

    def run_until(self, path: Path, is_time: Callable[[], bool], *, delay: float = 0.0, poll: float = 0.2) -> Killed:
        """Run a pipeline in a process of its own, and kill it when it is time."""
        command = [sys.executable, "-m", "siltstone", "pipeline", "run", str(path), "--master", "local[2]"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        ends, jvms = time.monotonic() + RUN_SECONDS_MAX, set()
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as runner:
            while runner.poll() is None:
                assert time.monotonic() < ends, "the run does not end"
                if not jvms:
                    jvms = {pid for pid, (parent, _) in processes().items() if parent == runner.pid}
                if is_time():
                    try:
                        runner.wait(delay)  # the moment is what is tried out
                    except subprocess.TimeoutExpired:
                        runner.kill()
                time.sleep(poll)
            figures.record("kills", runner.returncode == -signal.SIGKILL)
            return Killed(runner.returncode, jvms)


class Killed(NamedTuple):
    """A runner that has ended: its exit code, -9 where it was killed, and what it had started."""

    code: int
    jvms: set[int]

    def wait(self) -> None:
        """Wait for the end of its JVM: another runner would take as long to start, and a session that runs does not."""
        wait_for_end(self.jvms)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)
