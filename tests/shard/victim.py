"""A writer of a shard that is killed (SIGKILL): by itself at some call to its store, or from outside.

Each line of its input is a job in JSON: ``{"uri", "options", "life", "config", "threads", "told": path, "kill_at",
"after"}``, with "wal" for another store of its WAL and "kill_wal_at" for a call to that. A child does it, which can be
killed alone: ``{"child": its id}`` is said when it begins, and ``{"ended"}`` when it is gone. First it says which rows
it found in the shard, then it puts rows for as long as it lives. What it finds, tries and is told goes to the file
``told``, a line each: a kill loses none.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import traceback

import pyarrow as pa

from deadly import Deadly
from siltstone.api import open_table
from siltstone.shard.config import ShardWriterConfig
from siltstone.store.connect import open_store
from siltstone.table.tools import make_tools

pa.array([0])  # loads what pyarrow loads at first use, so that no child has to; starts no thread
LIFE = 1_000_000  # ids of one life
PUTS_MAX = 20_000  # nobody lives so long
WAITS_EVERY = 10
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])


class Victim:
    def __init__(self, job: dict) -> None:
        self._job = job
        self._file = os.open(job["told"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._numbers = itertools.count(job["life"] * LIFE)

    def note(self, **facts) -> None:
        # One write for one line: a kill leaves a line whole or out.
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def live(self) -> None:
        job = self._job
        store = open_store(job["uri"], job["options"] or None)
        if job["kill_at"]:
            store = Deadly(store, job["kill_at"], after=job["after"])
        wal = job.get("wal")
        if wal is not None and job.get("kill_wal_at"):
            wal = Deadly(open_store(wal), job["kill_wal_at"], after=job["after"])
        table = open_table(store, probe=False, wal=wal)
        config = ShardWriterConfig(**job["config"])
        writer = table.shard("a").writer(config, name=f"life {job['life']}")
        self.note(found=self.found(table, writer))
        threads = [threading.Thread(target=self.put, args=(writer,)) for _ in range(job["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def found(self, table, writer) -> list[int]:
        """All rows of the shard as its writer has them, and those of the table."""
        if not writer.knobs.enable_memtable:
            return table.scan(["id"], fresh=True).to_arrow().column("id").to_pylist()
        state, chunks, _ = writer.chunks(table._looked().schema, durable_only=True)
        files = make_tools(writer.place.store, table._log.env).files
        merged = table._looked().shards["a"].position
        parts = [table.scan(["id"]).to_arrow()]
        for one in state.fragments:
            if one.until > merged:
                assert one.first >= merged
                file = files.open(one.fragment)
                parts += [file.read(n, table._looked().schema.fields[:1]) for n in range(len(file.groups))]
        parts += [chunk.rows.select(["id"]) for chunk in chunks]
        return pa.concat_tables([part.cast(parts[0].schema) for part in parts]).column("id").to_pylist()

    def put(self, writer) -> None:
        waiting = []
        for number in range(PUTS_MAX):
            ids = list(itertools.islice(self._numbers, 1 + number % 3))
            self.note(tries=ids)
            ack = writer.put(pa.table({"id": ids, "note": ["x" * 20] * len(ids)}, schema=SCHEMA))
            waiting.append((ids, ack))
            if number % WAITS_EVERY == 0:  # a writer that waits for nothing makes few calls
                ack.wait()
            while waiting and waiting[0][1].done:
                self.note(acknowledged=waiting.pop(0)[0])


def say(**facts) -> None:
    os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


def main() -> None:
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            try:
                Victim(json.loads(line)).live()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        say(child=child)
        say(ended=os.waitpid(child, 0)[1])


main()
