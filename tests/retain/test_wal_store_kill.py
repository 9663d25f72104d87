"""Writers are killed (SIGKILL) while their WAL moves to another store: the next one has all that was acknowledged."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import crowd
import figures
import siltstone as ss
from wal_worlds import SCHEMA

VICTIM = Path(__file__).parent.parent / "shard" / "victim.py"
LIVES = 24
CALLS = 120  # of the table's store; opening takes about 60
WAL_CALLS = 25


def heard(parent, word):
    line = parent.stdout.readline()
    assert line, "the parent of the writers ended; what it said of that is above"
    return json.loads(line)[word]


def told_in(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def test_writer__killed_anywhere_while_its_wal_moves__the_next_one_has_every_row_once(tmp_path):
    chance = random.Random(7)
    parent = crowd.start({}, worker=VICTIM)
    ss.create(tmp_path / "table 0", schema=SCHEMA).close()
    moved = 0
    try:
        for number in range(LIVES):
            # Each table has lives without a WAL store, then lives with one: the first of these moves the WAL.
            place = tmp_path / f"table {number // 6}"
            told, wal = tmp_path / f"told {number // 6}", tmp_path / f"wal {number // 6}"
            if number % 6 == 0 and number:
                ss.create(place, schema=SCHEMA).close()
            other = number % 6 >= 2
            at_wal = other and chance.random() < 0.5
            job = {
                "uri": str(place),
                "options": {},
                "life": number,
                "config": {"max_memtable_rows": 6},
                "threads": 1,
                "told": str(told),
                "kill_at": 0 if at_wal else chance.randrange(20, CALLS),
                "after": chance.random() < 0.5,
                "wal": str(wal) if other else None,
                "kill_wal_at": chance.randrange(1, WAL_CALLS) if at_wal else 0,
            }
            parent.stdin.write(json.dumps(job).encode() + b"\n")
            parent.stdin.flush()
            heard(parent, "child")
            assert heard(parent, "ended") == signal.SIGKILL, "it was to be killed, and ended by itself"
            figures.record("kills")
            check(told, found=None)
            recorded = ss.open(place)._shards.a_place("a").manifest()
            moved += number % 6 == 2 and recorded is not None and recorded.read().wal.store is not None
    finally:
        parent.stdin.close()
        parent.wait()
    assert moved
    for number in range(LIVES // 6):
        with ss.open(tmp_path / f"table {number}", wal=tmp_path / f"wal {number}") as table:
            with table.shard("a").writer() as writer:
                writer.freeze()
            table.merge_shards()
            check(tmp_path / f"told {number}", found=table.scan(["id"]).to_arrow()["id"].to_pylist())


def check(told, *, found):
    """Whoever opened the shard had found all that was acknowledged before, once."""
    acknowledged, tried = set(), set()
    for facts in [*told_in(told), *([] if found is None else [{"found": found}])]:
        if "found" in facts:
            assert len(facts["found"]) == len(set(facts["found"])), "a row is there twice"
            assert acknowledged <= set(facts["found"]) <= tried
        tried |= set(facts.get("tries", ()))
        acknowledged |= set(facts.get("acknowledged", ()))
