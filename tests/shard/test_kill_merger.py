"""Processes that merge are killed (SIGKILL) at any moment, while another one writes and a third one reads.

What must hold: every row that was acknowledged is there once, to fresh reads at any time and in the table at the end.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

import figures
import siltstone as ss
from shard_models import SCHEMA, content, number_of, plain, rows_of
from siltstone.shard.config import ShardWriterConfig

ROUNDS = 10

# It imports everything and then only forks: a child that begins to merge does so within milliseconds.
PARENT = """
import os, sys
import siltstone as ss
ss.open(sys.argv[1]).close()
for line in sys.stdin:
    children = []
    for _ in range(int(line)):
        child = os.fork()
        if child == 0:
            table = ss.open(sys.argv[1])
            while True:
                table.merge_shards()
        children.append(str(child))
    print(" ".join(children), flush=True)
    for child in children:
        os.waitpid(int(child), 0)
"""


class Mergers:
    """Processes that merge until they are killed."""

    def __init__(self, uri):
        self._parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(uri)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._running = []

    def start(self, count):
        self._parent.stdin.write(f"{count}\n")
        self._parent.stdin.flush()
        self._running = [int(one) for one in self._parent.stdout.readline().split()]

    def kill(self):
        for child in self._running:
            os.kill(child, signal.SIGKILL)
            figures.record("kills")
        self._running = []

    def close(self):
        self.kill()
        self._parent.kill()
        self._parent.communicate()


@pytest.fixture
def mergers_of(request):
    def start(uri):
        made = Mergers(uri)
        request.addfinalizer(made.close)
        return made

    return start


@pytest.mark.parametrize("memtable", [True, False], ids=["memtable", "WAL only"])
def test_merge_shards__two_mergers_are_killed_again_and_again__no_row_is_lost_or_doubled(
    tmp_path, mergers_of, memtable
):
    chance = random.Random(memtable)
    table, reader = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=2), ss.open(tmp_path / "t")
    mergers = mergers_of(tmp_path / "t")
    held, n = {}, 0
    with table.writer(ShardWriterConfig(enable_memtable=memtable, max_memtable_rows=40)) as writer:
        for _ in range(ROUNDS):
            mergers.start(2)
            # They live until they have merged some times, and a moment longer.
            merged, moments = reader.version + chance.randrange(1, 3), chance.randrange(12)
            while moments:
                moments -= reader.version >= merged
                n += 1
                values = {chance.randrange(60): n, 100 + n % 7: n}
                writer.put(rows_of(values))
                held |= values
                if n % 5 == 0:
                    gone = chance.randrange(60)
                    writer.delete([gone])
                    held.pop(gone, None)
            mergers.kill()
            assert content(reader.scan(fresh=True)) == plain(held)
    reader.merge_shards()
    assert content(reader.scan()) == content(reader.scan(fresh=True)) == plain(held)
    assert {number_of(id_, 2) for id_ in held} == {0, 1}
