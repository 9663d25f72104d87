"""Writers are killed (SIGKILL) wherever they are: what they were told is in the log once, and the next one goes on."""

from __future__ import annotations

import json
import random
import signal
import threading

import pytest

import crowd
import figures
from places import StorePlace
from siltstone.log import open_log

WAVES, WAVES_MAX = 5, 50
WRITERS = 4  # 20 kills for each kind of log
LIFE_S = (0.0, 0.35)


def wave(asked, chance, *, longer=1):
    """Start writers, kill each at a time of its own, and return what they were told before."""
    told = []
    with crowd.started(asked, WRITERS) as writers:
        deaths = [threading.Timer(longer * chance.uniform(*LIFE_S), writer.kill) for writer in writers]
        for writer, death in zip(writers, deaths, strict=True):
            writer.stdin.write(b"go\n")
            writer.stdin.flush()
            death.start()
        for writer, death in zip(writers, deaths, strict=True):
            told += [json.loads(line) for line in writer.stdout.read().splitlines()]
            death.join()
            assert writer.wait() != 0, "it was to be killed, and ended by itself"
            figures.record("kills", writer.returncode == -signal.SIGKILL)
    return told


@pytest.mark.parametrize(
    ("store", "commits"), [("file", ""), ("file", "sqlite"), ("faulty", "")], ids=["file", "sqlite", "s3"]
)
def test_add__writers_are_killed_at_any_time__what_was_acknowledged_is_there_once(places, store, commits):
    place = places.store(store)
    commits_uri = places.commits_uri(commits) if commits else None
    options = place.options or None
    open_log(place.uri, storage_options=options, commits=commits_uri, create=True).close()
    asked = {
        "uri": place.uri,
        "options": place.options,
        "commits": commits_uri,
        "adds": 10**6,
        "open": {"probe": False},
    }
    chance = random.Random(f"{store} {commits}")
    acknowledged = set()
    waves = 0
    while waves < WAVES or len(acknowledged) <= 3 * waves:  # a busy machine takes longer to write anything
        assert waves < WAVES_MAX, "the writers were killed before they wrote anything"
        told = wave(asked, chance, longer=1 + waves // WAVES)
        waves += 1
        assert not [line for line in told if "error" in line]
        acknowledged |= {(line["position"], line["digest"]) for line in told}
        log = open_log(place.uri, storage_options=options, commits=commits_uri, probe=False)
        end = log.add(b"the next writer")
        acknowledged.add((end.position, end.digest))
        entries = list(log.entries())
        there = {(entry.end.position, entry.end.digest) for entry in entries}
        assert acknowledged <= there
        assert len({entry.op for entry in entries}) == len(entries)
        log.close()


def test_add__writer_is_killed_while_it_makes_the_log__the_next_one_makes_or_opens_it(places):
    chance = random.Random(7)
    for _ in range(6):
        place = places.store("file")
        asked = {"uri": place.uri, "options": {}, "commits": None, "adds": 10**6, "open": {"create": True}}
        writer = crowd.start(asked)
        death = threading.Timer(chance.uniform(0.2, 0.6), writer.kill)
        death.start()
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
        told = [json.loads(line) for line in writer.stdout.read().splitlines()]
        death.join()
        figures.record("kills", writer.wait() == -signal.SIGKILL)
        writer.stdin.close()
        writer.stdout.close()
        log = open_log(StorePlace(*place).uri, create=True)
        log.add(b"next")
        there = {(entry.end.position, entry.end.digest) for entry in log.entries()}
        assert {(line["position"], line["digest"]) for line in told if "position" in line} <= there
