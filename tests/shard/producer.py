"""A process that puts rows as fast as it can, and says how much memory that took.

Its argument is a job in JSON: ``{"uri", "options", "config", "puts", "put_bytes"}``. It says when it is ready, begins
when it is told to, and says at the end what it saw.
"""

from __future__ import annotations

import json
import os
import resource
import sys

import numpy as np
import pyarrow as pa

import siltstone as ss


def rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def say(**facts) -> None:
    os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


def main() -> None:
    job = json.loads(sys.argv[1])
    table = ss.open(job["uri"], storage_options=job["options"])
    rows = job["put_bytes"] // 1024
    offsets = pa.py_buffer(np.arange(0, (rows + 1) * 1000, 1000, dtype=np.int32))
    text = np.frombuffer(
        np.random.default_rng(0).bytes(rows * 500).hex().encode(), np.uint8
    )  # it does not compress away
    with table.shard("a").writer(ss.ShardWriterConfig(**job["config"])) as writer:

        def put(number: int) -> None:
            notes = pa.Array.from_buffers(pa.string(), rows, [None, offsets, pa.py_buffer(text.copy())])
            writer.put(pa.table({"id": np.arange(number * rows, (number + 1) * rows), "note": notes}))

        put(0)  # what code and libraries take does not count
        writer.flush()
        say(ready=True)
        sys.stdin.readline()
        before, most_held, most_arrow = rss_bytes(), 0, 0
        for number in range(1, job["puts"]):
            put(number)
            held = writer.wal_stats().pending_bytes
            if writer.knobs.enable_memtable:
                stats = writer.memtable_stats()
                held += stats.bytes + stats.frozen_bytes
            most_held = max(most_held, held)
            most_arrow = max(most_arrow, pa.total_allocated_bytes())
        waits = writer.stats().backpressure_waits
    grown = rss_bytes() - before
    facts = {"held": most_held, "arrow": most_arrow, "grown": grown, "waits": waits, "rows": rows * job["puts"]}
    say(**facts)


main()
