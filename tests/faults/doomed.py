"""Children that do some work with a table, and are killed (SIGKILL) at a call to its store, or to that of a clone.

Each line of the input is a job in JSON: ``{"work", "number", "home", "kill_at", "after", "at_clone"}``. When its child
is gone, ``{"ended": status}`` is said. One that lives writes how many calls there were to the file ``calls``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow as pa

import children
from deadly import Deadly
from kill_works import WORKS
from siltstone.api import open_table
from siltstone.store.connect import open_store

pa.array([0])  # loads what pyarrow loads at first use, so that no child has to; starts no thread


def work(job: dict) -> None:
    home = Path(job["home"])
    one = WORKS[job["work"]](job["number"], home)
    table, clone = open_store(home / "table", sync=False), open_store(one.clone, sync=False)
    deadly = Deadly(clone if job["at_clone"] else table, job["kill_at"], after=job["after"])
    with open_table(table if job["at_clone"] else deadly, probe=False) as opened:
        one.do(opened, deadly if job["at_clone"] else clone)
    (home / "calls").write_text(str(deadly.calls))


def main() -> None:
    while line := sys.stdin.readline():
        child = children.fork(work, json.loads(line))
        children.say(ended=os.waitpid(child, 0)[1])


main()
