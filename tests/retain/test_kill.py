"""Writers, keepers, cloners, collectors and readers, each killed (SIGKILL) again and again, on one table.

Nothing that was acknowledged or kept is lost meanwhile, nor in the end; and what is collected then leaves no data file
that nobody names. ``SILTSTONE_TEST_SECONDS`` lets them go on for longer.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import crowd
import siltstone as ss
from siltstone.errors import NotFoundError
from told_lines import Told, digest_of, ids_of

SECONDS = float(os.environ.get("SILTSTONE_TEST_SECONDS", "20"))
MORTAL = Path(__file__).parent / "mortal.py"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
ROLES = ("shard_writer", "upserter", "merger", "keeper", "cloner", "collector", "reader")


def live(home: Path) -> int:
    """Let all of them live and die; how many lives that were."""
    jobs = [{"role": role, "home": str(home), "seconds": SECONDS, "seed": seed} for seed, role in enumerate(ROLES, 1)]
    started = [crowd.start(job, worker=MORTAL) for job in jobs]
    try:
        said = [one.stdout.readline() for one in started]
        assert all(said), "one ended by itself; what it said of that is above"
        return sum(json.loads(line)["lives"] for line in said)
    finally:
        for one in started:
            one.kill()
            one.wait()
            one.stdin.close()
            one.stdout.close()


def named(table) -> set[str]:
    """Data files and deletion vectors that versions name that are kept."""
    now = table._now()
    found = set()
    for version in {*range(now.floor, now.version + 1), *now.kept}:
        for one in table._history.at(version).fragments:
            found.add(f"data/{one.fragment.name}.parquet")
            if one.vector is not None:
                found.add(f"vectors/{one.vector.name}.bits")
    return found


def check_garbage(table) -> None:
    """A collection of all that is over leaves what is named, and nothing else."""
    table.upsert([{"id": -1, "note": "the last"}])  # what was abandoned before is older than the floor then
    for _ in range(2):
        table.gc(keep_days=0)
    store = table._log.store
    assert {info.key for folder in ("data", "vectors") for info in store.list(folder)} <= named(table)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_everyone__killed_all_the_time__nothing_is_lost_and_nothing_is_left(tmp_path):
    (tmp_path / "clones").mkdir()
    table = ss.create(str(tmp_path / "table"), schema=SCHEMA, key="id", shards=2)
    table.append([{"id": 0, "note": "the first"}])
    told = Told(tmp_path)
    lives = live(tmp_path)
    lines = told.lines()
    assert [line["broken"] for line in lines if "broken" in line] == []
    assert told.acknowledged() <= set(ids_of(table.at(version=table.merge_shards().version)))
    for name, one in told.held("kept").items():
        assert digest_of(ids_of(table.at(checkpoint=name))) == one["digest"], name
    clones = told.held("cloned")
    for uri, one in clones.items():
        assert digest_of(ids_of(ss.open(uri))) == one["digest"], uri
    for uri in {line["begins"] for line in lines if "begins" in line} - clones.keys():
        ss.drop(uri, missing_ok=True)
        with pytest.raises(NotFoundError):
            ss.open(uri)
    for uri in clones:
        check_garbage(ss.open(uri))
    check_garbage(table)
    for uri, one in clones.items():
        assert digest_of([id_ for id_ in ids_of(ss.open(uri)) if id_ != -1]) == one["digest"], uri
    for name, one in told.held("kept").items():
        assert digest_of(ids_of(table.at(checkpoint=name))) == one["digest"], name
    done = {word for line in lines for word in line}
    assert {"acknowledged", "kept", "cloned"} <= done
    assert lives > SECONDS
