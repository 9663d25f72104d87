"""Processes that work on one build of an index at once, each killed (SIGKILL) after a time of chance.

Each line that it reads is a job in JSON: ``{"uri", "build", "call", "count", "seed", "life_s"}``; nobody is killed
where ``life_s`` is 0. A line in JSON says how each of the processes ended.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback

import pyarrow as pa

import siltstone as ss
from siltstone.errors import UnfinishedError

# What is loaded at first use is loaded here, so that no child has to; starts no thread.
pa.array([0])
LOADED = (ss.open, ss.drop)
BROKEN = 3


def live(job: dict) -> None:
    """One life: bring the build to its end, or do all of it."""
    status = 0
    try:
        build = ss.open(job["uri"], sync=False).index_build(job["build"])
        getattr(build, job["call"])()
    except UnfinishedError:
        status = 0
    except BaseException:
        traceback.print_exc()
        status = BROKEN
    os._exit(status)


def work(job: dict) -> list[int]:
    """Let them live and die; how each of them ended."""
    chance = random.Random(job["seed"])
    began = time.monotonic()
    deaths = []
    for _ in range(job["count"]):
        child = os.fork()
        if not child:
            live(job)
        deaths.append((began + chance.uniform(0, job["life_s"]), child))
    for at, child in sorted(deaths) if job["life_s"] else ():
        time.sleep(max(at - time.monotonic(), 0))
        os.kill(child, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for _, child in deaths]


def main() -> None:
    for line in sys.stdin:
        print(json.dumps({"ends": work(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main()
