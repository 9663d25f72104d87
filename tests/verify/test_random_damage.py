"""Histories that only a lying or damaged store can make, and what repair makes of them.

Writers append behind marks that are old or were overwritten, the store lets every one of them win, and entries are
deleted or damaged in between. Whatever happened: what was acknowledged is in the log once after a repair.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from siltstone import paths
from siltstone.errors import SiltstoneError
from siltstone.log import open_log
from siltstone.store.base import Traits
from siltstone.store.memory import MemoryStore
from siltstone.store.wrapper import StoreWrapper
from siltstone.verify import repair, verify

WRITERS = 3
STEPS = 25


class Liar(StoreWrapper):
    """Lets every create win."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.traits = Traits(kind="memory", known_good=False, cheap_probes=False)

    def create(self, key: str, data: bytes) -> None:
        self.inner.put(key, data)


def live(store: Liar, chance: random.Random, *, damage: bool) -> set[str]:
    """Let writers and faults take turns; the operations that were acknowledged."""
    logs = [open_log(store, create=True, probe=False, writer=f"w{number}") for number in range(WRITERS)]
    marks = [logs[0].start]
    acknowledged = set()
    for step in range(STEPS):
        published = [info.key for info in store.list(paths.ENTRIES)]
        if damage and published and chance.random() < 0.15:
            hurt(store, chance.choice(published), chance)
            continue
        log, after, op = chance.choice(logs), chance.choice(marks[-4:]), f"{step:032x}"
        try:
            if chance.random() < 0.1:
                marks.append(log.fence(step + 1))
            else:
                marks.append(log.append(b"%d" % step, after=after, op=op))
                acknowledged.add(op)
        except SiltstoneError:
            continue
    return acknowledged


def hurt(store: Liar, key: str, chance: random.Random) -> None:
    if chance.random() < 0.5:
        store.delete([key])
        return
    data = bytearray(store.get(key))
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    store.put(key, bytes(data))


@pytest.mark.parametrize("damage", [False, True])
@pytest.mark.parametrize("block", range(5))
def test_repair__any_history_on_a_lying_store__acknowledged_operations_are_there_once(block, damage):
    overwritten = 0
    for seed in range(block * 40, block * 40 + 40):
        store = Liar()
        acknowledged = live(store, random.Random(seed), damage=damage)
        [before] = verify(store)
        overwritten += not before.ok
        repair(store)
        [after] = verify(store)
        assert after.ok, (seed, after.problems)
        ops = Counter(entry.op for entry in open_log(store, probe=False).entries() if entry.kind == "data")
        assert acknowledged <= set(ops), seed
        assert max(ops.values(), default=1) == 1, seed
        left = store.inner.bucket.objects.copy()
        repair(store)
        assert store.inner.bucket.objects == left, seed
        with open_log(store, probe=False) as log:
            log.add(b"life goes on")
    assert overwritten > 20  # else these histories prove nothing
