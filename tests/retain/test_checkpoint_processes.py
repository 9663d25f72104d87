"""Checkpoints while other processes put rows, and checkpoints by several processes at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import crowd
import figures
import siltstone as ss
from shard_models import SCHEMA, ids_of
from sources import ROOT

PUTTER = Path(__file__).parent / "putter.py"
ROWS = 30
CALL = """
import sys
import siltstone as ss
from siltstone.errors import AlreadyExistsError
table = ss.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    print(table.checkpoint("before", scope=sys.argv[2]).id)
except AlreadyExistsError:
    print("taken")
"""


@contextlib.contextmanager
def putters(uri):
    """A writer of each of two shards; both end with the block, by SIGKILL."""
    made = [crowd.start({"uri": uri, "shard": n, "count": 2, "flush": True}, worker=PUTTER) for n in range(2)]
    try:
        for one in made:
            assert json.loads(one.stdout.readline()) == {"ready": True}
        yield made
    finally:
        for one in made:
            one.kill()
            figures.record("kills", one.wait() == -signal.SIGKILL)
            one.stdin.close()
            one.stdout.close()


def ask(writers, rows):
    for one in writers:
        one.stdin.write(b"%d\n" % rows)
        one.stdin.flush()


def hear(writers, rows):
    return {json.loads(one.stdout.readline())["put"] for one in writers for _ in range(rows)}


def ids_in(table):
    return set(table.scan(["id"]).to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("scope", ["all", "durable"])
def test_checkpoint__processes_put_meanwhile_and_are_killed__has_what_came_before_and_nothing_from_after(
    scope, tmp_path
):
    table = ss.create(tmp_path, schema=SCHEMA, key="id", shards=2)
    acknowledged, seen = set(), []
    asked = [[id_ for id_, _ in zip(ids_of(n, 2), range(1000), strict=False)] for n in range(2)]
    with putters(str(tmp_path)) as writers:
        for number in range(4):
            ask(writers, ROWS)
            acknowledged |= hear(writers, ROWS // 3)
            before = set(acknowledged)
            made = table.checkpoint(f"c{number}", scope=scope)
            seen.append((made, before, {id_ for ids in asked for id_ in ids[: ROWS * (number + 1)]}))
            acknowledged |= hear(writers, ROWS - ROWS // 3)
            table.merge_shards()
    for made, before, after in seen:
        assert before <= ids_in(table.at(checkpoint=made)) <= after
    with table.writer():  # whoever comes next finds all of them
        assert set(table.scan(["id"], fresh=True).to_arrow().column("id").to_pylist()) == acknowledged


@pytest.mark.parametrize("scope", ["all", "durable"])
def test_checkpoint__three_processes_at_once__one_checkpoint(scope, tmp_path):
    table = ss.create(tmp_path, schema=SCHEMA, key="id", shards=2)
    with table.writer() as writer:
        writer.put([{"id": id_, "n": 1, "note": "x"} for id_ in range(40)])
    words = [sys.executable, "-c", CALL, str(tmp_path), scope]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    calls = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) for _ in range(3)
    ]
    try:
        for one in calls:
            assert one.stdout.readline() == "ready\n"
        for one in calls:
            one.stdin.write("go\n")
            one.stdin.flush()
        said = [one.communicate(timeout=120)[0].strip() for one in calls]
    finally:
        for one in calls:
            one.kill()
            one.wait()
    (made,) = table.checkpoints()
    assert set(said) <= {made.id, "taken"}
    assert made.id in said
    assert len(ids_in(table.at(checkpoint=made))) == 40
