"""Rows and the bytes that they are in an entry of a shard's WAL.

What must hold:
- An entry's bytes give back the rows that were put in, or a CorruptionError. Nothing in them is followed before it
  was checked, and nothing is allocated on the word of a length.
- Columns, and the parts of structs, are named by their field ids there: rows outlive names.
- Rows that were written under an older schema come back as rows of the present one.

The body of an entry, little endian::

    bytes  what
    4      h, length of the header
    h      header, JSON (``WalHeader``); spaces at its end, so that what follows begins at a multiple of 8
    rest   an Arrow IPC stream: a schema, one record batch that is not compressed, and the end of the stream

Its columns are those of the table in their order, and ``_deleted`` where there are tombstones. All may be null.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import CorruptionError
from siltstone.format.arrow import COMPRESSION, ENDIANNESS, UNREADABLE, content_field
from siltstone.format.records import decode_json
from siltstone.format.shard import WalHeader
from siltstone.format.table import DEPTH_MAX
from siltstone.shard.chunks import (
    DELETED,
    DELETED_ID,
    PENDING,
    POSITION,
    POSITION_ID,
    Chunk,
    adapt,
    all_deleted,
    chunk_schema,
    fitted,
    missing,
    newest,
    shard_schema,
    to_columns,
    tombstones,
)
from siltstone.table.once import Once
from siltstone.table.schema import arrow_type
from siltstone.table.types import LIST, MAP, STRUCT, list_size, plain_type, shown, shown_type, widens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from siltstone.format.table import Field, Schema

__all__ = [
    "DELETED", "DELETED_ID", "PENDING", "POSITION", "POSITION_ID", "Chunk", "Decoded", "adapt", "chunk_schema",
    "decode_body", "encode_body", "fitted", "newest", "shard_schema", "to_columns", "tombstones",
]  # fmt: skip

_LENGTH = struct.Struct("<I")
_MESSAGE = struct.Struct("<Ii")  # how a message of a stream begins: a mark, and the length of its metadata
_MARK = 0xFFFFFFFF
_END = _MESSAGE.pack(_MARK, 0)
_ALIGNED = 8
_READERS_MAX = 64  # of the schemas that entries were written under, for each that they are read under
_ID_MAX = 2**31 - 1

_encode_json = msgspec.json.Encoder().encode


class Decoded(NamedTuple):
    """What an entry holds."""

    header: WalHeader
    chunk: Chunk


def encode_body(
    chunks: Sequence[Chunk], schema: Schema, *, once: Sequence[str] = (), batches: Mapping[str, int] | None = None
) -> bytes:
    """The body of one entry with the rows of all chunks, in their order.

    Raises:
        InvalidInputError: they have other columns than the schema.
    """
    plan = _plan(schema)
    tables = [one.rows if one.rows.schema.equals(plan.columns) else fitted(one.rows, schema) for one in chunks]
    parts = [part for table in tables for part in table.to_batches()]
    batch = parts[0] if len(parts) == 1 else pa.concat_batches(parts) if parts else plan.empty
    deleted = all_deleted(chunks)
    if deleted is not None:
        batch = pa.RecordBatch.from_arrays([*batch.columns, pa.array(deleted)], schema=plan.marked)
    header = _encode_json(WalHeader(rows=batch.num_rows, once=tuple(once), batches=dict(batches or {})))
    header += b" " * (-(_LENGTH.size + len(header)) % _ALIGNED)
    # A record batch has no names, so one of the table's own columns goes behind the schema that is named by ids.
    start = plan.message if deleted is None else plan.marked_message
    return b"".join((_LENGTH.pack(len(header)), header, start, batch.serialize(), _END))


def decode_body(data: bytes, schema: Schema, position: int, *, name: str) -> Decoded:
    """What an entry holds, as rows of ``schema``: that of the entry, or a later one. ``name`` is for the error.

    Raises:
        CorruptionError: it is no entry with such rows.
    """
    start = _header_end(data, name=name)
    header = header_of(data, name=name)
    end = _message_end(data, start, name=name)
    reader = _plan(schema).reader(data[start:end], name=name)
    batch = _read_batch(data, end, reader.schema, name=name)
    if batch.num_rows != header.rows:
        raise _damaged(name, f"it has {batch.num_rows} rows and says {header.rows}")
    return Decoded(header, reader.chunk(batch, position, name=name))


def header_of(data: bytes, *, name: str) -> WalHeader:
    """What an entry says of itself, without its rows."""
    return decode_json(data[_LENGTH.size : _header_end(data, name=name)], WalHeader, name)


def ids_of(header: WalHeader) -> list[Once]:
    """Ids of the puts of an entry that count once."""
    found = [Once(id=one) for one in header.once]
    return found + [Once(stream=stream, batch=batch) for stream, batch in header.batches.items()]


# -- what entries of one schema have in common -----------------------------------------------------


class _Plan:
    """Of the schema of a table."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns = columns = chunk_schema(schema)
        mark = pa.field(DELETED, pa.bool_())
        self.marked = columns.append(mark)
        self.empty = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in columns.types], schema=columns)
        named = pa.schema([pa.field(str(one.id), _type_by_ids(one)) for one in schema.fields])
        self.message = named.serialize().to_pybytes()
        self.marked_message = named.append(mark).serialize().to_pybytes()
        self._readers: dict[bytes, _Reader] = {}

    def reader(self, message: bytes, *, name: str) -> _Reader:
        """How entries whose stream begins with this message are read."""
        found = self._readers.get(message)
        if found is None:
            try:
                found = _Reader(_read_schema(message, name=name), self.schema, name=name)
            except UnicodeDecodeError as error:
                raise _damaged(name, f"a name in its schema is no text: {shown(str(error))}") from error
            if len(self._readers) >= _READERS_MAX:
                self._readers = {}
            self._readers[message] = found
        return found


@lru_cache(maxsize=16)
def _plan(schema: Schema) -> _Plan:
    return _Plan(schema)


class _Reader:
    """Of the schema that entries were written under, and the one that they are read under."""

    def __init__(self, found: pa.Schema, schema: Schema, *, name: str) -> None:
        by_id = {one.id: one for one in schema.fields}
        self._fields = schema.fields
        self._firm = [place for place, one in enumerate(schema.fields) if not one.nullable]
        self._keys = {place for place, one in enumerate(schema.fields) if one.id in schema.key}
        self._wanted = chunk_schema(schema)
        places: dict[str, int] = {}
        columns = []
        for place, column in enumerate(found):
            if column.name in places:
                raise _damaged(name, f"it has two columns {shown(column.name)}")
            places[column.name] = place
            field = None if column.name == DELETED else by_id.get(_parsed_id(column.name, name=name))
            columns.append(pa.field(column.name, _read_as(column.type, field, name=name)))
        self.schema = pa.schema(columns)
        self._deleted = places.pop(DELETED, None)
        if self._deleted is not None and not (kinds.is_boolean(columns[self._deleted].type) and schema.key):
            raise _damaged(name, "it marks rows as deleted that can't be")
        self._places = [places.get(str(one.id)) for one in schema.fields]
        lacks = [one for one, at in zip(schema.fields, self._places, strict=True) if at is None and _is_needed(one)]
        if lacks:
            raise _damaged(name, f"it lacks the column {shown(lacks[0].name)}")
        # A batch has no names: one that has just the table's columns is read as one of them.
        self._is_same = self._places == list(range(len(columns))) and self.schema.types == self._wanted.types
        if self._is_same:
            self.schema = self._wanted

    def chunk(self, batch: pa.RecordBatch, position: int, *, name: str) -> Chunk:
        """The rows of a valid batch."""
        if self._is_same and not any(batch.column(place).null_count for place in self._firm):
            # Its buffers are parts of the entry's bytes and of nothing else: what they take is what the rows take.
            return Chunk(position, pa.Table.from_batches([batch]), None, batch.get_total_buffer_size())
        deleted = None
        if self._deleted is not None:
            marks = batch.column(self._deleted)
            if marks.null_count:
                raise _damaged(name, "it does not say of each row whether it is deleted")
            deleted = marks.to_numpy(zero_copy_only=False)
        columns = [
            missing(field, batch.num_rows) if at is None else batch.column(at)
            for field, at in zip(self._fields, self._places, strict=True)
        ]
        for place in self._firm:
            if columns[place].null_count and (place in self._keys or not _covers(deleted, columns[place])):
                raise _damaged(name, f"column {shown(self._fields[place].name)} is null where it can't be")
        try:
            made = [
                column if column.type == kind else column.cast(kind)
                for column, kind in zip(columns, self._wanted.types, strict=True)
            ]
        except pa.ArrowException as error:
            raise _damaged(name, f"it has values that the table can't hold: {shown(str(error))}") from error
        return Chunk(position, pa.Table.from_arrays(made, schema=self._wanted), deleted)


def _is_needed(field: Field) -> bool:
    return field.default is None and not field.nullable


def _covers(deleted: NDArray[np.bool_] | None, column: pa.Array) -> bool:
    """Whether all nulls of a column are those of tombstones."""
    if deleted is None:
        return False
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return not bool((nulls & ~deleted).any())


# -- types -----------------------------------------------------------------------------------------


def _type_by_ids(field: Field) -> pa.DataType:
    """The type of a column with the parts of structs named by their ids."""
    if not field.children:
        return arrow_type(field)
    parts = [
        pa.field(str(one.id) if field.type == STRUCT else one.name, _type_by_ids(one), nullable=one.nullable)
        for one in field.children
    ]
    if field.type == STRUCT:
        return pa.struct(parts)
    if field.type == MAP:
        return pa.map_(*parts)
    size = list_size(field.type)
    return pa.list_(parts[0]) if size is None else pa.list_(parts[0], size)


def _read_as(kind: pa.DataType, field: Field | None, *, name: str) -> pa.DataType:
    """The type to read a column in: the table's own where only names differ, else the one that was found."""
    if not _is_known(kind):
        raise _damaged(name, f"it has a column of type {shown_type(kind)}")
    if field is None:  # dropped since
        return kind
    wanted = arrow_type(field)
    if _is_layout_of(kind, field):
        return wanted
    if widens(kind, wanted):
        return kind
    raise _damaged(name, f"column {shown(field.name)} is {shown_type(kind)} there, {shown_type(wanted)} in the table")


def _is_layout_of(kind: pa.DataType, field: Field) -> bool:
    if field.type == STRUCT:
        parts = [kind.field(place) for place in range(kind.num_fields)] if kinds.is_struct(kind) else []
        return [one.name for one in parts] == [str(one.id) for one in field.children] and all(
            _is_layout_of(part.type, one) for part, one in zip(parts, field.children, strict=True)
        )
    if field.type == MAP:
        inside = [kind.key_type, kind.item_type] if kinds.is_map(kind) else []
    elif field.type == LIST:
        inside = [kind.value_type] if kinds.is_list(kind) else []
    elif size := list_size(field.type):
        inside = [kind.value_type] if kinds.is_fixed_size_list(kind) and kind.list_size == size else []
    else:
        return bool(kind == arrow_type(field))
    return bool(inside) and all(_is_layout_of(one, part) for one, part in zip(inside, field.children, strict=True))


def _is_known(kind: pa.DataType, depth: int = 1) -> bool:
    """Whether a table can have a column of this type."""
    if depth > DEPTH_MAX:
        return False
    if kinds.is_struct(kind) or kinds.is_map(kind) or kinds.is_list(kind) or kinds.is_fixed_size_list(kind):
        fixed = not kinds.is_fixed_size_list(kind) or list_size(f"fixed_size_list[{kind.list_size}]")
        parts = [kind.field(place).type for place in range(kind.num_fields)]
        return bool(fixed and parts) and all(_is_known(part, depth + 1) for part in parts)
    return bool(plain_type(str(kind)) == kind)


def _parsed_id(text: str, *, name: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    if str(number) != text or not 1 <= number <= _ID_MAX:
        raise _damaged(name, f"it has a column {shown(text)}, which is no field id")
    return number


# -- bytes -----------------------------------------------------------------------------------------


def _header_end(data: bytes, *, name: str) -> int:
    length: int = _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else len(data)
    if _LENGTH.size + length > len(data):
        raise _damaged(name, "it is cut")
    return _LENGTH.size + length


def _message_end(data: bytes, start: int, *, name: str) -> int:
    """Where the metadata of a message ends; that of a schema has nothing behind it."""
    if start + _MESSAGE.size > len(data):
        raise _damaged(name, "it is cut")
    mark, length = _MESSAGE.unpack_from(data, start)
    end: int = start + _MESSAGE.size + length
    if mark != _MARK or length <= 0 or end > len(data):
        raise _damaged(name, "its rows are no Arrow stream")
    return end


def _read_schema(message: bytes, *, name: str) -> pa.Schema:
    try:
        read = pa.ipc.read_message(message)
        if read.type != "schema":  # Arrow does not look
            raise _damaged(name, f"it has a {shown(read.type)} where a schema belongs")
        place = content_field(read.metadata, ENDIANNESS)
        if place and struct.unpack_from("<h", read.metadata, place)[0]:
            raise _damaged(name, "its numbers have another byte order")
        return pa.ipc.read_schema(read)
    except UNREADABLE as error:
        raise _damaged(name, f"its schema can't be read: {shown(str(error))}") from error


def _read_batch(data: bytes, start: int, schema: pa.Schema, *, name: str) -> pa.RecordBatch:
    """The one batch of a stream, checked through and through; its columns lie in ``data``."""
    whole = pa.py_buffer(data)
    if (whole.address + start) % _ALIGNED:
        whole, start = pa.py_buffer(data[start:]), 0
    source = pa.BufferReader(whole.slice(start))
    try:
        message = pa.ipc.read_message(source)
        if message.type != "record batch" or content_field(message.metadata, COMPRESSION):
            raise _damaged(name, f"it has a {shown(message.type)} where a batch of plain rows belongs")
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
    except UNREADABLE as error:
        raise _damaged(name, f"its rows can't be read: {shown(str(error))}") from error
    if data[len(data) - (whole.size - start - source.tell()) :] != _END:
        raise _damaged(name, "there is something behind its rows, or their end is cut off")
    return batch


def _damaged(name: str, what: str) -> CorruptionError:
    return CorruptionError(f"{name} is damaged: {what}", object=name)
