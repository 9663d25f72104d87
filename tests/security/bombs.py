"""Small objects that unpack to gigabytes, in tables that are right in all else; and the child that reads them.

``python bombs.py DIRECTORY CALL`` makes a call on a table in a process of at most 1 GiB, and says what came of it.
"""

from __future__ import annotations

import io
import json
import struct
import sys

GIB = 2**30
BLOCK = 128 * 1024


def zstd(*parts: bytes | tuple[bytes, int]) -> bytes:
    """A zstd frame of pieces: bytes as they are, or a byte so many times, which takes four bytes for each 128 KiB."""
    size = sum(len(one) if isinstance(one, bytes) else one[1] for one in parts)
    blocks = []
    for one in parts:
        if isinstance(one, bytes):
            blocks += [(0, one[at : at + BLOCK], len(one[at : at + BLOCK])) for at in range(0, len(one), BLOCK)]
        else:
            byte, count = one
            blocks += [(1, byte, min(BLOCK, count - at)) for at in range(0, count, BLOCK)]
    out = [b"\x28\xb5\x2f\xfd", b"\xe0", struct.pack("<Q", size)]
    for number, (kind, data, length) in enumerate(blocks):
        head = (number == len(blocks) - 1) | kind << 1 | length << 3
        out += [head.to_bytes(3, "little"), data]
    return b"".join(out)


def packed_json(text: bytes, size: int) -> bytes:
    """JSON that is all right, with so much white space in it."""
    body = zstd(text[:1], (b" ", size - len(text)), text[1:])
    return struct.pack("<BQ", 0x5A, size) + body


def dictionary_file(schema, rows: int, columns: dict[str, object]) -> bytes:
    """A Parquet file whose columns are one value each, said once."""
    import pyarrow as pa  # noqa: PLC0415 - the child limits its memory before it loads anything
    import pyarrow.parquet as pq  # noqa: PLC0415

    indices = pa.Array.from_buffers(pa.int8(), rows, [None, pa.py_buffer(bytes(rows))])
    arrays, fields = [], []
    for field in schema:
        kind = pa.dictionary(pa.int8(), field.type)
        arrays.append(pa.DictionaryArray.from_arrays(indices, pa.array([columns[field.name]], field.type)))
        fields.append(pa.field(field.name, kind, nullable=field.nullable, metadata=field.metadata))
    out = io.BytesIO()
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    options = {"compression": "zstd", "row_group_size": rows, "store_schema": False, "write_statistics": False}
    pq.write_table(table, out, data_page_size=GIB, **options)
    return out.getvalue()


def main(directory: str, call: str) -> None:
    import resource  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
    import siltstone as ss  # noqa: PLC0415

    calls = {
        "open": lambda: ss.open(directory, probe=False).count(),
        "scan": lambda: ss.open(directory, probe=False).scan().to_arrow().num_rows,
        "batches": lambda: sum(one.num_rows for one in ss.open(directory, probe=False).scan().to_batches()),
        "get": lambda: ss.open(directory, probe=False).get([0]).num_rows,
        "fresh": lambda: ss.open(directory, probe=False).scan(fresh=True).to_arrow().num_rows,
        "search": lambda: ss.open(directory, probe=False).search("body", "word").to_arrow().num_rows,
        "history": lambda: len(ss.open(directory, probe=False).history()),
    }
    try:
        print(json.dumps({"found": calls[call]()}))
    except ss.errors.SiltstoneError as error:
        print(json.dumps({"kind": error.kind, "told": str(error)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
