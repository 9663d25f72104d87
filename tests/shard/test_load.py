"""Four shards, ten minutes of puts, one call to the store in a hundred fails: no row is lost or doubled, memory stays.

The load runs beside the other tests (``tests/load_plugin.py`` starts it, ``load_run.py`` is it), and takes little of a
core. This test comes last and waits for what is left of the time. ``SILTSTONE_TEST_SECONDS`` lets it go on for as long.
"""

from __future__ import annotations

import fcntl
import json
import statistics
import time
import warnings
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

import figures
import siltstone as ss
from load_plugin import HOME, SECONDS
from memory_used import GROWTH_MAX

if TYPE_CHECKING:
    from pathlib import Path

SHARDS = ("a", "b", "c", "d")
POLL_S = 0.5
WAIT_MORE_S = 900
EARLY, LATE = (0.2, 0.3), (0.9, 1.0)  # parts of the time whose memory is compared
SETTLED_S = 300  # in less a process has not come to rest after a fifth of the time
OTHERS_GROWTH_MAX = 0.50  # of who reads: caches, which are bounded, fill while the table becomes five times as large


def wait(home: Path) -> dict:
    """What the load says of its end, when it comes."""
    assert home.exists(), "no load was started with this session"
    with (home / "alive").open("rb") as lock:
        while not (home / "ended").exists():
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(POLL_S)
            else:
                assert (home / "ended").exists(), f"the load is gone: {(home / 'output').read_text(errors='replace')}"
    return json.loads((home / "ended").read_text(encoding="utf-8"))


def told_of(home: Path) -> dict[str, list[dict]]:
    return {path.name: [*map(json.loads, path.read_text().splitlines())] for path in (home / "told").iterdir()}


def ids_of(lines: list[dict], word: str) -> list[int]:
    return [id_ for line in lines for id_ in line.get(word, ())]


def check_rows(scan, told: dict[str, list[dict]]) -> None:
    rows = scan.to_arrow()
    found = rows["id"].to_pylist()
    acknowledged = {id_ for shard in SHARDS for id_ in ids_of(told[shard], "acknowledged")}
    assert len(found) == len(set(found)), "rows are there twice"
    assert acknowledged <= set(found), f"acknowledged and lost: {sorted(acknowledged - set(found))[:5]}"
    assert set(found) <= {id_ for shard in SHARDS for id_ in ids_of(told[shard], "tries")}, "nobody put these"
    assert pc.all(pc.equal(rows["note"], "x" * 20)).as_py()


def growth(lines: list[dict]) -> float | None:
    """By which part a process grew, from a fifth of the time to its end; None where it can't be said."""
    looks = [(line["at"], line["resident"]) for line in lines if "resident" in line]
    early, late = ([taken for at, taken in looks if taken and first <= at <= last] for first, last in (EARLY, LATE))
    return statistics.median(late) / statistics.median(early) - 1 if early and late else None


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + WAIT_MORE_S)
def test_put__ten_minutes_with_one_call_of_a_hundred_failing__each_row_is_there_once_and_memory_stays(request):
    home = request.config.stash[HOME]
    ended = wait(home)
    told = told_of(home)
    assert [line["broken"] for lines in told.values() for line in lines if "broken" in line] == []
    assert ended["statuses"] == dict.fromkeys(told, 0)
    raised = [(name, line["message"]) for name, lines in told.items() for line in lines if "raised" in line]
    print(f"{ended['processor_s']} s of the processor in {SECONDS:.0f} s; raised: {raised}")
    table = ss.open(str(home / "table"), sync=False)
    check_rows(table.scan(fresh=True), told)
    table.merge_shards()
    check_rows(table.scan(), told)
    met = [line["met"] for lines in told.values() for line in lines if "met" in line]
    calls = sum(line["calls"] for lines in told.values() for line in lines if "calls" in line)
    faults = {kind: sum(one[kind] for one in met) for kind in met[0]}
    print(f"{calls} calls, {faults}")
    assert all(faults.values())
    grown = {name: growth(lines) for name, lines in told.items()}
    print(grown, [[line["resident"] >> 10 for line in lines if "resident" in line] for lines in told.values()])
    check_memory({name: one for name, one in grown.items() if one is not None})
    acknowledged = [line for shard in SHARDS for line in told[shard] if "acknowledged" in line]
    assert any("seen" in line for line in told["reader"])
    assert any("collected" in line for line in told["merger"])
    figures.record("acknowledged under load", len(acknowledged))
    figures.record("faults under load", sum(faults.values()))
    (home / "passed").touch()


def check_memory(grown: dict[str, float]) -> None:
    """Writers stay as they are; those who read the table do within wider bounds."""
    if not grown or SECONDS < SETTLED_S:
        warnings.warn("memory was not compared: it can't be seen here, or the time is too short", stacklevel=1)
        return
    writers = {name: one for name, one in grown.items() if name in SHARDS}
    assert max(writers.values()) < GROWTH_MAX, grown
    assert max(grown.values()) < OTHERS_GROWTH_MAX, grown
    figures.record("processes under load that grew by less than 10 %", len(writers))
