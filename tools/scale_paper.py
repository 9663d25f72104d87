"""Tables of many versions, and tables of many fragments, without their data files.

What must hold:
- A history is made by the package's own commits, on a store that behaves as one behind a network does.
- A table of many fragments is one of 32 versions whose rollup was replaced by one that names more fragments. Names and
  digests are random, as real ones are, so that they take as many bytes. Whoever reads metadata can't tell.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

import siltstone as ss
from scale_operations import ROWS, rows
from siltstone import paths
from siltstone.env import REAL
from siltstone.format.rollup import decode_rollup, encode_rollup
from siltstone.log import open_log
from siltstone.store.base import Traits
from siltstone.store.memory import MemoryStore
from siltstone.store.wrapper import StoreWrapper
from siltstone.table.commit import commit
from siltstone.table.history import ROLLUP_EVERY, History
from siltstone.table.operations import Work
from siltstone.table.tools import make_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from siltstone.table.draft import Draft

FAR = Traits(kind="s3", known_good=True, cheap_probes=False, threads=False)
FRAGMENT_BYTES = 64 * 1024 * 1024


class FarMemory(StoreWrapper):
    """Objects in memory, for code that takes them to be behind a network."""

    def __init__(self) -> None:
        self._memory = MemoryStore()
        super().__init__(self._memory)
        self.traits = FAR

    @property
    def objects(self) -> dict[str, bytes]:
        """Every object."""
        return {key: data for key, (data, _) in self._memory.bucket.objects.items()}


class _Sets(Work):
    """The least that a version can be of."""

    operation = "settings"

    def __init__(self, number: int) -> None:
        self._number = number

    def run(self, draft: Draft) -> None:
        draft.set_labels(tags=None, settings={"number": str(self._number)})


class Past(NamedTuple):
    """A table after so many versions."""

    versions: int
    objects: dict[str, bytes]

    @property
    def log_bytes(self) -> int:
        """Bytes of the log's entries."""
        return _size(self.objects, f"{paths.LOG}{paths.ENTRIES}")

    @property
    def rollup_bytes(self) -> int:
        """Bytes of all rollups."""
        return _size(self.objects, paths.ROLLUPS)


def _size(objects: dict[str, bytes], prefix: str) -> int:
    return sum(len(data) for key, data in objects.items() if key.startswith(prefix))


def grow(milestones: Iterable[int]) -> Iterator[Past]:
    """A keyed table of one fragment when its newest version has such a number."""
    store = _founded(rows(0).schema)
    log = open_log(store, root=paths.LOG, probe=False)
    history, tools = History(log), make_tools(store, REAL)
    state = history.newest()
    for milestone in milestones:
        while state.version < milestone:
            state = commit(tools, history, state, [_Sets(state.version)], base=state.version).state
        yield Past(state.version, store.objects)


def _founded(schema: pa.Schema) -> FarMemory:
    store = FarMemory()
    with ss.create(store, schema=schema, key="id", guard="receipt", probe=False) as table:
        columns = {name: [f"{name}-{n}" for n in range(ROWS)] for name in schema.names if name != "id"}
        table.append(pa.table({"id": range(ROWS), **columns}, schema=schema))
    return store


def wide_schema(columns: int) -> pa.Schema:
    """A key and texts."""
    return pa.schema([("id", pa.int64()), *((f"c{number}", pa.string()) for number in range(columns - 1))])


def large(fragments: int, *, columns: int) -> dict[str, bytes]:
    """The objects of a table of so many fragments and columns."""
    store = _founded(wide_schema(columns))
    log = open_log(store, root=paths.LOG, probe=False)
    history, tools = History(log), make_tools(store, REAL)
    state = history.newest()
    while state.mark.position < ROLLUP_EVERY:
        state = commit(tools, history, state, [_Sets(state.version)], base=state.version).state
    key = paths.rollup(ROLLUP_EVERY)
    found = decode_rollup(store.get(key), name=key)
    header = found.header
    data = encode_rollup(
        found.summary,
        _many(found.fragments, fragments),
        found.versions,
        log=header.log,
        since=header.since,
        position=header.position,
        epoch=header.epoch,
        digest=header.digest,
    )
    return {**store.objects, key: data}


def _many(sample: pa.Table, count: int) -> pa.Table:
    """So many fragments like one, with names, digests and keys of their own."""
    lows = np.arange(count, dtype=np.int64) * ROWS
    own: dict[str, Any] = {
        "name": pa.array([paths.name(number % ROLLUP_EVERY, os.urandom(16).hex()) for number in range(count)]),
        "rows": pa.array(np.full(count, ROWS)),
        "bytes": pa.array(np.random.default_rng(1).integers(FRAGMENT_BYTES // 2, FRAGMENT_BYTES, count)),
        "sha256": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(32), count, [None, pa.py_buffer(os.urandom(32 * count))]
        ),
        "low.1": pa.array(lows),
        "high.1": pa.array(lows + ROWS - 1),
    }
    arrays = []
    for field in sample.schema:
        one = own.get(field.name)
        arrays.append(one if one is not None else pa.repeat(sample.column(field.name)[0], count).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=sample.schema)


def store_of(objects: dict[str, bytes]) -> FarMemory:
    """A store of its own with these objects."""
    store = FarMemory()
    for key, data in objects.items():
        store.put(key, data)
    return store
