"""A process that makes a clone, and dies (SIGKILL) right before its n-th write to a store, if it has so many.

Its argument is a job in JSON: ``{"parent", "clone", "at", "dies_at"}``. It says "ready" and waits for a word.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count

import siltstone as ss
from siltstone.store.local import LocalStore


def dying(call, numbers, dies_at):
    def write(self, *arguments):
        if next(numbers) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(self, *arguments)

    return write


def main() -> None:
    job = json.loads(sys.argv[1])
    parent = ss.open(job["parent"], probe=False)
    numbers = count()
    for name in ("create", "put", "copy"):
        setattr(LocalStore, name, dying(getattr(LocalStore, name), numbers, job["dies_at"]))
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    made = parent.clone(job["clone"], at=job["at"], probe=False)
    print(json.dumps({"rows": made.count(), "version": made.version, "writes": next(numbers)}), flush=True)


main()
