"""One clone made by two processes at once, one of which is killed at a write: one clone, whole, and one pin."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import crowd
import figures
import siltstone as ss
from clone_worlds import SCHEMA, content, numbered, rows_of

CLONER = Path(__file__).parent / "cloner.py"
NEVER = -1
# The writes of a clone before its last one; the soak tries all of them.
WRITES_MAX = 12
DIES_AT = range(WRITES_MAX) if "SILTSTONE_TEST_SECONDS" in os.environ else (0, 3, 5)


def make_parent(uri):
    """A table whose checkpoint has rows of fragments and of a WAL."""
    table = ss.create(uri, schema=SCHEMA, key="id", shards=1)
    table.append(rows_of(numbered(0, 6)))
    table.delete("id = 2")
    with table.writer() as writer:
        writer.put(rows_of({7: "put"}))
        table.checkpoint("kept", scope="durable")
    return {id_: text for id_, text in (numbered(0, 6) | {7: "put"}).items() if id_ != 2}


def together(jobs):
    """What processes said that began at the same time, None where one was killed."""
    started = [crowd.start(job, worker=CLONER) for job in jobs]
    said = []
    try:
        for one in started:
            assert json.loads(one.stdout.readline()) == {"ready": True}
        for one in started:
            one.stdin.write(b"go\n")
            one.stdin.flush()
        for one in started:
            text = one.stdout.read()
            assert one.wait() in {0, -signal.SIGKILL}
            figures.record("kills", one.returncode == -signal.SIGKILL)
            said.append(json.loads(text) if text else None)
    finally:
        for one in started:
            one.kill()
            one.wait()
            one.stdin.close()
            one.stdout.close()
    return said


@pytest.mark.parametrize("dies_at", DIES_AT)
def test_clone__by_two_processes_one_of_which_is_killed__one_clone_whole_and_one_pin(dies_at, tmp_path):
    parent, clone = str(tmp_path / "parent"), str(tmp_path / "clone")
    expected = make_parent(parent)
    job = {"parent": parent, "clone": clone, "at": "kept"}
    killed, whole = together([job | {"dies_at": dies_at}, job | {"dies_at": NEVER}])
    (again,) = together([job | {"dies_at": NEVER}])
    for said in filter(None, (killed, whole, again)):
        assert said["rows"] == len(expected)
    assert whole is not None
    assert again["version"] == whole["version"]
    made = ss.open(clone)
    assert content(made) == expected
    assert [one.operation for one in made.history()].count("clone") == 1
    assert [one.holder for one in ss.open(parent).checkpoints() if one.holder] == [made.uri]
    made.append(rows_of({99: "next"}))
    assert content(ss.open(clone)) == expected | {99: "next"}
    assert content(ss.open(parent)) == {id_: text for id_, text in expected.items() if id_ != 7}


def test_clone__a_process_alone__writes_more_often_than_any_dies_at(tmp_path):
    parent = str(tmp_path / "parent")
    make_parent(parent)
    (said,) = together([{"parent": parent, "clone": str(tmp_path / "clone"), "at": "kept", "dies_at": NEVER}])
    assert 5 < said["writes"] <= WRITES_MAX
