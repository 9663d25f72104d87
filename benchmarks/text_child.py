"""Work in a process of its own: what it took, and the most memory that the process had.

What must hold: the peak is of that process alone, imports included, not of the one that started it.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from common import SPAWN

if TYPE_CHECKING:
    from collections.abc import Callable

STATUS = Path("/proc/self/status")
CHILD_SECONDS_MAX = 3_600.0


class Done(NamedTuple):
    """What a call gave in its own process, how long it took there, and the peak of that process."""

    value: Any
    seconds: float
    cpu_seconds: float  # of all its threads
    peak_mb: float


def alone(call: Callable[..., Any], *arguments: Any) -> Done:
    """Call a function of a module in a process of its own, and wait for it."""
    here, there = SPAWN.Pipe()
    child = SPAWN.Process(target=_child, args=(call, arguments, there))
    child.start()
    there.close()  # or its end would go unnoticed
    try:
        if not here.poll(CHILD_SECONDS_MAX):
            sys.exit(f"{call.__qualname__} did not end in {CHILD_SECONDS_MAX:.0f} s")
        failed, done = here.recv()
    except EOFError:
        child.join()
        failed, done = True, f"ended with {child.exitcode}"
    finally:
        child.join(5)
        if child.is_alive():
            child.kill()
            child.join()
    if failed:
        raise RuntimeError(f"{call.__qualname__}: {done}")
    return done  # type: ignore[no-any-return]


def _child(call: Callable[..., Any], arguments: tuple[Any, ...], answer: Any) -> None:
    try:
        started, worked = time.perf_counter(), time.process_time()
        value = call(*arguments)
        took, work = time.perf_counter() - started, time.process_time() - worked
        answer.send((False, Done(value, took, work, peak_mb())))
    except BaseException:
        answer.send((True, traceback.format_exc()))
    answer.close()
    sys.stderr.flush()
    os._exit(0)  # peers keep threads that may hold up an ordinary end


def peak_mb() -> float:
    """The most memory that this process had at once."""
    if STATUS.exists():  # rusage remembers the parent's peak across a spawn on Linux
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6
