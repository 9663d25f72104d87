"""Eight processes of 500 commits each on one table: no row is lost or doubled, and no process grows."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import crowd
import figures
import siltstone as ss
from memory_used import GROWTH_MAX

WORKER = Path(__file__).parent / "load_worker.py"
WRITERS = 8
APPENDS = 500
ROWS = 3
EARLY = 100  # appends after which a process has loaded and cached what it needs
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("writer", pa.int64())])


def run(uri: str, told: Path) -> list[list[dict]]:
    """Let all of them append, and say what each was told."""
    told.mkdir()
    job = {"uri": uri, "writers": WRITERS, "appends": APPENDS, "rows": ROWS, "early": EARLY, "told": str(told)}
    process = crowd.start(job, worker=WORKER)
    try:
        line = process.stdout.readline()
        assert line, "the writers ended; what they said of that is above"
        assert json.loads(line)["statuses"] == [0] * WRITERS
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    return [
        [json.loads(line) for line in (told / f"{writer}").read_text(encoding="utf-8").splitlines()]
        for writer in range(WRITERS)
    ]


@pytest.mark.slow
def test_append__eight_processes_of_500_commits__each_row_is_there_once_and_memory_stays(tmp_path):
    uri = str(tmp_path / "table")
    table = ss.create(uri, schema=SCHEMA, sync=False)
    told = run(uri, tmp_path / "told")
    assert [one["error"] for facts in told for one in facts if "error" in one] == []
    assert sorted(one["version"] for facts in told for one in facts) == list(range(1, WRITERS * APPENDS + 1))
    assert table.version == WRITERS * APPENDS
    rows = table.scan().to_arrow()
    expected = [(writer * 1_000_000 + number, writer) for writer in range(WRITERS) for number in range(APPENDS * ROWS)]
    assert sorted(zip(rows["id"].to_pylist(), rows["writer"].to_pylist(), strict=True)) == expected
    figures.record("acknowledged under load", WRITERS * APPENDS)
    grown = [late / early - 1 for early, late in memory_of(told) if early and late]
    if not grown:
        warnings.warn("no process could say how much memory it takes: that part was left out", stacklevel=1)
    assert max(grown, default=0) < GROWTH_MAX, grown
    figures.record("processes under load that grew by less than 10 %", len(grown))


def memory_of(told: list[list[dict]]) -> list[list[int]]:
    """What each process took after its first appends, and at the end."""
    return [[one["resident"] for one in facts if "resident" in one] for facts in told]
