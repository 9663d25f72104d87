"""Two to eight processes bring a build to its end at once, each killed (SIGKILL) at any time: always the same bytes.

A reader looks all the while. ``SILTSTONE_TEST_SECONDS`` lets them go on for longer, with other moments.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest

import crowd
import figures
import siltstone as ss
from build_worlds import SCHEMA, found, read_as_anyone, text_of
from siltstone import paths
from siltstone.store.local import LocalStore

SECONDS = float(os.environ.get("SILTSTONE_TEST_SECONDS", "0"))
FINALIZERS = Path(__file__).parent / "finalizers.py"
ROUNDS = 5
LIVES_MAX = 40
ROWS = 300


def rows(begin: int) -> pa.Table:
    numbers = range(begin, begin + ROWS)
    texts = [" ".join(text_of(number * step) for step in range(1, 9)) for number in numbers]
    return pa.table({"id": numbers, "body": texts, "stars": [n % 5 for n in numbers]}, schema=SCHEMA)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """(directory, build that is begun, build that is staged) of a table with six fragments."""
    home = tmp_path_factory.mktemp("kill") / "table"
    table = ss.create(str(home), schema=SCHEMA, key="id", sync=False)
    for number in range(6):
        table.append(rows(number * ROWS))
    fresh = table.begin_text_index("body", items=6)
    staged = table.begin_text_index("body", items=6)
    for item in range(staged.items):
        staged.run(item, threads=1)
    return home, fresh.name, staged.name


def finals(home: Path, build: str) -> dict[str, bytes]:
    folder = home / "indexes" / build
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file() and not one.name.startswith(".")}


@pytest.fixture(scope="module")
def parent():
    """The process whose children they are: it has loaded all that they need."""
    process = crowd.start({}, worker=FINALIZERS)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def one_life(parent, home: Path, build: str, call: str, *, count: int, seed: int, life_s: float) -> list[int]:
    """Let some processes live and die, and look at the build meanwhile; how each of them ended."""
    job = {"uri": str(home), "build": build, "call": call, "count": count, "seed": seed, "life_s": life_s}
    parent.stdin.write(json.dumps(job).encode() + b"\n")
    parent.stdin.flush()
    store, seen = LocalStore(home), False
    while not select.select([parent.stdout], [], [], 0)[0]:
        there = read_as_anyone(store, build)
        assert there or not seen, "the end was there, and is gone"
        seen = there
    line = parent.stdout.readline()
    assert line, "it ended by itself; what it said of that is above"
    ends = json.loads(line)["ends"]
    assert set(ends) <= {0, -signal.SIGKILL}, "one ended with an error; what it said of that is above"
    figures.record("kills", ends.count(-signal.SIGKILL))
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("call", ["finalize", "run_all"])
def test_build__many_processes_killed_at_any_time__same_bytes(place, parent, tmp_path, call):
    template, fresh, staged = place
    build = staged if call == "finalize" else fresh
    # What one alone makes of it.
    alone = tmp_path / "alone"
    shutil.copytree(template, alone)
    one_life(parent, template, build, "missing", count=1, seed=0, life_s=0)  # it has begun to listen
    began = time.monotonic()
    one_life(parent, alone, build, call, count=1, seed=0, life_s=0)
    life_s = 3 * (time.monotonic() - began)  # several at once take longer
    table = ss.open(str(alone), sync=False)
    table.index_build(build).commit()
    expected, answer = finals(alone, build), found(table)
    chance = random.Random(call)
    ends, round_, reached, until = [], 0, 0, time.monotonic() + SECONDS
    while round_ < ROUNDS or time.monotonic() < until:
        round_ += 1
        home = tmp_path / "table"
        shutil.copytree(template, home)
        for _ in range(LIVES_MAX):
            crew, seed = chance.randint(2, 8), chance.randrange(2**32)
            ends += one_life(parent, home, build, call, count=crew, seed=seed, life_s=life_s)
            ended = (home / "indexes" / build / paths.MARKER).exists()
            if ended or (round_ > 1 and chance.random() < 0.3):
                break
        reached += ended
        table = ss.open(str(home), sync=False)
        table.index_build(build).run_all()
        assert finals(home, build) == expected
        assert found(table) == answer
        assert [(one.segments, one.unindexed_rows) for one in table.indexes()] == [(1, 0)]
        shutil.rmtree(home)
    assert -signal.SIGKILL in ends, "nobody was killed"
    assert reached, "nobody got to the end"
