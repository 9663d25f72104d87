"""Two thousand changes of each kind of object, and a cut at each of its bytes: refused, or harmless, within 1 GiB."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys

import msgspec
import pyarrow as pa
import pytest

import figures
import siltstone as ss
from bad_tables import QUICK
from format import mutants
from parquet_files import encoded
from siltstone import paths
from siltstone.format.parquet import footer_start
from siltstone.format.records import decode_entry
from siltstone.store.memory import MemoryBucket, MemoryStore
from sources import ROOT

MUTATIONS = 2000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string()), ("x", pa.float64())])
# Their bytes have a checksum of their own: nothing else is ever taken for them. Records without one are part of an
# object that has one, or are named with their digest.
SEALED = ("identity", "version", "rollup", "deletion vector", "Parquet file")
PLAIN = ("version body", "manifest body", "WAL body", "index marker", "index plan", "Parquet footer")


def rows(count):
    return [{"id": number, "body": f"word{number % 7} late", "x": number / 3} for number in range(count)]


def objects() -> tuple[dict[str, bytes], bytes]:
    """An object, or a part of one, of each kind, as tables have them; and the record of the columns."""
    store = MemoryStore(bucket=MemoryBucket())
    table = ss.create(store, schema=SCHEMA, key="id", shards=1, probe=False, env=QUICK)
    table.append(rows(mutants.ROWS))
    table.delete("id % 10 = 3")
    table.create_text_index("body")
    for number in range(32):
        table.set({"turn": str(number)})
    with table.writer() as writer:
        writer.put(rows(3))
    columns = table._looked().schema

    def last(folder, end=""):
        return store.get([info.key for info in store.list(folder) if info.key.endswith(end)][-1])

    def body(folder, first=False):
        keys = [info.key for info in store.list(folder)]
        return decode_entry(store.get(keys[0 if first else -1]), name="it")[1]

    shard = paths.shard("0000-0000")
    [build] = {info.key.split("/")[1] for info in store.list(paths.INDEXES)}
    file, _ = encoded(pa.Table.from_pylist(rows(mutants.ROWS), schema=SCHEMA), row_group_size=30, max_rows_per_page=10)
    start = footer_start(file[-8:], size=len(file), name="it")
    return {
        "identity": store.get(paths.LOG + paths.IDENTITY),
        "version": last(paths.LOG + paths.ENTRIES),
        "version body": body(paths.LOG + paths.ENTRIES),
        "manifest body": body(shard + paths.MANIFEST + paths.ENTRIES),
        "WAL body": body(paths.wal("0000-0000", 0) + paths.ENTRIES),
        "rollup": last(paths.ROLLUPS),
        "deletion vector": last(paths.VECTORS),
        "index marker": last(paths.INDEXES, paths.MARKER),
        "index plan": body(paths.index_log(build) + paths.ENTRIES, first=True),
        "Parquet footer": file[start:-8],
        "Parquet file": file,
    }, msgspec.json.encode(columns)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the process said of each kind."""
    place = tmp_path_factory.mktemp("objects")
    made, columns = objects()
    for kind, data in made.items():
        (place / kind).write_bytes(data)
    search = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    command = [sys.executable, mutants.__file__, str(place), base64.b64encode(columns).decode(), str(MUTATIONS)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, env={**os.environ, "PYTHONPATH": search}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {one["kind"]: one for one in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("kind", [*SEALED, *PLAIN])
def test_decode__two_thousand_changes_and_every_cut__are_refused_or_harmless(told, kind):
    found = told[kind]
    assert found["refused"] + found["same"] + found["other"] == MUTATIONS
    assert found["cuts taken"] == []
    assert found["refused"] > MUTATIONS // 4
    assert kind in PLAIN or found["other"] == 0, "something else was taken for what was written"
    figures.record(f"mutated/{kind}", MUTATIONS)
    figures.record(f"cut/{kind}", found["bytes"])


def test_decode__every_kind__was_tried(told):
    assert set(told) == {*SEALED, *PLAIN}
