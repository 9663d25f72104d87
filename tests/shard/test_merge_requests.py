"""What a merge asks of the store: each entry of a WAL once, however many there are, and a few to find its end."""

from __future__ import annotations

from collections import Counter

import pytest

import siltstone as ss
from shard_models import SCHEMA
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.wrapper import StoreWrapper

PUTS, FEW = 20, 4


class Watched(StoreWrapper):
    """Counts reads of single objects by their names."""

    def __init__(self, inner):
        super().__init__(inner)
        self.reads = Counter()

    def get(self, key, **options):
        self.reads[key] += 1
        return super().get(key, **options)

    def get_many(self, keys, **options):
        keys = list(keys)
        self.reads.update(keys)
        return super().get_many(keys, **options)


def put_rows(bucket, once):
    table = ss.create(MemoryStore(bucket=bucket), schema=SCHEMA, key="id", shards=1)
    with table.shard(0).writer(ss.ShardWriterConfig(enable_memtable=False)) as writer:
        for number in range(PUTS):
            writer.put([{"id": number, "n": number, "note": "x"}], once=f"put {number}" if once else None)


@pytest.mark.parametrize("once", [False, True])
def test_merge_shards__many_entries__each_is_read_once_and_ids_of_puts_are_kept(once):
    bucket = MemoryBucket()
    put_rows(bucket, once)
    store = Watched(MemoryStore(bucket=bucket))
    table = ss.open(store)
    store.reads.clear()
    assert table.merge_shards().operation == "merge"
    entries = {key: count for key, count in store.reads.items() if "/wal/entries/" in key}
    assert len(entries) >= PUTS
    assert sum(entries.values()) <= len(entries) + FEW, "more than finding the end takes"
    with ss.open(MemoryStore(bucket=bucket)).shard(0).writer() as writer:
        writer.put([{"id": 0, "n": 99, "note": "again"}], once="put 0" if once else None)
    found = ss.open(MemoryStore(bucket=bucket)).get([0], fresh=True).to_pylist()
    assert found[0]["n"] == (0 if once else 99)
