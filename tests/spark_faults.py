"""Faults inside Spark's processes: the format "siltstone", whose workers, executors and commits die at a point.

Imported by the workers of a cluster. A fault happens once: whoever makes its marker file is the one that meets it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

from siltstone.spark.source import SiltstoneSource
from siltstone.spark.writer import BatchWriter, StreamWriter

STALL_S = 60.0
HOLD_S = 600.0
KILLED_S = 5.0  # until a process that was killed is gone, and what hangs on it


def is_first(marker: str) -> bool:
    """Whether nobody met the fault of this marker before."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    time.sleep(KILLED_S)  # whoever is killed from outside does nothing more


def parent_of(pid: int) -> int:
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)


def hold(marker: str) -> None:
    """Come no further: whoever sees the marker kills what this process belongs to."""
    if is_first(marker):
        time.sleep(HOLD_S)
        raise OSError("nobody came to kill this process")


def happen(fault: str, marker: str, point: str) -> None:
    """Let a fault happen: ``<who>@<point>``."""
    who, _, where = fault.partition("@")
    if where == point and who == "hold":
        hold(marker)
        return
    if where != point or not is_first(marker):
        return
    if who == "worker":
        kill(os.getpid())
    if who == "executor":
        kill(parent_of(parent_of(os.getpid())))
    if who == "error":
        raise OSError("a fault that the test asked for")
    assert who == "stall", fault
    time.sleep(STALL_S)


class FaultyBatch(BatchWriter):
    fault = marker = ""

    def write(self, iterator):
        happen(self.fault, self.marker, "task begins")
        message = super().write(iterator)
        happen(self.fault, self.marker, "task wrote")
        return message

    def commit(self, messages):
        happen(self.fault, self.marker, "before commit")
        super().commit(messages)
        happen(self.fault, self.marker, "after commit")


class FaultyStream(StreamWriter):
    fault = marker = ""

    def write(self, iterator):
        message = super().write(iterator)
        happen(self.fault, self.marker, "task wrote")
        return message

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        happen(self.fault, self.marker, "before commit")
        super().commit(messages, batchId)
        happen(self.fault, self.marker, "after commit")


class FaultySource(SiltstoneSource):
    """The format with options ``fault`` and ``marker``."""

    def __init__(self, options):
        self._fault = {name: options.get(name, "") for name in ("fault", "marker")}
        super().__init__({name: value for name, value in options.items() if name not in self._fault})

    @classmethod
    def name(cls):
        return "siltstone_faulty"

    def writer(self, schema, overwrite):
        return self._with_fault(FaultyBatch(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        return self._with_fault(FaultyStream(self.options, schema, overwrite=overwrite))

    def _with_fault(self, writer):
        writer.fault, writer.marker = self._fault["fault"], self._fault["marker"]
        return writer
