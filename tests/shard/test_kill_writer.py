"""Writers of a shard are killed (SIGKILL) wherever they are: the next one has all that was acknowledged, and once."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from pathlib import Path

import pytest

import crowd
import figures
import siltstone as ss
from shard_worlds import SCHEMA

VICTIM = Path(__file__).parent / "victim.py"
LONGER = float(os.environ.get("SILTSTONE_TEST_SECONDS", "0")) > 0  # the soak asks for more
LIFE_S = 0.4
CALLS = (80, 400)  # to the store; taking a shard over takes about 60, and more where there is more to replay
CONFIGS = (
    {"max_memtable_rows": 6},
    {"max_memtable_rows": 15, "durable_write": False, "max_wal_flush_interval_ms": 1},
    {"enable_memtable": False},
    {"max_memtable_rows": 6, "max_unflushed_memtable_bytes": 2000, "max_wal_buffer_size": 100},
)


class Victims:
    """One life after another; what they were told."""

    def __init__(self, place, told: Path) -> None:
        self._place = place
        self._told = told
        self._parent = crowd.start({}, worker=VICTIM)
        self._lines = 0
        self.acknowledged: set[int] = set()
        self.tried: set[int] = set()
        self.reports = 0

    def life(self, number: int, chance: random.Random, *, kill_at: int = 0, after_s: float = 0.0) -> None:
        job = {
            "uri": self._place.uri,
            "options": self._place.options,
            "life": number,
            "config": chance.choice(CONFIGS),
            "threads": chance.choice([1, 1, 3]),
            "told": str(self._told),
            "kill_at": kill_at,
            "after": chance.random() < 0.5,
        }
        self._parent.stdin.write(json.dumps(job).encode() + b"\n")
        self._parent.stdin.flush()
        child = self._hear("child")
        death = threading.Timer(after_s, os.kill, (child, signal.SIGKILL))
        if not kill_at:
            death.start()
        assert self._hear("ended") == signal.SIGKILL, "it was to be killed, and ended by itself"
        figures.record("kills")
        death.cancel()
        self._read()

    def _hear(self, word: str) -> int:
        line = self._parent.stdout.readline()
        assert line, "the parent of the writers ended; what it said of that is above"
        return json.loads(line)[word]

    def _read(self) -> None:
        """Go through what a life said: whoever opened the shard must have found all that was acknowledged before."""
        lines = self._told.read_bytes().splitlines() if self._told.exists() else []
        for line in lines[self._lines :]:
            facts = json.loads(line)
            if "found" in facts:
                self.check(facts["found"])
                self.reports += 1
            self.tried.update(facts.get("tries", ()))
            self.acknowledged.update(facts.get("acknowledged", ()))
        self._lines = len(lines)

    def check(self, found: list[int]) -> None:
        assert len(found) == len(set(found)), "a row is there twice"
        assert self.acknowledged <= set(found), f"acknowledged and lost: {self.acknowledged - set(found)}"
        assert set(found) <= self.tried, "rows are there that nobody put"

    def close(self) -> None:
        self._parent.kill()
        self._parent.wait()
        self._parent.stdin.close()
        self._parent.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "by_itself", "from_outside"), [("file-nosync", 100, 25), ("faulty", 55, 20)], ids=["file", "s3"]
)
def test_writer__killed_anywhere_200_times__the_next_one_has_all_that_was_acknowledged_once(
    places, tmp_path, store, by_itself, from_outside
):
    place = places.store(store)
    table = ss.create(place.uri, schema=SCHEMA, storage_options=place.options or None)
    chance = random.Random(store)
    deaths = [("call", chance.randint(1, chance.choice(CALLS))) for _ in range(by_itself)]
    deaths += [("time", chance.uniform(0, LIFE_S)) for _ in range(from_outside)]
    if LONGER:
        chance, deaths = random.Random(), deaths * 5
    chance.shuffle(deaths)
    victims = Victims(place, tmp_path / "told")
    try:
        for number, (kind, when) in enumerate(deaths):
            victims.life(number, chance, **({"kill_at": when} if kind == "call" else {"after_s": when}))
            if number % 8 == 7:
                table.merge_shards()
    finally:
        victims.close()
    assert victims.reports > len(deaths) / 5, "most were killed before they had the shard"
    assert len(victims.acknowledged) > len(deaths), "most were killed before they put anything"
    with table.shard("a").writer() as writer:
        victims.check(writer.scan(["id"]).to_arrow().column("id").to_pylist())
    victims.check(
        ss.open(place.uri, storage_options=place.options or None).scan(["id"], fresh=True).to_arrow()["id"].to_pylist()
    )
    table.merge_shards()
    victims.check(table.scan(["id"]).to_arrow().column("id").to_pylist())
    assert table.shard("a").status().epoch > len(deaths) / 2
