"""Whoever works with a table is killed (SIGKILL) right before and right after calls to its store, one call a time.

After each kill the table is looked at whole: it holds what was there before, or all that the work makes of it; and
another process that does the same work brings it to its end. One table goes through all of them. In the soak every
call is one that kills.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import crowd
import figures
import shares
import siltstone as ss
from kill_works import SCHEMA, WORKS, as_table, read, rows_of

DOOMED = Path(__file__).parent / "doomed.py"
LEAST, MOST = 3, 24  # kills of one work, but for the soak
TIDY_EVERY = 10  # rounds


@pytest.fixture(scope="module")
def parent():
    """The process whose children they are: it has loaded all that they need."""
    process = crowd.start({}, worker=DOOMED)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


class Scene:
    """One table, and those who die at it."""

    def __init__(self, home: Path, parent) -> None:
        self._home = home
        self._parent = parent
        self._rounds = 0
        with ss.create(home / "table", schema=SCHEMA, key="id", shards=2, probe=False, sync=False) as table:
            table.append(as_table(rows_of(0)))

    def play(self, name: str, kill_at: int, *, after: bool, at_clone: bool) -> int:
        """One round: how many were killed at that call, or with none, how many calls there are."""
        self._rounds += 1
        work = WORKS[name](self._rounds, self._home)
        with self._open() as table:
            self._tidy(table)
            work.prepare(table)
            before = read(table)
        done = work.after(before)
        job = {"work": name, "number": self._rounds, "home": str(self._home)}
        ended = self._let_die(job | {"kill_at": kill_at, "after": after, "at_clone": at_clone})
        assert ended in ({signal.SIGKILL, 0} if kill_at else {0}), "what it said of that is above"
        with self._open() as table:
            found = read(table)
            if ended and work.in_parts:
                assert before.items() <= found.items() <= done.items()
            else:
                assert found in ((before, done) if ended else (done,))
            work.do(table, work.clone)
            assert read(table) == done
            work.check(table, done)
        assert all(one.ok for one in ss.verify(self._home / "table"))
        figures.record("kills", bool(ended))
        return bool(ended) if kill_at else int((self._home / "calls").read_text())

    def _tidy(self, table) -> None:
        """Keep it small: what was done before is not what is tried here."""
        table.merge_shards()
        if self._rounds % TIDY_EVERY == 0:
            table.compact()
            table.gc(keep_days=0)

    def _open(self):
        return ss.open(self._home / "table", probe=False, sync=False)

    def _let_die(self, job: dict) -> int:
        self._parent.stdin.write(json.dumps(job).encode() + b"\n")
        self._parent.stdin.flush()
        return json.loads(self._parent.stdout.readline())["ended"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", WORKS)
def test_work__killed_at_a_call__all_of_it_or_nothing_is_there_and_another_one_ends_it(tmp_path, parent, name, after):
    scene = Scene(tmp_path, parent)
    for at_clone in {False, WORKS[name].makes_clone}:
        calls = scene.play(name, 0, after=after, at_clone=at_clone)
        places = shares.some(range(1, calls + 1), -(-calls // MOST))
        kills = sum(scene.play(name, kill_at, after=after, at_clone=at_clone) for kill_at in places)
        assert kills >= LEAST
