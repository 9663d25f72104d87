"""Arrow streams that hold one record batch, as objects of ours hold them.

What must hold:
- Nothing is unpacked that is compressed inside a stream: how much it would become is known only afterwards.
- A batch is checked through and through before anyone looks at a value.
"""

from __future__ import annotations

import struct

import pyarrow as pa

ENDIANNESS = 0  # a field of the schema's metadata
COMPRESSION = 3  # a field of a record batch's metadata
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream
UNREADABLE = (
    pa.ArrowException,
    OSError,
    EOFError,
    ValueError,
    struct.error,
)  # what Arrow raises for bytes that it can't read
_CONTENT = 2  # a field of a message's metadata: what the message is about


def write_batch(table: pa.Table) -> tuple[pa.Buffer | bytes, ...]:
    """The stream of a table's rows as one batch, in pieces that follow each other: whoever joins them copies once."""
    batch = table.combine_chunks().to_batches()[0]
    return batch.schema.serialize(), batch.serialize(), END


def read_batch(data: pa.Buffer) -> pa.RecordBatch:
    """The one batch of such a stream; its columns lie in ``data``. Raises one of ``UNREADABLE``."""
    source = pa.BufferReader(data)
    message = pa.ipc.read_message(source)
    if message.type != "schema":  # Arrow does not look
        raise ValueError(f"it has a {message.type} where a schema belongs")
    place = content_field(message.metadata, ENDIANNESS)
    if place and struct.unpack_from("<h", message.metadata, place)[0]:
        raise ValueError("its numbers have another byte order")
    schema = pa.ipc.read_schema(message)
    message = pa.ipc.read_message(source)
    if message.type != "record batch" or content_field(message.metadata, COMPRESSION):
        raise ValueError(f"it has a {message.type} where a batch of plain rows belongs")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if data.slice(source.tell()).to_pybytes() != END:
        raise ValueError("there is something behind its rows, or their end is cut off")
    return batch


def content_field(metadata: pa.Buffer, number: int) -> int:
    """Where the metadata of a message, which is a FlatBuffer, has a field of what the message is about; 0: nowhere."""
    root = struct.unpack_from("<I", metadata, 0)[0]
    place = _table_field(metadata, root, _CONTENT)
    content: int = place + struct.unpack_from("<I", metadata, place)[0]
    return _table_field(metadata, content, number)


def _table_field(metadata: pa.Buffer, table: int, number: int) -> int:
    fields: int = table - struct.unpack_from("<i", metadata, table)[0]
    length = struct.unpack_from("<H", metadata, fields)[0]
    at = 2 * (number + 2)
    offset: int = struct.unpack_from("<H", metadata, fields + at)[0] if at < length else 0
    return table + offset if offset else 0
