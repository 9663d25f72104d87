"""A runner that is killed anywhere, and started again until it is done, has applied every step once.

The last runner is one of this process, whose session runs already. ``SILTSTONE_TEST_SECONDS`` lets it go on for longer,
with other moments.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time

import pytest

import siltstone
from siltstone.errors import SiltstoneError
from siltstone.pipeline import load_pipeline, run_pipeline

SECONDS = float(os.environ.get("SILTSTONE_TEST_SECONDS", "0"))
KILLS = 4 if SECONDS else 2
RUNS_MAX = 20
FILES, EACH = 4, 50
# Without a key: a row that is written twice is there twice.
STEPS = """\
  - create: {table: "${t}", schema: {id: int64, stars: int64, body: string}}
  - stream: {from: "${here}/in", format: json, into: "${t}", checkpoint: "${here}/cp", files_per_batch: 1}
  - append: {from: "${here}/more", format: json, into: "${t}"}
  - update: {table: "${t}", set: {stars: stars + 1}}
  - tag: {table: "${t}", name: counted}
  - update: {table: "${t}", set: {stars: stars * 10}, where: id < 100}
  - delete: {table: "${t}", where: id = 199}
  - compact: {table: "${t}"}
  - append: {from: "${here}/more", format: json, into: "${t}"}
  - check: {table: "${t}", rows: 219}
  - create: {table: "${here}/sharded", key: id, shards: 2, schema: {id: int64, stars: int64, body: string}}
  - stream:
      {from: "${here}/in", format: json, into: "${here}/sharded", checkpoint: "${here}/cp2", files_per_batch: 2,
       operation: ingest}
  - ingest: {from: "${here}/more", format: json, into: "${here}/sharded"}
  - merge: {table: "${here}/sharded"}
  - update: {table: "${here}/sharded", set: {stars: stars + 1}}
  - ingest: {from: "${here}/more", format: json, into: "${here}/sharded"}
  - check: {table: "${here}/sharded", rows: 210, fresh: true}
"""
# create, the batches, six steps with a mark each, the stream's own, a compaction; then create, and five steps
LAST_VERSION = FILES + 9 + 6


@pytest.mark.slow
@pytest.mark.timeout(400 * RUNS_MAX)
def test_run__killed_again_and_again__applies_every_step_once(yard, spark, tmp_path_factory):
    ends = time.monotonic() + SECONDS
    for seed in itertools.count():
        place = yard if seed == 0 else type(yard)(tmp_path_factory.mktemp("yard"))
        kill_and_count(place, spark, random.Random(seed))
        if time.monotonic() >= ends:
            return


def kill_and_count(yard, spark, dice):
    for number in range(FILES):
        yard.rows("in", f"{number}.json", *range(number * EACH, (number + 1) * EACH))
    yard.rows("more", "a.json", *range(1000, 1010))
    path = yard.write(STEPS)
    for version in sorted(dice.sample(range(LAST_VERSION), KILLS)):
        wanted = max(version, newest(yard) + 1)
        killed = yard.run_until(path, lambda wanted=wanted: newest(yard) >= wanted, delay=dice.uniform(0, 1.5))
    killed.wait()
    for _ in range(RUNS_MAX):
        with contextlib.suppress(SiltstoneError):
            run_pipeline(load_pipeline(path), spark=spark)
            break
    else:
        pytest.fail(f"not done after {RUNS_MAX} runs")
    table = yard.open()
    marks = [mark for version in table.history() for mark in version.once]
    steps = sorted(mark.partition("#")[0].rpartition("/")[2] for mark in marks)
    assert steps == ["2-stream", "3-append", "4-update", "5-tag", "6-update", "7-delete", "9-append"]
    found = table.scan().to_arrow().to_pylist()
    expected = [(one, 40 if one < 100 else 4) for one in range(199)]
    expected += [(one, stars) for one in range(1000, 1010) for stars in (3, 4)]
    assert sorted((row["id"], row["stars"]) for row in found) == sorted(expected)
    sharded = yard.open("sharded").scan(["id", "stars"], fresh=True).to_arrow().to_pylist()
    wanted = [(one, 4) for one in range(200)] + [(one, 3) for one in range(1000, 1010)]
    assert sorted((row["id"], row["stars"]) for row in sharded) == wanted
    counted = table.at(tag="counted")
    assert (counted.count(), counted.count("stars = 4")) == (FILES * EACH + 10, FILES * EACH + 10)


def newest(yard):
    """How many versions there are, of both tables, but for one."""
    found = -1
    for name in ("table", "sharded"):
        try:
            with siltstone.open(yard.root / name, probe=False) as table:
                found += table.version + 1
        except SiltstoneError:  # not there yet
            break
    return found
