"""Reads hostile objects in a process that ends at once where anything is unpickled, compiled or run."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import siltstone as ss
from security.forged import LIMIT, forge_log, swap_fragment
from siltstone import paths
from siltstone.errors import SiltstoneError
from siltstone.format import rollup
from siltstone.store.connect import open_store

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string())])
EVENTS = ("pickle.find_class", "marshal.", "exec", "compile", "os.system", "subprocess.", "ctypes.", "code.__new__")
MUTATIONS = 20


class Evil:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (self.place,))


def is_signal_check(event: str, what: object) -> bool:
    """DataFusion runs the statement ``pass`` now and then, to see whether somebody pressed Ctrl-C."""
    if event == "compile":
        return what == b"pass"
    return event == "exec" and what.co_names == () and what.co_consts == (None,)


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(EVENTS) and not is_signal_check(event, arguments[0]):
        print(f"{event} {arguments!r:.200}", flush=True)
        os._exit(7)


def made(directory: Path):
    """A table with every kind of object."""
    table = ss.create(directory / "t", schema=SCHEMA, key="id", shards=1, sync=False)
    table.append([{"id": number, "body": f"word {number}"} for number in range(10)])
    with table.writer() as writer:
        writer.put([{"id": 100, "body": "word"}])
    for number in range(40):
        table.set({"turn": str(number)})
    return open_store(directory / "t", sync=False)


def read(directory: Path) -> None:
    """All that reads; errors of ours are what is wanted."""
    calls = (
        lambda table: table.scan().to_arrow(),
        lambda table: table.scan(where="id > 3", fresh=True).to_arrow(),
        lambda table: table.search("body", "word").to_arrow(),
        lambda table: table.sql("select count(*) from t").to_arrow(),
        lambda table: table.history(),
        lambda table: table.get([3]),
    )
    for call in calls:
        try:
            call(ss.open(directory / "t", probe=False))
        except SiltstoneError as error:
            str(error)


def evil_schema(schema: pa.Schema, payload: bytes) -> pa.Schema:
    """The same columns, said to be of a type that Arrow once unpickled, with every note that a reader may look at."""
    notes = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": payload,
        b"pandas": json.dumps({"columns": [{"metadata": payload.hex()}], "index_columns": []}).encode(),
    }
    fields = [one.with_metadata({**(one.metadata or {}), **notes}) for one in schema]
    return pa.schema(fields, metadata={**notes, b"pickle": payload})


def spoil(store, what: str, payload: bytes) -> None:
    if what == "fragment":
        [info] = store.list(paths.DATA)
        table = pq.read_table(io.BytesIO(store.get(info.key)))
        out = io.BytesIO()
        pq.write_table(pa.Table.from_arrays(table.columns, schema=evil_schema(table.schema, payload)), out)
        swap_fragment(store, out.getvalue())
    elif what == "wal":
        forge_log(store, lambda _, body: evil_body(body, payload), root=paths.wal("0000-0000", 0))
    elif what == "rollup":
        [info] = store.list(paths.ROLLUPS)
        found = rollup.decode_rollup(store.get(info.key, limit=LIMIT), name="it")
        evil = [table.cast(evil_schema(table.schema, payload)) for table in (found.fragments, found.versions)]
        header = {name: getattr(found.header, name) for name in ("log", "since", "position", "epoch", "digest")}
        store.put(info.key, rollup.encode_rollup(found.summary, *evil, **header))


def evil_body(body: bytes, payload: bytes) -> bytes:
    length = 4 + int.from_bytes(body[:4], "little")
    table = pa.ipc.open_stream(body[length:]).read_all()
    sink = pa.BufferOutputStream()
    schema = evil_schema(table.schema, payload)
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.Table.from_arrays(table.columns, schema=schema).combine_chunks().to_batches()[0])
    return body[:length] + sink.getvalue().to_pybytes()


def main(directory: Path, what: str) -> None:
    store = made(directory)
    read(directory)  # loads every module that reading needs
    payload = pickle.dumps(Evil(str(directory / "ran")))
    spoil(store, what, payload)
    objects = [(info.key, store.get(info.key, limit=LIMIT)) for info in store.list()]
    sys.addaudithook(watch)
    read(directory)
    if what == "mutated":
        dice = random.Random(5)
        for _ in range(MUTATIONS):
            key, data = dice.choice(objects)
            place = dice.randrange(max(1, len(data)))
            store.put(key, data[:place] + payload + data[place + len(payload) * dice.randrange(2) :])
            read(directory)
            store.put(key, data)
    print("watched")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
