"""One operation, run by two at once, is in the log once."""

from __future__ import annotations

from siltstone.log import open_log
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.wrapper import StoreWrapper

OP = "5" * 32


class Crowded(StoreWrapper):
    """Before each create of an entry, others get in first."""

    def __init__(self, inner, crowd):
        super().__init__(inner)
        self._crowd = iter(crowd)

    def create(self, key, data):
        if "entries/" in key:
            next(self._crowd, lambda: None)()
        super().create(key, data)


def test_add__same_op_lands_where_a_crowded_writer_skips_ahead__is_there_once():
    bucket = MemoryBucket()
    other = open_log(MemoryStore(bucket=bucket), create=True, probe=False)

    def rush():
        other.add(b"third")
        other.add(b"the operation", op=OP)
        other.add(b"fifth")

    crowd = [lambda: other.add(b"first"), lambda: other.add(b"second"), rush]
    late = open_log(Crowded(MemoryStore(bucket=bucket), crowd), probe=False)
    mark = late.add(b"the operation", op=OP)
    assert [entry.op for entry in other.entries()].count(OP) == 1
    assert mark == other.find(OP).end
