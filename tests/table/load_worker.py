"""Writers that append to one table at the same time, each a process of its own.

The argument is a job in JSON: ``{"uri", "writers", "appends", "rows", "early", "told": directory}``. Children open the
table, and begin together when all of them have. Each writes a line for each append to a file of its own in ``told``:
its version, or what was raised; and how much memory it takes, after ``early`` appends and at the end.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import pyarrow as pa

import siltstone as ss
from children import fork, say
from memory_used import settled_bytes, use_system_memory

OWN = 1_000_000  # ids of one writer
use_system_memory()
pa.array([0])  # loads what pyarrow loads at first use, so that no child has to; starts no thread
LOADED = (ss.open,)


def rows_of(writer: int, turn: int, count: int) -> pa.Table:
    first = writer * OWN + turn * count
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "writer": [writer] * count})


def write(job: dict, writer: int, ready: int, begin: int) -> None:
    parent = os.getppid()
    table = ss.open(job["uri"], sync=False)
    os.write(ready, b"r")
    os.close(ready)
    os.read(begin, 1)  # it is closed when all are ready
    with (Path(job["told"]) / f"{writer}").open("w", encoding="utf-8") as told:
        for turn in range(job["appends"]):
            if os.getppid() != parent:
                return
            try:
                facts = {"version": table.append(rows_of(writer, turn, job["rows"])).version}
            except Exception:
                facts = {"error": traceback.format_exc()}
            if turn + 1 in {job["early"], job["appends"]}:
                facts["resident"] = settled_bytes()
            told.write(f"{json.dumps(facts)}\n")


def main() -> None:
    job = json.loads(sys.argv[1])
    (is_ready, ready), (begin, go) = os.pipe(), os.pipe()

    def child(writer: int) -> None:
        os.close(go)
        write(job, writer, ready, begin)

    children = [fork(child, writer) for writer in range(job["writers"])]
    os.close(ready)
    while os.read(is_ready, 1):  # until the last one has closed its end, or has ended
        pass
    os.close(go)
    say(statuses=[os.waitpid(one, 0)[1] for one in children])


main()
