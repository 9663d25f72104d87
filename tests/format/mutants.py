"""Decodes objects that were changed, in a process of at most 1 GiB, and says what came of it.

``python mutants.py DIRECTORY SCHEMA COUNT``: the directory has an object of each kind, the schema is that of the table
they are from, in base64. A line of JSON for each kind: how many changed ones were refused, told apart as being the same
as before, or taken for something else; and which cuts were not refused.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from pathlib import Path

from mutations import mutate

GIB = 2**30
NAME = "the object"


def decoders(schema: bytes) -> dict:
    """By kind: what makes a value of bytes that can be compared."""
    import msgspec  # noqa: PLC0415 - the memory is limited before anything is loaded
    import pyarrow as pa  # noqa: PLC0415

    from parquet_files import KEY, record  # noqa: PLC0415
    from siltstone.format import frame, parquet, records, rollup, shard, table, text, vectors  # noqa: PLC0415
    from siltstone.shard.rows import decode_body  # noqa: PLC0415
    from siltstone.store.memory import MemoryBucket, MemoryStore  # noqa: PLC0415
    from siltstone.table.files import Files  # noqa: PLC0415

    columns = msgspec.json.decode(schema, type=table.Schema)

    def version(data):
        body = table.decode_body(data, name=NAME)
        return body, table.decode_change(body.change, name=NAME)

    def vector(data):
        header, _ = frame.unwrap(data, name=NAME)
        return vectors.decode_vector(data, expected=msgspec.json.decode(header, type=vectors.VectorHeader), name=NAME)

    def parquet_file(data):
        """The record lies along with the file, so that only the seal is left to notice."""
        store = MemoryStore(bucket=MemoryBucket())
        store.put(KEY, data)
        file = Files(store).open(record(data, ROWS))
        return [file.read(number, columns.fields).to_pylist() for number in range(len(file.groups))]

    def rolled(data):
        found = rollup.decode_rollup(data, name=NAME)
        return found.header, found.summary, found.fragments.to_pylist(), found.versions.to_pylist()

    def rows(data):
        found = decode_body(data, columns, 7, name=NAME)
        found.chunk.rows.validate(full=True)
        return found.header, pa.table(found.chunk.rows).to_pylist()

    return {
        "identity": lambda data: records.decode_identity(data, name=NAME),
        "version": lambda data: records.decode_entry(data, name=NAME),
        "version body": version,
        "manifest body": lambda data: shard.decode_state(data, name=NAME),
        "WAL body": rows,
        "rollup": rolled,
        "deletion vector": vector,
        "index marker": lambda data: text.decode_marker(data, name=NAME),
        "index plan": lambda data: text.decode_plan(data, name=NAME),
        "Parquet footer": lambda data: parquet.parse_footer(data, start=GIB, name=NAME),
        "Parquet file": parquet_file,
    }


ROWS = 60


def tried(decode, data: bytes, good: object) -> str:
    from siltstone.errors import CorruptionError, LimitExceededError, UnsupportedFormatError  # noqa: PLC0415

    try:
        return "same" if decode(data) == good else "other"
    except (CorruptionError, LimitExceededError, UnsupportedFormatError):
        return "refused"


def main(directory: str, schema: str, count: int) -> None:
    import resource  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
    for kind, decode in decoders(base64.b64decode(schema)).items():
        data = (Path(directory) / kind).read_bytes()
        good = decode(data)
        dice = random.Random(kind)
        told = {"kind": kind, "bytes": len(data), "refused": 0, "same": 0, "other": 0}
        for _ in range(count):
            told[tried(decode, mutate(data, dice), good)] += 1
        told["cuts taken"] = [end for end in range(len(data)) if tried(decode, data[:end], good) != "refused"]
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
